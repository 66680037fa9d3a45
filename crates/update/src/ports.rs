//! What differs between a host, a container and an embedding program, and is given to the chain.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use myriarch_policy::Version;
use myriarch_verify::Digest;

use crate::{chain::AtRest, event::Event};

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

/// How much of an offer's archive is still to be brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outstanding {
    /// Bytes of the whole archive, where the source says. Only room is judged by it.
    pub archive: Option<u64>,
    /// Bytes that an earlier delivery left; they are used or given back, never needed a second time.
    pub here: u64,
    /// Where those are; files whose names begin with this one's belong to it.
    pub file: PathBuf,
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

    /// How much a delivery of `offer` would still bring into `partial`; `None` where a source cannot say anything of it.
    async fn outstanding(&self, offer: &Offer, partial: &Path) -> Result<Option<Outstanding>, SourceError> {
        let _ = (offer, partial);
        Ok(None)
    }

    /// Brings `offer` into the directory `partial`, resuming what is there.
    async fn deliver(
        &self,
        offer: &Offer,
        partial: &Path,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Delivery, SourceError>;

    /// Removes the archive of a delivery with all that is kept beside it, so that no delivery goes on from it: it was
    /// refused, or has served.
    ///
    /// # Errors
    /// Whatever the file system answers; that it is gone already is no error.
    fn discard(&self, archive: &Path) -> io::Result<()> {
        match std::fs::remove_file(archive) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
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
    /// Somebody else stopped the program meanwhile.
    #[error("{reason}")]
    Stopped {
        /// What was tried and what came of it.
        reason: String,
    },
}

/// Why the program cannot be restarted, or not be asked as it would run; nothing was touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NotReady {
    /// What was expected and what was found.
    pub reason: String,
    /// What an operator can do about it.
    pub hint: String,
}

/// What became of what the last restart started. The words say how, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It ended by itself. On trial that is its own doing.
    ByItself(String),
    /// What is around it ended it: memory ran out, or somebody killed it.
    BySurroundings(String),
    /// Somebody else stopped it, and it does not run.
    Stopped(String),
    /// Somebody else restarted it: another process of it runs.
    Restarted(String),
}

/// How the program is found by an updater that did not start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This cannot be known.
    Unknown,
    /// Whoever keeps it says that it runs.
    Running,
    /// It does not run, and nothing is wrong with that: nobody started it, or somebody stopped it.
    Stopped(String),
    /// It does not run because it failed, in this way.
    Failed(Ended),
}

/// How the program is restarted. `current` names what must run when it is called.
///
/// Only the first three have to be there: where somebody else keeps the program, the others tell what it does.
#[async_trait]
pub trait Restart: Send + Sync + fmt::Debug {
    /// Stops what runs, waits until all of it is gone, and starts `program`, the path through `current`.
    /// Returns as soon as the start was made; whether it is well is the probe's to say.
    async fn restart(&self, program: &Path) -> Result<(), RestartError>;

    /// Stops what runs and starts nothing.
    async fn stop(&self) -> Result<(), RestartError>;

    /// Resolves when what the last restart started, or [`Restart::find`] found, has ended.
    /// Never resolves where this cannot be known.
    async fn ended(&self) -> Ended;

    /// As [`Restart::ended`], up to now: none where it runs, or this cannot be known.
    async fn look(&self) -> Option<Ended> {
        None
    }

    /// Asked before an update touches anything: whether the program can be restarted at all. What failed before
    /// this is not of our doing.
    async fn ready(&self) -> Result<(), NotReady> {
        Ok(())
    }

    /// Looks for the program that a trial has left to us: what failed before this is of the trial's doing, and
    /// what runs is watched from here on as if we had started it.
    async fn find(&self) -> Found {
        Found::Unknown
    }

    /// Whether the program does not run although nothing is wrong with it, because somebody stopped it or did not
    /// start it yet.
    async fn is_stopped(&self) -> bool {
        false
    }

    /// How the program is started, where whoever keeps it can tell; asked where nothing runs.
    async fn at_rest(&self) -> Option<AtRest> {
        None
    }
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
