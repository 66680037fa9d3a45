//! What happened before, for `history`: the journal's lines in words.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::escape;

/// The schema of [`HistoryDocument`].
pub const HISTORY_SCHEMA: u32 = 1;

/// The journal in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryDocument {
    /// The schema of this document.
    pub schema: u32,
    /// What happened, the oldest first.
    pub lines: Vec<HistoryLine>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// When, as RFC 3339.
    pub time: String,
    /// What, in words.
    pub words: String,
}

impl HistoryDocument {
    /// A document of `lines`, the oldest first.
    pub fn new(lines: Vec<HistoryLine>) -> Self {
        Self { schema: HISTORY_SCHEMA, lines }
    }

    /// For people: the time, then the words, aligned, each line ended.
    pub fn human(&self) -> String {
        if self.lines.is_empty() {
            return "nothing has happened yet\n".to_owned();
        }
        let width = self.lines.iter().map(|line| line.time.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for line in &self.lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:width$}  {}", escape::line(&line.time), escape::line(&line.words));
        }
        text
    }
}
