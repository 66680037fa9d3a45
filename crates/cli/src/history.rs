//! What happened before, for `history`: the journal told as what an operator remembers.
//!
//! The journal has a line for each irreversible act; a run of the chain is several of them. Here each trial is one
//! entry, from the line that began it to the line that ended it, with how long it took and why it ended so. What
//! is no trial, a pin or a release, is an entry of its own. The document is for programs; the text for people is
//! made from it.

mod human;

use std::path::PathBuf;

use myriarch_policy::Version;
use myriarch_update::{
    Build, Excerpt, Fault,
    journal::{Entry, Leaving, Line, Took},
};
use serde::{Deserialize, Serialize};

/// The schema of [`HistoryDocument`]. 1 was one entry for each line of the journal, in words alone.
pub const HISTORY_SCHEMA: u32 = 2;

/// Everything that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryDocument {
    /// The schema of this document.
    pub schema: u32,
    /// What happened, the oldest first.
    pub entries: Vec<Happened>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happened {
    /// When it happened or began, as RFC 3339.
    pub time: String,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// A build was put on trial.
    Trial(Box<Trial>),
    /// What was installed already counts as confirmed.
    Adopted {
        /// Its slot.
        slot: String,
    },
    /// An operator took over a program that was installed without this store; it counts as confirmed.
    Imported {
        /// Its slot.
        slot: String,
        /// The file that was taken over.
        from: PathBuf,
    },
    /// An operator gave the program back to whatever had it before.
    ImportUndone,
    /// `current` did not name an intact slot and was moved without a trial.
    Rescued {
        /// The slot that it names now; none when nothing intact was left.
        to: Option<String>,
        /// What was wrong.
        reason: String,
    },
    /// A build was quarantined outside a trial.
    Quarantined {
        /// Its slot.
        slot: String,
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
    /// An unreadable journal was set aside.
    SetAside {
        /// Where it is.
        kept_as: PathBuf,
        /// What was wrong with it.
        reason: String,
    },
}

/// A trial, from its begin to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// What ran before and would run again; none for a first installation.
    pub from: Option<Named>,
    /// What was on trial.
    pub to: Named,
    /// How often it was started; more than once where it was interrupted.
    pub starts: u32,
    /// When it ended, as RFC 3339; absent while it is open.
    pub ended: Option<String>,
    /// How it ended.
    pub end: TrialEnd,
    /// From the begin of the stop to the verdict, in milliseconds, where it was measured.
    pub trial_ms: Option<u64>,
    /// From the begin of the stop to the first healthy reading of what ran then, in milliseconds, where it was
    /// measured.
    pub downtime_ms: Option<u64>,
    /// What the program said last, where its trial failed and that is known.
    pub excerpt: Option<Excerpt>,
}

/// A build, by its version and its slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its version.
    pub version: Version,
    /// Its slot.
    pub slot: String,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum TrialEnd {
    /// It did not, as far as the journal says.
    Open,
    /// It failed, and the way back was not gone to its end, as far as the journal says.
    GoingBack {
        /// Why it failed.
        reason: String,
    },
    /// The build is the new last known good.
    Confirmed {
        /// What was left for good by it, where an operator rolled back.
        left: Option<Named>,
    },
    /// Somebody else stopped the program: the trial ended without a verdict, and nothing was started.
    Withdrawn {
        /// What is current now; none where nothing was installed before.
        to: Option<Named>,
        /// What was seen.
        reason: String,
    },
    /// It failed and was left.
    RolledBack {
        /// What runs now; none where nothing was installed before.
        to: Option<Named>,
        /// Whether that was healthy.
        healthy: bool,
        /// Why the trial failed.
        reason: String,
        /// Whose fault it was. A version at fault is quarantined.
        fault: Fault,
    },
}

