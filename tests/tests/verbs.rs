//! What every verb answers: its exit code, data on stdout, words on stderr, documents with a schema.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Output, Stdio},
    time::Duration,
};

use myriarch_tests::{
    collector::{End, Health, StandIn},
    machine::{DISTRIBUTION, Machine, Plan, Supervised},
    programs::Programs,
};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

fn machine() -> Machine {
    let plan = Plan {
        settle: Duration::from_secs(6),
        soak: Duration::from_millis(300),
        supervised: Supervised::ByUpdater,
        ..Plan::default()
    };
    Machine::new(Programs::stand_ins(), plan)
}

/// A machine on which `version` is confirmed and runs.
fn machine_at(version: &str) -> Machine {
    let mut machine = machine();
    machine.start_with(version, &StandIn::version(version).build());
    machine
}

fn offer(machine: &mut Machine, version: &str) {
    machine.offer_program(version, &StandIn::version(version).build());
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Carries the verb out, expects `code` and that bad news is on stderr alone, and answers both streams.
fn verb(machine: &Machine, arguments: &[&str], code: i32) -> (String, String) {
    let output = machine.verb(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}\n{}", machine.log());
    let (data, words) = (stdout(&output), stderr(&output));
    if matches!(code, 0 | 100) {
        assert!(!data.is_empty(), "{arguments:?}: an answer on stdout: {output:?}");
    } else {
        assert_eq!(data, "", "{arguments:?}: bad news is no data");
        assert!(words.contains("hint: "), "{arguments:?}: what to do about it: {words}");
    }
    (data, words)
}

/// The same with `--json`: one document with a schema on stdout, and nothing but documents on stderr.
fn document(machine: &Machine, arguments: &[&str], code: i32) -> Value {
    let output = machine.verb(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}\n{}", machine.log());
    let parse = |line: &str| -> Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    for line in stderr(&output).lines() {
        assert_eq!(parse(line)["schema"], 1, "{line}");
    }
    let data = stdout(&output);
    assert_eq!(data.lines().count(), 1, "{arguments:?}: one document: {output:?}");
    let document = parse(&data);
    let schema = if ["history", "status"].contains(&arguments[0]) { 2 } else { 1 };
    assert_eq!(document["schema"], schema, "{document}");
    if let Some(told) = document["exit_code"].as_i64() {
        assert_eq!(told, i64::from(code), "{document}");
    }
    document
}

fn wait_running(machine: &Machine, version: &str) {
    machine.wait(SOON, version, |machine| machine.running_version().as_deref() == Some(version));
}

fn wait_trial(machine: &Machine) {
    // While it is validated its program runs as well, but `current` does not name it.
    machine.wait(SOON, "the trial to begin", |machine| {
        machine.current_version().as_deref() == Some("2.0.0") && !machine.collectors_of("2.0.0").is_empty()
    });
}

#[test]
fn check_says_by_its_exit_code_whether_there_is_an_update_and_touches_nothing() {
    let mut machine = machine_at("1.0.0");
    let (data, _) = verb(&machine, &["check"], 0);
    assert!(!data.contains("available"), "{data}");
    assert_eq!(document(&machine, &["check"], 0)["result"], "done");
    offer(&mut machine, "2.0.0");
    let (journal, running) = (machine.journal(), machine.collectors());
    let (data, _) = verb(&machine, &["check"], 100);
    assert!(data.contains("available: 2.0.0") && data.contains("installed: 1.0.0"), "{data}");
    let available = document(&machine, &["check"], 100);
    assert_eq!((&available["result"], &available["version"]), (&json!("available"), &json!("2.0.0")));
    assert_eq!((machine.journal(), machine.collectors()), (journal, running));
    // It needs no `run` either.
    machine.stop();
    verb(&machine, &["check"], 100);
}

#[test]
fn update_tells_what_runs_now_on_stdout_and_how_it_came_to_be_on_stderr() {
    let mut machine = machine_at("1.0.0");
    let (data, _) = verb(&machine, &["update"], 0);
    assert!(data.starts_with("nothing to do: "), "{data}");
    assert_eq!(document(&machine, &["update"], 0)["result"], "nothing-to-do");
    offer(&mut machine, "2.0.0");
    let (data, words) = verb(&machine, &["update"], 0);
    assert!(data.starts_with("updated: 2.0.0 is confirmed\nnow runs: 2.0.0 (sha256 "), "{data}");
    assert!(data.contains("downtime: "), "{data}");
    assert!(words.contains("selected 2.0.0") && words.contains("confirmed 2.0.0"), "{words}");
    assert_eq!(machine.running_version().as_deref(), Some("2.0.0"));

    machine.offer_program("3.0.0", &StandIn::version("3.0.0").end(End::Exit { ms: 50, code: 1 }).build());
    let (_, words) = verb(&machine, &["update"], 3);
    assert!(words.contains("now runs: 2.0.0 (sha256 "), "{words}");
    assert!(words.contains("`release 3.0.0` lets it be tried again"), "{words}");
    let refused = document(&machine, &["update", "--to", "3.0.0"], 5);
    assert_eq!((&refused["result"], &refused["kind"]), (&json!("refused"), &json!("policy")));
    verb(&machine, &["update", "--to", "4.0.0"], 5);
    let (_, words) = verb(&machine, &["update", "--to", "1.0.0"], 5);
    assert!(words.contains("nothing was touched"), "{words}");
    assert_eq!(machine.running_version().as_deref(), Some("2.0.0"));
}

#[test]
fn rollback_goes_to_the_confirmed_build_before_and_quarantines_what_it_left_until_it_is_released() {
    let mut machine = machine_at("1.0.0");
    let (_, words) = verb(&machine, &["rollback"], 5);
    assert!(words.contains("expected a confirmed build before the current one"), "{words}");
    offer(&mut machine, "2.0.0");
    verb(&machine, &["update"], 0);
    let (_, words) = verb(&machine, &["rollback", "--to", "9.0.0"], 5);
    assert!(words.contains("expected a confirmed build of 9.0.0"), "{words}");
    let (data, _) = verb(&machine, &["rollback"], 0);
    assert!(data.contains("now runs: 1.0.0 (sha256 "), "{data}");
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
    let quarantined = machine.status()["quarantined"].clone();
    assert_eq!(quarantined[0]["version"], "2.0.0");
    assert_eq!(quarantined[0]["reason"], "an operator rolled back from it");
    verb(&machine, &["check"], 0);
    verb(&machine, &["update"], 0);
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"), "it is not taken up again by itself");
    let (_, words) = verb(&machine, &["update", "--to", "2.0.0"], 5);
    assert!(words.contains("release 2.0.0"), "{words}");

    let (_, words) = verb(&machine, &["release", "3.0.0"], 5);
    assert!(words.contains("quarantined: 2.0.0"), "{words}");
    let (data, _) = verb(&machine, &["release", "2.0.0"], 0);
    assert!(data.starts_with("released from quarantine: 2.0.0-"), "{data}");
    verb(&machine, &["update"], 0);
    assert_eq!(machine.running_version().as_deref(), Some("2.0.0"));
    assert_eq!(document(&machine, &["rollback", "--to", "1.0.0"], 0)["result"], "confirmed");
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
}

#[test]
fn a_pin_lets_an_older_version_be_installed_and_holds_there_until_it_is_lifted() {
    let mut machine = machine_at("2.0.0");
    offer(&mut machine, "1.0.0");
    let (_, words) = verb(&machine, &["update", "--to", "1.0.0"], 5);
    assert!(words.contains("hint: "), "{words}");
    verb(&machine, &["pin", "1.0.0"], 0);
    assert_eq!(machine.status()["pin"], "1.0.0");
    assert_eq!(document(&machine, &["check"], 100)["version"], "1.0.0");
    verb(&machine, &["update"], 0);
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
    offer(&mut machine, "3.0.0");
    verb(&machine, &["check"], 0);
    verb(&machine, &["update", "--to", "3.0.0"], 5);
    let (data, _) = verb(&machine, &["unpin"], 0);
    assert_eq!(data, "unpinned: 1.0.0 was pinned\n");
    assert_eq!(machine.status()["pin"], Value::Null);
    assert_eq!(verb(&machine, &["unpin"], 0).0, "nothing was pinned\n");
    assert_eq!(document(&machine, &["check"], 100)["version"], "3.0.0");
    // Both also work where no `run` is.
    machine.stop();
    verb(&machine, &["pin", "2.0.0"], 0);
    verb(&machine, &["unpin"], 0);
}

#[test]
fn verify_judges_an_archive_by_the_trust_policy_and_keeps_nothing() {
    let machine = machine();
    let release = machine.release("1.0.0", &StandIn::version("1.0.0").build());
    let archive = machine.path().join(format!("{DISTRIBUTION}_1.0.0_linux.tar.gz"));
    let beside = |suffix: &str| format!("{}.{suffix}", archive.display());
    fs::write(&archive, &release.archive).unwrap();
    fs::write(beside("sigstore.json"), release.bundle.unwrap()).unwrap();
    let path = archive.to_str().unwrap();
    let (data, _) = verb(&machine, &["verify", path, "--version", "1.0.0"], 0);
    assert!(data.starts_with("trusted: ") && data.contains("refs/tags/v1.0.0"), "{data}");
    document(&machine, &["verify", path, "--version", "1.0.0"], 0);
    let (_, words) = verb(&machine, &["verify", path, "--version", "2.0.0"], 5);
    assert!(words.contains("expected an archive of version 2.0.0"), "{words}");
    let mut tampered = release.archive.clone();
    let last = tampered.len() - 1;
    tampered[last] ^= 1;
    fs::write(&archive, &tampered).unwrap();
    verb(&machine, &["verify", path, "--version", "1.0.0"], 5);
    assert_eq!(document(&machine, &["verify", path, "--version", "1.0.0"], 5)["result"], "failed");
    fs::write(&archive, &release.archive).unwrap();
    fs::write(beside("sha256"), format!("{}\n", "0".repeat(64))).unwrap();
    let (_, words) = verb(&machine, &["verify", path, "--version", "1.0.0"], 5);
    assert!(words.contains(&"0".repeat(64)), "{words}");
    let (_, words) = verb(&machine, &["verify", "/nowhere/x.tar.gz", "--version", "1.0.0"], 1);
    assert!(words.contains("/nowhere/x.tar.gz"), "{words}");
    let versions = fs::read_dir(machine.store().join("versions")).into_iter().flatten().count();
    assert_eq!(versions, 0);
}

/// Writes `text` as the configuration, keeping its mode.
fn configure(machine: &Machine, change: impl Fn(String) -> String) {
    let text = fs::read_to_string(machine.configuration()).unwrap();
    fs::write(machine.configuration(), change(text)).unwrap();
}

#[test]
fn the_configuration_is_checked_shown_and_exemplified() {
    let machine = machine();
    let (data, words) = verb(&machine, &["config", "check"], 0);
    assert!(data.contains("is valid") && words.is_empty(), "{data}{words}");
    document(&machine, &["config", "check"], 0);
    // What is shown is complete and can be read again.
    let (shown, words) = verb(&machine, &["config", "show"], 0);
    assert!(shown.contains("keep = ") && words.is_empty(), "{shown}");
    configure(&machine, |_| shown.clone());
    verb(&machine, &["config", "check"], 0);
    assert_eq!(verb(&machine, &["config", "show"], 0).0, shown);
    // The example needs no configuration to be there, and is one.
    let example = machine.path().join("example.toml");
    let output = Command::new(machine.programs().updater())
        .args(["--config", "/nowhere.toml", "config", "example"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    fs::write(&example, &output.stdout).unwrap();
    let output = Command::new(machine.programs().updater())
        .arg("--config")
        .arg(&example)
        .args(["config", "check"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_wrong_configuration_ends_every_verb_with_2_and_the_nearest_key() {
    let machine = machine();
    configure(&machine, |text| text.replace("settle = ", "setle = "));
    for arguments in [&["config", "check"][..], &["config", "show"], &["status"], &["update"], &["run"]] {
        let (_, words) = verb(&machine, arguments, 2);
        assert!(words.contains("setle") && words.contains("did you mean `settle`?"), "{words}");
        assert!(words.contains(&format!("{}:", machine.configuration().display())), "its place: {words}");
    }
    assert_eq!(document(&machine, &["config", "check"], 2)["result"], "failed");
    configure(&machine, |text| text.replace("schema = 1", "schema = 2"));
    verb(&machine, &["config", "check"], 2);
    configure(&machine, |_| "not = [ toml".to_owned());
    verb(&machine, &["config", "check"], 2);
    fs::set_permissions(machine.configuration(), fs::Permissions::from_mode(0o666)).unwrap();
    let (_, words) = verb(&machine, &["status"], 2);
    assert!(words.contains("writable by its owner alone"), "{words}");
    fs::remove_file(machine.configuration()).unwrap();
    let (_, words) = verb(&machine, &["status"], 2);
    assert!(words.contains("config example"), "{words}");
}

#[test]
fn a_wrong_command_line_ends_with_2_and_says_what_was_meant() {
    let machine = machine();
    for (arguments, meant) in [
        (&["updat"][..], "'update'"),
        (&["update", "--too", "1.0.0"], "'--to'"),
        (&["config", "chek"], "'check'"),
        (&["pin"], "<VERSION>"),
        (&[], "Usage"),
    ] {
        let output = machine.verb(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
        assert!(stderr(&output).contains(meant), "{arguments:?}: {output:?}");
    }
    for arguments in [&["--help"][..], &["--version"], &["update", "--help"]] {
        let output = machine.verb(arguments);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{output:?}");
    }
}

#[test]
fn whoever_finds_the_lock_held_is_told_by_whom() {
    let machine = machine_at("1.0.0");
    let running = machine.collectors();
    for arguments in [&["run"][..], &["recover"]] {
        let (_, words) = verb(&machine, arguments, 6);
        assert!(words.contains(&format!("is held by pid {} (run) since ", machine.updater())), "{words}");
    }
    assert_eq!(document(&machine, &["recover"], 6)["result"], "failed");
    assert_eq!(machine.collectors(), running, "the second one touched nothing");
    assert!(machine.is_idle(), "nor the socket");
}

#[test]
fn without_run_a_child_can_neither_be_updated_nor_rolled_back() {
    let mut machine = machine_at("1.0.0");
    offer(&mut machine, "2.0.0");
    machine.stop();
    for arguments in [&["update"][..], &["rollback"]] {
        let (_, words) = verb(&machine, arguments, 1);
        assert!(words.contains("no updater runs for testbed"), "{words}");
        assert!(words.contains("hint: start `myriarch-updater run`"), "{words}");
    }
    assert_eq!(machine.processes(), [0; 0]);
}

#[test]
fn recover_puts_right_what_run_will_start_and_can_be_repeated() {
    let mut machine = machine();
    verb(&machine, &["recover"], 0);
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    machine.stop();
    let (data, _) = verb(&machine, &["recover"], 0);
    assert!(data.starts_with("nothing was interrupted"), "{data}");
    document(&machine, &["recover"], 0);

    machine.start();
    machine.wait_idle();
    machine.offer_program("2.0.0", &StandIn::version("2.0.0").health(Health::Never).build());
    let mut update = machine.command(&["update"]);
    let mut update = update.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for tries in [2, 1, 0] {
        machine.wait(SOON, "the trial", |machine| machine.entries().last().unwrap()["tries"] == tries);
        machine.kill_updater();
        if tries > 0 {
            let (data, _) = verb(&machine, &["recover"], 0);
            assert!(data.contains("the trial of 2.0.0-"), "{data}");
            machine.start();
        }
    }
    update.wait().unwrap();
    // No try is left: what `run` will start is the way back, and `recover` starts nothing itself.
    for _ in 0..2 {
        let (data, _) = verb(&machine, &["recover"], 0);
        assert!(data.contains("`current` names 1.0.0-"), "{data}");
        assert_eq!(machine.current_version().as_deref(), Some("1.0.0"));
        assert_eq!(machine.count("failed"), 1);
    }
    assert_eq!(machine.collectors_of("1.0.0"), [0; 0]);
    machine.start();
    machine.wait(SOON, "the way back", |machine| machine.count("rolled-back") == 1);
    wait_running(&machine, "1.0.0");
}

/// A service manager in a few lines: it knows the pid, stops and starts.
fn with_service_manager(machine: &Machine) {
    let here = machine.path().display();
    let script = machine.path().join("manager.sh");
    fs::write(
        &script,
        format!(
            r#"#!/bin/sh
cd "{here}" || exit 1
# One job at a time, also when whoever asked for the one before was killed.
exec 9>manager.lock
flock 9
pid=$(cat pid 2>/dev/null)
if [ -n "$pid" ] && readlink "/proc/$pid/exe" >/dev/null; then
    kill -INT "$pid"
    while readlink "/proc/$pid/exe" >/dev/null; do sleep 0.02; done
fi
rm -f pid
[ "$1" = restart ] || exit 0
setsid "$2" --config collector.yaml </dev/null >collector.log 2>&1 9>&- &
pid=$!
echo "$pid" > pid
# Whoever asked kills what is left of this script's process group: wait until the program is out of it.
while sleep 0.02; do
    case $(readlink "/proc/$pid/exe") in */versions/* | "") exit 0 ;; esac
done
"#
        ),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    configure(machine, |text| {
        let (before, rest) = text.split_once("[restart]").unwrap();
        let (_, after) = rest.split_once("[validate]").unwrap();
        let script = script.display();
        format!(
            "{before}[restart]\nkind = \"command\"\ncommand = [\"{script}\", \"restart\", \"{{program}}\"]\nstop_command = [\"{script}\", \"stop\"]\n\n[validate]{after}"
        )
    });
}

#[test]
fn with_a_service_manager_every_verb_works_without_run() {
    let mut machine = machine();
    with_service_manager(&machine);
    offer(&mut machine, "1.0.0");
    verb(&machine, &["update"], 0);
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
    offer(&mut machine, "2.0.0");
    verb(&machine, &["check"], 100);
    let ending = document(&machine, &["update"], 0);
    assert_eq!((&ending["result"], &ending["build"]["version"]), (&json!("confirmed"), &json!("2.0.0")));
    assert_eq!(machine.running_version().as_deref(), Some("2.0.0"));
    machine.offer_program(
        "3.0.0",
        &StandIn::version("3.0.0").health(Health::UnhealthyAfter { ms: 200 }).build(),
    );
    let (_, words) = verb(&machine, &["update"], 3);
    assert!(words.contains("now runs: 2.0.0"), "{words}");
    assert_eq!(machine.running_version().as_deref(), Some("2.0.0"));
    assert_eq!(machine.status()["quarantined"][0]["version"], "3.0.0");
    verb(&machine, &["rollback"], 0);
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
    assert_eq!(document(&machine, &["status"], 0)["updater"], Value::Null);
}

#[test]
fn with_a_service_manager_recover_brings_an_interrupted_update_to_its_end() {
    for (candidate, version, code) in [
        (StandIn::version("2.0.0").health(Health::ReadyAfter { ms: 1500 }), "2.0.0", 0),
        (StandIn::version("2.0.0").health(Health::Never), "1.0.0", 3),
    ] {
        let mut machine = machine();
        with_service_manager(&machine);
        configure(&machine, |text| text.replace("settle = \"6000ms\"", "settle = \"3000ms\""));
        offer(&mut machine, "1.0.0");
        verb(&machine, &["update"], 0);
        machine.offer_program("2.0.0", &candidate.build());
        let mut update = machine.command(&["update"]);
        let mut update = update.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_trial(&machine);
        update.kill().unwrap();
        update.wait().unwrap();
        assert_eq!(machine.status()["trial"]["tries"], 2);
        let ending = document(&machine, &["recover"], code);
        wait_running(&machine, version);
        assert_eq!(machine.status()["trial"], Value::Null, "{ending}");
        assert_eq!(machine.count("trial"), 3);
        verb(&machine, &["recover"], 0);
        assert_eq!(machine.count("trial"), 3, "and only once");
    }
}

#[test]
fn with_a_service_manager_an_update_first_brings_an_interrupted_one_to_its_end() {
    let mut machine = machine();
    with_service_manager(&machine);
    offer(&mut machine, "1.0.0");
    verb(&machine, &["update"], 0);
    let slow = StandIn::version("2.0.0").health(Health::ReadyAfter { ms: 1500 });
    machine.offer_program("2.0.0", &slow.build());
    let mut update = machine.command(&["update"]);
    let mut update = update.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_trial(&machine);
    update.kill().unwrap();
    update.wait().unwrap();
    let (data, words) = verb(&machine, &["update"], 0);
    assert!(words.contains("the trial of 2.0.0-"), "{words}");
    assert!(data.contains("2.0.0"), "{data}");
    assert_eq!(machine.count("confirmed"), 2);
    assert_eq!(machine.running_version().as_deref(), Some("2.0.0"));
}

#[test]
fn with_a_service_manager_a_rollback_leaves_what_is_on_trial_and_only_that() {
    let mut machine = machine();
    with_service_manager(&machine);
    for version in ["1.0.0", "1.1.0"] {
        offer(&mut machine, version);
        verb(&machine, &["update"], 0);
    }
    // It would be confirmed if the trial were taken up again.
    let slow = StandIn::version("2.0.0").health(Health::ReadyAfter { ms: 1500 });
    machine.offer_program("2.0.0", &slow.build());
    let mut update = machine.command(&["update"]);
    let mut update = update.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_trial(&machine);
    update.kill().unwrap();
    update.wait().unwrap();
    verb(&machine, &["rollback"], 3);
    assert_eq!(machine.running_version().as_deref(), Some("1.1.0"));
    let quarantined = machine.status()["quarantined"].clone();
    let versions: Vec<_> =
        quarantined.as_array().unwrap().iter().map(|known| known["version"].clone()).collect();
    assert_eq!(versions, ["2.0.0"]);
}
