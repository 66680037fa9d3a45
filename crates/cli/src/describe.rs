//! Every event as one line for people: what happened, to which build, and the numbers that matter.
//!
//! Lines carry their meaning in words, never by colour or position, and whatever came from outside is escaped.

use std::fmt::Write as _;

use myriarch_policy::Relation;
use myriarch_update::{Check, Event, Fault};

use crate::{duration, escape, size};

/// `event` as one line, without a line break.
pub fn event(event: &Event) -> String {
    escape::line(&words(event)).into_owned()
}

fn words(event: &Event) -> String {
    match event {
        Event::Notice { words } => words.clone(),
        Event::Recovering { reason } => format!("recovering: {reason}"),
        Event::Selected { version, installed, relation, source } => {
            let standing = match (installed, relation) {
                (None, _) => "nothing is installed".to_owned(),
                (Some(installed), None) => format!("installed is {installed}"),
                (Some(installed), Some(relation)) => format!("{} {installed}", standing(*relation)),
            };
            format!("selected {version} ({standing}) from {source}")
        }
        Event::Downloading { version, received, total } => {
            format!("downloading {version}: {}", progress(*received, *total))
        }
        Event::Verified { version, archive, trust } => {
            format!("verified {version} (archive sha256 {}): {trust}", archive.short())
        }
        Event::Staged { slot } => format!("staged {slot}: complete and on disk"),
        Event::Checked { check, detail } => format!("checked {}: {detail}", checked(*check)),
        Event::Baseline { healthy: true, detail } => format!("before the restart: healthy, {detail}"),
        Event::Baseline { healthy: false, detail } => format!("before the restart: not healthy, {detail}"),
        Event::Activated { slot, from, tries } => {
            let back =
                from.as_ref().map_or("no build to go back to".to_owned(), |from| format!("way back {from}"));
            format!("activated {slot}: on trial, {back}, {}", tries_left(*tries))
        }
        Event::Restarting { slot } => format!("restarting as {slot}"),
        Event::Healthy { downtime_ms, soak_ms } => format!(
            "healthy after {} of downtime; must stay so for {}",
            duration::rough(*downtime_ms),
            duration::rough(*soak_ms)
        ),
        Event::Confirmed { version, slot, downtime_ms } => {
            format!("confirmed {version} in {slot} (downtime {})", duration::rough(*downtime_ms))
        }
        Event::TrialFailed { slot, reason, excerpt } => {
            let said =
                excerpt.as_ref().map_or(String::new(), |excerpt| format!("; it said: {}", excerpt.line));
            format!("trial of {slot} failed: {reason}{said}")
        }
        Event::RolledBack { from, to, reason, fault, healthy } => {
            let to = to.as_ref().map_or("nothing, there was no build before".to_owned(), Clone::clone);
            let health = if *healthy { "healthy" } else { "not healthy" };
            format!("rolled back from {from} to {to}: now {health}; {reason}; {}", blame(fault))
        }
        Event::Withdrawn { from, to, reason } => {
            let to = to.as_ref().map_or("nothing, there was no build before".to_owned(), Clone::clone);
            format!("left {from} without a verdict: {reason}; current is {to}, and nothing was started")
        }
        Event::Quarantined { version, slot, reason } => {
            format!("quarantined {version} in {slot} until it is released: {reason}")
        }
        Event::Pruned { slot } => format!("pruned {slot}: nothing needs it"),
        Event::Refused { stage, reason } => format!("refused at {stage}, nothing was touched: {reason}"),
        Event::ChildExited { status, restart_in_ms } => {
            format!(
                "the program ended by itself: {status}; it starts again in {}",
                duration::rough(*restart_in_ms)
            )
        }
    }
}

/// Received bytes of a download, with the share where the whole is known.
pub(crate) fn progress(received: u64, total: Option<u64>) -> String {
    let mut words = size::rough(received);
    if let Some(total) = total {
        // Writing to a string cannot fail.
        let _ = write!(words, " of {} ({} %)", size::rough(total), percent(received, total));
    }
    words
}

/// The share of `received` in `total`, at most 100.
pub(crate) fn percent(received: u64, total: u64) -> u64 {
    let share = u128::from(received) * 100 / u128::from(total.max(1));
    u64::try_from(share.min(100)).unwrap_or(100)
}

/// Whose fault it was, as a clause.
pub fn blame(fault: &Fault) -> String {
    match fault {
        Fault::Version => "the version is at fault".to_owned(),
        Fault::Environment { because } => format!("the environment is at fault: {because}"),
    }
}

/// Tries left, in words.
pub(crate) fn tries_left(tries: u8) -> String {
    match tries {
        0 => "no tries left".to_owned(),
        1 => "1 try left".to_owned(),
        tries => format!("{tries} tries left"),
    }
}

fn standing(relation: Relation) -> &'static str {
    match relation {
        Relation::Upgrade => "an upgrade of",
        Relation::Same => "the same precedence as",
        Relation::Downgrade => "a downgrade of",
        Relation::Incomparable => "not comparable with",
    }
}

fn checked(check: Check) -> &'static str {
    match check {
        Check::Version => "version",
        Check::Components => "components",
        Check::Configuration => "configuration",
    }
}
