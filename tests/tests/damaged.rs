//! Whatever became of its files, the next start runs a complete, confirmed program and nothing that was changed.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use myriarch_tests::{
    collector::{End, StandIn},
    machine::{DISTRIBUTION, Machine, Plan, Supervised, words},
    programs::Programs,
};

const SOON: Duration = Duration::from_secs(30);

/// A machine with 1.0.0 confirmed and `candidate` on offer.
fn machine_with(candidate: &StandIn) -> Machine {
    let plan =
        Plan { soak: Duration::from_millis(500), supervised: Supervised::ByUpdater, ..Plan::default() };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    machine.offer_program("2.0.0", &candidate.build());
    machine
}

fn good() -> StandIn {
    StandIn::version("2.0.0")
}

/// The program's file of the slot that `current` names.
fn current_program(machine: &Machine) -> PathBuf {
    fs::canonicalize(machine.store().join("current/bin").join(DISTRIBUTION)).unwrap()
}

/// Writes over a published program, which nobody is meant to do.
fn overwrite(program: &Path, bytes: &[u8]) {
    fs::set_permissions(program.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(program, bytes).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o555)).unwrap();
}

/// What is done to the journal of a stopped updater.
fn after_damage(damage: impl FnOnce(&Path)) -> Machine {
    let mut machine = machine_with(&good().end(End::Exit { ms: 100, code: 1 }));
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    assert_eq!(machine.stop(), Some(0));
    damage(&machine.store().join("journal.jsonl"));
    machine.start();
    machine.wait(SOON, "1.0.0", |machine| machine.running_version().as_deref() == Some("1.0.0"));
    machine
}

#[test]
fn a_line_of_garbage_in_the_journal_is_set_aside_and_quarantine_outlives_it() {
    let machine = after_damage(|journal| {
        let mut file = fs::File::options().append(true).open(journal).unwrap();
        file.write_all(b"\0\xff garbage \x1b[31m\n").unwrap();
    });
    assert_eq!(machine.assert_well(), "1.0.0");
    assert!(machine.log().contains("begun anew"), "{}", machine.log());
    assert!(!machine.log().contains('\x1b'), "nothing of it reaches a terminal");
    let kept = fs::read(machine.store().join("journal.jsonl.set-aside-0")).unwrap();
    assert!(kept.ends_with(b"\0\xff garbage \x1b[31m\n"), "it is kept as it was");
    let output = machine.verb(&["update", "--to", "2.0.0"]);
    assert_eq!(output.status.code(), Some(5), "{}", words(&output));
}

