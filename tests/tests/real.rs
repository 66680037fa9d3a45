//! The real collector under the real supervisor. `cargo xtask real` builds them; `REAL_PROGRAMS` names where.
#![expect(clippy::print_stderr, reason = "a test that cannot run says so")]

use std::{fs, time::Duration};

use myriarch_tests::{
    machine::{Machine, Plan, words},
    programs::{Programs, Real, real},
};

/// Bootstrap and start of the real programs on a busy machine.
fn plan() -> Plan {
    Plan { settle: Duration::from_secs(20), soak: Duration::from_secs(2), ..Plan::default() }
}

/// The real programs. Where they are not built these tests say so; the tier that owns them always names them.
fn programs(supervisor: &str) -> Option<(Real, Machine)> {
    let Some(real) = real() else {
        eprintln!("SKIPPED: REAL_PROGRAMS is not set; `cargo xtask test --tier real` runs this");
        return None;
    };
    let machine = Machine::new(Programs::real(&real, supervisor), plan());
    Some((real, machine))
}

#[test]
fn real_collector_goes_from_one_release_to_the_next() {
    let Some((real, mut machine)) = programs("0.149.0") else { return };
    machine.start_with("0.149.0", &real.bytes("collector-0.149.0"));
    assert_eq!(machine.running_version().as_deref(), Some("0.149.0"));
    machine.offer_program("0.158.0", &real.bytes("collector-0.158.0"));
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some("0.158.0"));
    assert_eq!(machine.stop(), Some(0));
    assert_eq!(machine.processes(), [0; 0], "supervisor and collector are gone");
}

#[test]
fn real_pin_back_under_a_newer_supervisor_fails_validation() {
    // The effective configuration that supervisor 0.158.0 writes is too new for collector 0.149.0.
    let Some((real, mut machine)) = programs("0.158.0") else { return };
    machine.start_with("0.158.0", &real.bytes("collector-0.158.0"));
    let before = machine.collectors();
    machine.offer_program("0.149.0", &real.bytes("collector-0.149.0"));
    let output = machine.verb(&["update", "--to", "0.149.0"]);
    assert_eq!(output.status.code(), Some(5), "older without a pin: {}", words(&output));
    assert_eq!(machine.verb(&["pin", "0.149.0"]).status.code(), Some(0));
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(words(&output).contains("refused at validate"), "{}", words(&output));
    assert_eq!(machine.collectors(), before, "nothing was touched");
    assert_eq!(machine.running_version().as_deref(), Some("0.158.0"));
}

#[test]
fn real_collector_without_the_opamp_extension_is_refused_before_anything_stops() {
    let Some((real, mut machine)) = programs("0.158.0") else { return };
    machine.start_with("0.158.0", &real.bytes("collector-0.158.0"));
    let before = machine.collectors();
    machine.offer_program("0.165.1", &real.bytes("collector-0.165.1"));
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(words(&output).contains("expected \"opamp\" among extensions"), "{}", words(&output));
    assert_eq!(machine.collectors(), before, "nothing was touched");
}

#[test]
fn real_collector_that_rejects_the_configuration_is_refused() {
    let Some((real, mut machine)) = programs("0.149.0") else { return };
    machine.start_with("0.149.0", &real.bytes("collector-0.149.0"));
    let before = machine.collectors();
    machine.offer_program("0.158.3", &real.bytes("collector-0.158.3-picky"));
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert_eq!(machine.collectors(), before, "nothing was touched");
}

#[test]
fn real_collector_that_crashes_on_trial_is_left_and_quarantined() {
    let Some((real, mut machine)) = programs("0.149.0") else { return };
    machine.start_with("0.149.0", &real.bytes("collector-0.149.0"));
    machine.offer_program("0.158.2", &real.bytes("collector-0.158.2-crashing"));
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some("0.149.0"));
    // Its supervisor has emptied its log since: what it said was kept before.
    let panic = "panic: crash-on-start: this build ends when it is started";
    for screen in ["history", "status"] {
        let said = words(&machine.verb(&[screen]));
        assert!(said.contains(&format!("it said: {panic}")), "{said}");
        assert!(said.contains(&format!("log kept: {}", machine.store().join("logs").display())), "{said}");
    }
    let output = machine.verb(&["update", "--to", "0.158.2"]);
    assert_eq!(output.status.code(), Some(5), "{}", words(&output));
    assert!(words(&output).contains("is quarantined since"), "{}", words(&output));
}

#[test]
fn real_updater_killed_in_mid_trial_is_decided_by_the_journal() {
    let Some((real, mut machine)) = programs("0.149.0") else { return };
    machine.start_with("0.149.0", &real.bytes("collector-0.149.0"));
    machine.offer_program("0.158.0", &real.bytes("collector-0.158.0"));
    let mut update = machine.command(&["update"]).spawn().unwrap();
    machine.wait(Duration::from_mins(1), "the trial to begin", |machine| {
        machine.current_version().as_deref() == Some("0.158.0")
    });
    machine.kill_updater();
    assert_eq!(update.wait().unwrap().code(), Some(1), "the terminal is told");
    machine.start();
    machine.wait(Duration::from_mins(1), "the trial to be confirmed", |machine| {
        machine.journal().matches("\"entry\":\"confirmed\"").count() == 2
    });
    assert_eq!(machine.running_version().as_deref(), Some("0.158.0"));
}

#[test]
fn real_bootstrap_configuration_is_never_what_a_candidate_is_validated_against() {
    let Some((real, mut machine)) = programs("0.149.0") else { return };
    machine.start_with("0.149.0", &real.bytes("collector-0.149.0"));
    machine.offer_program("0.158.0", &real.bytes("collector-0.158.0"));
    assert_eq!(machine.verb(&["update"]).status.code(), Some(0));
    let copy = fs::read_to_string(machine.store().join("effective.yaml")).unwrap();
    assert!(copy.contains("otlp") && copy.contains("health_check"), "{copy}");
}
