//! Stopping a child with everything that came from it.
//!
//! The signal goes to the child alone: it knows how to stop what it has started, and a supervisor that sees its
//! collector die by the same signal would start it again. If it does not end in time, or leaves something behind,
//! the rest is killed. The stop is over when nothing of it is alive, because only then are its ports and its locks
//! free for the next one.

use std::{fmt, process::ExitStatus, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::{Instant, sleep, timeout};

use crate::{child::Child, descendants::Descendants, process::Process};

/// How often descendants are looked for while the child stops.
const LOOK: Duration = Duration::from_millis(50);
/// Between two looks at what is being killed.
const KILLING: Duration = Duration::from_millis(2);
/// How long what was killed may take to be gone. Longer means stuck in the kernel.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// How to stop.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    /// What is sent to the child.
    pub signal: Signal,
    /// How long it has. Longer than the 10 s that the OpAMP Supervisor gives its collector.
    pub grace: Duration,
}

/// SIGINT and 15 s: the OpAMP Supervisor's SIGTERM leaves its collector behind.
impl Default for Stop {
    fn default() -> Self {
        Self { signal: Signal::INT, grace: Duration::from_secs(15) }
    }
}

/// How a stop went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// How the child ended. None if it would not die even by SIGKILL, stuck in the kernel.
    pub status: Option<ExitStatus>,
    /// By what.
    pub end: End,
    /// How many other processes had to be killed.
    pub killed: usize,
    /// What is alive all the same. Empty but for processes stuck in the kernel.
    pub left: Vec<Process>,
    /// From the signal until all was gone.
    pub took: Duration,
}

/// By what a stopped child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It had ended before.
    Before,
    /// By the signal, in time.
    InTime,
    /// Killed when its time was over.
    Killed,
}

impl Child {
    /// Stops it and all that came from it, and returns when nothing of that is alive.
    ///
    /// Dropping the future leaves the child as it is then.
    pub async fn stop(mut self, stop: &Stop) -> Stopped {
        let begin = Instant::now();
        let mut descendants = Descendants::with_group(self.process());
        look(&mut descendants);
        let end = self.end_by(stop, &mut descendants).await;

        // The child is dead but its status not collected, so its group's id is still its own.
        let group = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let mut killed = std::collections::BTreeSet::new();
        let until = Instant::now() + GONE_WITHIN;
        let left = loop {
            let mut alive = look(&mut descendants);
            if self.ended().is_none() {
                alive.push(self.process());
            }
            if alive.is_empty() || Instant::now() >= until {
                break alive;
            }
            killed.extend(alive.iter().filter(|process| **process != self.process()).copied());
            if let Some(group) = group {
                // Nobody there to kill is what is wanted.
                let _ = kill_process_group(group, Signal::KILL);
            }
            for process in &alive {
                process.signal(Signal::KILL);
            }
            sleep(KILLING).await;
        };
        Stopped { status: self.collect(), end, killed: killed.len(), left, took: begin.elapsed() }
    }

    async fn end_by(&mut self, stop: &Stop, descendants: &mut Descendants) -> End {
        if self.ended().is_some() {
            return End::Before;
        }
        self.process().signal(stop.signal);
        let until = Instant::now() + stop.grace;
        while Instant::now() < until {
            let slice = LOOK.min(until.saturating_duration_since(Instant::now()));
            if timeout(slice, self.wait()).await.is_ok() {
                return End::InTime;
            }
            // It may start others until its last moment.
            look(descendants);
        }
        if self.ended().is_some() { End::InTime } else { End::Killed }
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = self.took.as_secs_f64();
        match self.end {
            End::Before => f.write_str("had ended by itself")?,
            End::InTime => write!(f, "stopped in {took:.1} s")?,
            End::Killed => write!(f, "killed after {took:.1} s")?,
        }
        if let Some(status) = self.status {
            write!(f, ", {status}")?;
        }
        if self.killed > 0 {
            write!(f, ", {} left behind and killed", self.killed)?;
        }
        if !self.left.is_empty() {
            let left: Vec<_> = self.left.iter().map(ToString::to_string).collect();
            write!(f, ", still alive after SIGKILL: {}", left.join(", "))?;
        }
        Ok(())
    }
}

/// What cannot be seen cannot be stopped by name; the group is killed all the same.
fn look(descendants: &mut Descendants) -> Vec<Process> {
    descendants.look().unwrap_or_default()
}
