//! What watching came to.

use std::{fmt, time::Duration};

/// A step on the way to a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The first good answer came; the soak begins.
    BecameReady {
        /// Since the watching began.
        after: Duration,
    },
    /// A bad answer in the soak that is tolerated so far.
    Faltered {
        /// Since the watching began.
        after: Duration,
        /// How many bad answers in a row, this one included.
        in_a_row: u32,
        /// What was seen.
        last: String,
    },
    /// A good answer after tolerated bad ones.
    Recovered {
        /// Since the watching began.
        after: Duration,
    },
}

/// Whether the program is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Ready in time, and well throughout the soak.
    Healthy,
    /// No good answer came within the settle time.
    NeverReady {
        /// How long was waited.
        waited: Duration,
        /// What was seen last.
        last: String,
    },
    /// Ready, and then not any more.
    BecameUnhealthy {
        /// Since the watching began.
        after: Duration,
        /// What was seen last.
        last: String,
    },
    /// A good answer, given by a process that runs another file.
    WrongProcess {
        /// Who answered, and who should have.
        seen: String,
    },
    /// Ready, and then another process took its place: it crashed and was started again underneath.
    Restarted {
        /// Who answered before, and who answers now.
        seen: String,
    },
}

impl Verdict {
    /// Whether the program is well.
    pub fn is_healthy(&self) -> bool {
        *self == Self::Healthy
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::NeverReady { waited, last } => {
                write!(f, "not ready within {}, last seen: {last}", Seconds(*waited))
            }
            Self::BecameUnhealthy { after, last } => {
                write!(f, "became unhealthy after {}, last seen: {last}", Seconds(*after))
            }
            Self::WrongProcess { seen } => write!(f, "the wrong process answers: {seen}"),
            Self::Restarted { seen } => write!(f, "restarted while it was watched: {seen}"),
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BecameReady { after } => write!(f, "ready after {}", Seconds(*after)),
            Self::Faltered { after, in_a_row, last } => {
                write!(f, "{in_a_row} bad in a row after {}: {last}", Seconds(*after))
            }
            Self::Recovered { after } => write!(f, "well again after {}", Seconds(*after)),
        }
    }
}

/// A duration as people read it.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}
