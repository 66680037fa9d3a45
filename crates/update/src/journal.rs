//! The only state: one JSON line for every irreversible act, on disk before the act.
//!
//! Everything the updater must remember over a power cut is an [`Entry`]. Each line carries the schema it was
//! written with. A torn last line was never promised and is dropped; a journal that cannot be read for another
//! reason is set aside, never deleted, and begun anew with what can still be told from it: quarantine must
//! outlive damage. A journal of a newer schema is left alone and refused, for it may say what this program
//! cannot understand.

use std::{
    fs,
    io::{self, Read as _, Seek as _},
    path::{Path, PathBuf},
};

use myriarch_policy::Version;
use myriarch_store::durable;
use serde::{Deserialize, Serialize};

use crate::{build::Build, excerpt::Excerpt, outcome::Fault};

/// The schema this program writes, and the newest one it reads.
pub const SCHEMA: u32 = 1;

/// Bytes kept free for the journal on a disk that fills up.
const RESERVE: usize = 64 * 1024;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    schema: u32,
    /// When it was written, by the wall clock: for people, never for decisions.
    pub at: jiff::Timestamp,
    /// What it says.
    #[serde(flatten)]
    pub entry: Entry,
}

impl Line {
    /// A line of this program's schema.
    pub fn new(at: jiff::Timestamp, entry: Entry) -> Self {
        Self { schema: SCHEMA, at, entry }
    }
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// Before `current` moves to a candidate, and again before each later start of the same trial.
    Trial {
        /// The candidate.
        to: Build,
        /// The build to go back to.
        from: Option<Build>,
        /// Starts that may follow this one.
        tries: u8,
        /// Whether what ran before was healthy. A candidate is not blamed where it was not.
        baseline_healthy: bool,
        /// What is left for good, where an operator rolls back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leaving: Option<Leaving>,
        /// The boot for whose first start this line was written; none for a start of the updater's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
    },
    /// The candidate proved itself.
    Confirmed {
        /// It.
        build: Build,
        /// What is left for good with this very line, and quarantined.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leaving: Option<Leaving>,
        /// How long it took; absent where no trial was watched to its end by one process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took: Option<Took>,
    },
    /// The trial failed; before `current` moves back.
    Failed {
        /// The candidate.
        build: Build,
        /// The build that is gone back to.
        to: Option<Build>,
        /// What was seen.
        reason: String,
        /// What points to the surroundings already now.
        excuse: Option<String>,
        /// What the program said last, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        excerpt: Option<Excerpt>,
    },
    /// The way back was gone to its end.
    RolledBack {
        /// The build that was left.
        from: Build,
        /// The build that `current` names.
        to: Option<Build>,
        /// What was seen.
        reason: String,
        /// Whose fault it was.
        fault: Fault,
        /// Whether what runs now is healthy.
        healthy: bool,
        /// How long it took; absent where no trial was watched to its end by one process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took: Option<Took>,
        /// What the program said last on trial, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        excerpt: Option<Excerpt>,
    },
    /// Somebody else stopped the program in mid-trial: `current` names the previous build again and nothing was
    /// started. That the trial failed was said before.
    Withdrawn {
        /// The build that was left.
        from: Build,
        /// The build that `current` names.
        to: Option<Build>,
        /// What was seen.
        reason: String,
    },
    /// `current` did not name an intact slot and was moved without a trial.
    Rescued {
        /// The build that `current` names now; none when nothing intact was left.
        to: Option<Build>,
        /// What was wrong.
        reason: String,
    },
    /// An operator took over a program that was installed without this store; before `current` names it. It
    /// counts as confirmed: it is what ran.
    Imported {
        /// It.
        build: Build,
        /// The file that was taken over, links followed.
        from: PathBuf,
    },
    /// An operator gave the program back to whatever had it before an import; before `current` goes. From here
    /// on this store has confirmed nothing.
    ImportUndone,
    /// This exact build is not tried again until it is released.
    Quarantined {
        /// It.
        build: Build,
        /// Why.
        reason: String,
    },
    /// An operator released a version from quarantine.
    Released {
        /// Every build of it.
        version: Version,
    },
    /// An operator pinned a version.
    Pinned {
        /// The only one that may be installed.
        version: Version,
    },
    /// An operator lifted the pin.
    Unpinned,
    /// An unreadable journal was set aside; this one was begun anew.
    SetAside {
        /// Where the unreadable one is.
        kept_as: PathBuf,
        /// What was wrong with it.
        reason: String,
    },
}

/// How long a trial took, by a clock that nobody sets. The times of two lines are the wall clock's and tell it
/// only roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Took {
    /// From the begin of the stop to the verdict, in milliseconds; of a trial that was interrupted, since its
    /// last start.
    pub trial_ms: u64,
    /// From the begin of the stop to the first healthy reading of what runs now, in milliseconds.
    pub downtime_ms: u64,
}

/// A build that an operator leaves for good, once the one that is gone back to has proved itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// It.
    pub build: Build,
    /// Why.
    pub reason: String,
}

/// The journal's file.
#[derive(Debug, Clone)]
pub struct Journal {
    path: PathBuf,
}