#[test]
fn a_journal_of_nothing_but_garbage_does_not_keep_the_program_from_running_nor_from_being_updated() {
    let mut machine = after_damage(|journal| fs::write(journal, b"\xff\xfe\n{}\n[1]\nnull\n").unwrap());
    assert_eq!(machine.assert_well(), "1.0.0");
    assert!(machine.log().contains("begun anew"), "{}", machine.log());
    machine.offer_program("3.0.0", &StandIn::version("3.0.0").build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(machine.assert_well(), "3.0.0");
}

#[test]
fn a_journal_of_a_newer_schema_is_left_alone_and_refused_while_the_program_runs() {
    let newer = b"{\"schema\":99,\"at\":\"2031-01-01T00:00:00Z\",\"entry\":\"unheard-of\"}\n";
    let machine = after_damage(|journal| {
        fs::File::options().append(true).open(journal).unwrap().write_all(newer).unwrap();
    });
    let refused = "expected schema 1 or lower, found 99";
    assert!(machine.log().contains(refused), "{}", machine.log());
    let before = machine.journal();
    machine.wait_idle();
    for verb in [&["update"][..], &["pin", "1.0.0"], &["unpin"], &["rollback"], &["history"]] {
        let output = machine.verb(verb);
        assert_eq!(output.status.code(), Some(1), "{verb:?}: {}", words(&output));
        let told = words(&output);
        assert!(told.contains(refused) && told.contains("hint: "), "{verb:?}: {told}");
    }
    assert!(machine.status()["journal"].as_str().unwrap().contains(refused), "{}", machine.status());
    assert_eq!(machine.journal(), before, "it is left as it is");
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
}

#[test]
fn a_torn_last_line_of_the_journal_was_never_promised_and_is_kept_aside() {
    let torn = b"{\"schema\":1,\"at\":\"2026-01-01T00:00:00Z\",\"entry\":\"tri";
    let mut machine = after_damage(|journal| {
        fs::File::options().append(true).open(journal).unwrap().write_all(torn).unwrap();
    });
    assert_eq!(machine.assert_well(), "1.0.0");
    machine.offer_program("3.0.0", &StandIn::version("3.0.0").build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(machine.assert_well(), "3.0.0");
    assert_eq!(fs::read(machine.store().join("journal.jsonl.torn")).unwrap(), torn);
    assert!(machine.journal().lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[test]
fn a_journal_that_is_gone_is_begun_anew_from_what_is_current() {
    let machine = after_damage(|journal| fs::remove_file(journal).unwrap());
    assert_eq!(machine.assert_well(), "1.0.0");
    assert_eq!(machine.count("confirmed"), 1);
}

#[test]
fn a_journal_that_cannot_be_read_at_all_does_not_keep_the_program_from_running() {
    let machine = after_damage(|journal| {
        fs::remove_file(journal).unwrap();
        fs::create_dir(journal).unwrap();
    });
    assert!(machine.log().contains("journal.jsonl"), "{}", machine.log());
    machine.wait_idle();
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(words(&output).contains("journal.jsonl"), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
}

/// A machine with 1.0.0 and then 2.0.0 confirmed, on which `damage` is done while nothing runs.
fn after_damage_to_the_store(damage: impl FnOnce(&Machine)) -> Machine {
    let mut machine = machine_with(&good());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(machine.stop(), Some(0));
    damage(&machine);
    machine.start();
    machine
}

fn point_current(machine: &Machine, target: &str) {
    let link = machine.store().join("current");
    fs::remove_file(&link).unwrap();
    symlink(target, link).unwrap();
}

#[test]
fn where_current_dangles_or_is_gone_the_last_confirmed_build_runs() {
    let machine = after_damage_to_the_store(|machine| {
        point_current(machine, "versions/9.9.9-000000000000");
    });
    assert_eq!(machine.assert_well(), "2.0.0");
    assert_eq!(machine.count("rescued"), 1);
    let machine = after_damage_to_the_store(|machine| {
        fs::remove_file(machine.store().join("current")).unwrap();
    });
    assert_eq!(machine.assert_well(), "2.0.0");
}

#[test]
fn where_current_leads_out_of_the_store_the_last_confirmed_build_runs() {
    let machine = after_damage_to_the_store(|machine| point_current(machine, "/usr"));
    assert_eq!(machine.assert_well(), "2.0.0");
}

#[test]
fn where_one_byte_of_the_current_program_changed_the_confirmed_build_before_it_runs() {
    let mut expected = String::new();
    let machine = after_damage_to_the_store(|machine| {
        let program = current_program(machine);
        let mut bytes = fs::read(&program).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        overwrite(&program, &bytes);
        expected = program.parent().unwrap().parent().unwrap().display().to_string();
    });
    assert_eq!(machine.assert_well(), "1.0.0");
    assert!(machine.log().contains(&expected), "{expected} is named: {}", machine.log());
    let damaged = machine.status()["slots"].as_array().unwrap().clone();
    assert_eq!(damaged.iter().filter(|slot| slot["integrity"]["is"] == "damaged").count(), 1);
}

/// A program that tells that it was executed.
fn traitor(machine: &Machine) -> Vec<u8> {
    format!("#!/bin/sh\ntouch {}/executed\nsleep 20\n", machine.path().display()).into_bytes()
}

#[test]
fn a_changed_program_is_never_executed() {
    let machine =
        after_damage_to_the_store(|machine| overwrite(&current_program(machine), &traitor(machine)));
    assert_eq!(machine.assert_well(), "1.0.0");
    assert!(!machine.path().join("executed").exists());
}

#[test]
fn where_nothing_intact_is_left_nothing_runs_until_the_source_brings_it_anew() {
    let mut machine = machine_with(&good());
    machine.withdraw("2.0.0");
    assert_eq!(machine.stop(), Some(0));
    overwrite(&current_program(&machine), &traitor(&machine));
    machine.start();
    machine.wait(SOON, "1.0.0 to be installed anew", |machine| machine.count("confirmed") == 2);
    assert_eq!(machine.assert_well(), "1.0.0");
    assert!(!machine.path().join("executed").exists());
    assert!(machine.log().contains("nothing intact is left"), "{}", machine.log());
}

#[test]
fn where_a_directory_stands_in_the_place_of_current_the_last_confirmed_build_runs() {
    let machine = after_damage_to_the_store(|machine| {
        let current = machine.store().join("current");
        fs::remove_file(&current).unwrap();
        fs::create_dir_all(current.join("bin")).unwrap();
    });
    assert_eq!(machine.assert_well(), "2.0.0");
    assert!(machine.store().join("current.set-aside-0").is_dir(), "nothing is lost");
}
