//! The last word of a verb: what happened, what runs now, what to do.
//!
//! One document says it to programs and to people alike. It also travels over the control socket, so the
//! command line can word an ending that it was only told about.

use std::{error::Error, fmt::Write as _};

use myriarch_policy::Version;
use myriarch_update::{Build, Excerpt, Fault, Outcome, Refusal, RefusalKind, RolledBack, Stage};
use serde::{Deserialize, Serialize};

use crate::{config::ConfigError, describe, duration, escape, exit::ExitCode};

/// The schema of [`Ending`].
pub const ENDING_SCHEMA: u32 = 1;
/// More causes than this are a loop.
const MAX_CAUSES: usize = 16;

/// How a verb ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The schema of this document.
    pub schema: u32,
    /// The exit code that goes with it.
    pub exit_code: ExitCode,
    /// What happened.
    #[serde(flatten)]
    pub result: EndingResult,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum EndingResult {
    /// A verb other than an update was carried out.
    Done {
        /// What was done, in words.
        words: String,
    },
    /// `check` found an update.
    Available {
        /// The version that would be taken.
        version: Version,
        /// The version installed, if any.
        installed: Option<Version>,
    },
    /// What is installed is what the policy asks for.
    NothingToDo {
        /// The version installed, if any.
        installed: Option<Version>,
        /// Why, in words.
        reason: String,
    },
    /// The candidate is the new last known good.
    Confirmed {
        /// The build that runs.
        build: Build,
        /// From the begin of the stop to the first healthy reading, in milliseconds.
        downtime_ms: u64,
    },
    /// The trial failed and the previous build is healthy again.
    RolledBack(WayBack),
    /// The trial failed and nothing healthy runs.
    NothingHealthy(WayBack),
    /// Somebody else stopped the program in mid-trial; nothing was started against their will.
    Withdrawn(WayBack),
    /// The chain refused; nothing was touched.
    Refused {
        /// Where.
        stage: Stage,
        /// What kind of reason it is.
        kind: RefusalKind,
        /// What was expected and what was found.
        reason: String,
        /// What an operator can do about it.
        hint: String,
    },
    /// The verb failed outside the chain.
    Failed {
        /// What was expected and what was found.
        message: String,
        /// What caused it, nearest first.
        causes: Vec<String>,
        /// What an operator can do about it.
        hint: Option<String>,
    },
}

/// A trial that failed, and the way back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayBack {
    /// The build that was left.
    pub from: Build,
    /// The build that `current` names again, if there was one.
    pub to: Option<Build>,
    /// What was seen on trial.
    pub reason: String,
    /// Whose fault it was.
    pub fault: Fault,
    /// From the begin of the first stop to the previous build's first healthy reading, in milliseconds.
    pub downtime_ms: u64,
    /// What the program said last on trial, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<Excerpt>,
}

impl Ending {
    /// A verb that was carried out.
    pub fn done(words: impl Into<String>) -> Self {
        Self::new(ExitCode::Done, EndingResult::Done { words: words.into() })
    }

    /// `check` found `version`.
    pub fn available(version: Version, installed: Option<Version>) -> Self {
        Self::new(ExitCode::Available, EndingResult::Available { version, installed })
    }

