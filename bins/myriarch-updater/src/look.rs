//! `look.json` in the store: what the last look at the offers found, and when the next one comes. For screens alone;
//! that it cannot be written is worth nothing.

use std::{
    fs,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use myriarch_cli::{
    LookDocument,
    look::{Found, Look},
};
use myriarch_store::{Store, durable};
use myriarch_update::{Checked, Error, Outcome, Refusal};

use crate::words::with_causes;

/// Whoever waits for the next look and whoever looks now write the same file.
static WRITING: Mutex<()> = Mutex::new(());

/// The last look and the next, as far as they are known.
pub(crate) fn read(store: &Store) -> LookDocument {
    fs::read(store.look_path()).map_or_else(|_| LookDocument::none(), |text| LookDocument::read(&text))
}

/// Somebody has looked.
pub(crate) fn found(store: &Store, found: Found) {
    let last = Some(Look { time: Timestamp::now().to_string(), found });
    change(store, |document| LookDocument { last, ..document });
}

/// `run` looks again after `pause`, or not by itself.
pub(crate) fn next(store: &Store, pause: Option<Duration>) {
    let at = |pause| Timestamp::now().checked_add(SignedDuration::try_from(pause).ok()?).ok();
    let next = pause.and_then(at).map(|at| at.to_string());
    change(store, |document| LookDocument { next, ..document });
}

fn change(store: &Store, change: impl FnOnce(LookDocument) -> LookDocument) {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ok(text) = serde_json::to_vec(&change(read(store))) {
        let _ = durable::replace(&store.look_path(), &text, 0o644);
    }
}

pub(crate) fn of_check(checked: &Result<Checked, Error>) -> Found {
    match checked {
        Ok(Checked { available: Some(version), .. }) => Found::Available { version: version.clone() },
        Ok(Checked { reason, .. }) => Found::Nothing { reason: reason.clone() },
        Err(error) => of_error(error),
    }
}

pub(crate) fn of_update(outcome: &Result<Outcome, Error>) -> Found {
    match outcome {
        Ok(Outcome::NothingToDo { reason, .. }) => Found::Nothing { reason: reason.clone() },
        Ok(Outcome::Confirmed { build, .. }) => Found::Taken { version: build.version.clone() },
        Ok(Outcome::RolledBack(way) | Outcome::NothingHealthy(way) | Outcome::Withdrawn(way)) => {
            Found::Left { version: way.from.version.clone() }
        }
        Err(error) => of_error(error),
    }
}

fn of_error(error: &Error) -> Found {
    match error {
        Error::Refused(Refusal { stage, reason, hint, .. }) => {
            Found::Refused { stage: *stage, reason: reason.clone(), hint: hint.clone() }
        }
        Error::Journal(_) | Error::Store(_) => Found::Failed { reason: with_causes(error) },
    }
}
