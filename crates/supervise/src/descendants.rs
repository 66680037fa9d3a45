//! What came from a process.
//!
//! As long as the process lives, its descendants are found by walking from child to parent. When it dies, they
//! are handed to another parent and the walk ends there; so those seen before are remembered, the ones in its
//! group are found by the group, and whoever comes from one of those belongs to it too.

use std::{collections::BTreeSet, io};

use rustix::process::Signal;

use crate::process::{Process, Stat, all};

/// The descendants of a process, as far as they were seen; grows with each [`look`](Self::look).
#[derive(Debug, Clone)]
pub struct Descendants {
    root: Process,
    group: Option<u32>,
    seen: BTreeSet<Process>,
}

impl Descendants {
    /// Those of `root`.
    pub fn of(root: Process) -> Self {
        Self { root, group: None, seen: BTreeSet::new() }
    }

    /// Those of `root` and everyone in the process group that it leads. Only for as long as the id of `root` cannot
    /// be used again: while it runs, or its status is not collected.
    pub(crate) fn with_group(root: Process) -> Self {
        Self { root, group: Some(root.pid()), seen: BTreeSet::new() }
    }

    /// Looks for new ones and says which are alive now, `root` not among them.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read.
    pub fn look(&mut self) -> io::Result<Vec<Process>> {
        let all = all()?;
        // Those handed to us as orphans cannot be told from our own children by their parent: we are not followed.
        let own = std::process::id();
        loop {
            let found: Vec<Process> = all
                .iter()
                .filter(|(process, stat)| process.pid() != own && self.takes(&all, *process, stat))
                .map(|(process, _)| *process)
                .collect();
            if found.is_empty() {
                break;
            }
            self.seen.extend(found);
        }
        let alive = |process: &Process| all.iter().any(|(other, stat)| other == process && !stat.is_over());
        self.seen.retain(|process| alive(process));
        Ok(self.seen.iter().copied().collect())
    }

    /// Kills all that are alive and says how many that were.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read.
    pub fn kill(&mut self) -> io::Result<usize> {
        Ok(self.look()?.iter().filter(|process| process.signal(Signal::KILL)).count())
    }

    fn takes(&self, all: &[(Process, Stat)], process: Process, stat: &Stat) -> bool {
        if process == self.root || stat.is_over() || self.seen.contains(&process) {
            return false;
        }
        let parent = all.iter().find(|(other, _)| other.pid() == stat.parent).map(|(parent, _)| *parent);
        self.group == Some(stat.group)
            || parent.is_some_and(|parent| parent == self.root || self.seen.contains(&parent))
    }
}
