//! What the screens say of a machine in use: `status`, `history` and the files that they are made from.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Output},
    time::Duration,
};

use myriarch_tests::{
    collector::{End, StandIn},
    machine::{DISTRIBUTION, Machine, Plan, Supervised},
    programs::Programs,
};
use serde_json::{Value, json};

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

/// Writes `text` as the configuration, keeping its mode.
fn configure(machine: &Machine, change: impl Fn(String) -> String) {
    let text = fs::read_to_string(machine.configuration()).unwrap();
    fs::write(machine.configuration(), change(text)).unwrap();
}

#[test]
fn an_answer_is_called_healthy_only_by_who_asked_for_all_of_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    let machine = machine_at("1.0.0");
    // The other user can read everything, and not see who runs what.
    let program = machine.path().join("myriarch-updater");
    fs::copy(machine.programs().updater(), &program).unwrap();
    fs::set_permissions(machine.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let health = |command: &mut Command| {
        let output = command.arg("--config").arg(machine.configuration()).args(["status", "--json"]).output();
        let document: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        document["health"].clone()
    };
    let as_root = || health(&mut Command::new(&program));
    let as_other = || {
        let other = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        health(Command::new("setpriv").args(other).arg(&program))
    };
    assert_eq!(as_root(), json!({ "is": "healthy" }));
    assert_eq!(as_other(), json!({ "is": "answers", "unasked": ["identity"] }));
    // A command that fails says that it is not healthy; a screen does not run it.
    configure(&machine, |text| text.replace("[probe]", "[probe]\ncommand = [\"/bin/false\"]"));
    assert_eq!(as_root(), json!({ "is": "answers", "unasked": ["command"] }));
    assert_eq!(as_other(), json!({ "is": "answers", "unasked": ["identity", "command"] }));
}

#[test]
fn status_tells_what_runs_since_when_whether_it_is_well_and_what_happens_next() {
    let mut machine = machine_at("1.0.0");
    let status = document(&machine, &["status"], 0);
    assert_eq!(status["health"]["is"], "healthy", "{status}");
    let since: jiff::Timestamp = status["running"][0]["since"].as_str().unwrap().parse().unwrap();
    let age = jiff::Timestamp::now().duration_since(since);
    assert!((-2..300).contains(&age.as_secs()), "it began just now: {since}");
    let trusted = status["trusted"]["words"].as_str().unwrap();
    assert!(trusted.starts_with("signed by ") && trusted.contains("refs/tags/v1.0.0"), "{trusted}");
    assert_eq!(status["updater"]["purpose"], "run");
    assert_eq!(document(&machine, &["status", "--no-probe"], 0)["health"]["is"], "not-asked");

    offer(&mut machine, "2.0.0");
    verb(&machine, &["check"], 100);
    let status = document(&machine, &["status"], 0);
    assert_eq!(status["look"]["found"], json!({ "is": "available", "version": "2.0.0" }));
    assert_eq!(status["next_look"], Value::Null, "check_interval is off");
    let (data, _) = verb(&machine, &["status"], 0);
    assert!(data.contains("offered      2.0.0 (") && data.contains("`update` takes 2.0.0"), "{data}");
    verb(&machine, &["update", "--to", "9.9.9"], 5);
    assert_eq!(document(&machine, &["status"], 0)["look"], status["look"], "that was no look at the offers");
    verb(&machine, &["update"], 0);
    assert_eq!(document(&machine, &["status"], 0)["look"]["found"]["is"], "taken");

    // What a look left is a courtesy: garbage in its place is no look, and stops nothing.
    fs::write(machine.store().join("look.json"), b"\0garbage").unwrap();
    assert_eq!(document(&machine, &["status"], 0)["look"], Value::Null);
    verb(&machine, &["update"], 0);
    assert_eq!(document(&machine, &["status"], 0)["look"]["found"]["is"], "nothing");

    machine.stop();
    let status = document(&machine, &["status"], 0);
    assert_eq!((&status["health"]["is"], &status["updater"]), (&json!("nothing-runs"), &Value::Null));
    let (data, _) = verb(&machine, &["status"], 0);
    assert!(data.contains("nothing runs: start `run`"), "{data}");
}

#[test]
fn run_says_when_it_looks_again_and_only_while_it_is_alive() {
    let mut machine = machine();
    configure(&machine, |text| text.replace("check_interval = \"off\"", "check_interval = \"1h\""));
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    let next: jiff::Timestamp =
        document(&machine, &["status"], 0)["next_look"].as_str().unwrap().parse().unwrap();
    let minutes = next.duration_since(jiff::Timestamp::now()).as_mins();
    assert!((50..=60).contains(&minutes), "{next}");
    assert!(verb(&machine, &["status"], 0).0.contains("next look at "));
    machine.stop();
    assert_eq!(document(&machine, &["status"], 0)["next_look"], Value::Null);
}

