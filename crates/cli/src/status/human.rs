//! The status for people: one aligned row for each fact, the same rows always, so that an absent thing is
//! read as absent and not as forgotten.

use std::fmt::{self, Write as _};

use jiff::tz::TimeZone;

use super::{Current, Health, Integrity, Running, StatusDocument, Unasked};
use crate::{
    escape,
    look::{Found, Look},
    time,
};

/// The width of the column of labels.
const LABEL: usize = 13;

impl StatusDocument {
    /// For people in `zone`: aligned rows, each ended.
    pub fn human(&self, zone: &TimeZone) -> String {
        let local = |at: &str| time::local(at, zone);
        let mut rows = Rows::default();
        rows.row("service", self.service.as_str());
        rows.row("store", &self.store.display().to_string());
        rows.row("current", &self.current.to_string());
        rows.list("running", "nothing", self.running.iter().map(|running| self.running_words(running, zone)));
        rows.row("health", &self.health.to_string());
        let trusted = self.trusted.as_ref().map_or("none".to_owned(), |it| it.words.clone());
        rows.row("trusted", &trusted);
        let offered = self.look.as_ref().map(|Look { time, found }| {
            let by_now = match found {
                Found::Available { version } => self.since_the_look(version),
                _ => None,
            };
            let by_now = by_now.map_or(String::new(), |what| format!(", which is {what}"));
            format!("{found}{by_now} ({})", local(time))
        });
        rows.row("offered", &offered.unwrap_or("nobody has looked yet".to_owned()));
        rows.list("next", "nothing", self.next(zone).into_iter());
        let updater = self.updater.as_ref().map(|updater| {
            format!("`{}`, pid {} since {}", updater.purpose, updater.pid, local(&updater.since))
        });
        rows.row("updater", &updater.unwrap_or("not running".to_owned()));
        rows.row("trial", &self.trial_words());
        rows.row("pin", self.pin.as_ref().map_or("none", |version| version.as_str()));
        let last = self.last.as_ref().map_or(vec![], |last| {
            let mut words = last.words();
            if let Some(first) = words.first_mut() {
                *first = format!("{}  {first}", local(&last.time));
            }
            words
        });
        rows.list("last", "nothing yet", last.into_iter());
        rows.row("journal", self.journal.as_deref().unwrap_or("in order"));
        let confirmed = self.confirmed.iter().map(|build| (local(&build.since), build.slot.clone()));
        rows.table("confirmed", confirmed.collect());
        let quarantined = self
            .quarantined
            .iter()
            .map(|build| (local(&build.since), format!("{}: {}", build.slot, build.reason)));
        rows.table("quarantined", quarantined.collect());
        let slots = self.slots.iter().map(|slot| (slot.slot.clone(), slot.integrity.to_string()));
        rows.table("slots", slots.collect());
        rows.0
    }

    fn running_words(&self, running: &Running, zone: &TimeZone) -> String {
        let pids: Vec<_> = running.pids.iter().map(ToString::to_string).collect();
        let mut words = format!("{} {}", if pids.len() == 1 { "pid" } else { "pids" }, pids.join(", "));
        if let Some(since) = &running.since {
            // Writing to a string cannot fail.
            let _ = write!(words, " since {}", time::local(since, zone));
        }
        match (&running.slot, &self.current) {
            (Some(slot), Current::Slot { slot: current, .. }) if slot == current => {
                format!("{slot}, {words}")
            }
            (Some(slot), _) => format!("{slot}, {words}: not the current one"),
            (None, _) => format!("a file outside the store, {words}"),
        }
    }
}

impl fmt::Display for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("nothing is installed"),
            Self::Slot { slot, integrity, .. } => write!(f, "{slot}, {integrity}"),
            Self::Foreign { target } => write!(f, "not of this store: {}", target.display()),
        }
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intact => f.write_str("intact"),
            Self::Damaged { reason } => write!(f, "DAMAGED: {reason}"),
            Self::Unchecked => f.write_str("unchecked"),
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Answers { unasked } => {
                let words: Vec<_> = unasked.iter().map(ToString::to_string).collect();
                let were = if words.len() == 1 { "was" } else { "were" };
                write!(f, "answers; {} {were} not asked", words.join(" and "))
            }
            Self::NotHealthy { seen } => write!(f, "NOT healthy: {seen}"),
            Self::NothingRuns => f.write_str("nothing runs"),
            Self::NotAsked => f.write_str("not asked"),
        }
    }
}

impl fmt::Display for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identity => "who it is",
            Self::Command => "the command",
        })
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Available { version } => write!(f, "{version}"),
            Self::Taken { version } => write!(f, "{version}, which was taken"),
            Self::Left { version } => write!(f, "{version}, which failed its trial"),
            Self::Nothing { reason } => write!(f, "nothing to take: {reason}"),
            Self::Refused { stage, reason, .. } => write!(f, "refused at {stage}: {reason}"),
            Self::Failed { reason } => write!(f, "the look failed: {reason}"),
        }
    }
}

#[derive(Default)]
struct Rows(String);

impl Rows {
    fn row(&mut self, label: &str, words: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{label:LABEL$}{}", escape::line(words));
    }

    fn list(&mut self, label: &str, none: &str, items: impl Iterator<Item = String>) {
        let mut label = Some(label);
        for item in items {
            self.row(label.take().unwrap_or(""), &item);
        }
        if let Some(label) = label {
            self.row(label, none);
        }
    }

    /// Two columns, the first as wide as its widest.
    fn table(&mut self, label: &str, items: Vec<(String, String)>) {
        let width = items.iter().map(|(first, _)| first.chars().count()).max().unwrap_or(0);
        self.list(
            label,
            "none",
            items.into_iter().map(|(first, second)| format!("{first:width$}  {second}")),
        );
    }
}
