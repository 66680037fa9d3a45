//! Progress that does not cost more than the bytes it counts.

use std::time::{Duration, Instant};

/// The shortest time between two reports of one download.
const EVERY: Duration = Duration::from_millis(100);

/// Passes reports on, at most one per [`EVERY`], the last one always.
pub(crate) struct Progress<'a> {
    report: &'a (dyn Fn(u64, Option<u64>) + Send + Sync),
    last: Option<Instant>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(report: &'a (dyn Fn(u64, Option<u64>) + Send + Sync)) -> Self {
        Self { report, last: None }
    }

    pub(crate) fn at(&mut self, received: u64, total: Option<u64>) {
        if self.last.is_none_or(|last| last.elapsed() >= EVERY) {
            self.last = Some(Instant::now());
            (self.report)(received, total);
        }
    }

    pub(crate) fn done(&mut self, received: u64) {
        (self.report)(received, Some(received));
    }
}
