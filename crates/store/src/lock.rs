//! One writer per store: `flock` on the file `lock`.
//!
//! The kernel releases it when its holder dies, however it dies. No child inherits it, or a collector that
//! outlives its updater would shut every later updater out. The file itself is for its owner alone: whoever
//! can open it can lock it, and the collector's user must not be able to stop updates.
//!
//! The file's content is for people: who holds it, what for, since when. It is a courtesy and never judged; a
//! full disk does not keep a rollback from taking the lock.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    path::PathBuf,
    time::Duration,
};

use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::{Store, StoreError, Writer, error::At as _};

/// How often the lock is tried and how long apart: [`Store::holder`] takes it for an instant to ask, and
/// that instant is no reason to give up.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);
/// The most that is read of what a holder wrote, in bytes.
const MAX_LENGTH: u64 = 4096;

/// Who holds the lock, as the holder said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process, as its own PID namespace numbers it.
    pub pid: u32,
    /// What for, in words.
    pub purpose: String,
    /// Since when, RFC 3339.
    pub since: String,
}

/// The lock was not to be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run holds it.
    #[error("{} is held by {}", path.display(), Named(holder.as_ref()))]
    Held {
        /// The lock's path.
        path: PathBuf,
        /// Who holds it, where that is known.
        holder: Option<Holder>,
    },
    /// The lock could not be tried.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Becomes the store's one writer, until the answer is dropped. Does not wait for another to end.
    ///
    /// # Errors
    /// [`LockError::Held`] when there is another writer.
    pub fn lock(&self, purpose: &str) -> Result<Writer, LockError> {
        let path = self.lock_path();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600)).at("open", &path)?;
        let mut file = File::from(file);
        for attempt in 1.. {
            if try_lock(&file, FlockOperation::NonBlockingLockExclusive).at("lock", &path)? {
                break;
            }
            if attempt == ATTEMPTS {
                return Err(LockError::Held { holder: read(&mut file), path });
            }
            std::thread::sleep(PAUSE);
        }
        let lock = Lock(file);
        // Best effort, as the story says.
        let _ = lock.introduce(purpose);
        Ok(Writer::new(self.clone(), lock))
    }

    /// Who holds the lock now; nobody when it is free. A holder that could not say who it is has no PID and
    /// no purpose.
    ///
    /// # Errors
    /// When the lock cannot be asked: above all, when its owner is another user.
    pub fn holder(&self) -> Result<Option<Holder>, StoreError> {
        let path = self.lock_path();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            error => File::from(error.at("open", &path)?),
        };
        if try_lock(&file, FlockOperation::NonBlockingLockShared).at("try to lock", &path)? {
            return Ok(None);
        }
        let unknown = || Holder { pid: 0, purpose: "unknown".to_owned(), since: "unknown".to_owned() };
        Ok(Some(read(&mut file).unwrap_or_else(unknown)))
    }
}

/// The held lock.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Writes who holds the lock. The time is the file's own, so that no clock is read here.
    fn introduce(&self, purpose: &str) -> io::Result<()> {
        let mut file = &self.0;
        file.set_len(0)?;
        // A length that does not change leaves the time as it was; a byte does not.
        file.write_all(b"\n")?;
        let since = jiff::Timestamp::try_from(file.metadata()?.modified()?).map_err(io::Error::other)?;
        let since = since.round(jiff::Unit::Second).map_err(io::Error::other)?.to_string();
        let holder = Holder { pid: std::process::id(), purpose: purpose.to_owned(), since };
        let mut line = serde_json::to_vec(&holder)?;
        line.push(b'\n');
        file.rewind()?;
        file.write_all(&line)
    }
}

impl Drop for Lock {
    /// Unlocks by name, not by closing: a child between fork and exec may have the file open still.
    fn drop(&mut self) {
        let _ = self.0.set_len(0);
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

fn try_lock(file: &File, operation: FlockOperation) -> rustix::io::Result<bool> {
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error),
    }
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.take(MAX_LENGTH).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} ({}) since {}", self.pid, self.purpose.escape_debug(), self.since.escape_debug())
    }
}

struct Named<'a>(Option<&'a Holder>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(holder) => holder.fmt(f),
            None => f.write_str("another process that did not say who it is"),
        }
    }
}
