//! Who tells the operator what happens while it happens.
//!
//! Three forms of the same events: lines for a pipe or a log, bars for a terminal, JSON lines for programs.
//! All write to a stream that is given to them, so that only the binary knows stdout and stderr. A stream that
//! fails, as when a pager is closed, is ignored: nobody's terminal decides how an update ends.

mod bars;
mod json;
mod lines;

use std::{
    fmt,
    io::Write,
    sync::{Mutex, MutexGuard, PoisonError},
};

use indicatif::ProgressDrawTarget;
use myriarch_update::{Event, Observe};

pub use bars::Bars;
pub use json::{EVENT_SCHEMA, JsonLines};
pub use lines::Lines;

/// One of the three forms, chosen once.
#[derive(Debug)]
pub enum Reporter {
    /// Lines of words.
    Lines(Lines),
    /// Lines of words above bars that move.
    Bars(Bars),
    /// One JSON document a line.
    Json(JsonLines),
}

impl Reporter {
    /// Lines of words on `out`.
    pub fn lines(out: impl Write + Send + 'static) -> Self {
        Self::Lines(Lines::new(out))
    }

    /// Lines of words on `out`, which is the terminal of stderr, and bars below them.
    pub fn bars_on_stderr(out: impl Write + Send + 'static) -> Self {
        Self::Bars(Bars::new(out, ProgressDrawTarget::stderr()))
    }

    /// JSON lines on `out`.
    pub fn json(out: impl Write + Send + 'static) -> Self {
        Self::Json(JsonLines::new(out))
    }
}

impl Observe for Reporter {
    fn observe(&self, event: &Event) {
        match self {
            Self::Lines(reporter) => reporter.observe(event),
            Self::Bars(reporter) => reporter.observe(event),
            Self::Json(reporter) => reporter.observe(event),
        }
    }
}

/// Where a reporter writes.
struct Sink(Mutex<Box<dyn Write + Send>>);

impl Sink {
    fn new(out: impl Write + Send + 'static) -> Self {
        Self(Mutex::new(Box::new(out)))
    }

    /// Writes `line` whole, so that two threads never share a line.
    fn line(&self, line: &str) {
        let mut out = lock(&self.0);
        let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

/// A thread that panicked while it reported leaves nothing behind that would matter to the next.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
