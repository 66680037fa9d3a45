//! Whatever interrupts an update, the next start decides by the journal and ends with a confirmed program running.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::{
    fs,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use myriarch_tests::{
    collector::{End, Health, StandIn},
    machine::{DISTRIBUTION, Machine, Plan, Supervised, words},
    programs::Programs,
    server::Lie,
};

const SOON: Duration = Duration::from_secs(30);

/// Times that a stand-in without a supervisor needs.
fn quick() -> Plan {
    Plan {
        settle: Duration::from_secs(6),
        soak: Duration::from_millis(500),
        supervised: Supervised::ByUpdater,
        ..Plan::default()
    }
}

fn machine(plan: Plan) -> Machine {
    Machine::new(Programs::stand_ins(), plan)
}

/// A machine with 1.0.0 confirmed and `candidate` on offer.
fn machine_with(plan: Plan, candidate: &[u8]) -> Machine {
    let mut machine = machine(plan);
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    machine.offer_program("2.0.0", candidate);
    machine
}

fn good() -> StandIn {
    StandIn::version("2.0.0")
}

fn ready_after(ms: u64) -> StandIn {
    good().health(Health::ReadyAfter { ms })
}

/// `update` in another terminal.
fn begin_update(machine: &Machine) -> Child {
    let mut command = machine.command(&["update"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// `update`, until 2.0.0 is on trial and its program runs.
fn begin_trial(machine: &Machine) -> Child {
    let update = begin_update(machine);
    // While it is validated its program runs as well, but `current` does not name it.
    machine.wait(SOON, "the trial to begin", |machine| {
        machine.current_version().as_deref() == Some("2.0.0") && !machine.collectors_of("2.0.0").is_empty()
    });
    update
}

fn kill(machine: &mut Machine, mut update: Child) {
    machine.kill_updater();
    assert_eq!(update.wait().unwrap().code(), Some(1), "the terminal is told");
}

fn wait_running(machine: &Machine, version: &str) {
    machine.wait(SOON, version, |machine| machine.running_version().as_deref() == Some(version));
}

fn tries(machine: &Machine) -> Vec<u64> {
    machine.entries().iter().filter_map(|entry| entry["tries"].as_u64()).collect()
}

fn archive(version: &str) -> String {
    format!("/{DISTRIBUTION}_{version}_linux.tar.gz")
}

fn killed_while_it_settles(supervised: Supervised) {
    let plan = Plan { supervised, ..quick() };
    let mut machine = machine_with(plan, &ready_after(2500).build());
    let update = begin_trial(&machine);
    kill(&mut machine, update);
    let left: Vec<u32> = machine.processes();
    assert!(!left.is_empty(), "what the updater started outlives it");
    machine.start();
    let resumed = "was interrupted; it starts again";
    machine.wait(SOON, "the recovery", |machine| machine.log().contains(resumed));
    let still: Vec<u32> = machine.processes().into_iter().filter(|pid| left.contains(pid)).collect();
    assert_eq!(still, [0; 0], "all of it is gone before anything else starts");
    machine.wait(SOON, "the trial to be confirmed", |machine| machine.count("confirmed") == 2);
    assert_eq!(tries(&machine), [2, 2, 1], "the start after the kill is counted");
    assert_eq!(machine.assert_well(), "2.0.0");
    assert!(!machine.log().contains("address already in use"), "{}", machine.log());
}

#[test]
fn a_good_candidate_whose_settling_was_interrupted_is_resumed_and_confirmed() {
    killed_while_it_settles(Supervised::ByUpdater);
}

#[test]
fn a_supervisor_and_its_collector_that_a_killed_updater_left_are_gone_before_the_next_ones_start() {
    killed_while_it_settles(Supervised::BySupervisor);
}

#[test]
fn a_good_candidate_whose_soak_was_interrupted_is_resumed_and_confirmed() {
    let plan = Plan { soak: Duration::from_secs(3), ..quick() };
    let mut machine = machine_with(plan, &good().build());
    let update = begin_trial(&machine);
    machine.wait(SOON, "the soak", |machine| {
        machine.log().matches("must stay so for").count() == 2 && machine.health() == Some(200)
    });
    kill(&mut machine, update);
    assert_eq!(machine.count("confirmed"), 1, "the soak was not over");
    machine.start();
    machine.wait(SOON, "the trial to be confirmed", |machine| machine.count("confirmed") == 2);
    assert_eq!(machine.assert_well(), "2.0.0");
}

fn a_bad_one_is_left(candidate: &StandIn, begun: &str) {
    let plan = Plan { settle: Duration::from_millis(2500), soak: Duration::from_secs(2), ..quick() };
    let mut machine = machine_with(plan, &candidate.build());
    let update = begin_trial(&machine);
    machine.wait(SOON, begun, |machine| {
        machine.log().rfind(begun) >= machine.log().rfind("restarting as 2.0.0")
    });
    kill(&mut machine, update);
    assert_eq!(machine.count("failed"), 0, "the verdict was not there yet");
    machine.start();
    machine.wait(SOON, "the way back", |machine| machine.count("rolled-back") == 1);
    assert_eq!(machine.assert_well(), "1.0.0");
    assert_eq!(machine.status()["quarantined"][0]["version"], "2.0.0");
    let output = machine.verb(&["update", "--to", "2.0.0"]);
    assert_eq!(output.status.code(), Some(5), "{}", words(&output));
}

#[test]
fn a_bad_candidate_whose_settling_was_interrupted_is_rolled_back_and_quarantined() {
    a_bad_one_is_left(&good().health(Health::Never), "restarting as 2.0.0");
}

#[test]
fn a_bad_candidate_whose_soak_was_interrupted_is_rolled_back_and_quarantined() {
    a_bad_one_is_left(&good().health(Health::UnhealthyAfter { ms: 1500 }), "must stay so for");
}

#[test]
fn an_updater_killed_again_and_again_runs_out_of_tries_and_goes_back_to_the_last_confirmed() {
    let plan = Plan { settle: Duration::from_mins(1), ..quick() };
    let mut machine = machine_with(plan, &ready_after(60_000).build());
    let update = begin_trial(&machine);
    kill(&mut machine, update);
    for left in [1, 0] {
        machine.start();
        machine.wait(SOON, "the trial to be resumed", |machine| {
            tries(machine).last() == Some(&left) && !machine.collectors_of("2.0.0").is_empty()
        });
        machine.kill_updater();
    }
    machine.start();
    machine.wait(SOON, "the way back", |machine| machine.count("rolled-back") == 1);
    assert_eq!(tries(&machine), [2, 2, 1, 0], "and never a fourth start");
    assert_eq!(machine.assert_well(), "1.0.0");
    let failed = machine.entries().into_iter().find(|entry| entry["entry"] == "failed").unwrap();
    assert_eq!(failed["reason"], "the trial was interrupted and no try is left");
    assert_eq!(failed["to"]["version"], "1.0.0");
}

#[test]
fn a_way_back_that_was_interrupted_is_gone_to_its_end() {
    let mut machine = machine(quick());
    machine.start_with("1.0.0", &StandIn::version("1.0.0").health(Health::ReadyAfter { ms: 1500 }).build());
    machine.offer_program("2.0.0", &good().end(End::Exit { ms: 100, code: 1 }).build());
    let update = begin_update(&machine);
    machine.wait(SOON, "the way back to begin", |machine| machine.count("failed") == 1);
    kill(&mut machine, update);
    assert_eq!(machine.entries().last().unwrap()["entry"], "failed");
    machine.start();
    machine.wait(SOON, "the way back", |machine| machine.count("rolled-back") == 1);
    assert_eq!(machine.assert_well(), "1.0.0");
    assert_eq!(tries(&machine), [2, 2], "what has failed is not tried again");
    assert_eq!(machine.count("failed"), 1, "and is not judged again");
    assert_eq!(machine.status()["quarantined"][0]["version"], "2.0.0");
}

fn told_to_stop_in_mid_trial(supervised: Supervised) {
    let plan = Plan { supervised, ..quick() };
    let mut machine = machine_with(plan, &ready_after(2500).build());
    let mut update = begin_trial(&machine);
    let began = Instant::now();
    assert_eq!(machine.stop(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(update.wait().unwrap().code(), Some(1), "the terminal is told");
    assert_eq!(machine.processes(), [0; 0], "the program is stopped too");
    assert_eq!(machine.entries().last().unwrap()["entry"], "trial", "the trial is left open");
    machine.start();
    machine.wait(SOON, "the trial to be confirmed", |machine| machine.count("confirmed") == 2);
    assert_eq!(tries(&machine), [2, 2, 3, 2], "an orderly stop costs no try");
    assert_eq!(machine.assert_well(), "2.0.0");
}

#[test]
fn an_updater_told_to_stop_in_mid_trial_ends_in_time_and_leaves_the_trial_to_the_next_start() {
    told_to_stop_in_mid_trial(Supervised::ByUpdater);
}

#[test]
fn an_updater_told_to_stop_in_mid_trial_stops_the_supervisor_with_its_collector() {
    told_to_stop_in_mid_trial(Supervised::BySupervisor);
}

#[test]
fn an_updater_told_to_stop_in_mid_download_touches_nothing_and_the_next_update_resumes() {
    let mut machine = machine_with(quick(), &good().build());
    let (journal, running) = (machine.journal(), machine.collectors());
    machine.server().lie(&archive("2.0.0"), Lie::Drip { bytes: 8192, every: Duration::from_millis(50) });
    let arrived = |machine: &Machine| {
        let files = fs::read_dir(machine.store().join("partial")).into_iter().flatten().flatten();
        files.filter_map(|file| Some(file.metadata().ok()?.len())).max().unwrap_or(0)
    };
    let mut update = begin_update(&machine);
    machine.wait(SOON, "a part of the archive", |machine| arrived(machine) > 30_000);
    assert_eq!(machine.collectors(), running, "what runs is not touched while it downloads");
    assert_eq!(machine.stop(), Some(0));
    assert_eq!(update.wait().unwrap().code(), Some(1), "the terminal is told");
    assert_eq!(machine.journal(), journal);
    assert_eq!(machine.current_version().as_deref(), Some("1.0.0"));
    machine.server().honest(&archive("2.0.0"));
    machine.start();
    wait_running(&machine, "1.0.0");
    machine.wait_idle();
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(machine.assert_well(), "2.0.0");
    let requests = machine.server().requests_for(&archive("2.0.0"));
    let range = requests.last().unwrap().header("range").unwrap_or("none").to_owned();
    let from: u64 = range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap_or(0);
    assert!(from >= 30_000, "expected a range from where the first download ended, found {range}");
}

#[test]
fn restarting_a_confirmed_version_five_times_rolls_nothing_back() {
    let mut machine = machine_with(quick(), &good().build());
    assert_eq!(machine.verb(&["update"]).status.code(), Some(0));
    let journal = machine.journal();
    for round in 0..5 {
        if round % 2 == 0 {
            machine.kill_updater();
        } else {
            assert_eq!(machine.stop(), Some(0));
        }
        machine.start();
        assert_eq!(machine.assert_well(), "2.0.0");
    }
    assert_eq!(machine.journal(), journal, "and writes nothing");
}

fn lines(machine: &Machine) -> usize {
    machine.journal().matches('\n').count()
}

/// Kills the updater as soon as the journal has more than `lines`; answers whether it came to that before
/// `over`.
fn kill_after(machine: &mut Machine, lines_before: usize, mut over: impl FnMut(&Machine) -> bool) -> bool {
    let began = Instant::now();
    while lines(machine) <= lines_before {
        if over(machine) && lines(machine) <= lines_before {
            return false;
        }
        assert!(began.elapsed() < SOON, "{}\n{}", machine.journal(), machine.log());
        std::thread::sleep(Duration::from_millis(1));
    }
    machine.kill_updater();
    true
}

/// Carries `verb` out again and again on one machine and kills the updater right after the first, the second,
/// … line that it writes, until it writes no more. After each kill, one quiet start must find its way.
fn kill_at_every_line(verb: &[&str], prepare: impl Fn(&mut Machine, &str), expected: &[&str]) {
    let mut machine = machine(quick());
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    for n in 0.. {
        prepare(&mut machine, &format!("2.0.{n}"));
        machine.wait_idle();
        let before = lines(&machine);
        let mut client = machine.command(verb);
        client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut client = client.spawn().unwrap();
        let killed = kill_after(&mut machine, before + n, |_| client.try_wait().unwrap().is_some());
        client.wait().unwrap();
        if !killed {
            let kinds: Vec<_> = machine.entries().into_iter().skip(before).collect();
            let kinds: Vec<_> = kinds.iter().filter_map(|entry| entry["entry"].as_str()).collect();
            assert_eq!(kinds, expected, "every line was met");
            break;
        }
        machine.start();
        machine.assert_well();
    }
    machine.assert_well();
}

#[test]
fn killed_at_any_journal_line_of_a_good_update() {
    let prepare = |machine: &mut Machine, version: &str| {
        machine.offer_program(version, &StandIn::version(version).build());
    };
    kill_at_every_line(&["update"], prepare, &["trial", "confirmed"]);
}

#[test]
fn killed_at_any_journal_line_of_a_bad_update() {
    let prepare = |machine: &mut Machine, version: &str| {
        machine.offer_program(version, &StandIn::version(version).end(End::Exit { ms: 50, code: 1 }).build());
    };
    kill_at_every_line(&["update"], prepare, &["trial", "failed", "quarantined", "rolled-back"]);
}

#[test]
fn killed_at_any_journal_line_of_a_rollback() {
    let prepare = |machine: &mut Machine, version: &str| {
        machine.offer_program(version, &StandIn::version(version).build());
        let output = machine.verb(&["update"]);
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    };
    kill_at_every_line(&["rollback"], prepare, &["trial", "confirmed"]);
}

#[test]
fn an_interrupted_rollback_quarantines_what_was_left_and_nothing_else() {
    let mut machine = machine(Plan { soak: Duration::from_secs(2), ..quick() });
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    for version in ["1.1.0", "1.2.0"] {
        machine.offer_program(version, &StandIn::version(version).build());
        assert_eq!(machine.verb(&["update"]).status.code(), Some(0));
    }
    let mut client = machine.command(&["rollback"]);
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    machine.wait(SOON, "the rollback to be on trial", |machine| {
        machine.current_version().as_deref() == Some("1.1.0") && machine.health() == Some(200)
    });
    machine.kill_updater();
    client.wait().unwrap();
    machine.start();
    machine.wait(SOON, "the rollback to be confirmed", Machine::is_idle);
    assert_eq!(machine.assert_well(), "1.1.0");
    let status = machine.status();
    let quarantined: Vec<_> =
        status["quarantined"].as_array().unwrap().iter().map(|known| known["version"].clone()).collect();
    assert_eq!(quarantined, ["1.2.0"], "{status}");
}

#[test]
fn killed_at_any_journal_line_of_a_first_installation() {
    for n in 0..2 {
        let mut machine = machine(quick());
        machine.offer_program("1.0.0", &StandIn::version("1.0.0").build());
        machine.start();
        assert!(kill_after(&mut machine, n, |_| false));
        machine.start();
        assert_eq!(machine.assert_well(), "1.0.0");
    }
}

#[test]
fn killed_at_every_line_one_after_the_other_it_still_comes_to_rest() {
    for candidate in [ready_after(300), good().end(End::Exit { ms: 50, code: 1 })] {
        let mut machine = machine_with(quick(), &candidate.build());
        let mut before = lines(&machine);
        let mut update = begin_update(&machine);
        let mut kills = 0;
        while kills < 10 && kill_after(&mut machine, before, |machine| kills > 0 && machine.is_idle()) {
            kills += 1;
            before = lines(&machine);
            machine.start();
        }
        update.wait().unwrap();
        assert!(kills >= 4, "it was killed {kills} times");
        let version = machine.assert_well();
        let confirmed = machine.entries().iter().filter(|entry| entry["entry"] == "confirmed").count();
        assert_eq!(version, if confirmed == 2 { "2.0.0" } else { "1.0.0" }, "{}", machine.journal());
    }
}
