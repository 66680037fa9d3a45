//! What can go wrong between us and systemd, each with what can be done about it.

use std::{fmt, io, path::PathBuf, time::Duration};

use crate::{name::UnitName, unit::Unit};

/// Something that is asked of systemd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// To start a unit.
    Start,
    /// To stop a unit.
    Stop,
    /// To restart a unit.
    Restart,
    /// To forget that a unit failed, and its start limit with it.
    ResetFailed,
    /// To read all units' files again.
    DaemonReload,
    /// To tell about a unit, or units.
    Show,
    /// To tell what a unit's program said.
    Journal,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::ResetFailed => "reset-failed",
            Self::DaemonReload => "daemon-reload",
            Self::Show => "show",
            Self::Journal => "journal",
        })
    }
}

/// What systemd was asked for and did not do.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    /// There is no systemctl to ask by.
    #[error("{}: expected systemd's own command, found none that can be run", program.display())]
    NoSystemctl {
        /// Which was looked for.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// This machine, or this container, was not booted with systemd, or its systemd cannot be reached.
    #[error("{action}: expected a machine booted with systemd, found none: {said}")]
    NotBooted {
        /// What was asked for.
        action: Action,
        /// What systemctl said.
        said: String,
    },
    /// There is no such unit.
    #[error("{unit}: expected a service unit, found no file of that name")]
    NotFound {
        /// Its name.
        unit: UnitName,
    },
    /// The unit is masked.
    #[error("{unit}: expected a unit that can be started, found it masked")]
    Masked {
        /// Its name.
        unit: UnitName,
    },
    /// The unit's files say something that systemd does not take.
    #[error("{unit}: expected a unit that systemd can read, found: {said}")]
    Bad {
        /// Its name.
        unit: UnitName,
        /// What systemd said.
        said: String,
    },
    /// We may not.
    #[error("{action}: expected the right to ask systemd for it, found: {said}")]
    Denied {
        /// What was asked for.
        action: Action,
        /// What systemctl said.
        said: String,
    },
    /// It was not done in time. What was begun goes on.
    #[error("{action}: expected an end within {after:?}, found none yet")]
    TimedOut {
        /// What was asked for.
        action: Action,
        /// How long was waited.
        after: Duration,
    },
    /// Somebody else asked for something that goes before it.
    #[error("{unit}: expected its {action} to end, found it canceled by another request: {said}")]
    Canceled {
        /// Its name.
        unit: UnitName,
        /// What was asked for.
        action: Action,
        /// What systemctl said.
        said: String,
    },
    /// The unit did what was asked, and failed at it.
    #[error("{}: expected its {action} to succeed, found it {}", unit.name, unit.words())]
    Failed {
        /// It, afterwards.
        unit: Box<Unit>,
        /// What was asked for.
        action: Action,
    },
    /// systemctl said something that we do not know.
    #[error("{action}: expected an answer of systemd's, found: {said}")]
    Unknown {
        /// What was asked for.
        action: Action,
        /// What it said.
        said: String,
    },
}

impl SystemdError {
    /// What an operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NoSystemctl { .. } => {
                "install systemd's commands, or use restart.kind = \"child\" where no systemd runs".to_owned()
            }
            Self::NotBooted { .. } => {
                "use restart.kind = \"child\" where no systemd runs; in a container, its own systemd must be process 1"
                    .to_owned()
            }
            Self::NotFound { unit } => {
                format!("`systemctl list-unit-files --type=service` lists those that are there; is {unit} spelt right?")
            }
            Self::Masked { unit } => format!("`systemctl unmask {unit}`, if it is to run"),
            Self::Bad { unit, .. } => format!("`systemd-analyze verify {unit}` says what is wrong with its files"),
            Self::Denied { .. } => "run as root".to_owned(),
            Self::TimedOut { .. } => "`systemctl list-jobs` says what it waits for".to_owned(),
            Self::Canceled { unit, .. } => format!("`journalctl -u {unit}` says who asked for what"),
            Self::Failed { unit, .. } if unit.is_held_by_start_limit() => {
                format!("`systemctl reset-failed {0}` lets it start again; `journalctl -u {0}` says why it failed", unit.name)
            }
            Self::Failed { unit, .. } => format!("`journalctl -u {}` says why", unit.name),
            Self::Unknown { .. } => "`systemctl status` says how systemd itself is".to_owned(),
        }
    }
}