impl HistoryDocument {
    /// The document of a journal, its lines oldest first.
    pub fn of(lines: &[Line]) -> Self {
        let mut history = Self { schema: HISTORY_SCHEMA, entries: vec![] };
        let mut tries_before = 0;
        for line in lines {
            let time = line.at.to_string();
            match line.entry.clone() {
                Entry::Trial { to, from, tries, .. } => {
                    match history.open(&to) {
                        // An orderly stop writes the line again and gives the try back: no start.
                        Some(trial) if tries < tries_before => trial.starts += 1,
                        Some(_) => {}
                        None => history.tell(time, What::Trial(Box::new(Trial::begun(from.as_ref(), &to)))),
                    }
                    tries_before = tries;
                }
                Entry::Failed { build, reason, excerpt, .. } => {
                    if let Some(trial) = history.open(&build) {
                        (trial.end, trial.excerpt) = (TrialEnd::GoingBack { reason }, excerpt);
                    }
                }
                Entry::Confirmed { build, leaving, took } => match history.open(&build) {
                    Some(trial) => {
                        let left = leaving.as_ref().map(|Leaving { build, .. }| Named::from(build));
                        trial.ends(time, TrialEnd::Confirmed { left }, took);
                    }
                    None => history.tell(time, What::Adopted { slot: build.name() }),
                },
                Entry::RolledBack { from, to, reason, fault, healthy, took, excerpt } => {
                    let to = to.as_ref();
                    let end = TrialEnd::RolledBack { to: to.map(Named::from), healthy, reason, fault };
                    history.end(time, to, &from, |time, trial| {
                        trial.excerpt = excerpt.or(trial.excerpt.take());
                        trial.ends(time, end, took);
                    });
                }
                Entry::Withdrawn { from, to, reason } => {
                    let end = TrialEnd::Withdrawn { to: to.as_ref().map(Named::from), reason };
                    history.end(time, to.as_ref(), &from, |time, trial| trial.ends(time, end, None));
                }
                // A trial's own end says it too.
                Entry::Quarantined { build, .. } if history.open(&build).is_some() => {}
                Entry::Quarantined { build, reason } => {
                    history.tell(time, What::Quarantined { slot: build.name(), reason });
                }
                Entry::Rescued { to, reason } => {
                    history.tell(time, What::Rescued { to: to.as_ref().map(Build::name), reason });
                }
                Entry::Imported { build, from } => {
                    history.tell(time, What::Imported { slot: build.name(), from });
                }
                Entry::ImportUndone => history.tell(time, What::ImportUndone),
                Entry::Released { version } => history.tell(time, What::Released { version }),
                Entry::Pinned { version } => history.tell(time, What::Pinned { version }),
                Entry::Unpinned => history.tell(time, What::Unpinned),
                Entry::SetAside { kept_as, reason } => {
                    history.tell(time, What::SetAside { kept_as, reason });
                }
            }
        }
        history
    }

    fn tell(&mut self, time: String, what: What) {
        self.entries.push(Happened { time, what });
    }

    /// Ends the open trial of `left`. Of a damaged journal its begin may be lost.
    fn end(&mut self, time: String, to: Option<&Build>, left: &Build, end: impl FnOnce(String, &mut Trial)) {
        if self.open(left).is_none() {
            self.tell(time.clone(), What::Trial(Box::new(Trial::begun(to, left))));
        }
        if let Some(trial) = self.open(left) {
            end(time, trial);
        }
    }

    /// The latest trial if it is of `build` and has not ended.
    fn open(&mut self, build: &Build) -> Option<&mut Trial> {
        let latest = self.entries.iter_mut().rev().find_map(|entry| match &mut entry.what {
            What::Trial(trial) => Some(&mut **trial),
            _ => None,
        });
        latest.filter(|trial| trial.ended.is_none() && trial.to.slot == build.name())
    }
}

impl Trial {
    fn begun(from: Option<&Build>, to: &Build) -> Self {
        Self {
            from: from.map(Named::from),
            to: to.into(),
            starts: 1,
            ended: None,
            end: TrialEnd::Open,
            trial_ms: None,
            downtime_ms: None,
            excerpt: None,
        }
    }

    fn ends(&mut self, time: String, end: TrialEnd, took: Option<Took>) {
        self.ended = Some(time);
        self.end = end;
        self.trial_ms = took.map(|took| took.trial_ms);
        self.downtime_ms = took.map(|took| took.downtime_ms);
    }
}

impl From<&Build> for Named {
    fn from(build: &Build) -> Self {
        Self { version: build.version.clone(), slot: build.name() }
    }
}
