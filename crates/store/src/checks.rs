//! What earlier checks of slots found, for screens.
//!
//! To hash two collectors takes a second, and a status is asked for every minute. What was found holds as long as
//! the file is the very same: device, inode, size, and both times of its last change to the nanosecond. Whoever
//! writes to the file changes them. A disk that lies does not, so that whatever is started or pointed at is hashed
//! anew by [`Slot::check`](crate::Slot::check), whatever is known here.
//!
//! Between processes the findings travel in a file below `/run`, for its owner alone. It is worth nothing after a
//! reboot, and says by the boot's id when it is from before one. Whatever is odd about it, it says nothing.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use myriarch_verify::Digest;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::{SlotName, durable};

const SCHEMA: u32 = 1;
/// The most that is read of the file, in bytes.
const MAX_LENGTH: u64 = 1024 * 1024;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The findings of a store's checks; all handles of one store share them.
#[derive(Debug, Clone, Default)]
pub struct Checks(Arc<Mutex<BTreeMap<String, Finding>>>);

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Finding {
    stamp: Stamp,
    /// What the bytes were compared with.
    expected: Digest,
    /// What was wrong; nothing if they were right.
    wrong: Option<String>,
}

/// What a file is like when nobody has touched it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

/// The file between processes.
#[derive(Serialize, Deserialize)]
struct Document {
    schema: u32,
    boot: String,
    findings: BTreeMap<String, Finding>,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Checks {
    pub(crate) fn note(&self, slot: &SlotName, expected: Digest, stamp: Stamp, wrong: Option<String>) {
        self.findings().insert(slot.to_string(), Finding { stamp, expected, wrong });
    }

    pub(crate) fn known(
        &self,
        slot: &SlotName,
        expected: Digest,
        stamp: Stamp,
    ) -> Option<Result<(), String>> {
        let findings = self.findings();
        let finding = findings.get(slot.as_str())?;
        let still = finding.stamp == stamp && finding.expected == expected;
        still.then(|| finding.wrong.clone().map_or(Ok(()), Err))
    }

    /// Takes in what `path` says, where this process has not checked itself. A file of another boot, of another
    /// owner than root and ourselves, or that others may read or write, says nothing.
    pub fn load(&self, path: &Path) {
        let Ok(told) = read(path) else { return };
        let mut findings = self.findings();
        for (slot, finding) in told {
            findings.entry(slot).or_insert(finding);
        }
    }

    /// Writes all that is known of slots that are still there to `path`, for its owner alone, with what the file
    /// said before.
    ///
    /// # Errors
    /// When it cannot be written, which costs no more than another check.
    pub fn save(&self, path: &Path, is_there: impl Fn(&str) -> bool) -> io::Result<()> {
        self.load(path);
        let mut findings = self.findings().clone();
        findings.retain(|slot, _| is_there(slot));
        let document = Document { schema: SCHEMA, boot: boot()?, findings };
        durable::replace(path, &serde_json::to_vec(&document)?, 0o600)
    }

    fn findings(&self) -> MutexGuard<'_, BTreeMap<String, Finding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was found before is no part of what a store or a slot is.
impl PartialEq for Checks {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Checks {}

fn read(path: &Path) -> io::Result<BTreeMap<String, Finding>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    let ours = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
    if !metadata.is_file() || !ours || metadata.mode() & 0o077 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "expected a file for its owner alone"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_LENGTH).read_to_end(&mut bytes)?;
    let document: Document = serde_json::from_slice(&bytes)?;
    if document.schema != SCHEMA || document.boot != boot()? {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "expected a file of this boot"));
    }
    Ok(document.findings)
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string(BOOT_ID)?.trim_end().to_owned())
}
