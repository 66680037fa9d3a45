//! What the program says: the files that it and its supervisor write.
//!
//! The supervisor empties `agent.log` at each start of its collector, and a collector that dies is started again after
//! a few seconds: what it said is followed while it is on trial, so that the words before the last death are not lost
//! with the next life. A file that is only appended to counts from the start of the trial.

mod unit;

use std::{
    fs::{File, Metadata},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use myriarch_update::{EXCERPT_LIMIT, ProgramLog};
use rustix::fs::{Mode, OFlags};

pub(crate) use self::unit::UnitLog;

/// The supervisor's name for its collector's log.
const AGENT_LOG: &str = "agent.log";
/// One byte more than is kept: whoever cuts must see that something was before.
const MOST: u64 = EXCERPT_LIMIT as u64 + 1;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// The files that are followed.
#[derive(Debug)]
pub(crate) struct FileLog {
    configured: Option<PathBuf>,
    followed: Mutex<Vec<Followed>>,
}

impl FileLog {
    /// Follows `configured`, and the supervisor's log where the effective configuration is known.
    pub(crate) fn new(configured: Option<PathBuf>) -> Self {
        Self { configured, followed: Mutex::default() }
    }

    fn look(&self) {
        for followed in &mut *self.followed.lock().unwrap_or_else(PoisonError::into_inner) {
            // A log that is not there, or cannot be read, says nothing.
            let _ = followed.look();
        }
    }
}

#[async_trait]
impl ProgramLog for FileLog {
    async fn begin(&self, effective: Option<&Path>) {
        let agent = effective.and_then(Path::parent).map(|directory| directory.join(AGENT_LOG));
        let paths = agent.into_iter().chain(self.configured.clone());
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner) =
            paths.map(Followed::from_now).collect();
    }

    async fn follow(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.look();
        }
    }

    async fn said(&self) -> Vec<u8> {
        self.look();
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let share = EXCERPT_LIMIT / followed.len().max(1);
        followed.iter().flat_map(|followed| followed.said(share)).collect()
    }
}

/// One file, from one moment on.
#[derive(Debug)]
struct Followed {
    path: PathBuf,
    /// Which file it was when it was last looked at, and how long.
    seen: Option<Seen>,
    /// Where what is of interest begins.
    from: u64,
    /// What the file said before it was emptied or replaced.
    earlier: Vec<u8>,
    latest: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    file: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

impl Followed {
    fn from_now(path: PathBuf) -> Self {
        let seen = open(&path).ok().map(|(_, metadata)| Seen::of(&metadata));
        let from = seen.map_or(0, |seen| seen.length);
        Self { path, seen, from, earlier: vec![], latest: vec![] }
    }

    fn look(&mut self) -> io::Result<()> {
        let (mut file, metadata) = open(&self.path)?;
        let now = Seen::of(&metadata);
        if self.seen == Some(now) {
            return Ok(());
        }
        let grown = self.seen.is_some_and(|seen| seen.file == now.file && seen.length <= now.length);
        let mut read = if grown { end(&mut file, self.from)? } else { vec![] };
        // A file of the same length or longer, under a number that was used before, may be another all the same.
        let is_same = read.starts_with(&self.latest) || now.length > self.from + MOST;
        if !grown || !is_same {
            self.from = 0;
            read = end(&mut file, 0)?;
            if !self.latest.is_empty() {
                self.earlier = std::mem::take(&mut self.latest);
            }
        }
        self.latest = read;
        self.seen = Some(now);
        Ok(())
    }

    /// The last `limit` bytes, whole lines.
    fn said(&self, limit: usize) -> Vec<u8> {
        let mut said = self.earlier.clone();
        said.extend(self.latest.iter());
        let cut = said.len().saturating_sub(limit);
        if cut > 0 {
            let whole =
                said[cut..].iter().position(|byte| *byte == b'\n').map_or(said.len(), |at| cut + at + 1);
            said.drain(..whole);
        }
        if said.last().is_some_and(|last| *last != b'\n') {
            said.push(b'\n');
        }
        said
    }
}

/// What stands in `file` from `from` on, the last of it where that is much.
fn end(file: &mut File, from: u64) -> io::Result<Vec<u8>> {
    let from = from.max(file.metadata()?.len().saturating_sub(MOST));
    file.seek(SeekFrom::Start(from))?;
    let mut read = Vec::new();
    file.take(MOST).read_to_end(&mut read)?;
    Ok(read)
}

impl Seen {
    fn of(metadata: &Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// A regular file that is not a link: the directory belongs to the program's user, who must not make us read to
/// everybody what he may not read himself.
fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file with one name"));
    }
    Ok((file, metadata))
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;

    async fn said(log: &FileLog) -> String {
        String::from_utf8(log.said().await).unwrap()
    }

    fn append(path: &Path, text: &str) {
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[tokio::test]
    async fn what_was_said_before_the_start_is_not_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program.log");
        append(&path, "before\n");
        let log = FileLog::new(Some(path.clone()));
        log.begin(None).await;
        assert_eq!(said(&log).await, "");
        append(&path, "panic: now");
        assert_eq!(said(&log).await, "panic: now\n");
        append(&path, "\nmore\n");
        assert_eq!(said(&log).await, "panic: now\nmore\n");
    }

    #[tokio::test]
    async fn what_is_said_before_the_log_is_emptied_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(AGENT_LOG);
        append(&path, "the old version's\n");
        let log = FileLog::new(None);
        log.begin(Some(&dir.path().join("effective.yaml"))).await;
        // Emptied in place, as one supervisor does, then replaced, as another may.
        fs::write(&path, "panic: 1\n").unwrap();
        log.look();
        fs::remove_file(&path).unwrap();
        append(&path, "starting\n");
        assert_eq!(said(&log).await, "panic: 1\nstarting\n");
    }

    #[tokio::test]
    async fn both_logs_are_told_within_the_limit_and_in_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let (agent, other) = (dir.path().join(AGENT_LOG), dir.path().join("other.log"));
        let log = FileLog::new(Some(other.clone()));
        log.begin(Some(&dir.path().join("effective.yaml"))).await;
        append(&agent, &format!("{}\n", "a".repeat(99)).repeat(10_000));
        append(&other, "b\n");
        let said = said(&log).await;
        assert!(said.len() <= EXCERPT_LIMIT && said.ends_with("a\nb\n"));
        assert!(said.lines().all(|line| line == "b" || line.len() == 99));
    }

    #[tokio::test]
    async fn a_link_is_not_read_and_a_missing_log_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (secret, path) = (dir.path().join("secret"), dir.path().join(AGENT_LOG));
        let log = FileLog::new(None);
        log.begin(Some(&dir.path().join("effective.yaml"))).await;
        assert_eq!(said(&log).await, "");
        fs::write(&secret, "secret\n").unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        assert_eq!(said(&log).await, "");
        fs::remove_file(&path).unwrap();
        fs::hard_link(&secret, &path).unwrap();
        assert_eq!(said(&log).await, "");
    }
}
