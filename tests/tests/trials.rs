//! A build that fails its trial is left, and stays left: whatever it does wrong, the old version is healthy
//! again, and exactly that build is quarantined.
#![expect(clippy::expect_used, reason = "a test says what it expects by panicking")]

use std::{fs, time::Duration};

use myriarch_tests::{
    collector::{End, Health, Signals, StandIn},
    machine::{Machine, Plan, Supervised, words},
    programs::Programs,
    supervisor::{KNOBS, Knobs},
};

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";

/// Short times; a dead collector is started again by the supervisor after the 5 s of the real one.
fn plan(supervised: Supervised) -> Plan {
    Plan { settle: Duration::from_secs(3), soak: Duration::from_secs(1), supervised, ..Plan::default() }
}

fn knobs(knobs: &Knobs) -> Vec<(String, String)> {
    vec![(KNOBS.to_owned(), knobs.to_string())]
}

/// A machine that runs [`OLD`], which is well.
fn machine(plan: Plan) -> Machine {
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    machine.start_with(OLD, &StandIn::version(OLD).build());
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
    machine
}

/// Offers `bad`, and sees it left: exit code 3 for `reason`, the old version healthy, the build in quarantine
/// and refused from then on, none of its processes alive.
fn is_left_and_stays_left(machine: &mut Machine, bad: &StandIn, reason: &str) {
    machine.offer_program(NEW, &bad.build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(3), "{}\n--- run\n{}", words(&output), machine.log());
    let said = words(&output);
    assert!(said.contains(&format!("rolled back: {NEW} failed its trial")), "{said}");
    assert!(said.contains(reason), "expected {reason:?} in {said}");
    assert!(said.contains(&format!("now runs: {OLD}")) && said.contains("is quarantined"), "{said}");

    // The only program of the store that runs is the old one, and the health endpoint is its own.
    assert_eq!(machine.running_version().as_deref(), Some(OLD), "{}", machine.log());
    assert_eq!(machine.current_version().as_deref(), Some(OLD));
    assert_eq!(impostors(machine), [0; 0], "what answered in the bad build's place is gone too");
    assert_eq!(quarantined(machine), [NEW]);
    assert!(machine.journal().contains(r#""entry":"quarantined""#), "{}", machine.journal());

    let (running, journal) = (machine.processes(), machine.journal());
    let again = machine.verb(&["update", "--to", NEW]);
    assert_eq!(again.status.code(), Some(5), "{}", words(&again));
    assert!(words(&again).contains("is quarantined since"), "{}", words(&again));
    assert!(words(&again).contains(&format!("hint: if it deserves another trial: release {NEW}")));
    let by_itself = machine.verb(&["update"]);
    assert_eq!(by_itself.status.code(), Some(0), "nothing to do: {}", words(&by_itself));
    assert_eq!(machine.processes(), running, "nothing was touched");
    assert_eq!(machine.journal(), journal);
}

fn quarantined(machine: &Machine) -> Vec<String> {
    let status = machine.status();
    let listed = status["quarantined"].as_array().expect("a list");
    listed.iter().map(|build| build["version"].as_str().expect("a version").to_owned()).collect()
}

/// Processes of [`Health::OtherProcess`] on this machine's port.
fn impostors(machine: &Machine) -> Vec<u32> {
    let endpoint = format!("stand-in-answer\0127.0.0.1:{}\0", machine.health_port());
    let pids = fs::read_dir("/proc").expect("/proc").flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).contains(&endpoint)
        })
        .collect()
}

#[test]
fn a_build_that_crashes_is_left() {
    let crashes = StandIn::version(NEW).end(End::Abort { ms: 100 });
    let mut machine = machine(plan(Supervised::BySupervisor));
    is_left_and_stays_left(&mut machine, &crashes, "Connection refused");
}

#[test]
fn a_build_that_crashes_as_our_own_child_is_left_at_once() {
    let crashes = StandIn::version(NEW).end(End::Abort { ms: 100 });
    let mut machine = machine(plan(Supervised::ByUpdater));
    is_left_and_stays_left(&mut machine, &crashes, "the program ended on trial: ");
}

#[test]
fn a_build_that_crashes_in_the_supervisors_bootstrap_already_is_left() {
    let crashes = StandIn::version(NEW).end(End::Abort { ms: 0 }).also_in_bootstrap();
    let mut machine = machine(plan(Supervised::BySupervisor));
    is_left_and_stays_left(&mut machine, &crashes, "not ready within");
}

