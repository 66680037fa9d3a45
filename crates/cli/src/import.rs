//! What an import is going to change, shown before anything is changed.
//!
//! Every file is shown whole where it is new and line by line where it is edited, so that nobody has to trust a
//! summary. The document for programs says the same.

use std::{fmt::Write as _, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::escape;

/// The schema of [`PlanDocument`].
pub const PLAN_SCHEMA: u32 = 1;
/// How wide the labels are.
const LABEL: usize = 10;

/// What an import is going to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDocument {
    /// The schema of this document.
    pub schema: u32,
    /// The unit whose program is taken over.
    pub unit: String,
    /// The installed program, links followed.
    pub program: PathBuf,
    /// The store that it becomes the first slot of.
    pub store: PathBuf,
    /// The files that are written.
    pub files: Vec<PlannedFile>,
    /// What is not changed, and should be known.
    pub remarks: Vec<String>,
    /// What follows, in order.
    pub then: Vec<String>,
    /// The command that puts everything back.
    pub undo: String,
}

/// A file that is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum PlannedFile {
    /// One that is not there yet.
    New {
        /// Where.
        path: PathBuf,
        /// All of it.
        text: String,
    },
    /// One of which one line changes, and nothing else.
    Line {
        /// Where.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// As it is.
        before: String,
        /// As it will be.
        after: String,
    },
}

impl PlanDocument {
    /// For people: lines, each ended.
    pub fn human(&self) -> String {
        let mut out = Plan::default();
        let (program, store) = (self.program.display(), self.store.display());
        out.say("import", &format!("{program}, which {} runs", self.unit));
        out.say("", &format!("its bytes become the first slot of {store}"));
        out.say("", "nothing but your word vouches for them: no signature was checked");
        for file in &self.files {
            match file {
                PlannedFile::New { path, text } => {
                    out.say("new file", &path.display().to_string());
                    for line in text.lines() {
                        out.say("", format!("| {line}").trim_end());
                    }
                }
                PlannedFile::Line { path, line, before, after } => {
                    out.say("edit", &format!("{}, line {line}", path.display()));
                    out.say("", &format!("- {before}"));
                    out.say("", &format!("+ {after}"));
                }
            }
        }
        for remark in &self.remarks {
            out.say("note", remark);
        }
        for step in &self.then {
            out.say("then", step);
        }
        out.say("undo", &self.undo);
        out.0
    }
}

#[derive(Default)]
struct Plan(String);

impl Plan {
    fn say(&mut self, label: &str, words: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{}", format!("{label:LABEL$}{}", escape::line(words)).trim_end());
    }
}