#[test]
fn status_hashes_no_program_unless_it_is_asked_to() {
    let mut machine = machine_at("1.0.0");
    offer(&mut machine, "2.0.0");
    verb(&machine, &["update"], 0);
    let integrity = |how: &[&str]| {
        let status = document(&machine, &[&["status"], how].concat(), 0);
        let slots = status["slots"].as_array().unwrap().clone();
        let is: Vec<_> =
            slots.iter().map(|slot| slot["integrity"]["is"].as_str().unwrap().to_owned()).collect();
        assert_eq!(status["current"]["integrity"]["is"].as_str().unwrap(), is[1], "current is 2.0.0");
        is
    };
    assert_eq!(integrity(&[]), ["intact", "intact"], "whoever activated them has checked them");
    let known = machine.path().join("run/checked.json");
    assert_eq!(fs::metadata(&known).unwrap().permissions().mode() & 0o777, 0o600);

    // The bytes change and nothing is read: what was found is worth nothing any more, and says so.
    let program = fs::canonicalize(machine.store().join("current/bin").join(DISTRIBUTION)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(integrity(&[]), ["intact", "unchecked"]);
    assert_eq!(integrity(&["--integrity"]), ["intact", "intact"], "another mode, the same bytes");
    assert_eq!(integrity(&[]), ["intact", "intact"], "and that is remembered");
    fs::remove_file(&known).unwrap();
    assert_eq!(integrity(&[]), ["unchecked", "unchecked"]);
}

#[test]
fn history_tells_everything_oldest_first() {
    let mut machine = machine_at("1.0.0");
    machine.offer_program("2.0.0", &StandIn::version("2.0.0").end(End::Exit { ms: 50, code: 1 }).build());
    verb(&machine, &["update"], 3);
    verb(&machine, &["release", "2.0.0"], 0);
    verb(&machine, &["pin", "1.0.0"], 0);
    verb(&machine, &["unpin"], 0);
    let (data, words) = verb(&machine, &["history"], 0);
    let expected = [
        "  1.0.0 installed: confirmed, trial ",
        "  1.0.0 -> 2.0.0: rolled back to 1.0.0, healthy, trial ",
        "  2.0.0 released from quarantine",
        "  pinned to 1.0.0",
        "  pin lifted",
    ];
    // What explains an entry is indented below it.
    let (entries, below): (Vec<_>, Vec<_>) = data.lines().partition(|line| line.starts_with("20"));
    assert_eq!(entries.len(), expected.len(), "{data}");
    for (line, expected) in entries.iter().zip(expected) {
        assert!(line.contains(expected), "{expected}: {line}");
    }
    assert!(entries[0].contains(", down ") && entries[1].contains(", down "), "{data}");
    assert!(below.iter().any(|line| line.contains("the program ended on trial: ")), "{data}");
    assert!(below.iter().any(|line| line.trim().starts_with("2.0.0-") && line.ends_with("is quarantined")));
    assert_eq!(words, "");
    let history = document(&machine, &["history"], 0);
    assert_eq!((&history["schema"], &history["entries"][1]["end"]["is"]), (&json!(2), &json!("rolled-back")));
    assert!(history["entries"][1]["downtime_ms"].is_u64(), "{history}");
    assert_eq!(history["entries"].as_array().unwrap().len(), expected.len());
}

#[test]
fn status_tells_an_empty_store_and_one_in_use() {
    let mut machine = machine();
    let (data, words) = verb(&machine, &["status"], 0);
    assert!(data.contains("nothing is installed") && data.contains("not running"), "{data}");
    assert_eq!(words, "");
    let empty = document(&machine, &["status"], 0);
    assert_eq!((&empty["current"]["state"], &empty["updater"]), (&json!("absent"), &Value::Null));
    verb(&machine, &["history"], 0);

    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    let status = document(&machine, &["status"], 0);
    assert_eq!(status["current"]["version"], "1.0.0");
    assert_eq!(status["current"]["integrity"]["is"], "intact");
    assert_eq!(status["updater"]["pid"], machine.updater());
    assert_eq!(status["running"][0]["pids"], json!(machine.collectors()));
    assert_eq!(status["confirmed"][0]["version"], "1.0.0");
    let (data, words) = verb(&machine, &["status"], 0);
    for told in ["service      testbed", "current      1.0.0-", "pin          none", "quarantined  none"] {
        assert!(data.contains(told), "{told}: {data}");
    }
    assert_eq!(words, "");
}

#[test]
fn a_file_in_the_store_says_how_things_stand_too() {
    let mut machine = Machine::new(Programs::stand_ins(), Plan::default());
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    machine.wait_idle();
    let file = || std::fs::read(machine.store().join("status.json")).ok();
    machine.wait(Duration::from_secs(10), "status.json", |_| file().is_some());
    let written: serde_json::Value = serde_json::from_slice(&file().unwrap()).unwrap();
    assert_eq!(written["current"]["version"], "1.0.0");
    assert_eq!(written["schema"], machine.status()["schema"]);
}
