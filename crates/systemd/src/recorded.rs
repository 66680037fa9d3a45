//! What `systemctl show` of systemd 252 printed, recorded, and what is read from it.

use std::{path::Path, time::Duration};

use crate::{ActiveState, Ended, LoadState, SystemdError, Unit};

fn read(text: &str) -> Unit {
    Unit::parse(text).unwrap()
}

#[test]
fn a_running_unit_is_read_whole() {
    let unit = read(include_str!("../tests/recorded/running.txt"));
    assert_eq!(unit.name.as_str(), "probe.service");
    assert_eq!((&unit.load_state, &unit.active_state), (&LoadState::Loaded, &ActiveState::Active));
    assert_eq!((unit.main_pid, unit.restarts, unit.ended), (Some(112), 0, None));
    assert_eq!(unit.invocation_id, "ba3b5449e94f41d59c7b76390b4d55ce");
    assert_eq!((unit.start_limit_burst, unit.start_limit_interval), (3, Duration::from_secs(30)));
    assert_eq!(unit.timeout_start, Some(Duration::from_secs(90)));
    assert_eq!(unit.timeout_stop, Some(Duration::from_secs(5)));
    assert_eq!((unit.kill_signal, &*unit.kill_mode), (15, "control-group"));
    assert_eq!(unit.fragment_path.as_deref(), Some(Path::new("/etc/systemd/system/probe.service")));
    assert_eq!(unit.drop_in_paths, [Path::new("/etc/systemd/system/probe.service.d/10-a.conf")]);
    assert_eq!(unit.control_group.as_deref(), Some(Path::new("/system.slice/probe.service")));
    assert_eq!(unit.on_failure, ["rec@probe.service"]);
    assert!(unit.exec_start_pre[0].ignore_failure);
    assert_eq!(
        unit.exec_start[0].shown,
        "/usr/bin/python3 -c import time; time.sleep(1000) $OPTS ${B} --x a b"
    );
    assert_eq!(
        (unit.account.user.as_deref(), unit.account.group.as_deref()),
        (Some("daemon"), Some("games"))
    );
    assert_eq!(unit.account.supplementary_groups, ["adm", "mail"]);
    assert_eq!(unit.account.ambient_capabilities, ["cap_net_bind_service"]);
    assert_eq!(unit.surroundings.working_directory.as_deref(), Some("/var/lib"));
    assert_eq!(unit.surroundings.environment[2], ("C".into(), "it's \"q\"".into()));
    let files: Vec<_> =
        unit.surroundings.environment_files.iter().map(|file| (file.path.to_str(), file.optional)).collect();
    assert_eq!(files, [(Some("/etc/probe.env"), false), (Some("/etc/none*.env"), true)]);
    assert_eq!((&*unit.sandbox.protect_system, &*unit.sandbox.protect_home), ("strict", "yes"));
    assert_eq!(unit.sandbox.inaccessible_paths, ["-/srv"]);
    assert_eq!(
        (unit.sandbox.exec_paths, unit.sandbox.no_exec_paths),
        (vec!["/usr".into()], vec!["/tmp".into()])
    );
}

#[test]
fn a_crash_loop_at_its_end_is_told_from_one_crash() {
    let mut unit = read(include_str!("../tests/recorded/start-limit.txt"));
    assert_eq!(unit.words(), "failed (exit-code: exited with 7); held by its start limit, 3 starts in 30s");
    let looped = unit.clone();
    unit.restart = "no".into();
    assert_eq!(unit.words(), "failed (exit-code: exited with 7)");
    // It was told to stop, and ended with an error.
    unit = Unit { restarts: 0, ..looped };
    assert_eq!(unit.words(), "failed (exit-code: exited with 7)");
}

#[test]
fn a_stopped_unit_is_inactive_and_nothing_is_known_of_its_run() {
    let unit = read(include_str!("../tests/recorded/stopped.txt"));
    assert_eq!(unit.words(), "inactive");
    assert_eq!((unit.main_pid, &*unit.invocation_id, &*unit.result), (None, "", "success"));
    assert!(unit.startable().is_ok());
}

#[test]
fn what_cannot_be_started_says_why() {
    let error = |text: &str| read(text).startable().unwrap_err();
    let masked = error(include_str!("../tests/recorded/masked.txt"));
    assert!(matches!(masked, SystemdError::Masked { .. }));
    assert_eq!(masked.to_string(), "masked.service: expected a unit that can be started, found it masked");
    assert_eq!(masked.hint(), "`systemctl unmask masked.service`, if it is to run");
    let missing = error(include_str!("../tests/recorded/not-found.txt"));
    assert_eq!(missing.to_string(), "nosuch.service: expected a service unit, found no file of that name");
    let bad = error(include_str!("../tests/recorded/bad-setting.txt"));
    assert_eq!(
        bad.to_string(),
        "bad.service: expected a unit that systemd can read, found: Unit bad.service has a bad unit file setting."
    );
}

#[test]
fn a_failure_before_the_program_is_told_from_one_of_the_program() {
    let unit = read(include_str!("../tests/recorded/no-executable.txt"));
    assert_eq!(unit.ended, Some(Ended::Exited(203)));
    assert!(unit.ended.is_some_and(Ended::is_before_the_program));
    assert!(unit.words().contains("its executable cannot be run"), "{}", unit.words());
}

#[test]
fn secrets_of_the_environment_are_not_in_the_debug_form() {
    let shown = format!("{:?}", read(include_str!("../tests/recorded/running.txt")));
    assert!(shown.contains("\"B\"") && !shown.contains("two words"), "{shown}");
}

#[test]
fn what_is_no_unit_is_no_unit() {
    assert_eq!(Unit::parse(""), None);
    assert_eq!(
        Unit::parse("System has not been booted with systemd as init system (PID 1). Can't operate.\n"),
        None
    );
}
