//! A supervisor's bootstrap that hangs is no verdict on the build that it was to start.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::{fs, process::Stdio, time::Duration};

use myriarch_tests::{
    collector::{Health, StandIn},
    machine::{Machine, Plan, words},
    programs::Programs,
    supervisor::HANG_ONCE,
};

const SOON: Duration = Duration::from_secs(30);

fn machine() -> Machine {
    Machine::new(Programs::stand_ins(), Plan { settle: Duration::from_secs(3), ..Plan::default() })
}

/// The next start of the supervisor does not get past its bootstrap.
fn hang_once(machine: &Machine) {
    fs::write(machine.path().join("supervisor").join(HANG_ONCE), "").unwrap();
}

fn a_candidate_is_started_once_more(mut machine: Machine) {
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    machine.offer_program("1.1.0", &StandIn::version("1.1.0").build());
    hang_once(&machine);
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(words(&output).contains("the supervisor did not get past its bootstrap"), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some("1.1.0"));
}

#[test]
fn a_candidate_whose_bootstrap_hung_is_started_once_more_before_it_is_blamed() {
    a_candidate_is_started_once_more(machine());
}

#[test]
fn a_hung_bootstrap_is_seen_by_the_file_that_the_running_collector_was_started_with_too() {
    let machine = machine();
    let text = fs::read_to_string(machine.configuration()).unwrap();
    let kept: Vec<_> = text.lines().filter(|line| !line.starts_with("effective = ")).collect();
    assert!(kept.len() < text.lines().count());
    fs::write(machine.configuration(), kept.join("\n")).unwrap();
    a_candidate_is_started_once_more(machine);
}

#[test]
fn a_way_back_whose_bootstrap_hung_is_gone_again_until_the_previous_build_is_healthy() {
    let mut machine = machine();
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    let ill = StandIn::version("1.1.0").health(Health::UnhealthyAfter { ms: 600 });
    machine.offer_program("1.1.0", &ill.build());
    let mut client = machine.command(&["update"]);
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    machine.wait(SOON, "the candidate to be healthy", |machine| {
        machine.running_version().as_deref() == Some("1.1.0")
    });
    hang_once(&machine);
    assert_eq!(client.wait().unwrap().code(), Some(3));
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
    let left = machine.path().join("supervisor").join(HANG_ONCE);
    assert!(!left.exists(), "the way back did meet a bootstrap that hung");
}