/// A journal that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system said no.
    #[error("journal {}", path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// A newer program wrote it.
    #[error("journal {} line {line}: expected schema {SCHEMA} or lower, found {found}", path.display())]
    NewerSchema {
        /// The journal.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The schema found.
        found: u64,
    },
    /// A line in it is no journal line.
    #[error("journal {} line {line}: {reason}", path.display())]
    Unreadable {
        /// The journal.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What was wrong.
        reason: String,
        /// Every line that could be read.
        readable: Vec<Line>,
    },
}

impl Journal {
    /// The journal at `path`, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every line, oldest first. Never writes.
    ///
    /// # Errors
    /// Where the file cannot be read, is of a newer schema, or holds something else than journal lines.
    pub fn lines(&self) -> Result<Vec<Line>, JournalError> {
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            other => other.map_err(|source| self.io(source))?,
        };
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut readable = vec![];
        let mut unreadable = None;
        for (index, text) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
            match parse(text) {
                Parsed::Line(line) => readable.push(*line),
                Parsed::Newer(found) => {
                    return Err(JournalError::NewerSchema {
                        path: self.path.clone(),
                        line: index + 1,
                        found,
                    });
                }
                Parsed::Unreadable(reason) => {
                    unreadable.get_or_insert((index + 1, reason));
                }
            }
        }
        match unreadable {
            None => Ok(readable),
            Some((line, reason)) => {
                Err(JournalError::Unreadable { path: self.path.clone(), line, reason, readable })
            }
        }
    }

    /// Whether the last line is torn: it was begun, and never promised to anybody.
    pub(crate) fn is_torn(&self) -> bool {
        let last = || -> io::Result<u8> {
            let mut file = fs::File::open(&self.path)?;
            file.seek(io::SeekFrom::End(-1))?;
            let mut byte = [0];
            file.read_exact(&mut byte)?;
            Ok(byte[0])
        };
        last().is_ok_and(|byte| byte != b'\n')
    }

    /// Appends one line and returns once it is durable.
    ///
    /// # Errors
    /// Where it could not be made durable; a part of it that was written is dropped by the next reader.
    pub fn record(&self, at: jiff::Timestamp, entry: Entry) -> Result<(), JournalError> {
        let line =
            serde_json::to_vec(&Line::new(at, entry)).map_err(|error| self.io(io::Error::other(error)))?;
        let append = || durable::append_line(&self.path, &line);
        let appended = append().or_else(|error| {
            let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
            // What was kept free for this very moment.
            if full && fs::remove_file(self.reserve()).is_ok() { append() } else { Err(error) }
        });
        appended.map_err(|source| self.io(source))
    }

    /// Keeps some space for the lines of a way back, should the disk be full by then. Without it they are owed.
    pub(crate) fn keep_reserve(&self) {
        let path = self.reserve();
        if !path.exists() {
            let _ = durable::replace(&path, &vec![b'\n'; RESERVE], 0o600);
        }
    }

    fn reserve(&self) -> PathBuf {
        self.path.with_extension("reserve")
    }

    /// Sets an unreadable journal aside and begins a new one with the lines that could be read.
    ///
    /// # Errors
    /// Where the new journal could not be made durable. The unreadable one is kept in any case.
    pub fn begin_anew(
        &self,
        at: jiff::Timestamp,
        reason: &str,
        readable: Vec<Line>,
    ) -> Result<PathBuf, JournalError> {
        let kept_as = (0..u16::MAX)
            .map(|n| self.path.with_extension(format!("jsonl.set-aside-{n}")))
            .find(|path| !path.exists())
            .unwrap_or_else(|| self.path.with_extension("jsonl.set-aside"));
        fs::copy(&self.path, &kept_as).map_err(|source| self.io(source))?;
        fs::File::open(&kept_as).and_then(|file| file.sync_all()).map_err(|source| self.io(source))?;
        let told = Entry::SetAside { kept_as: kept_as.clone(), reason: reason.to_owned() };
        let mut text = vec![];
        for line in readable.into_iter().chain([Line::new(at, told)]) {
            serde_json::to_writer(&mut text, &line).map_err(|error| self.io(io::Error::other(error)))?;
            text.push(b'\n');
        }
        durable::replace(&self.path, &text, 0o644).map_err(|source| self.io(source))?;
        Ok(kept_as)
    }

    fn io(&self, source: io::Error) -> JournalError {
        JournalError::Io { path: self.path.clone(), source }
    }
}

enum Parsed {
    Line(Box<Line>),
    Newer(u64),
    Unreadable(String),
}

fn parse(text: &[u8]) -> Parsed {
    let value: serde_json::Value = match serde_json::from_slice(text) {
        Ok(value) => value,
        Err(error) => return Parsed::Unreadable(format!("expected a JSON object: {error}")),
    };
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        None => return Parsed::Unreadable("expected a schema number, found none".to_owned()),
        Some(schema) if schema > u64::from(SCHEMA) => return Parsed::Newer(schema),
        Some(_) => {}
    }
    match serde_json::from_value(value) {
        Ok(line) => Parsed::Line(Box::new(line)),
        Err(error) => Parsed::Unreadable(format!("expected a journal entry: {error}")),
    }
}
