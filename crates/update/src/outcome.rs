//! How a run of the chain ends: refused with nothing touched, or an outcome.

use std::{fmt, time::Duration};

use myriarch_policy::Version;
use serde::{Deserialize, Serialize};

use crate::{build::Build, excerpt::Excerpt};

/// What the chain came to. Where a restart was made, the program's health is known and said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// What is installed is what the policy asks for.
    NothingToDo {
        /// The version installed, if any.
        installed: Option<Version>,
        /// Why nothing is to be done, in words.
        reason: String,
    },
    /// The candidate is the new last known good.
    Confirmed {
        /// The build that runs.
        build: Build,
        /// From the begin of the stop to the first healthy reading.
        downtime: Duration,
    },
    /// The trial failed and the previous build is healthy again.
    RolledBack(RolledBack),
    /// The trial failed and nothing healthy runs: someone must look.
    NothingHealthy(RolledBack),
    /// Somebody else stopped the program in mid-trial: `current` names the previous build again, nothing was
    /// started against their will, and nothing is said about the candidate.
    Withdrawn(RolledBack),
}

/// A trial that failed, and the way back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolledBack {
    /// The build that was left.
    pub from: Build,
    /// The build that `current` names again; none when there was no previous one.
    pub to: Option<Build>,
    /// What was seen on trial.
    pub reason: String,
    /// Whose fault it was. Only a fault of the version is quarantined.
    pub fault: Fault,
    /// From the begin of the first stop to the previous build's first healthy reading.
    pub downtime: Duration,
    /// What the program said last on trial, where that is known.
    pub excerpt: Option<Excerpt>,
}

/// Whose fault a failed trial is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum Fault {
    /// The build's own: it is quarantined.
    Version,
    /// The surroundings': nothing is quarantined.
    Environment {
        /// What points to the surroundings.
        because: String,
    },
}

/// A stage of the chain that can refuse before anything is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Choosing among the offers.
    Select,
    /// Download and trust.
    Obtain,
    /// Unpacking into a slot.
    Stage,
    /// Asking the candidate itself.
    Validate,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Select => "select",
            Self::Obtain => "obtain",
            Self::Stage => "stage",
            Self::Validate => "validate",
        })
    }
}

/// Why the chain refused. The running program was not touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{stage}: {reason}")]
pub struct Refusal {
    /// Where in the chain.
    pub stage: Stage,
    /// What kind of reason it is, for the exit code.
    pub kind: RefusalKind,
    /// What was expected and what was found.
    pub reason: String,
    /// What an operator can do about it.
    pub hint: String,
}

/// What kind of reason a refusal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The local policy forbids it: pin, bounds, quarantine, downgrade.
    Policy,
    /// It could not be trusted.
    Trust,
    /// The candidate itself says no: wrong version, missing component, rejected configuration.
    Candidate,
    /// The network, the disk or the source failed; trying again may help.
    Environment,
}
