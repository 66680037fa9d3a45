//! Candidates that answer well and then do not run well.

use std::time::Duration;

use myriarch_tests::{
    collector::{End, Health, StandIn},
    machine::{Machine, Plan, Supervised},
};

use crate::row::{After, Group, NEW, Row, machine_by, plan};

pub(crate) const GROUP: Group = Group {
    title: "The candidate on trial",
    about: "The candidate was put on trial and did not become healthy, or did not stay so. The previous build is started again\n\
            and judged by the same probe; the candidate is quarantined by its exact bytes.",
    machine: || {
        let settle = Duration::from_secs(4);
        machine_by(Plan { settle, soak: Duration::from_secs(2), supervised: Supervised::ByUpdater, ..plan() })
    },
    rows: &[
        Row {
            name: "health-endpoint-absent",
            input: "Nothing listens where `probe.http` asks, until `probe.settle` is over.",
            bring: |machine| offer(machine, &StandIn::version(NEW).health(Health::Absent)),
            ..TRIAL
        },
        Row {
            name: "health-endpoint-unhealthy",
            input: "The health endpoint says 503 until `probe.settle` is over.",
            bring: |machine| offer(machine, &StandIn::version(NEW).health(Health::Never)),
            ..TRIAL
        },
        Row {
            name: "health-endpoint-of-another-process",
            input: "Another program answers in the candidate's place.",
            bring: |machine| offer(machine, &StandIn::version(NEW).health(Health::OtherProcess)),
            ..TRIAL
        },
        Row {
            name: "crash-at-start",
            input: "The candidate ends with exit code 1 as soon as it runs.",
            bring: |machine| offer(machine, &StandIn::version(NEW).end(End::Exit { ms: 0, code: 1 })),
            ..TRIAL
        },
    ],
};

const TRIAL: Row = Row { exit: 3, after: After::RolledBack, ..Row::UPDATE };

fn offer(machine: &mut Machine, program: &StandIn) {
    machine.offer_program(NEW, &program.build());
}
