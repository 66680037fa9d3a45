//! The history for people: when, what, how it ended, how long it took; below it, indented, why.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use myriarch_update::{Excerpt, Fault};

use super::{Happened, HistoryDocument, Named, Trial, TrialEnd, What};
use crate::{describe, duration, escape, time};

impl HistoryDocument {
    /// For people in `zone`: each entry one line, what it needs more below it and indented, each line ended.
    pub fn human(&self, zone: &TimeZone) -> String {
        if self.entries.is_empty() {
            return "nothing has happened yet\n".to_owned();
        }
        let times: Vec<_> = self.entries.iter().map(|entry| time::local(&entry.time, zone)).collect();
        let width = times.iter().map(|time| time.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (entry, time) in self.entries.iter().zip(&times) {
            for (index, line) in words(entry).iter().enumerate() {
                let time = if index == 0 { time } else { "" };
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{:width$}  {}", escape::line(time), escape::line(line));
            }
        }
        text
    }
}

impl Happened {
    /// In words: one line, and what it needs more, neither with its time nor escaped.
    pub fn words(&self) -> Vec<String> {
        words(self)
    }
}

fn words(entry: &Happened) -> Vec<String> {
    match &entry.what {
        What::Trial(trial) => of_trial(&entry.time, trial),
        What::Adopted { slot } => vec![format!("{slot} was installed already and counts as confirmed")],
        What::Imported { slot, from } => {
            vec![format!("{slot} imported from {}; it counts as confirmed", from.display())]
        }
        What::ImportUndone => {
            vec!["import undone: the program was given back to what had it before".to_owned()]
        }
        What::Rescued { to, reason } => vec![
            format!("{} is current now, without a trial", to.as_deref().unwrap_or("nothing")),
            reason.clone(),
        ],
        What::Quarantined { slot, reason } => vec![format!("{slot} quarantined"), reason.clone()],
        What::Released { version } => vec![format!("{version} released from quarantine")],
        What::Pinned { version } => vec![format!("pinned to {version}")],
        What::Unpinned => vec!["pin lifted".to_owned()],
        What::SetAside { kept_as, reason } => {
            vec![format!("journal begun anew, the old one kept as {}", kept_as.display()), reason.clone()]
        }
    }
}

fn of_trial(began: &str, trial: &Trial) -> Vec<String> {
    let mut first = format!("{}: {}", change(trial), ended(trial));
    for more in [took(began, trial), started(trial)].into_iter().flatten() {
        // Writing to a string cannot fail.
        let _ = write!(first, ", {more}");
    }
    let mut words = vec![first];
    match &trial.end {
        TrialEnd::Open => {}
        TrialEnd::Confirmed { left } => {
            words.extend(left.as_ref().map(|left| format!("{} was left and is quarantined", left.slot)));
        }
        TrialEnd::GoingBack { reason } | TrialEnd::Withdrawn { reason, .. } => words.push(reason.clone()),
        TrialEnd::RolledBack { reason, fault, .. } => {
            words.push(reason.clone());
            words.push(match fault {
                Fault::Version => format!("{} is quarantined", trial.to.slot),
                Fault::Environment { .. } => describe::blame(fault),
            });
        }
    }
    words.extend(trial.excerpt.iter().flat_map(|Excerpt { line, file }| {
        let file = file.as_ref().map(|file| format!("log kept: {}", file.display()));
        std::iter::once(format!("it said: {line}")).chain(file)
    }));
    words
}

/// By version; by slot where the version alone does not tell the two apart.
fn change(Trial { from, to, .. }: &Trial) -> String {
    match from {
        None => format!("{} installed", to.version),
        Some(from) if from.version == to.version => format!("{} -> {}", from.slot, to.slot),
        Some(from) => format!("{} -> {}", from.version, to.version),
    }
}

fn ended(trial: &Trial) -> String {
    match &trial.end {
        TrialEnd::Open => "on trial".to_owned(),
        TrialEnd::GoingBack { .. } => "failed its trial, on the way back".to_owned(),
        TrialEnd::Confirmed { .. } => "confirmed".to_owned(),
        TrialEnd::Withdrawn { to, .. } => {
            let to = to.as_ref().map_or("nothing".to_owned(), |Named { version, .. }| version.to_string());
            format!("left without a verdict, {to} is current, nothing was started")
        }
        TrialEnd::RolledBack { to, healthy, .. } => {
            let health = if *healthy { "healthy" } else { "NOT healthy" };
            to.as_ref().map_or("rolled back, nothing runs".to_owned(), |Named { version, .. }| {
                format!("rolled back to {version}, {health}")
            })
        }
    }
}

/// Measured by a clock that nobody sets, or about as the lines' wall clock times tell.
fn took(began: &str, trial: &Trial) -> Option<String> {
    let Some(trial_ms) = trial.trial_ms else {
        let about = time::between(began, trial.ended.as_deref()?)?;
        return Some(format!("about {}", duration::rough(about)));
    };
    let down = trial.downtime_ms.map_or(String::new(), |down| format!(", down {}", duration::rough(down)));
    Some(format!("trial {}{down}", duration::rough(trial_ms)))
}

fn started(trial: &Trial) -> Option<String> {
    (trial.starts > 1).then(|| format!("started {} times", trial.starts))
}
