//! Whose turn it is: one updater does one thing at a time, and whoever finds it busy is told with what, for whom and
//! since when.

use std::{
    fmt,
    ops::Deref,
    sync::{Mutex as Word, PoisonError},
};

use myriarch_update::{Clock as _, Updater};
use tokio::sync::{Mutex, MutexGuard};

use crate::clock::SystemClock;

/// The updater, and what it is doing.
#[derive(Debug)]
pub(crate) struct Turns {
    updater: Mutex<Updater>,
    doing: Word<Option<Doing>>,
}

/// What a turn is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doing {
    what: String,
    since: String,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} since {}", self.what, self.since)
    }
}

/// A turn; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Turn<'t> {
    updater: MutexGuard<'t, Updater>,
    doing: &'t Word<Option<Doing>>,
}

impl Turns {
    pub(crate) fn of(updater: Updater) -> Self {
        Self { updater: Mutex::new(updater), doing: Word::new(None) }
    }

    /// The updater for `what`, if nobody else has it.
    ///
    /// # Errors
    /// What it is busy with; nothing in the instant in which that changes.
    pub(crate) fn take(&self, what: impl Into<String>) -> Result<Turn<'_>, Option<Doing>> {
        match self.updater.try_lock() {
            Ok(updater) => Ok(self.begin(updater, what.into())),
            Err(_) => Err(self.doing.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        }
    }

    /// The same once nobody else has it.
    pub(crate) async fn wait_for(&self, what: impl Into<String>) -> Turn<'_> {
        self.begin(self.updater.lock().await, what.into())
    }

    fn begin<'t>(&'t self, updater: MutexGuard<'t, Updater>, what: String) -> Turn<'t> {
        let now = SystemClock.now();
        let since = now.round(jiff::Unit::Second).unwrap_or(now).to_string();
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = Some(Doing { what, since });
        Turn { updater, doing: &self.doing }
    }
}

impl Deref for Turn<'_> {
    type Target = Updater;

    fn deref(&self) -> &Updater {
        &self.updater
    }
}

impl Drop for Turn<'_> {
    /// Before the updater is let go of, which happens when the fields are dropped.
    fn drop(&mut self) {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
