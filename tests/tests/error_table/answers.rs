//! Candidates that are asked before anything stops, and say the wrong thing, or nothing.

use myriarch_tests::{
    collector::{StandIn, Validate, VersionFlag},
    machine::{DISTRIBUTION, Machine},
};

use crate::row::{Group, NEW, Row, machine_with, plan};

pub(crate) const GROUP: Group = Group {
    title: "The candidate's answers",
    about: "The candidate is verified and in a slot of its own. It is asked for its version, its components and its verdict on\n\
            the effective configuration while what runs goes on running.",
    // A candidate that hangs shall not hold the table up, nor a busy machine be taken for one.
    machine: || machine_with(plan(), &[("timeout = \"20s\"", "timeout = \"8s\"")]),
    rows: &[
        Row {
            name: "no-program",
            input: "The file with the program's name is a web page.",
            bring: |machine| machine.offer_program(NEW, b"<!DOCTYPE html>\n<title>Sign in</title>\n"),
            ..Row::UPDATE
        },
        Row {
            name: "program-for-another-architecture",
            input: "The program was built for another machine.",
            bring: |machine| {
                let mut program = StandIn::version(NEW).build();
                program[18..20].copy_from_slice(&RISCV.to_le_bytes());
                machine.offer_program(NEW, &program);
            },
            ..Row::UPDATE
        },
        Row {
            name: "program-without-its-loader",
            input: "The ELF interpreter that the program names is not there.",
            bring: |machine| patched(machine, b"/ld-linux", |name| name.len() - 1),
            ..Row::UPDATE
        },
        Row {
            name: "program-without-a-symbol-version",
            input: "The program needs a newer C library.",
            bring: |machine| patched(machine, b"GLIBC_2.34\0", |_| "GLIBC_".len()),
            ..Row::UPDATE
        },
        Row {
            name: "version-differs",
            input: "`--version` names another version than was offered.",
            bring: |machine| {
                let misnamed = VersionFlag::Says(format!("{DISTRIBUTION} version 1.0.9"));
                offer(machine, &StandIn::version(NEW).version_flag(misnamed));
            },
            ..Row::UPDATE
        },
        Row {
            name: "version-of-another-distribution",
            input: "`--version` names another program.",
            bring: |machine| {
                let misnamed = VersionFlag::Says(format!("otelcol-contrib version {NEW}"));
                offer(machine, &StandIn::version(NEW).version_flag(misnamed));
            },
            ..Row::UPDATE
        },
        Row {
            name: "version-missing",
            input: "The candidate does not know `--version`.",
            bring: |machine| offer(machine, &StandIn::version(NEW).version_flag(VersionFlag::Missing)),
            ..Row::UPDATE
        },
        Row {
            name: "version-crashes",
            input: "The candidate dies of a signal when it is asked for its version.",
            bring: |machine| offer(machine, &StandIn::version(NEW).version_flag(VersionFlag::Crashes)),
            ..Row::UPDATE
        },
        Row {
            name: "version-hangs",
            input: "`--version` does not come back within `validate.timeout`.",
            bring: |machine| offer(machine, &StandIn::version(NEW).version_flag(VersionFlag::Hangs)),
            ..Row::UPDATE
        },
        Row {
            name: "component-missing",
            input: "The candidate was built without a component that `validate.components` asks for.",
            bring: |machine| {
                offer(machine, &StandIn::version(NEW).extensions(&["file_storage", "health_check"]));
            },
            ..Row::UPDATE
        },
        Row {
            name: "configuration-rejected",
            input: "A key of the effective configuration was removed in the candidate's version.",
            bring: |machine| {
                let picky = Validate::RejectsContaining("debug".to_owned());
                offer(machine, &StandIn::version(NEW).validate(picky));
            },
            ..Row::UPDATE
        },
        Row {
            name: "configuration-check-crashes",
            input: "The candidate dies of a signal when it is asked to validate the configuration.",
            bring: |machine| offer(machine, &StandIn::version(NEW).validate(Validate::Crashes)),
            ..Row::UPDATE
        },
    ],
};

/// `e_machine` of a machine that nobody tests on.
const RISCV: u16 = 243;

/// Offers a program with a `9` in the text that begins with `begin` and ends with a zero, at a place in it.
fn patched(machine: &mut Machine, begin: &[u8], place: fn(&[u8]) -> usize) {
    let mut program = StandIn::version(NEW).build();
    let at =
        program.windows(begin.len()).position(|window| window == begin).expect("the text in the program");
    let text: Vec<u8> = program[at..].iter().copied().take_while(|byte| *byte != 0).collect();
    program[at + place(&text)] = b'9';
    machine.offer_program(NEW, &program);
}

fn offer(machine: &mut Machine, program: &StandIn) {
    machine.offer_program(NEW, &program.build());
}
