//! The program is a unit: whoever ends it, stops it or restarts it on trial is told apart, and each has its end.
//! Against a stand-in for systemd; `host_systemd_trials.rs` asks the same of a real one.
#![expect(clippy::expect_used, reason = "a test says what it expects by panicking")]

use std::{
    cell::RefCell,
    fs,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use myriarch_tests::{
    collector::{End, Signals, StandIn, Validate},
    machine::{DISTRIBUTION, Machine, Plan, Supervised, signal, words},
    programs::Programs,
    service_manager::{ServiceManager, UnitPlan},
};

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";
const UNIT: &str = "col.service";

struct Host {
    machine: Machine,
    manager: ServiceManager,
}

/// A machine whose program is a unit, with [`OLD`] installed and running.
fn host(restart: &'static str, burst: usize) -> Host {
    let manager = ServiceManager::start();
    let plan = Plan {
        settle: Duration::from_secs(20),
        soak: Duration::from_millis(500),
        supervised: Supervised::ByUpdater,
        environment: manager.environment(),
        ..Plan::default()
    };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    machine.set_restart(&format!("kind = \"systemd\"\nunit = \"{UNIT}\""));
    let program = machine.store().join("current/bin").join(DISTRIBUTION);
    let configuration = machine.collector_configuration();
    let argv = vec![program.display().to_string(), "--config".into(), configuration.display().to_string()];
    manager.add(UNIT, UnitPlan { argv, user: "", restart, burst });
    machine.offer_program(OLD, &StandIn::version(OLD).build());
    let host = Host { machine, manager };
    host.ends(&["update"], 0, &["updated: 1.0.0 is confirmed"]);
    host
}

impl Host {
    /// From now on a candidate must stay healthy for so many seconds.
    fn soak_for(&self, seconds: u32) {
        let text = fs::read_to_string(self.machine.configuration()).expect("the configuration");
        let text = text.replace("soak = \"500ms\"", &format!("soak = \"{seconds}s\""));
        fs::write(self.machine.configuration(), text).expect("a configuration that can be written");
    }

    /// Runs a verb to its end, which must be this one and say all of this.
    fn ends(&self, verb: &[&str], code: i32, said: &[&str]) -> String {
        self.ended(&self.machine.verb(verb), code, said)
    }

    fn ended(&self, output: &Output, code: i32, said: &[&str]) -> String {
        let all = words(output);
        assert_eq!(output.status.code(), Some(code), "{all}\n{}", self.machine.journal());
        for part in said {
            assert!(all.contains(part), "expected {part:?} in {all}");
        }
        all
    }

    /// Starts an update to [`NEW`], and waits until that runs on trial.
    fn update_on_trial(&self) -> Child {
        let mut command = self.machine.command(&["update"]);
        let update = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        self.machine.wait(Duration::from_mins(1), "the trial", |machine| {
            machine.running_version().as_deref() == Some(NEW)
        });
        update.expect("myriarch-updater runs")
    }

    fn quarantined(&self) -> usize {
        self.machine.status()["quarantined"].as_array().map_or(0, Vec::len)
    }

    fn runs(&self, version: &str) -> bool {
        let pid = self.manager.main_pid(UNIT);
        self.machine.running_version().as_deref() == Some(version) && self.machine.collectors() == [pid]
    }
}

#[test]
fn an_update_restarts_the_unit_once() {
    let mut host = host("always", 0);
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    let starts = host.manager.property(UNIT, "InvocationID");
    host.ends(&["update"], 0, &["updated: 1.1.0 is confirmed", "environment of process"]);
    assert!(host.runs(NEW));
    let next = u32::from_str_radix(&starts, 16).expect("an id") + 1;
    assert_eq!(host.manager.property(UNIT, "InvocationID"), format!("{next:032x}"), "started once");
}

#[test]
fn a_crash_is_the_versions_doing_at_once() {
    for (restart, burst) in [("always", 0), ("always", 3), ("on-failure", 0), ("no", 0)] {
        let mut host = host(restart, burst);
        host.machine.offer_program(NEW, &StandIn::version(NEW).end(End::Exit { ms: 0, code: 7 }).build());
        host.ends(&["update"], 3, &["the program ended on trial: ", "now runs: 1.0.0", "is quarantined"]);
        assert!(host.runs(OLD), "{restart}");
        assert_eq!(host.quarantined(), 1);
    }
}

#[test]
fn an_end_without_an_error_is_no_stop() {
    let mut host = host("on-failure", 0);
    host.soak_for(5);
    host.machine.offer_program(NEW, &StandIn::version(NEW).end(End::Exit { ms: 700, code: 0 }).build());
    host.ends(&["update"], 3, &["ended without an error", "now runs: 1.0.0"]);
    assert!(host.runs(OLD));
    assert_eq!(host.quarantined(), 1);
}

#[test]
fn a_kill_from_outside_is_no_fault_of_the_version() {
    let mut host = host("no", 0);
    host.soak_for(20);
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    let update = host.update_on_trial();
    signal("KILL", host.manager.main_pid(UNIT));
    let output = update.wait_with_output().expect("the update ends");
    host.ended(
        &output,
        3,
        &["the program was ended on trial: ", "killed by SIGKILL", "nothing is quarantined"],
    );
    assert!(host.runs(OLD));
    assert_eq!(host.quarantined(), 0);
}

#[test]
fn a_failure_that_was_there_before_is_not_reset() {
    let mut host = host("always", 2);
    // One start was ours; the next one is the last that the limit allows.
    host.manager.systemctl(&["restart", UNIT]);
    signal("KILL", host.manager.main_pid(UNIT));
    let failed = |host: &Host| host.manager.property(UNIT, "ActiveState") == "failed";
    host.machine.wait(Duration::from_mins(1), "the start limit", |_| failed(&host));
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    let hint = "`systemctl reset-failed col.service` allows it";
    host.ends(&["update"], 4, &["held by its start limit", hint, "nothing is quarantined"]);
    assert!(failed(&host));
    assert_eq!(host.machine.current_version().as_deref(), Some(OLD));
    assert_eq!((host.quarantined(), host.machine.count("rolled-back")), (0, 1));
    host.manager.systemctl(&["reset-failed", UNIT]);
    host.ends(&["update"], 0, &[]);
    assert!(host.runs(NEW));
}

#[test]
fn a_start_limit_that_only_our_restart_reaches_holds_nothing_up() {
    let mut host = host("always", 1);
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    host.ends(&["update"], 0, &["updated: 1.1.0 is confirmed"]);
    assert!(host.runs(NEW));
}

#[test]
fn a_stop_in_mid_trial_ends_it_and_starts_nothing() {
    for restart in ["always", "on-failure", "no"] {
        let mut host = host(restart, 0);
        host.soak_for(20);
        host.machine.offer_program(NEW, &StandIn::version(NEW).build());
        let update = host.update_on_trial();
        host.manager.systemctl(&["stop", UNIT]);
        let output = update.wait_with_output().expect("the update ends");
        let said = ["col.service was stopped by somebody else", "now current: 1.0.0", "now runs: nothing"];
        host.ended(&output, 1, &said);
        assert_eq!((host.manager.main_pid(UNIT), host.machine.collectors()), (0, vec![]), "{restart}");
        assert_eq!(host.machine.current_version().as_deref(), Some(OLD));
        assert_eq!((host.quarantined(), host.machine.count("withdrawn")), (0, 1));
        // The operator starts it again, and the next update is as good as the first.
        host.manager.systemctl(&["start", UNIT]);
        host.machine.wait(Duration::from_mins(1), "the old version", |_| host.runs(OLD));
    }
}

#[test]
fn a_stop_while_the_candidate_is_validated_is_kept() {
    let mut host = host("always", 0);
    // Who reads it waits for a writer: the validation begins with its first open, and ends with our close.
    let gate = host.machine.store().with_file_name("gate");
    let made = Command::new("mkfifo").arg(&gate).status().expect("mkfifo runs");
    assert!(made.success());
    let needs = Validate::NeedsFile(gate.display().to_string());
    host.machine.offer_program(NEW, &StandIn::version(NEW).validate(needs).build());
    let mut command = host.machine.command(&["update"]);
    let update = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let writer = RefCell::new(None);
    host.machine.wait(Duration::from_mins(1), "the validation", |_| {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        *writer.borrow_mut() = fs::File::options().write(true).custom_flags(flags).open(&gate).ok();
        writer.borrow().is_some()
    });
    host.manager.systemctl(&["stop", UNIT]);
    drop(writer);
    let output = update.and_then(Child::wait_with_output).expect("the update ends");
    let stopped = "col.service was stopped by somebody else while the update was made ready";
    host.ended(&output, 1, &[stopped, "now current: 1.0.0", "now runs: nothing"]);
    assert_eq!((host.manager.main_pid(UNIT), host.quarantined()), (0, 0));
    assert_eq!(host.machine.current_version().as_deref(), Some(OLD));
}

#[test]
fn a_stop_that_the_program_fails_at_is_a_stop() {
    for restart in ["always", "no"] {
        let mut host = host(restart, 3);
        host.soak_for(20);
        host.machine.offer_program(NEW, &StandIn::version(NEW).signals(Signals::Fail { code: 1 }).build());
        let update = host.update_on_trial();
        host.manager.systemctl(&["stop", UNIT]);
        let output = update.wait_with_output().expect("the update ends");
        let failed = "col.service was stopped by somebody else, and is failed (exit-code: exited with 1)";
        let all = host.ended(&output, 1, &[failed, "now current: 1.0.0", "now runs: nothing"]);
        assert!(!all.contains("start limit"), "{all}");
        assert_eq!((host.manager.main_pid(UNIT), host.machine.collectors()), (0, vec![]), "{restart}");
        assert_eq!((host.quarantined(), host.machine.count("withdrawn")), (0, 1));
    }
}

#[test]
fn what_failed_by_a_stop_when_the_updater_is_dead_stays_stopped() {
    let mut host = host("always", 0);
    host.soak_for(20);
    host.machine.offer_program(NEW, &StandIn::version(NEW).signals(Signals::Fail { code: 1 }).build());
    let mut update = host.update_on_trial();
    update.kill().expect("SIGKILL");
    update.wait().expect("the update is reaped");
    host.manager.systemctl(&["stop", UNIT]);
    assert_eq!(host.manager.property(UNIT, "ActiveState"), "failed");
    host.ends(&["recover"], 1, &["col.service was stopped by somebody else", "now runs: nothing"]);
    assert_eq!((host.manager.main_pid(UNIT), host.quarantined()), (0, 0));
    assert_eq!(host.machine.current_version().as_deref(), Some(OLD));
}

#[test]
fn a_restart_in_the_soak_begins_it_anew() {
    let mut host = host("always", 0);
    host.soak_for(6);
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    let update = host.update_on_trial();
    let first = host.manager.main_pid(UNIT);
    host.manager.systemctl(&["restart", UNIT]);
    let output = update.wait_with_output().expect("the update ends");
    host.ended(&output, 0, &["col.service was restarted by somebody else; the soak begins anew"]);
    assert!(host.runs(NEW) && host.manager.main_pid(UNIT) != first);
}

#[test]
fn what_cannot_be_restarted_is_refused_before_anything_is_touched() {
    let mut host = host("always", 0);
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    let (pid, journal) = (host.manager.main_pid(UNIT), host.machine.journal());
    let untouched = |host: &Host| {
        assert_eq!((host.manager.main_pid(UNIT), host.machine.journal()), (pid, journal.clone()));
        assert!(host.runs(OLD));
    };
    host.machine.set_restart("kind = \"systemd\"\nunit = \"nobody\"");
    let hint = "hint: `systemctl list-unit-files --type=service` lists those that are there; is nobody.service spelt right?";
    host.ends(&["update"], 1, &["nobody.service: expected a service unit, found no file of that name", hint]);
    host.machine.set_restart(&format!("kind = \"systemd\"\nunit = \"{UNIT}\""));
    let mut command = host.machine.command(&["update"]);
    let output = command.env("PATH", host.manager.empty_directory()).output().expect("myriarch-updater runs");
    host.ended(
        &output,
        1,
        &["systemctl: expected systemd's own command, found none", "hint: install systemd's commands"],
    );
    untouched(&host);
    host.manager.mask(UNIT);
    let hint = "hint: `systemctl unmask col.service`, if it is to run";
    host.ends(&["update"], 1, &["col.service: expected a unit that can be started, found it masked", hint]);
    untouched(&host);
}

#[test]
fn a_unit_that_does_not_follow_current_is_refused_and_runs_on() {
    let mut host = host("always", 0);
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    // As a package would install it, before an import.
    let installed = host.machine.store().with_file_name("installed");
    StandIn::version(OLD).salt("installed").write_to(&installed).expect("a program");
    host.manager.edit(UNIT, |plan| plan.argv[0] = installed.display().to_string());
    host.manager.systemctl(&["restart", UNIT]);
    let (pid, journal) = (host.manager.main_pid(UNIT), host.machine.journal());
    assert_ne!(pid, 0);
    let found = format!("found one that starts {}", installed.display());
    host.ends(&["update"], 1, &["col.service: expected a unit that starts ", &found, "hint: `import` makes"]);
    assert_eq!((host.manager.main_pid(UNIT), host.machine.journal()), (pid, journal));
    assert_eq!(host.machine.current_version().as_deref(), Some(OLD));
}

#[test]
fn a_trial_that_is_open_never_stops_a_unit_that_was_given_back() {
    let mut host = host("always", 0);
    host.soak_for(20);
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    let mut update = host.update_on_trial();
    update.kill().expect("SIGKILL");
    update.wait().expect("the update is reaped");
    let installed = host.machine.store().with_file_name("installed");
    StandIn::version(OLD).salt("installed").write_to(&installed).expect("a program");
    host.manager.edit(UNIT, |plan| plan.argv[0] = installed.display().to_string());
    host.manager.systemctl(&["restart", UNIT]);
    let pid = host.manager.main_pid(UNIT);
    assert_ne!(pid, 0);
    host.ends(&["recover"], 4, &["found one that starts ", "nothing is quarantined"]);
    assert_eq!((host.manager.main_pid(UNIT), host.quarantined()), (pid, 0));
}

#[test]
fn what_runs_when_the_updater_is_dead_is_judged_as_it_is() {
    let mut host = host("always", 0);
    host.soak_for(4);
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    let mut update = host.update_on_trial();
    update.kill().expect("SIGKILL");
    update.wait().expect("the update is reaped");
    let (pid, trials) = (host.manager.main_pid(UNIT), host.machine.count("trial"));
    // And by `run`, which owns nothing of it.
    host.machine.start();
    host.machine.wait_idle();
    assert!(host.machine.log().contains("it runs, and is judged as it is"), "{}", host.machine.log());
    assert_eq!((host.manager.main_pid(UNIT), host.machine.count("trial")), (pid, trials));
    assert_eq!(host.machine.count("confirmed"), 2);
    assert_eq!(host.machine.stop(), Some(0));
    assert!(host.runs(NEW), "it outlives the updater");
    assert_eq!(host.manager.main_pid(UNIT), pid);
}

#[test]
fn what_failed_when_the_updater_is_dead_is_left_by_recover() {
    let mut host = host("always", 4);
    host.soak_for(20);
    host.machine.offer_program(NEW, &StandIn::version(NEW).end(End::Exit { ms: 3000, code: 7 }).build());
    let mut update = host.update_on_trial();
    update.kill().expect("SIGKILL");
    update.wait().expect("the update is reaped");
    host.machine.wait(Duration::from_mins(1), "the start limit", |_| {
        host.manager.property(UNIT, "ActiveState") == "failed"
    });
    let how = "col.service is failed (exit-code: exited with 7); held by its start limit";
    host.ends(&["recover"], 3, &[how, "now runs: 1.0.0"]);
    assert!(host.runs(OLD));
    assert_eq!(host.quarantined(), 1);
    host.ends(&["recover"], 0, &["nothing was interrupted"]);
}

/// Writes over a published program that runs no more, which nobody is meant to do.
fn damage(program: &Path) {
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    mode(program, 0o755).expect("a mode");
    fs::write(program, "damaged").expect("a program that can be written");
    mode(program, 0o555).expect("a mode");
}

#[test]
fn a_run_that_is_idle_recovers_when_it_is_asked_to() {
    let mut host = host("no", 0);
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    host.ends(&["update"], 0, &[]);
    host.machine.start();
    host.machine.wait_idle();
    let program = fs::canonicalize(host.machine.store().join("current/bin").join(DISTRIBUTION));
    signal("KILL", host.manager.main_pid(UNIT));
    host.machine.wait(Duration::from_mins(1), "the failure", |_| {
        host.manager.property(UNIT, "ActiveState") == "failed"
    });
    damage(&program.expect("a program"));
    host.ends(&["recover"], 0, &["`current` names 1.0.0", "now and was started"]);
    host.machine.wait(Duration::from_mins(1), "the old version", |_| host.runs(OLD));
    host.ends(&["recover"], 0, &["nothing was interrupted"]);
    assert_eq!(host.machine.stop(), Some(0));
}

#[test]
fn a_run_that_cannot_recover_at_its_start_tries_again() {
    let mut host = host("no", 0);
    let store = host.machine.store();
    let journal = host.machine.journal();
    fs::write(store.join("journal.jsonl"), format!("{journal}{{\"schema\":99,\"entry\":\"later\"}}\n"))
        .expect("a journal");
    fs::remove_file(store.join("current")).expect("a link");
    host.machine.start();
    host.machine.wait(Duration::from_mins(1), "the failure", |machine| machine.log().contains("recovery: "));
    fs::write(store.join("journal.jsonl"), journal).expect("a journal");
    host.machine.wait(Duration::from_mins(1), "another try", |machine| {
        machine.current_version().as_deref() == Some(OLD)
    });
    assert!(host.runs(OLD), "what runs is left alone");
    assert_eq!(host.machine.stop(), Some(0));
}

#[test]
fn a_start_at_boot_is_paid_for_once_and_before_it_is_made() {
    let mut host = host("always", 0);
    host.soak_for(20);
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    let mut update = host.update_on_trial();
    update.kill().expect("SIGKILL");
    update.wait().expect("the update is reaped");
    host.manager.systemctl(&["stop", UNIT]);
    let tries = |host: &Host| host.machine.entries().last().expect("a line")["tries"].clone();
    assert_eq!(tries(&host), 2);
    host.ends(&["recover", "--before-start"], 0, &["this start is a try of it, 1 tries left after"]);
    assert_eq!((tries(&host), host.manager.main_pid(UNIT)), (1.into(), 0), "it starts nothing");
    let journal = host.machine.journal();
    host.ends(&["recover", "--before-start"], 0, &["has paid for the start of this boot already"]);
    assert_eq!(host.machine.journal(), journal);
    // Nobody starts it after all: the trial ends without a verdict.
    host.ends(&["recover"], 1, &["col.service does not run", "now runs: nothing"]);
    assert_eq!(host.machine.current_version().as_deref(), Some(OLD));
    assert_eq!(host.manager.main_pid(UNIT), 0);
}

#[test]
fn where_nothing_runs_the_unit_says_how_it_would() {
    let mut host = host("always", 0);
    host.manager.systemctl(&["stop", UNIT]);
    let candidate = StandIn::version(NEW).validate(Validate::RejectsContaining("telemetry".into()));
    host.machine.offer_program(NEW, &candidate.build());
    // The machine's own key stands in for the unit's arguments.
    let text = fs::read_to_string(host.machine.configuration()).expect("the configuration");
    let told = host.machine.collector_configuration().display().to_string();
    let other = text.replace(&format!("configuration = \"{told}\"\n"), "");
    assert_ne!(text, other);
    fs::write(host.machine.configuration(), other).expect("a configuration");
    host.ends(&["update"], 1, &["refused at validate", &format!("validate --config {told}")]);
    assert_eq!(host.machine.current_version().as_deref(), Some(OLD));
}

#[test]
fn where_nothing_runs_a_user_that_is_not_known_is_not_taken_for_root() {
    let mut host = host("always", 0);
    host.manager.systemctl(&["stop", UNIT]);
    host.manager.edit(UNIT, |plan| plan.user = "myriarch-nobody-knows");
    host.machine.offer_program(NEW, &StandIn::version(NEW).build());
    let unknown = "col.service: expected its user among /etc/passwd, found no \"myriarch-nobody-knows\"";
    host.ends(&["update"], 1, &["refused at validate", unknown, "hint: set validate.user by number"]);
    assert_eq!(host.machine.current_version().as_deref(), Some(OLD));
}
