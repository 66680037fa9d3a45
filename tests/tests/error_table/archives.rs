//! Archives that are trusted and still hold no program that can be taken out of them.

use myriarch_tests::{
    archive::{self, EntryType, Member, pack_members},
    collector::StandIn,
    machine::{DISTRIBUTION, Machine, Release},
};
use myriarch_verify::Digest;

use crate::row::{Group, NEW, Row, machine_with, plan};

pub(crate) const GROUP: Group = Group {
    title: "Archives",
    about: "Archives with the right digest and the right signature: their publisher made them like this. Nothing in them is\n\
            executed, and nothing is written but the one file that is wanted.",
    machine: || machine_with(plan(), &[("kind = \"http\"", "kind = \"http\"\nmax_archive = \"4MiB\"")]),
    rows: &[
        Row {
            name: "archive-no-gzip",
            input: "The archive is something else than gzip.",
            bring: |machine| offer(machine, b"PK\x03\x04 a zip file, say".to_vec()),
            ..Row::UPDATE
        },
        Row {
            name: "archive-truncated",
            input: "The archive was cut off before it was signed.",
            bring: |machine| {
                let whole = archive::pack(DISTRIBUTION, &program());
                offer(machine, whole[..whole.len() / 2].to_vec());
            },
            ..Row::UPDATE
        },
        Row {
            name: "archive-with-trailing-data",
            input: "Something follows the archive's end.",
            bring: |machine| {
                let mut bytes = archive::pack(DISTRIBUTION, &program());
                bytes.extend(b"and one more thing");
                offer(machine, bytes);
            },
            ..Row::UPDATE
        },
        Row {
            name: "archive-empty",
            input: "The archive holds no file at all.",
            bring: |machine| offer(machine, pack_members(&[])),
            ..Row::UPDATE
        },
        Row {
            name: "archive-without-the-program",
            input: "The archive holds other files only.",
            bring: |machine| {
                let others =
                    [Member::File("README.md", b"x", 0o644), Member::File("otelcol", &program(), 0o755)];
                offer(machine, pack_members(&others));
            },
            ..Row::UPDATE
        },
        Row {
            name: "archive-with-the-program-in-another-case",
            input: "The program's name is written in another case.",
            bring: |machine| {
                offer(machine, pack_members(&[Member::File("OtelCol-Testbed", &program(), 0o755)]));
            },
            ..Row::UPDATE
        },
        Row {
            name: "archive-with-the-program-in-a-directory",
            input: "The program lies in a directory, and not at the top.",
            bring: |machine| {
                let path = format!("bin/{DISTRIBUTION}");
                offer(machine, pack_members(&[Member::File(&path, &program(), 0o755)]));
            },
            ..Row::UPDATE
        },
        Row {
            name: "archive-with-the-program-twice",
            input: "Two files have the program's name; which one is meant depends on the tool.",
            bring: |machine| {
                let one = Member::File(DISTRIBUTION, b"#!/bin/sh\n", 0o755);
                offer(machine, pack_members(&[Member::File(DISTRIBUTION, &program(), 0o755), one]));
            },
            ..Row::UPDATE
        },
        Row {
            name: "archive-with-a-symlink",
            input: "A symbolic link has the program's name.",
            bring: |machine| offer(machine, pack_members(&[Member::Link(DISTRIBUTION, "/bin/sh")])),
            ..Row::UPDATE
        },
        Row {
            name: "archive-with-a-hard-link",
            input: "A hard link to another file of the archive has the program's name.",
            bring: |machine| {
                let real = Member::File("real", &program(), 0o755);
                offer(machine, pack_members(&[real, Member::HardLink(DISTRIBUTION, "real")]));
            },
            ..Row::UPDATE
        },
        Row {
            name: "archive-with-a-fifo",
            input: "A FIFO has the program's name.",
            bring: |machine| offer(machine, pack_members(&[Member::Special(DISTRIBUTION, EntryType::Fifo)])),
            ..Row::UPDATE
        },
        Row {
            name: "archive-with-a-device",
            input: "A device has the program's name.",
            bring: |machine| offer(machine, pack_members(&[Member::Special(DISTRIBUTION, EntryType::Block)])),
            ..Row::UPDATE
        },
        Row {
            name: "archive-with-a-directory",
            input: "A directory has the program's name.",
            bring: |machine| {
                offer(machine, pack_members(&[Member::Special(DISTRIBUTION, EntryType::Directory)]));
            },
            ..Row::UPDATE
        },
        Row {
            name: "archive-that-is-a-bomb",
            input: "A small archive unpacks to more than eight times `source.max_archive`.",
            bring: |machine| {
                let zeros = vec![0; 40 << 20];
                offer(machine, archive::pack(DISTRIBUTION, &zeros));
            },
            ..Row::UPDATE
        },
    ],
};

fn program() -> Vec<u8> {
    StandIn::version(NEW).build()
}

/// [`NEW`] in this archive, signed as it should be.
fn offer(machine: &mut Machine, archive: Vec<u8>) {
    let bundle = Some(machine.sigstore().sign(Digest::of(&archive), &Machine::identity(NEW)));
    let checksum = Some(Digest::of(&archive).to_string().into_bytes());
    machine.offer(Release { version: NEW.to_owned(), archive, bundle, checksum });
}
