//! The excerpt: what a program said last before its trial failed.
//!
//! Whoever is called at night wants one line first, and then the lines around it. The supervisor empties its
//! collector's log at each start, so they are kept before the way back starts the previous build.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is kept of the last words of a program whose trial failed. Secrets are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// The one line that tells the most.
    pub line: String,
    /// The file with the lines around it; absent where it could not be kept.
    pub file: Option<PathBuf>,
}
