//! How things stand, as one document: what is on disk, what runs, what was decided and why.
//!
//! The document is for programs, with a schema number; the text for people is made from the same document, so
//! the two cannot differ. Times are RFC 3339 texts, for people only; nothing is decided by them.
//!
//! The order is that of the questions asked at night: what is installed and runs, since when, is it well, who
//! vouched for it, what is on offer, and what happens next, with or without me.

mod human;
mod next;

use std::path::PathBuf;

use myriarch_policy::Version;
use myriarch_verify::Digest;
use serde::{Deserialize, Serialize};

use crate::{config::ServiceName, history::Happened, look::Look};

/// The schema of [`StatusDocument`].
pub const STATUS_SCHEMA: u32 = 2;

/// How things stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusDocument {
    /// The schema of this document.
    pub schema: u32,
    /// Which service.
    pub service: ServiceName,
    /// The store's directory.
    pub store: PathBuf,
    /// What `current` names.
    pub current: Current,
    /// What runs, by the file that it executes; empty when nothing does.
    pub running: Vec<Running>,
    /// Whether what runs is well.
    pub health: Health,
    /// Why what `current` names was trusted.
    pub trusted: Option<Trusted>,
    /// The last look at what is on offer.
    pub look: Option<Look>,
    /// When `run` looks again by itself, while it is alive.
    pub next_look: Option<String>,
    /// Who holds the store: the updater, when `run` is alive, or a verb.
    pub updater: Option<Updater>,
    /// The trial that is on, if one is.
    pub trial: Option<OnTrial>,
    /// The version that the operator pinned, if any.
    pub pin: Option<Version>,
    /// The last trial or rescue that came to its end.
    pub last: Option<Happened>,
    /// What is wrong with the journal; nothing where it can be read whole.
    pub journal: Option<String>,
    /// Builds that were confirmed, the latest first.
    pub confirmed: Vec<Confirmed>,
    /// Builds that are not tried again until they are released.
    pub quarantined: Vec<Quarantined>,
    /// Everything in the store.
    pub slots: Vec<SlotState>,
}

/// What `current` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Current {
    /// Nothing is installed.
    Absent,
    /// A slot of this store.
    Slot {
        /// Its name.
        slot: String,
        /// The version in it.
        version: Version,
        /// SHA-256 of the program's file, as recorded.
        binary: Digest,
        /// Whether the file still is what was recorded.
        integrity: Integrity,
    },
    /// Something that this program did not make.
    Foreign {
        /// What the link names, or what it is.
        target: PathBuf,
    },
}

/// Whether a program's file is what was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Integrity {
    /// Its digest was computed, now or since the machine started on the very same file, and is right.
    Intact,
    /// It is not what was recorded.
    Damaged {
        /// What was expected and what was found.
        reason: String,
    },
    /// Nobody has computed the digest of this very file since the machine started, as far as is known.
    Unchecked,
}

/// Processes that execute one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The slot whose file it is; absent for a file outside the store.
    pub slot: Option<String>,
    /// Process ids.
    pub pids: Vec<u32>,
    /// Since when the first of them runs, as RFC 3339, where that can be told.
    pub since: Option<String>,
}

/// Whether what runs is well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Health {
    /// It was asked and said so.
    Healthy,
    /// What was asked said so, and that is not all of what tells whether it is healthy.
    Answers {
        /// What was not asked; never empty.
        unasked: Vec<Unasked>,
    },
    /// It was asked and did not.
    NotHealthy {
        /// What was seen.
        seen: String,
    },
    /// There is nothing to ask.
    NothingRuns,
    /// It was not asked.
    NotAsked,
}

/// A question about health that a screen leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unasked {
    /// Which process answers: only root may see the processes of others.
    Identity,
    /// What `probe.command` says: a command is not run for a screen.
    Command,
}

/// Why a build was trusted when it was staged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// The evidence, in words.
    pub words: String,
    /// Where it came from: a URL or a path.
    pub source: String,
    /// When it was staged, as RFC 3339.
    pub time: String,
}

/// The updater that is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updater {
    /// Its process id.
    pub pid: u32,
    /// What it does, as it said: `run`, or a verb that ends.
    pub purpose: String,
    /// Since when.
    pub since: String,
}

/// The trial that is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnTrial {
    /// The slot on trial.
    pub to: String,
    /// The slot to go back to, if there is one.
    pub from: Option<String>,
    /// Tries that remain.
    pub tries: u8,
}

/// A build that was confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmed {
    /// Its version.
    pub version: Version,
    /// Its slot.
    pub slot: String,
    /// When.
    pub since: String,
}

/// A build that is not tried again until it is released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// Its version.
    pub version: Version,
    /// Its slot.
    pub slot: String,
    /// Why.
    pub reason: String,
    /// When.
    pub since: String,
}

/// One slot of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotState {
    /// Its name.
    pub slot: String,
    /// Whether its program is what was recorded.
    pub integrity: Integrity,
}