    /// A verb that failed with `error`; its sources become the causes.
    pub fn failed(exit_code: ExitCode, error: &(dyn Error + 'static), hint: Option<String>) -> Self {
        let causes =
            std::iter::successors(error.source(), |cause: &&(dyn Error + 'static)| (*cause).source());
        let causes = causes.take(MAX_CAUSES).map(ToString::to_string).collect();
        Self::new(exit_code, EndingResult::Failed { message: error.to_string(), causes, hint })
    }

    /// For people: lines that say what happened, what runs now and a `hint:`, each ended.
    pub fn human(&self) -> String {
        let mut text = Paragraphs::default();
        match &self.result {
            EndingResult::Done { words } => text.say("", words),
            EndingResult::Available { version, installed } => {
                text.say("", &format!("available: {version}"));
                text.say("installed: ", &named(installed.as_ref()));
                text.say("hint: ", "`update` takes it");
            }
            EndingResult::NothingToDo { installed, reason } => {
                text.say("", &format!("nothing to do: {reason}"));
                text.say("installed: ", &named(installed.as_ref()));
            }
            EndingResult::Confirmed { build, downtime_ms } => {
                text.say("", &format!("updated: {} is confirmed", build.version));
                text.say("now runs: ", &format!("{}, healthy", exact(build)));
                text.say("downtime: ", &duration::rough(*downtime_ms));
            }
            EndingResult::RolledBack(way) => {
                text.say("", &format!("rolled back: {} failed its trial", way.from.version));
                text.say("reason: ", &way.reason);
                text.excerpt(way);
                let runs = way.to.as_ref().map(|build| format!("{}, healthy", exact(build)));
                text.say("now runs: ", &runs.unwrap_or("nothing, as before the update".to_owned()));
                text.say("downtime: ", &duration::rough(way.downtime_ms));
                text.say("hint: ", &after_trial(way));
            }
            EndingResult::NothingHealthy(way) => {
                text.say("error: ", "no healthy collector runs");
                let failed = format!("{} failed its trial: {}", way.from.version, way.reason);
                text.say("reason: ", &failed);
                text.excerpt(way);
                let current = way.to.as_ref().map(|build| format!("{}, not healthy", exact(build)));
                text.say(
                    "now current: ",
                    &current.unwrap_or("as `status` says; there is no intact build to go back to".to_owned()),
                );
                text.say(
                    "hint: ",
                    "look at the program's own log; `status` says what is on disk and what runs",
                );
                text.say("hint: ", &after_trial(way));
            }
            EndingResult::Withdrawn(way) => {
                let failed = format!("the trial of {} ended before its verdict", way.from.version);
                text.say("error: ", &failed);
                text.say("reason: ", &way.reason);
                let current = way.to.as_ref().map(exact);
                text.say("now current: ", &current.unwrap_or("nothing, as before the update".to_owned()));
                text.say("now runs: ", "nothing; it was stopped by somebody else and is not started again");
                text.say(
                    "hint: ",
                    "start it when it is wanted; nothing is quarantined, and the next update tries again",
                );
            }
            EndingResult::Refused { stage, reason, hint, .. } => {
                text.say("error: ", &format!("refused at {stage}: {reason}"));
                text.say("now runs: ", "what ran before; nothing was touched");
                text.say("hint: ", hint);
            }
            EndingResult::Failed { message, causes, hint } => {
                text.say("error: ", message);
                for cause in causes {
                    text.say("  caused by: ", cause);
                }
                if let Some(hint) = hint {
                    text.say("hint: ", hint);
                }
            }
        }
        text.0
    }

    /// For programs: one line of JSON.
    pub fn json(&self) -> String {
        // Strings and numbers, which JSON can always say.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether this is bad news, which belongs on stderr.
    pub fn is_failure(&self) -> bool {
        !matches!(self.exit_code, ExitCode::Done | ExitCode::Available)
    }

    fn new(exit_code: ExitCode, result: EndingResult) -> Self {
        Self { schema: ENDING_SCHEMA, exit_code, result }
    }
}

impl From<&Outcome> for Ending {
    fn from(outcome: &Outcome) -> Self {
        let result = match outcome.clone() {
            Outcome::NothingToDo { installed, reason } => EndingResult::NothingToDo { installed, reason },
            Outcome::Confirmed { build, downtime } => {
                EndingResult::Confirmed { build, downtime_ms: duration::millis(downtime) }
            }
            Outcome::RolledBack(way) => EndingResult::RolledBack(way.into()),
            Outcome::NothingHealthy(way) => EndingResult::NothingHealthy(way.into()),
            Outcome::Withdrawn(way) => EndingResult::Withdrawn(way.into()),
        };
        Self::new(outcome.into(), result)
    }
}

impl From<&Refusal> for Ending {
    fn from(refusal: &Refusal) -> Self {
        let Refusal { stage, kind, reason, hint } = refusal.clone();
        Self::new(refusal.into(), EndingResult::Refused { stage, kind, reason, hint })
    }
}

impl From<&ConfigError> for Ending {
    fn from(error: &ConfigError) -> Self {
        Self::failed(ExitCode::Usage, error, error.hint())
    }
}

impl From<RolledBack> for WayBack {
    fn from(way: RolledBack) -> Self {
        let RolledBack { from, to, reason, fault, downtime, excerpt } = way;
        Self { from, to, reason, fault, downtime_ms: duration::millis(downtime), excerpt }
    }
}

fn named(version: Option<&Version>) -> String {
    version.map_or("nothing".to_owned(), ToString::to_string)
}

fn exact(build: &Build) -> String {
    format!("{} (sha256 {})", build.version, build.binary.short())
}

fn after_trial(way: &WayBack) -> String {
    match &way.fault {
        Fault::Version => format!(
            "{} is quarantined; `release {}` lets it be tried again",
            exact(&way.from),
            way.from.version
        ),
        Fault::Environment { .. } => {
            format!(
                "nothing is quarantined, since {}; mend that and update again",
                describe::blame(&way.fault)
            )
        }
    }
}

/// Labelled text whose further lines are indented below the first.
#[derive(Default)]
struct Paragraphs(String);

impl Paragraphs {
    fn excerpt(&mut self, way: &WayBack) {
        let Some(Excerpt { line, file }) = &way.excerpt else { return };
        self.say("it said: ", line);
        if let Some(file) = file {
            self.say("log kept: ", &file.display().to_string());
        }
    }

    fn say(&mut self, label: &str, text: &str) {
        for (index, line) in text.trim_end().split('\n').enumerate() {
            let indent = if index == 0 { label.to_owned() } else { " ".repeat(label.len().max(2)) };
            // Writing to a string cannot fail.
            let _ = writeln!(self.0, "{indent}{}", escape::lines(line));
        }
    }
}
