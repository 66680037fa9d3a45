//! A verb that changes something or asks the source, carried out on an updater: the same for the command line
//! and for the control socket.

use myriarch_cli::{Ending, ExitCode, control::Verb};
use myriarch_update::{Build, Checked, Error, Outcome, Request, Updater, journal::JournalError};

use crate::{look, recover};

/// Carries `verb` out to its ending.
pub(crate) async fn conduct(updater: &Updater, verb: Verb) -> Ending {
    match verb {
        Verb::Update { to } => match update(updater, &Request { to }).await {
            Ok(outcome) => (&outcome).into(),
            Err(error) => failed(&error),
        },
        Verb::Rollback { to } => match updater.roll_back(to.as_ref()).await {
            Ok(outcome) => (&outcome).into(),
            Err(error) => failed(&error),
        },
        Verb::Check {} => {
            let checked = updater.check(&Request::default()).await;
            look::found(updater.store(), look::of_check(&checked));
            match checked {
                Ok(Checked { available: Some(version), installed, .. }) => {
                    Ending::available(version, installed)
                }
                Ok(Checked { reason, .. }) => Ending::done(reason),
                Err(error) => failed(&error),
            }
        }
        Verb::Pin { version } => {
            let words = format!("pinned: only {version} is installed from now on; `update` takes it");
            updater.pin(version).map_or_else(|error| failed(&error), |()| Ending::done(words))
        }
        Verb::Unpin {} => match updater.unpin() {
            Ok(Some(version)) => Ending::done(format!("unpinned: {version} was pinned")),
            Ok(None) => Ending::done("nothing was pinned"),
            Err(error) => failed(&error),
        },
        Verb::Release { version } => match updater.release(&version) {
            Ok(builds) => {
                let names: Vec<_> = builds.iter().map(Build::name).collect();
                Ending::done(format!("released from quarantine: {}", names.join(", ")))
            }
            Err(error) => failed(&error),
        },
        Verb::Recover {} => recover::of(updater.recover().await, updater).await,
        Verb::Status {} => Ending::done("status is read from the store, not asked for"),
    }
}

/// An update; downloads of other versions that were begun are of no use once one is confirmed.
pub(crate) async fn update(updater: &Updater, request: &Request) -> Result<Outcome, Error> {
    let outcome = updater.update(request).await;
    // What was asked for by name was no look at what is on offer.
    if request.to.is_none() {
        look::found(updater.store(), look::of_update(&outcome));
    }
    if let Ok(Outcome::Confirmed { .. }) = outcome {
        let _ = myriarch_fetch::clean(&updater.store().partial_dir());
    }
    outcome
}

/// The ending of a run that came to no outcome.
pub(crate) fn failed(error: &Error) -> Ending {
    match error {
        Error::Refused(refusal) => refusal.into(),
        Error::Journal(_) | Error::Store(_) => {
            Ending::failed(ExitCode::Failed, error, Some(hint(error).to_owned()))
        }
    }
}

/// What an operator can do about a run that came to no outcome.
pub(crate) fn hint(error: &Error) -> &str {
    match error {
        Error::Refused(refusal) => &refusal.hint,
        Error::Journal(error) => journal_hint(error),
        Error::Store(_) => "nothing was restarted by this; `status` says what is on disk and what runs",
    }
}

/// What an operator can do about a journal that cannot be used.
pub(crate) fn journal_hint(error: &JournalError) -> &'static str {
    match error {
        JournalError::NewerSchema { .. } => {
            "a newer version of this program wrote it: run that one again; what is installed runs on meanwhile"
        }
        JournalError::Unreadable { .. } => {
            "start `run` anew: it sets a damaged journal aside and begins another with what can be read"
        }
        JournalError::Io { .. } => "look at the store's disk and permissions; nothing was restarted by this",
    }
}