#[test]
fn a_build_that_crashes_over_and_over_under_the_supervisor_is_left() {
    // Each life is long enough to answer well, and each death too short to be a silence.
    let crashes = StandIn::version(NEW).end(End::Abort { ms: 500 });
    let restart_after = Duration::from_millis(10);
    let environment = knobs(&Knobs { restart_after, ..Knobs::default() });
    let mut machine = machine(Plan { environment, ..plan(Supervised::BySupervisor) });
    is_left_and_stays_left(&mut machine, &crashes, "restarted while it was watched");
}

#[test]
fn a_build_that_exits_0_is_left() {
    let ends = StandIn::version(NEW).end(End::Exit { ms: 100, code: 0 });
    let mut machine = machine(plan(Supervised::BySupervisor));
    is_left_and_stays_left(&mut machine, &ends, "Connection refused");
}

#[test]
fn a_build_that_exits_0_as_our_own_child_is_left_at_once() {
    let ends = StandIn::version(NEW).end(End::Exit { ms: 100, code: 0 });
    let mut machine = machine(plan(Supervised::ByUpdater));
    is_left_and_stays_left(&mut machine, &ends, "the program ended on trial: ");
}

#[test]
fn a_build_that_is_never_ready_is_left() {
    let mut machine = machine(plan(Supervised::BySupervisor));
    is_left_and_stays_left(&mut machine, &StandIn::version(NEW).health(Health::Never), "503");
}

#[test]
fn a_build_that_becomes_unhealthy_in_the_soak_is_left() {
    let fades = StandIn::version(NEW).health(Health::UnhealthyAfter { ms: 500 });
    let soak = Duration::from_secs(2);
    let mut machine = machine(Plan { soak, ..plan(Supervised::BySupervisor) });
    is_left_and_stays_left(&mut machine, &fades, "became unhealthy");
}

#[test]
fn a_build_in_whose_place_another_process_answers_is_left() {
    let mut machine = machine(plan(Supervised::BySupervisor));
    let answered_for = StandIn::version(NEW).health(Health::OtherProcess);
    is_left_and_stays_left(&mut machine, &answered_for, "the wrong process answers");
}

#[test]
fn a_build_that_will_not_stop_is_killed_by_its_supervisor_and_left() {
    let deaf = StandIn::version(NEW).health(Health::Never).signals(Signals::Ignore);
    let environment = knobs(&Knobs { kill_after: Duration::from_secs(1), ..Knobs::default() });
    let mut machine = machine(Plan { environment, ..plan(Supervised::BySupervisor) });
    is_left_and_stays_left(&mut machine, &deaf, "503");
}

#[test]
fn a_build_that_will_not_stop_is_killed_with_its_supervisor_and_left() {
    // The supervisor would wait longer than the updater waits for it.
    let deaf = StandIn::version(NEW).health(Health::Never).signals(Signals::Ignore);
    let environment = knobs(&Knobs { kill_after: Duration::from_mins(1), ..Knobs::default() });
    let restart = "stop_timeout = \"1s\"\n".to_owned();
    let mut machine = machine(Plan { environment, restart, ..plan(Supervised::BySupervisor) });
    is_left_and_stays_left(&mut machine, &deaf, "not ready within");
}

#[test]
fn a_build_that_will_not_stop_as_our_own_child_is_killed_and_left() {
    let deaf = StandIn::version(NEW).health(Health::Never).signals(Signals::Ignore);
    let restart = "stop_timeout = \"1s\"\n".to_owned();
    let mut machine = machine(Plan { restart, ..plan(Supervised::ByUpdater) });
    is_left_and_stays_left(&mut machine, &deaf, "503");
}

#[test]
fn a_version_released_again_with_other_bytes_is_tried_again() {
    let mut machine = machine(plan(Supervised::ByUpdater));
    is_left_and_stays_left(&mut machine, &StandIn::version(NEW).end(End::Abort { ms: 0 }), "ended on trial");
    machine.offer_program(NEW, &StandIn::version(NEW).salt("mended").build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some(NEW));
    assert_eq!(quarantined(&machine), [NEW], "the bytes that failed stay left");

    // The failed bytes once more: neither a newer name in the index nor the good build beside it helps them.
    machine.offer_program(NEW, &StandIn::version(NEW).end(End::Abort { ms: 0 }).build());
    let output = machine.verb(&["update", "--to", NEW]);
    assert_eq!(output.status.code(), Some(5), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some(NEW));
}
