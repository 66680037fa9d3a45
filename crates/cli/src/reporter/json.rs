//! One JSON document a line, for programs.

use std::io::Write;

use myriarch_update::{Event, Observe};
use serde::Serialize;

use super::Sink;

/// The schema of the lines.
pub const EVENT_SCHEMA: u32 = 1;

/// One JSON document for each event, with the schema in it.
#[derive(Debug)]
pub struct JsonLines {
    out: Sink,
}

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    #[serde(flatten)]
    event: &'a Event,
}

impl JsonLines {
    /// JSON lines on `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self { out: Sink::new(out) }
    }
}

impl Observe for JsonLines {
    fn observe(&self, event: &Event) {
        // Events are strings and numbers, which JSON can always say.
        if let Ok(line) = serde_json::to_string(&Line { schema: EVENT_SCHEMA, event }) {
            self.out.line(&line);
        }
    }
}
