//! What a refusal leaves as it was.

use std::{fs, path::PathBuf};

use crate::machine::Machine;

/// Processes, `current` and journal of a machine at one moment. Two that are equal had nothing between them.
#[derive(Debug, PartialEq, Eq)]
pub struct Untouched {
    /// The updater, the supervisor and the collector.
    processes: Vec<u32>,
    /// What runs a program of the store.
    collectors: Vec<u32>,
    current: PathBuf,
    journal: Vec<u8>,
}

impl Untouched {
    /// How `machine` is now.
    pub fn of(machine: &Machine) -> Self {
        Self {
            processes: machine.processes(),
            collectors: machine.collectors(),
            current: fs::read_link(machine.store().join("current")).expect("`current`"),
            journal: fs::read(machine.store().join("journal.jsonl")).expect("a journal"),
        }
    }
}
