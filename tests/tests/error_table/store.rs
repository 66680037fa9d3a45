//! A store that cannot take a build in, or that others can write to.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use myriarch_tests::machine::{Machine, Plan, Supervised};

use crate::row::{Group, Row, machine_by, plan};

pub(crate) const GROUP: Group = Group {
    title: "The store",
    about: "What is wrong with the store's file system or permissions is said before anything is asked of the source. What is\n\
            installed runs on.",
    machine: || {
        let around = ["unshare", "--mount"].map(str::to_owned).to_vec();
        machine_by(Plan { around, supervised: Supervised::ByUpdater, ..plan() })
    },
    rows: &[
        Row {
            name: "store-read-only",
            input: "The store's file system is mounted read-only.",
            bring: |machine| again(machine, "ro"),
            mend: |machine| mounted(machine, &["umount"], "store"),
            ..Row::UPDATE
        },
        Row {
            name: "store-noexec",
            input: "The store's file system is mounted noexec.",
            bring: |machine| again(machine, "noexec"),
            mend: |machine| mounted(machine, &["umount"], "store"),
            ..Row::UPDATE
        },
        Row {
            name: "store-full",
            input: "There is no room for the download.",
            bring: |machine| {
                mounted(machine, &["mount", "-t", "tmpfs", "-o", "size=64k", "none"], "store/partial");
            },
            mend: |machine| mounted(machine, &["umount"], "store/partial"),
            ..Row::UPDATE
        },
        Row {
            name: "store-of-somebody-else",
            input: "The store belongs to another user, who is not root.",
            bring: |machine| chown(machine, 65534),
            mend: |machine| chown(machine, 0),
            ..Row::UPDATE
        },
        Row {
            name: "store-writable-by-a-group",
            input: "The store can be written by a group.",
            bring: |machine| {
                chgrp(machine, 65534);
                chmod(machine, "store", 0o775);
            },
            mend: |machine| chmod(machine, "store", 0o755),
            ..Row::UPDATE
        },
        Row {
            name: "store-writable-by-everybody",
            input: "The directory of the slots can be written by everybody.",
            bring: |machine| chmod(machine, "store/versions", 0o777),
            mend: |machine| chmod(machine, "store/versions", 0o755),
            ..Row::UPDATE
        },
        Row {
            name: "store-below-a-directory-writable-by-everybody",
            input: "A directory above the store can be written by everybody and has no sticky bit.",
            bring: |machine| chmod(machine, "", 0o777),
            mend: |machine| chmod(machine, "", 0o755),
            ..Row::UPDATE
        },
    ],
};

/// Whether the rows can be brought about here.
pub(crate) fn can_be_played() -> bool {
    let probe = ["--mount", "sh", "-c", "mount -t tmpfs none /mnt"];
    Command::new("unshare").args(probe).output().is_ok_and(|output| output.status.success())
}

/// Mounts the store over itself in another way. What is open stays open, as after a disk's error.
fn again(machine: &Machine, option: &str) {
    let store = machine.store();
    mounted(machine, &["mount", "--bind", &store.to_string_lossy()], "store");
    mounted(machine, &["mount", "-o", &format!("remount,bind,{option}")], "store");
}

/// Runs a command on a directory of the machine where the updater sees it.
fn mounted(machine: &Machine, command: &[&str], directory: &str) {
    let pid = machine.updater().to_string();
    let mut inside = Command::new("nsenter");
    inside.args(["--target", &pid, "--mount"]).args(command).arg(machine.path().join(directory));
    let output = inside.output().expect("nsenter runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn chown(machine: &Machine, user: u32) {
    std::os::unix::fs::chown(machine.store(), Some(user), None).expect("root can do this");
}

fn chgrp(machine: &Machine, group: u32) {
    std::os::unix::fs::chown(machine.store(), None, Some(group)).expect("root can do this");
}

fn chmod(machine: &Machine, directory: &str, mode: u32) {
    let path = machine.path().join(directory);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a directory of ours");
}
