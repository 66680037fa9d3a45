//! Collecting orphans without robbing parents.
//!
//! Process 1, or a subreaper, becomes the parent of every process whose own parent dies, and must collect their
//! exit statuses or the table of processes fills up. Collecting *any* child, as a classic init does, also takes
//! the statuses that other parts of this program wait for: 87 of 200 were lost that way. So every dead child is
//! looked at by name, and left alone if it may be somebody's:
//!
//! - A [`Child`](crate::Child) is known from before its start until its status is collected.
//! - A program that another part of this process starts leads its own group, as a rule of this code base; an
//!   orphan as a rule does not. A dead group leader is collected only after it has been lying there for
//!   [`PATIENCE`], in which whoever started it would have collected it long ago.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, timeout},
};

use crate::process::{Process, all};

/// How long a dead group leader may be somebody's own child that is about to be collected.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How often is looked where no signal says so: signals of several children can melt into one.
const LOOK: Duration = Duration::from_millis(500);

/// The ids of our own children whose status is not collected yet.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Makes this process the parent of orphans below it, as process 1 is of all.
///
/// # Errors
///
/// When the system refuses.
pub fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Collects dead orphans.
#[derive(Debug, Default)]
pub struct Reaper {
    waiting: BTreeMap<Process, Instant>,
}

impl Reaper {
    /// One that has collected nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Collects the dead orphans that there are and says how many that were.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read.
    pub fn reap(&mut self) -> io::Result<usize> {
        // Held to the end, so that nobody's child is born and dies unknown in between.
        let own = own();
        let us = std::process::id();
        let dead: Vec<_> = all()?
            .into_iter()
            .filter(|(process, stat)| stat.parent == us && stat.is_over() && !own.contains(&process.pid()))
            .collect();
        self.waiting.retain(|process, _| dead.iter().any(|(other, _)| other == process));
        let mut reaped = 0;
        for (process, stat) in dead {
            if stat.group == process.pid() {
                let since = *self.waiting.entry(process).or_insert_with(Instant::now);
                if since.elapsed() < PATIENCE {
                    continue;
                }
            }
            let pid = i32::try_from(process.pid()).ok().and_then(Pid::from_raw);
            if pid.is_some() && matches!(waitpid(pid, WaitOptions::NOHANG), Ok(Some(_))) {
                reaped += 1;
            }
        }
        Ok(reaped)
    }

    /// Collects orphans for ever. To be run beside everything else by process 1 or a subreaper.
    ///
    /// # Errors
    ///
    /// When signals cannot be listened to. A look that fails is made again.
    pub async fn run(mut self) -> io::Result<std::convert::Infallible> {
        let mut children = signal(SignalKind::child())?;
        loop {
            // What cannot be read now can be read at the next look; zombies do not run away.
            let _ = self.reap();
            let _ = timeout(LOOK, children.recv()).await;
        }
    }
}

/// The register of our own children, locked.
pub(crate) fn own() -> MutexGuard<'static, BTreeSet<u32>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}
