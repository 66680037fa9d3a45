//! What went wrong in a task, in words for the person who typed it.

use std::{fmt, io, path::Path};

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// One sentence, and a second one where something can be done about it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }

    pub(crate) fn usage(words: impl fmt::Display) -> Self {
        Self(format!("{words}"))
    }

    pub(crate) fn at(path: &Path, error: &io::Error) -> Self {
        Self(format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
