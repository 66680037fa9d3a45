//! Ending what an earlier run of this program has left behind.
//!
//! When this program is killed, its child and what came from it live on and hold the ports. So the child is
//! recorded when it is started, and the next run ends it before it starts another: by the record, which names a
//! process and not just an id, and by what runs from the directories that hold nothing but our programs.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use rustix::process::{Signal, getppid};
use tokio::time::{Duration, Instant, sleep};

use crate::{
    descendants::Descendants,
    process::{Process, all, epoch},
    stop::Stop,
};

/// Between two looks at what is ending.
const LOOK: Duration = Duration::from_millis(20);
/// How long what was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// The record's first word. A record of another form is one that says nothing.
const FORM: &str = "child-1";

/// What was found and ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// The recorded child, if it was still alive.
    pub recorded: Option<Process>,
    /// Whoever else was found: what came from it, and what ran from the directories.
    pub others: Vec<Process>,
    /// What is alive all the same, stuck in the kernel or not ours to kill.
    pub left: Vec<Process>,
}

/// Records the child with `pid` that started at `start_time` in the file `path`, in whole or not at all.
///
/// # Errors
///
/// When the file cannot be written.
pub fn record(path: &Path, pid: u32, start_time: u64) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    // Not made durable on purpose: it means nothing after a power cut, which ends the child as well.
    fs::write(&fresh, format!("{FORM} {pid} {start_time} {}\n", epoch()))?;
    fs::rename(&fresh, path)
}

/// Removes the record; none is no error.
///
/// # Errors
///
/// When the file cannot be removed.
pub fn forget(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Ends the child recorded in `path` with all that came from it, then whatever else runs a file below one of the
/// directories `also`, and forgets the record.
///
/// The child gets `stop`'s signal and grace, since it knows how to stop what it has started; then the others get
/// the same; what is left is killed. This process and its ancestors are never touched. No content of the record
/// is an error.
///
/// # Errors
///
/// When `/proc` cannot be read or the record not be removed.
pub async fn end_leftover(path: &Path, stop: &Stop, also: &[PathBuf]) -> io::Result<Ended> {
    let mut ended = Ended::default();
    let mut found = BTreeSet::new();
    if let Some(child) = recorded(path).filter(Process::is_alive) {
        ended.recorded = Some(child);
        // It leads its group for as long as it lives; what is in it now is remembered by name.
        let mut descendants = Descendants::with_group(child);
        found.extend(descendants.look()?);
        child.signal(stop.signal);
        let until = Instant::now() + stop.grace;
        while child.is_alive() && Instant::now() < until {
            found.extend(descendants.look()?);
            sleep(LOOK).await;
        }
        child.signal(Signal::KILL);
        await_end(&[child]).await;
        found.extend(came_from(&found)?);
    }

    let dirs: Vec<PathBuf> =
        also.iter().map(|dir| dir.canonicalize().unwrap_or_else(|_| dir.clone())).collect();
    found.extend(running_below(&dirs)?);
    let alive: Vec<Process> = found.into_iter().filter(Process::is_alive).collect();
    if !alive.is_empty() {
        signal_all(&alive, stop.signal);
        let until = Instant::now() + stop.grace;
        while alive.iter().any(Process::is_alive) && Instant::now() < until {
            sleep(LOOK).await;
        }
        signal_all(&alive, Signal::KILL);
        await_end(&alive).await;
    }
    ended.others = alive;

    let late: Vec<Process> = running_below(&dirs)?;
    signal_all(&late, Signal::KILL);
    await_end(&late).await;
    let known = ended.recorded.iter().chain(&ended.others).chain(&late);
    ended.left =
        known.filter(|process| process.is_alive()).copied().collect::<BTreeSet<_>>().into_iter().collect();
    forget(path)?;
    Ok(ended)
}

fn recorded(path: &Path) -> Option<Process> {
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    if words.next()? != FORM {
        return None;
    }
    let (pid, start_time) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (words.next()? == epoch()).then(|| Process::new(pid, start_time))
}

/// What came from those in `found` since.
fn came_from(found: &BTreeSet<Process>) -> io::Result<Vec<Process>> {
    let mut more = Vec::new();
    for process in found {
        more.extend(Descendants::of(*process).look()?);
    }
    Ok(more)
}

fn running_below(dirs: &[PathBuf]) -> io::Result<Vec<Process>> {
    let ours = ancestry()?;
    let below =
        |process: &Process| process.exe().is_ok_and(|exe| dirs.iter().any(|dir| exe.starts_with(dir)));
    let found = all()?.into_iter().map(|(process, _)| process);
    Ok(found.filter(|process| !ours.contains(&process.pid()) && below(process)).collect())
}

/// This process and those that it came from.
fn ancestry() -> io::Result<BTreeSet<u32>> {
    let all = all()?;
    let mut pids = BTreeSet::from([std::process::id()]);
    let mut next = getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
    while let Some(pid) = next
        && pids.insert(pid)
    {
        next = all.iter().find(|(process, _)| process.pid() == pid).map(|(_, stat)| stat.parent);
    }
    Ok(pids)
}

fn signal_all(processes: &[Process], signal: Signal) {
    for process in processes {
        process.signal(signal);
    }
}

async fn await_end(processes: &[Process]) {
    let until = Instant::now() + GONE_WITHIN;
    while processes.iter().any(Process::is_alive) && Instant::now() < until {
        sleep(LOOK).await;
    }
}
