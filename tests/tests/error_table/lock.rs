//! Who else is at it: the lock of the store, and an updater that is busy.

use std::{process::Stdio, time::Duration};

use myriarch_tests::{
    collector::StandIn,
    machine::{DISTRIBUTION, Machine, Plan, Supervised},
    server::Lie,
};

use crate::row::{Done, Group, NEW, Row, machine_by, plan};

pub(crate) const GROUP: Group = Group {
    title: "Another run",
    about: "One updater holds the store's lock, and does one thing at a time. Who holds it, what for and since when is said;\n\
            waiting is left to whoever asks.",
    machine: || machine_by(Plan { supervised: Supervised::ByUpdater, ..plan() }),
    rows: &[
        Row {
            name: "lock-held-by-run",
            input: "`run` is started a second time.",
            done: Done::Verb(&["run"]),
            ..HELD
        },
        Row {
            name: "lock-held-when-recovering",
            input: "`recover` is called while `run` is at work.",
            done: Done::Verb(&["recover"]),
            ..HELD
        },
        Row {
            name: "updater-busy-with-an-update",
            input: "A second `update` comes while the first one still downloads.",
            bring: update_that_waits,
            mend: wait_no_longer,
            ..HELD
        },
    ],
};

const HELD: Row = Row { exit: 6, ..Row::UPDATE };

/// An update in the background whose download falls silent.
fn update_that_waits(machine: &mut Machine) {
    machine.offer_program(NEW, &StandIn::version(NEW).salt("slow").build());
    let archive = format!("/{DISTRIBUTION}_{NEW}_linux.tar.gz");
    machine.server().lie(&archive, Lie::Stall { after: Some(1000) });
    let mut update = machine.command(&["update"]);
    update.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut update = update.spawn().expect("myriarch-updater starts");
    machine.wait(Duration::from_mins(1), "the updater to be busy", |machine| !machine.is_idle());
    let waiting = |machine: &Machine| !machine.server().requests_for(&archive).is_empty();
    machine.wait(Duration::from_mins(1), "the download to begin", waiting);
    // It is not waited for here: it ends when the download does.
    std::thread::spawn(move || update.wait());
}

/// The bytes that were announced do not come any more: the download is refused, and the good offer is there.
fn wait_no_longer(machine: &mut Machine) {
    machine.withdraw(NEW);
    machine.server().remove(&format!("/{DISTRIBUTION}_{NEW}_linux.tar.gz"));
    machine.server().honest(&format!("/{DISTRIBUTION}_{NEW}_linux.tar.gz"));
    machine.wait(Duration::from_mins(3), "the first update to end", Machine::is_idle);
    crate::row::offer_good(machine);
}
