//! What is on disk, damaged while nothing runs: the journal and the manifests of slots.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
};

use myriarch_tests::{
    collector::StandIn,
    machine::{Machine, Plan, Supervised, words},
    programs::Programs,
};
use serde_json::Value;

use crate::row::{After, Done, Group, OLD, OLDER, Row, plan};

pub(crate) const GROUP: Group = Group {
    title: "State on disk",
    about: "No content of a state file keeps an intact program from running. What is damaged is set aside and said to be so when `run`\n\
            starts; what a newer version wrote is left alone and not guessed.",
    machine: || {
        let plan = Plan { supervised: Supervised::ByUpdater, ..plan() };
        let mut machine = Machine::new(Programs::stand_ins(), plan);
        machine.start_with(OLDER, &StandIn::version(OLDER).build());
        machine.offer_program(OLD, &StandIn::version(OLD).build());
        let output = machine.verb(&["update"]);
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
        fs::copy(machine.store().join("journal.jsonl"), copy_of(&machine, "journal")).expect("a copy");
        fs::copy(machine.store().join("current/slot.json"), copy_of(&machine, "slot")).expect("a copy");
        symlink(
            fs::read_link(machine.store().join("current")).expect("`current`"),
            copy_of(&machine, "current"),
        )
        .expect("a copy");
        machine
    },
    rows: &[
        Row {
            name: "journal-garbage",
            input: "A line of the journal is garbage.",
            bring: |machine| journal(machine, b"\0\xff garbage \x1b[31m\n"),
            after: After::Started(&["trial", "confirmed", "trial", "confirmed", "set-aside"]),
            ..STATE
        },
        Row {
            name: "journal-torn",
            input: "The last line of the journal was cut off by a power cut.",
            bring: |machine| {
                journal(machine, b"{\"schema\":1,\"at\":\"2026-01-01T00:00:00Z\",\"entry\":\"tri");
            },
            after: After::Started(&["trial", "confirmed", "trial", "confirmed"]),
            ..STATE
        },
        Row {
            name: "journal-of-a-newer-schema",
            input: "A newer version of the program wrote the journal, and this one starts.",
            bring: |machine| journal(machine, NEWER),
            after: After::Started(&["trial", "confirmed", "trial", "confirmed", "unheard-of"]),
            ..STATE
        },
        Row {
            name: "journal-of-a-newer-schema-at-an-update",
            input: "The same, and an update is asked for.",
            bring: |machine| {
                journal(machine, NEWER);
                machine.start();
                machine.wait_idle();
                let deadline = std::time::Duration::from_mins(1);
                machine.wait(deadline, "something healthy", |machine| machine.running_version().is_some());
            },
            done: Done::Verb(&["update"]),
            after: After::Untouched,
            ..STATE
        },
        Row {
            name: "journal-is-a-directory",
            input: "A directory stands in the journal's place.",
            bring: |machine| {
                stop(machine);
                fs::remove_file(machine.store().join("journal.jsonl")).expect("a file of ours");
                fs::create_dir(machine.store().join("journal.jsonl")).expect("a directory of ours");
            },
            after: After::Started(&[]),
            ..STATE
        },
        Row {
            name: "manifest-garbage",
            input: "The manifest of the current slot is garbage.",
            bring: |machine| manifest(machine, |_| b"\0\xff garbage\n".to_vec()),
            after: After::Rescued(OLDER),
            ..STATE
        },
        Row {
            name: "manifest-torn",
            input: "The manifest of the current slot ends in the middle.",
            bring: |machine| manifest(machine, |text| text[..20].to_vec()),
            after: After::Rescued(OLDER),
            ..STATE
        },
        Row {
            name: "manifest-of-a-newer-schema",
            input: "A newer version of the program wrote the manifest of the current slot.",
            bring: |machine| {
                manifest(machine, |text| {
                    let mut document: Value = serde_json::from_slice(text).expect("a manifest");
                    document["schema"] = 99.into();
                    document.to_string().into_bytes()
                });
            },
            after: After::Rescued(OLDER),
            ..STATE
        },
        Row {
            name: "current-leads-elsewhere",
            input: "`current` leads out of the store.",
            bring: |machine| {
                stop(machine);
                point(machine, "/usr".into());
            },
            after: After::Rescued(OLD),
            ..STATE
        },
        Row {
            name: "current-not-there",
            input: "`current` is gone.",
            bring: |machine| {
                stop(machine);
                fs::remove_file(machine.store().join("current")).expect("a link of ours");
            },
            after: After::Rescued(OLD),
            ..STATE
        },
    ],
};

const STATE: Row = Row { done: Done::Start, mend: restore, ..Row::UPDATE };

const NEWER: &[u8] = b"{\"schema\":99,\"at\":\"2031-01-01T00:00:00Z\",\"entry\":\"unheard-of\"}\n";

fn copy_of(machine: &Machine, what: &str) -> PathBuf {
    machine.path().join(format!("{what}.good"))
}

fn stop(machine: &mut Machine) {
    assert_eq!(machine.stop(), Some(0), "{}", machine.log());
}

/// Stops the updater and adds this to the journal.
fn journal(machine: &mut Machine, more: &[u8]) {
    stop(machine);
    let path = machine.store().join("journal.jsonl");
    fs::File::options()
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(more))
        .expect("a file of ours");
}

/// Stops the updater and changes the manifest of the current slot.
fn manifest(machine: &mut Machine, change: fn(&[u8]) -> Vec<u8>) {
    stop(machine);
    let path = machine.store().join("current/slot.json");
    let changed = change(&fs::read(&path).expect("a manifest"));
    write_manifest(&path, &changed);
}

fn write_manifest(path: &PathBuf, text: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("a file of ours");
    fs::write(path, text).expect("a file of ours");
    fs::set_permissions(path, fs::Permissions::from_mode(0o444)).expect("a file of ours");
}

fn point(machine: &Machine, target: PathBuf) {
    let link = machine.store().join("current");
    let _ = fs::remove_file(&link);
    symlink(target, link).expect("a link of ours");
}

/// Everything as it was before the first row, and running.
fn restore(machine: &mut Machine) {
    stop(machine);
    point(machine, fs::read_link(copy_of(machine, "current")).expect("a link of ours"));
    let manifest = fs::read(copy_of(machine, "slot")).expect("a file of ours");
    write_manifest(&machine.store().join("current/slot.json"), &manifest);
    let journal = machine.store().join("journal.jsonl");
    let _ = fs::remove_dir(&journal);
    fs::copy(copy_of(machine, "journal"), journal).expect("a file of ours");
    machine.start();
    machine.wait_idle();
    let deadline = std::time::Duration::from_mins(1);
    machine.wait(deadline, OLD, |machine| machine.running_version().as_deref() == Some(OLD));
}
