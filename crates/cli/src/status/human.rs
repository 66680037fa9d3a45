//! The status for people: one aligned row for each fact, the same rows always, so that an absent thing is
//! read as absent and not as forgotten.

use std::fmt::{self, Write as _};

use super::{Current, Integrity, Running, StatusDocument};
use crate::{describe, escape};

/// The width of the column of labels.
const LABEL: usize = 13;

impl StatusDocument {
    /// For people: aligned rows, each ended.
    pub fn human(&self) -> String {
        let mut rows = Rows::default();
        rows.row("service", self.service.as_str());
        rows.row("store", &self.store.display().to_string());
        rows.row("current", &self.current.to_string());
        rows.list("running", "nothing", self.running.iter().map(|running| self.running_words(running)));
        let updater =
            self.updater.as_ref().map(|updater| format!("pid {} since {}", updater.pid, updater.since));
        rows.row("updater", &updater.unwrap_or("not running".to_owned()));
        let trial = self.trial.as_ref().map(|trial| {
            let back = trial.from.as_deref().unwrap_or("nothing");
            format!("{} on trial, way back {back}, {}", trial.to, describe::tries_left(trial.tries))
        });
        rows.row("trial", &trial.unwrap_or("none".to_owned()));
        rows.row("pin", self.pin.as_ref().map_or("none", |version| version.as_str()));
        let last = self.last.as_ref().map(|last| format!("{}  {}", last.time, last.words));
        rows.row("last", &last.unwrap_or("nothing yet".to_owned()));
        let confirmed = self.confirmed.iter().map(|build| (build.since.as_str(), build.slot.clone()));
        rows.table("confirmed", confirmed.collect());
        let quarantined = self
            .quarantined
            .iter()
            .map(|build| (build.since.as_str(), format!("{}: {}", build.slot, build.reason)));
        rows.table("quarantined", quarantined.collect());
        let slots = self.slots.iter().map(|slot| (slot.slot.as_str(), slot.integrity.to_string()));
        rows.table("slots", slots.collect());
        rows.0
    }

    fn running_words(&self, running: &Running) -> String {
        let pids: Vec<_> = running.pids.iter().map(ToString::to_string).collect();
        let pids = format!("{} {}", if pids.len() == 1 { "pid" } else { "pids" }, pids.join(", "));
        match (&running.slot, &self.current) {
            (Some(slot), Current::Slot { slot: current, .. }) if slot == current => format!("{slot}, {pids}"),
            (Some(slot), _) => format!("{slot}, {pids}: not the current one"),
            (None, _) => format!("a file outside the store, {pids}"),
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
            Self::Unchecked => f.write_str("not checked"),
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
    fn table(&mut self, label: &str, items: Vec<(&str, String)>) {
        let width = items.iter().map(|(first, _)| first.chars().count()).max().unwrap_or(0);
        self.list(
            label,
            "none",
            items.into_iter().map(|(first, second)| format!("{first:width$}  {second}")),
        );
    }
}
