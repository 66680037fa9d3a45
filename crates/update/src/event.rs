//! What happens, told once: human lines, JSON lines, the control socket and metrics all read this enum.

use std::time::Duration;

use myriarch_policy::{Relation, Version};
use myriarch_verify::Digest;
use serde::{Deserialize, Serialize};

use crate::{
    excerpt::Excerpt,
    outcome::{Fault, Stage},
};

/// One thing that happened in the chain, in recovery or in supervision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Recovery found something to do at the start.
    Recovering {
        /// What the journal says was interrupted, and what is done about it.
        reason: String,
    },
    /// Something to know that changes nothing by itself.
    Notice {
        /// What.
        words: String,
    },
    /// An offer was selected.
    Selected {
        /// The version offered.
        version: Version,
        /// The version installed, if any.
        installed: Option<Version>,
        /// How the two stand; absent when nothing is installed.
        relation: Option<Relation>,
        /// Where the offer was found: a URL or a path.
        source: String,
    },
    /// Bytes of the archive arrived.
    Downloading {
        /// The version being downloaded.
        version: Version,
        /// Bytes on disk so far.
        received: u64,
        /// Bytes in all, where the source tells.
        total: Option<u64>,
    },
    /// The archive is trusted.
    Verified {
        /// The version trusted.
        version: Version,
        /// SHA-256 of the archive.
        archive: Digest,
        /// Why it is trusted, in words.
        trust: String,
    },
    /// The program is complete and durable in a slot of its own.
    Staged {
        /// The slot's name.
        slot: String,
    },
    /// One check of the candidate passed.
    Checked {
        /// Which one.
        check: Check,
        /// What was seen, in words.
        detail: String,
    },
    /// The running program was judged before it is stopped.
    Baseline {
        /// Whether it was healthy.
        healthy: bool,
        /// What was seen, in words.
        detail: String,
    },
    /// `current` names the candidate; the trial is on.
    Activated {
        /// The slot on trial.
        slot: String,
        /// The slot to go back to, if there is one.
        from: Option<String>,
        /// Starts that remain after this one before recovery gives the trial up.
        tries: u8,
    },
    /// The program is being stopped and started.
    Restarting {
        /// The slot that starts.
        slot: String,
    },
    /// The candidate became healthy; the soak begins.
    Healthy {
        /// From the begin of the stop to the first healthy reading.
        downtime_ms: u64,
        /// How long it must now stay healthy.
        soak_ms: u64,
    },
    /// The candidate is the new last known good.
    Confirmed {
        /// Its version.
        version: Version,
        /// Its slot.
        slot: String,
        /// From the begin of the stop to the first healthy reading.
        downtime_ms: u64,
    },
    /// The trial failed; the way back begins.
    TrialFailed {
        /// The slot that was on trial.
        slot: String,
        /// What was seen.
        reason: String,
        /// What the program said last, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        excerpt: Option<Excerpt>,
    },
    /// The previous build runs again.
    RolledBack {
        /// The slot that was left.
        from: String,
        /// The slot that runs again; absent when there was none.
        to: Option<String>,
        /// Why.
        reason: String,
        /// Whose fault it was.
        fault: Fault,
        /// Whether what runs now is healthy.
        healthy: bool,
    },
    /// Somebody else stopped the program in mid-trial: `current` names the previous build again and nothing was
    /// started.
    Withdrawn {
        /// The slot that was on trial.
        from: String,
        /// The slot that `current` names; absent when there was none before.
        to: Option<String>,
        /// What was seen.
        reason: String,
    },
    /// The build will not be tried again until it is released.
    Quarantined {
        /// Its version.
        version: Version,
        /// Its slot.
        slot: String,
        /// Why.
        reason: String,
    },
    /// A slot that nothing needs was removed.
    Pruned {
        /// Its name.
        slot: String,
    },
    /// The chain ended before anything was touched.
    Refused {
        /// Where.
        stage: Stage,
        /// Why.
        reason: String,
    },
    /// The supervised child ended by itself and will be started again.
    ChildExited {
        /// How it ended, in words.
        status: String,
        /// When it starts again.
        restart_in_ms: u64,
    },
}

/// A check of the candidate before anything stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// `--version` names the offered version.
    Version,
    /// `components` lists every required component.
    Components,
    /// `validate` accepts the effective configuration.
    Configuration,
}

/// A duration as whole milliseconds, saturating.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
