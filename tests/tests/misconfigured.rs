//! A fault that concerns updates alone never keeps the program from running.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use myriarch_tests::{
    collector::StandIn,
    machine::{Machine, Plan},
    programs::Programs,
};

const SOON: Duration = Duration::from_secs(30);

fn stopped_machine() -> Machine {
    let mut machine = Machine::new(Programs::stand_ins(), Plan::default());
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    assert_eq!(machine.stop(), Some(0));
    machine
}

#[test]
fn without_its_trusted_root_the_program_runs_and_the_log_says_why_nothing_is_updated() {
    let mut machine = stopped_machine();
    let root = machine.path().join("trusted_root.json");
    fs::remove_file(&root).unwrap();
    machine.spawn();
    machine.wait(SOON, "the program to run", |machine| machine.running_version().as_deref() == Some("1.0.0"));
    assert!(
        machine.log().contains("nothing can be updated: trust.keyless.trusted_root"),
        "{}",
        machine.log()
    );
    let second = machine.verb(&["run"]);
    assert_eq!(second.status.code(), Some(6), "a second one takes nothing over: {second:?}");
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
    assert_eq!(machine.stop(), Some(2));
    assert_eq!(machine.processes(), [0; 0]);
}

#[test]
fn where_others_can_write_to_the_store_the_program_runs_and_the_log_says_why_nothing_is_updated() {
    let mut machine = stopped_machine();
    fs::set_permissions(machine.store(), fs::Permissions::from_mode(0o777)).unwrap();
    machine.spawn();
    machine.wait(SOON, "the program to run", |machine| machine.running_version().as_deref() == Some("1.0.0"));
    let told = format!(
        "nothing can be updated: {}: expected to be writable by its owner",
        machine.store().display()
    );
    assert!(machine.log().contains(&told), "{}", machine.log());
    assert_eq!(machine.stop(), Some(0));
    assert_eq!(machine.processes(), [0; 0]);
}

#[test]
fn without_a_place_for_its_socket_the_program_runs() {
    let mut machine = stopped_machine();
    fs::remove_dir_all(machine.path().join("run")).unwrap();
    fs::write(machine.path().join("run"), "not a directory").unwrap();
    machine.spawn();
    machine.wait(SOON, "the program to run", |machine| machine.running_version().as_deref() == Some("1.0.0"));
    assert!(machine.log().contains("no verb can be answered: control socket"), "{}", machine.log());
    assert_eq!(machine.stop(), Some(0));
    assert_eq!(machine.processes(), [0; 0]);
}

#[test]
fn a_build_on_trial_is_not_what_runs_where_nothing_can_be_updated() {
    let mut machine = stopped_machine();
    machine.start();
    machine.wait_idle();
    let ill = StandIn::version("2.0.0").health(myriarch_tests::collector::Health::Never);
    machine.offer_program("2.0.0", &ill.build());
    let mut update = machine.command(&["update"]);
    let mut update = update.stderr(std::process::Stdio::null()).spawn().unwrap();
    machine.wait(SOON, "the trial", |machine| {
        !machine.collectors_of("2.0.0").is_empty() && machine.current_version().as_deref() == Some("2.0.0")
    });
    machine.kill_updater();
    update.wait().unwrap();
    fs::remove_file(machine.path().join("trusted_root.json")).unwrap();
    machine.spawn();
    machine.wait(SOON, "the program to run", |machine| {
        let told = machine.log().contains("nothing can be updated");
        told && machine.running_version().as_deref() == Some("1.0.0")
    });
    assert_eq!(machine.stop(), Some(2));
}
