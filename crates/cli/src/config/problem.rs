//! What is wrong with a configuration, and where. All problems of a file are told at once: an operator
//! who mends one line at a time restarts a service once per line.

use std::{collections::BTreeMap, fmt, io, ops::Range, path::PathBuf};

/// A place in the file, both counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

/// One thing wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, unless something is missing altogether.
    pub at: Option<Position>,
    /// What was expected and what was found.
    pub message: String,
    /// What an operator can do about it.
    pub hint: Option<String>,
}

/// A configuration that is not used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Someone else could have written the file, which decides whom to trust.
    #[error("the configuration {path} {found}, expected it to be writable by its owner alone", path = path.display())]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// The command that mends it.
        hint: String,
    },
    /// The file was read and is wrong.
    #[error("{}", list(path, problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Everything found, in the order of the file.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// What an operator can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { source, path } if source.kind() == io::ErrorKind::NotFound => Some(format!(
                "`config example` prints one to begin with; write it to {} or name another with --config",
                path.display()
            )),
            Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("run this as root or as the file's owner".to_owned())
            }
            Self::Unreadable { .. } => Some("name the service's file with --config or --service".to_owned()),
            Self::Untrusted { hint, .. } => Some(hint.clone()),
            Self::Invalid { .. } => {
                Some("`config example` prints a file with every key explained".to_owned())
            }
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

fn list(path: &std::path::Path, problems: &[Problem]) -> String {
    let lines: Vec<_> = problems
        .iter()
        .map(|problem| {
            let at = problem.at.map(|at| format!(":{at}")).unwrap_or_default();
            let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{}{at}: {}{hint}", path.display(), problem.message)
        })
        .collect();
    lines.join("\n")
}

/// The problems found so far in one text.
#[derive(Debug)]
pub(crate) struct Problems<'t> {
    text: &'t str,
    found: Vec<Problem>,
    /// Where each section begins, so that what is missing from it has a place.
    headers: BTreeMap<String, Position>,
}

impl<'t> Problems<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        Self { text, found: Vec::new(), headers: BTreeMap::new() }
    }

    pub(crate) fn position(&self, span: &Range<usize>) -> Position {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Position { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }

    pub(crate) fn add(&mut self, at: Option<Position>, message: impl Into<String>) {
        self.found.push(Problem { at, message: message.into(), hint: None });
    }

    pub(crate) fn add_with_hint(
        &mut self,
        at: Option<Position>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.found.push(Problem { at, message: message.into(), hint: Some(hint.into()) });
    }

    /// Remembers where `section` begins.
    pub(crate) fn begin(&mut self, section: &str, at: Position) {
        self.headers.entry(section.to_owned()).or_insert(at);
    }

    /// Where the section of `key` begins, if the file has it.
    pub(crate) fn section_of(&self, key: &str) -> Option<Position> {
        let section = key.rsplit_once('.').map_or(key, |(section, _)| section);
        self.headers.get(section).copied()
    }

    /// Whether a problem with `key` was already told.
    pub(crate) fn mention(&self, key: &str) -> bool {
        let quoted = format!("`{key}`");
        self.found.iter().any(|problem| problem.message.starts_with(&quoted))
    }

    /// Whether a problem with a key of `section` was already told.
    pub(crate) fn mention_within(&self, section: &str) -> bool {
        let begin = format!("`{section}.");
        self.found.iter().any(|problem| problem.message.starts_with(&begin))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// In the order of the file; what has no place comes last.
    pub(crate) fn into_sorted(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| (problem.at.is_none(), problem.at));
        self.found
    }
}
