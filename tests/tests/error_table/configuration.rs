//! Mistakes in our own configuration file, and in what it names.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::PathBuf,
};

use myriarch_tests::machine::{Machine, Plan, Supervised};

use crate::row::{Done, Group, Row, edit, machine_by, plan};

pub(crate) const GROUP: Group = Group {
    title: "The configuration",
    about: "A file that is half understood is not used at all: every problem of it is told at once, each with its line and\n\
            column. What runs was started with the file as it was, and runs on.",
    machine: || {
        let machine = machine_by(Plan { supervised: Supervised::ByUpdater, ..plan() });
        fs::copy(machine.configuration(), good(&machine)).expect("a copy of the configuration");
        machine
    },
    rows: &[
        Row {
            name: "configuration-unknown-key",
            input: "A key is misspelt.",
            bring: |machine| edit(machine, "check_interval =", "chek_interval ="),
            ..CONFIGURATION
        },
        Row {
            name: "configuration-unknown-section",
            input: "A section is misspelt.",
            bring: |machine| edit(machine, "[probe]", "[prob]"),
            ..CONFIGURATION
        },
        Row {
            name: "configuration-wrong-type",
            input: "A number is written as a text.",
            bring: |machine| edit(machine, "tries = 2", "tries = \"two\""),
            ..CONFIGURATION
        },
        Row {
            name: "configuration-wrong-unit",
            input: "A duration has no unit.",
            bring: |machine| edit(machine, "interval = \"200ms\"", "interval = \"200\""),
            ..CONFIGURATION
        },
        Row {
            name: "configuration-wrong-word",
            input: "A key has a value that there is not.",
            bring: |machine| edit(machine, "kind = \"child\"", "kind = \"systemctl\""),
            ..CONFIGURATION
        },
        Row {
            name: "configuration-missing-key",
            input: "A required key is not there.",
            bring: |machine| edit(machine, "issuer = ", "# issuer = "),
            ..CONFIGURATION
        },
        Row {
            name: "configuration-no-toml",
            input: "A bracket is missing.",
            bring: |machine| edit(machine, "[trial]", "[trial"),
            ..CONFIGURATION
        },
        Row {
            name: "configuration-of-another-schema",
            input: "The file was written for a newer version.",
            bring: |machine| edit(machine, "schema = 1", "schema = 2"),
            ..CONFIGURATION
        },
        Row {
            name: "configuration-several-mistakes",
            input: "Three mistakes in one file.",
            bring: |machine| {
                edit(machine, "check_interval =", "chek_interval =");
                edit(machine, "tries = 2", "tries = -1");
                edit(machine, "http = \"http:", "http = \"https:");
            },
            ..CONFIGURATION
        },
        Row {
            name: "configuration-writable-by-a-group",
            input: "Others than the owner can write the file.",
            bring: |machine| {
                let mode = fs::Permissions::from_mode(0o664);
                fs::set_permissions(machine.configuration(), mode).expect("a file of ours");
            },
            ..CONFIGURATION
        },
        Row {
            name: "configuration-of-somebody-else",
            input: "The file belongs to another user, who is not root.",
            bring: |machine| chown(machine.configuration(), Some(65534), None).expect("root can do this"),
            ..CONFIGURATION
        },
        Row {
            name: "configuration-not-there",
            input: "There is no such file.",
            bring: |machine| fs::remove_file(machine.configuration()).expect("a file of ours"),
            ..CONFIGURATION
        },
        Row {
            name: "configuration-is-a-directory",
            input: "The path is a directory's.",
            bring: |machine| {
                fs::remove_file(machine.configuration()).expect("a file of ours");
                fs::create_dir(machine.configuration()).expect("a directory of ours");
            },
            ..CONFIGURATION
        },
        Row {
            name: "trusted-root-not-there",
            input: "The trusted root that a rule names is not there.",
            bring: |machine| edit(machine, "trusted_root.json", "trusted-root.json"),
            done: Done::Verb(&["verify", "any.tar.gz", "--version", "1.1.0"]),
            ..CONFIGURATION
        },
        Row {
            name: "trusted-root-no-json",
            input: "The trusted root that a rule names is something else.",
            bring: |machine| edit(machine, "trusted_root.json", "collector.yaml"),
            done: Done::Verb(&["verify", "any.tar.gz", "--version", "1.1.0"]),
            ..CONFIGURATION
        },
        Row {
            name: "store-not-there",
            input: "`store.path` is misspelt, and somebody looks.",
            bring: |machine| edit(machine, "/store\"", "/stroe\""),
            done: Done::Verb(&["status"]),
            exit: 1,
            ..CONFIGURATION
        },
    ],
};

const CONFIGURATION: Row = Row { exit: 2, mend: restore, ..Row::UPDATE };

fn good(machine: &Machine) -> PathBuf {
    machine.path().join("updater.toml.good")
}

fn restore(machine: &mut Machine) {
    let path = machine.configuration();
    let _ = fs::remove_dir(&path);
    let _ = fs::remove_file(&path);
    fs::copy(good(machine), &path).expect("a copy of the configuration");
}
