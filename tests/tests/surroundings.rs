//! A candidate is validated in the surroundings of the running program, whoever the updater itself is.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    process::Output,
    time::Duration,
};

use myriarch_tests::{
    collector::{StandIn, Validate},
    machine::{Machine, Plan, Supervised, words},
    programs::Programs,
    shared,
};

fn edit(machine: &Machine, from: &str, to: &str) {
    let text = fs::read_to_string(machine.configuration()).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(machine.configuration(), text.replace(from, to)).unwrap();
}

fn update_to(machine: &mut Machine, validate: Validate) -> Output {
    machine.offer_program("1.1.0", &StandIn::version("1.1.0").validate(validate).build());
    machine.verb(&["update"])
}

#[test]
fn a_candidate_has_the_environment_of_the_running_program_and_not_the_updaters() {
    let mut machine = Machine::new(Programs::stand_ins(), Plan::default());
    edit(&machine, "environment = { ", "environment = { ONLY_THE_PROGRAM_HAS_IT = \"1\", ");
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    let output = update_to(&mut machine, Validate::NeedsEnv("ONLY_THE_PROGRAM_HAS_IT".to_owned()));
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
}

#[test]
fn a_candidate_has_the_working_directory_of_the_running_program() {
    let plan = Plan { working_directory: "elsewhere".to_owned(), ..Plan::default() };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    fs::create_dir_all(machine.path().join("elsewhere")).unwrap();
    fs::write(machine.path().join("elsewhere/beside-me"), "").unwrap();
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    let output = update_to(&mut machine, Validate::NeedsFile("beside-me".to_owned()));
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
}

#[test]
fn a_candidate_has_the_user_and_all_groups_of_the_running_program() {
    if !rustix::process::geteuid().is_root() {
        return shared::skip("a program of another user", "root");
    }
    let plan = Plan { supervised: Supervised::ByUpdater, settle: Duration::from_secs(10), ..Plan::default() };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    fs::set_permissions(machine.path(), fs::Permissions::from_mode(0o755)).unwrap();
    edit(
        &machine,
        "command = [\"{program}\"",
        "command = [\"setpriv\", \"--reuid=65534\", \"--regid=65533\", \"--groups=4242\", \"{program}\"",
    );
    // The program may read its configuration, and so may the candidate its copy of it.
    chown(machine.collector_configuration(), Some(65534), Some(65533)).unwrap();
    fs::set_permissions(machine.collector_configuration(), fs::Permissions::from_mode(0o400)).unwrap();
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    let as_root = update_to(&mut machine, Validate::NeedsUser { uid: 0, gid: 0, group: 0 });
    assert_eq!(as_root.status.code(), Some(1), "{}", words(&as_root));
    assert!(words(&as_root).contains("run as [65534"), "{}", words(&as_root));
    let output = update_to(&mut machine, Validate::NeedsUser { uid: 65534, gid: 65533, group: 4242 });
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
}

#[test]
fn a_candidate_without_the_opamp_extension_is_refused_under_a_supervisor_whatever_is_configured() {
    let mut machine = Machine::new(Programs::stand_ins(), Plan::default());
    let supervisor = machine.path().join("opampsupervisor");
    fs::copy(machine.programs().supervisor(), &supervisor).unwrap();
    edit(&machine, &machine.programs().supervisor().display().to_string(), &supervisor.display().to_string());
    edit(&machine, "components = { extensions = [\"opamp\"] }", "components = { extensions = [] }");
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    machine.offer_program("1.1.0", &StandIn::version("1.1.0").extensions(&["health_check"]).build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(words(&output).contains("expected \"opamp\" among extensions"), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
}
