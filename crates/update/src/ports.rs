//! What differs between a host, a container and an embedding program, and is given to the chain.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use myriarch_policy::Version;
use myriarch_verify::Digest;

use crate::event::Event;

/// A release that a source says it has. Nothing in it is trusted; it only says where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The version offered.
    pub version: Version,
    /// Where it was found, for people: a URL or a path.
    pub location: String,
    /// The archive's SHA-256 as the source claims it, if it does. It can only add a check.
    pub claimed: Option<Digest>,
}

/// What a source brought for an offer.
#[derive(Debug)]
pub struct Delivery {
    /// The archive, complete, on the store's file system.
    pub archive: PathBuf,
    /// The archive's file name as published, which checksum lines name.
    pub file_name: String,
    /// The checksum file's name and content, if the source has one.
    pub checksum: Option<(String, Vec<u8>)>,
    /// The Sigstore bundle, if the source has one.
    pub bundle: Option<Vec<u8>>,
}

/// A source that could not answer.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct SourceError {
    /// What was expected and what was found, with the URL or path.
    pub reason: String,
    /// What an operator can do about it.
    pub hint: String,
}

/// Bytes that have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes on disk so far, a resumed part included.
    pub received: u64,
    /// Bytes in all, where known.
    pub total: Option<u64>,
}

/// Where offers come from.
#[async_trait]
pub trait Source: Send + Sync + fmt::Debug {
    /// Everything that is on offer now, in no particular order.
    async fn offers(&self) -> Result<Vec<Offer>, SourceError>;

    /// The offer for exactly `version`, also where a source cannot list.
    async fn offer(&self, version: &Version) -> Result<Option<Offer>, SourceError>;

    /// Brings `offer` into the directory `partial`, resuming what is there.
    async fn deliver(
        &self,
        offer: &Offer,
        partial: &Path,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Delivery, SourceError>;
}

/// A restart that did not come about.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The program may be the reason: what restarts it waited for it, and it did not come up.
    #[error("{reason}")]
    Program {
        /// What was tried and what came of it.
        reason: String,
    },
    /// The program had no chance to start.
    #[error("{reason}")]
    Surroundings {
        /// What was tried and what came of it.
        reason: String,
    },
}

/// How the program is restarted. `current` names what must run when it is called.
#[async_trait]
pub trait Restart: Send + Sync + fmt::Debug {
    /// Stops what runs, waits until all of it is gone, and starts `program`, the path through `current`.
    /// Returns as soon as the start was made; whether it is well is the probe's to say.
    async fn restart(&self, program: &Path) -> Result<(), RestartError>;

    /// Stops what runs and starts nothing.
    async fn stop(&self) -> Result<(), RestartError>;

    /// Resolves, with how it ended, when what the last restart started has ended by itself.
    /// Never resolves where this cannot be known.
    async fn ended(&self) -> String;
}

/// Who is told what happens. Must not block.
pub trait Observe: Send + Sync + fmt::Debug {
    /// Takes one event.
    fn observe(&self, event: &Event);
}

/// What the program says, for the case that its trial fails. Nothing of it may fail a trial or hold one up.
#[async_trait]
pub trait ProgramLog: Send + Sync + fmt::Debug {
    /// The program is about to be started: what it says from now on is asked for later. `effective` is the file
    /// of the effective configuration, where it is known; a supervisor keeps the log beside it.
    async fn begin(&self, effective: Option<&Path>);

    /// Runs while the program is watched, for logs that are emptied meanwhile. Dropped with the verdict.
    async fn follow(&self) {}

    /// What the program said since, the last [`EXCERPT_LIMIT`](crate::EXCERPT_LIMIT) bytes at the most, as it is.
    /// Empty where nothing is known.
    async fn said(&self) -> Vec<u8>;
}

/// A program whose log nobody knows.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLog;

#[async_trait]
impl ProgramLog for NoLog {
    async fn begin(&self, _effective: Option<&Path>) {}

    async fn said(&self) -> Vec<u8> {
        vec![]
    }
}

/// What time it is.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Wall-clock time, for people only.
    fn now(&self) -> jiff::Timestamp;

    /// Time since boot, suspended time included; never set back.
    fn boottime(&self) -> Duration;
}
