//! How a verb ends, as a number: scripts and service managers decide by it, so each has one meaning.

use std::process;

use myriarch_update::{Outcome, Refusal, RefusalKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The exit codes of every verb. `docs/exit-codes.md` is their reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitCode {
    /// Done, or nothing to do.
    Done = 0,
    /// Failed; the collector was not touched.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The trial failed; the previous build is healthy again.
    RolledBack = 3,
    /// No healthy collector runs: page someone.
    NoHealthy = 4,
    /// Policy or trust refused.
    Refused = 5,
    /// Another run holds the lock.
    Locked = 6,
    /// `check` found an update.
    Available = 100,
}

impl ExitCode {
    /// Every code, in order.
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::RolledBack,
        Self::NoHealthy,
        Self::Refused,
        Self::Locked,
        Self::Available,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The code with this number, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.code() == code)
    }

    /// Its meaning, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done or nothing to do",
            Self::Failed => "failed, the collector was not touched",
            Self::Usage => "wrong usage or configuration",
            Self::RolledBack => "rolled back, the previous build is healthy",
            Self::NoHealthy => "no healthy collector runs",
            Self::Refused => "refused by policy or trust",
            Self::Locked => "another run holds the lock",
            Self::Available => "an update is available",
        }
    }
}

impl From<&Outcome> for ExitCode {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::NothingToDo { .. } | Outcome::Confirmed { .. } => Self::Done,
            Outcome::RolledBack(_) => Self::RolledBack,
            Outcome::NothingHealthy(_) => Self::NoHealthy,
            // Nothing runs, as somebody else asked for.
            Outcome::Withdrawn(_) => Self::Failed,
        }
    }
}

impl From<RefusalKind> for ExitCode {
    fn from(kind: RefusalKind) -> Self {
        match kind {
            RefusalKind::Policy | RefusalKind::Trust => Self::Refused,
            RefusalKind::Candidate | RefusalKind::Environment => Self::Failed,
        }
    }
}

impl From<&Refusal> for ExitCode {
    fn from(refusal: &Refusal) -> Self {
        refusal.kind.into()
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.code().into()
    }
}

impl Serialize for ExitCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.code())
    }
}

impl<'de> Deserialize<'de> for ExitCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = u8::deserialize(deserializer)?;
        Self::from_code(code)
            .ok_or_else(|| serde::de::Error::custom(format!("expected a known exit code, found {code}")))
    }
}
