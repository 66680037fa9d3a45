//! How long nothing answers: in a good update, and after a crash on trial.

use std::{path::PathBuf, time::Duration};

use myriarch_tests::{
    collector::{End, Health, Signals, StandIn},
    machine::{Machine, Plan, Supervised},
    programs::Programs,
};

use crate::{
    by_hand::Service,
    figure::{Comparison, Figure, Run},
    outage::Outages,
};

const OLD: &str = "0.1.0";
const NEW: &str = "0.2.0";
/// A collector's own times, about as a real one's: its start and its stop, in milliseconds.
const START: u64 = 150;
const STOP: u64 = 50;
/// When the crashing one crashes, in milliseconds: well after it became ready.
const CRASH: u64 = 600;

/// The outage of an update against the same stop and start by hand.
pub(crate) fn downtime(runs: usize) -> Figure {
    let runs = (0..runs).map(|run| {
        let mut bench = Bench::new();
        let by_hand = |bench: &Bench| bench.service().replace(&bench.old, &bench.new);
        // The sides take turns at being first.
        let theirs_first = (run % 2 == 1).then(|| by_hand(&bench));
        let (exit, outages) = bench.update_to(&collector(NEW));
        assert_eq!(exit, Some(0), "{}", bench.machine.log());
        let [outage] = outages[..] else { panic!("expected one outage, found {outages:?}") };
        let theirs = theirs_first.unwrap_or_else(|| by_hand(&bench));
        compared(outage, theirs)
    });
    Figure {
        name: "downtime of an update".to_owned(),
        unit: "ms",
        runs: runs.collect(),
        by: Comparison::Beyond,
        aim: 10.0,
    }
}

/// From a crash on trial until the old version answers, against that version's own start.
pub(crate) fn crash(runs: usize) -> Figure {
    let runs = (0..runs).map(|_| {
        let mut bench = Bench::new();
        let theirs = bench.service().own_start(&bench.old);
        let crashing = collector(NEW).end(End::Abort { ms: CRASH });
        let (exit, outages) = bench.update_to(&crashing);
        assert_eq!(exit, Some(3), "{}", bench.machine.log());
        let [_update, crash] = outages[..] else { panic!("expected two outages, found {outages:?}") };
        compared(crash, theirs)
    });
    Figure {
        name: "crash on trial to old version healthy".to_owned(),
        unit: "ms",
        runs: runs.collect(),
        by: Comparison::Beyond,
        aim: 1000.0,
    }
}

fn compared(ours: Duration, theirs: Duration) -> Run {
    let [ours, theirs] = [ours, theirs].map(|took| took.as_secs_f64() * 1000.0);
    println!("  ours {ours:.1} ms, by hand {theirs:.1} ms");
    Run { ours, theirs: Some(theirs) }
}

fn collector(version: &str) -> StandIn {
    StandIn::version(version)
        .health(Health::ReadyAfter { ms: START })
        .signals(Signals::Stop { after_ms: STOP })
}

/// A machine, and the programs beside it for what is done by hand.
#[derive(Debug)]
struct Bench {
    machine: Machine,
    old: PathBuf,
    new: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let plan = Plan {
            settle: Duration::from_mins(1),
            soak: Duration::from_secs(1),
            supervised: Supervised::ByUpdater,
            ..Plan::default()
        };
        let machine = Machine::new(Programs::stand_ins(), plan);
        let program = |version: &str| {
            let path = machine.path().join(version);
            collector(version).write_to(&path).expect("a program of the machine's");
            path
        };
        Self { old: program(OLD), new: program(NEW), machine }
    }

    fn service(&self) -> Service {
        Service { configuration: self.machine.collector_configuration(), port: self.machine.health_port() }
    }

    /// One update of a machine that runs the old version; its exit code, and every time without a good answer.
    /// Nothing runs before and after.
    fn update_to(&mut self, new: &StandIn) -> (Option<i32>, Vec<Duration>) {
        let machine = &mut self.machine;
        machine.start_with(OLD, &collector(OLD).build());
        machine.offer_program(NEW, &new.build());
        let outages = Outages::watch(machine.health_port());
        let exit = machine.verb(&["update"]).status.code();
        machine.wait_idle();
        let outages = outages.end();
        machine.stop();
        (exit, outages)
    }
}
