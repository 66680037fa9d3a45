//! Plain lines, for pipes and logs. A download says something at each tenth, not at each chunk.

use std::{io::Write, sync::Mutex};

use myriarch_update::{Event, Observe};

use super::{Sink, lock};
use crate::describe;

/// The step where a source does not tell the size.
const BLIND_STEP: u64 = 32 << 20;

/// One line of words for each event.
#[derive(Debug)]
pub struct Lines {
    out: Sink,
    download: Mutex<Option<Step>>,
}

/// How far a download was when it was last told.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    version: String,
    step: u64,
}

impl Lines {
    /// Lines on `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self { out: Sink::new(out), download: Mutex::new(None) }
    }

    /// Whether this event says nothing that the line before did not.
    fn is_repetition(&self, event: &Event) -> bool {
        let mut told = lock(&self.download);
        let Event::Downloading { version, received, total } = event else {
            *told = None;
            return false;
        };
        let step = total.map_or(received / BLIND_STEP, |total| describe::percent(*received, total) / 10);
        let now = Step { version: version.to_string(), step };
        let repeated = told.as_ref() == Some(&now);
        *told = Some(now);
        repeated
    }
}

impl Observe for Lines {
    fn observe(&self, event: &Event) {
        if !self.is_repetition(event) {
            self.out.line(&describe::event(event));
        }
    }
}
