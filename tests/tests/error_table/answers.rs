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

fn offer(machine: &mut Machine, program: &StandIn) {
    machine.offer_program(NEW, &program.build());
}
