//! What a test needs from outside the repository: data of other projects that lies beside it, rights, tools.
//!
//! Where it is missing a test says so and ends; in continuous integration (`CI=true`) that is a failure,
//! since a test that always skips proves nothing.
#![expect(clippy::print_stderr, reason = "a kit for tests: a skip is said, a failure is a panic")]

use std::path::{Path, PathBuf};

/// The folder that `variable` names, or else `shared/<name>` in a directory above this package. Answers
/// `None`, after saying that `test` is skipped, if there is neither.
///
/// # Panics
/// If there is neither and the variable `CI` is `true`, or if `variable` names no folder.
pub fn folder(test: &str, variable: &str, name: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        assert!(path.is_dir(), "{variable} names no folder: {}", path.display());
        return Some(path);
    }
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = above.map(|directory| directory.join("shared").join(name)).find(|path| path.is_dir());
    if found.is_none() {
        skip(test, &format!("set {variable}, or put shared/{name} beside the repository"));
    }
    found
}

/// Says that `test` cannot run here and what is missing.
///
/// # Panics
/// In continuous integration.
pub fn skip(test: &str, missing: &str) {
    let words = format!("skipped: {test}: {missing}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{words}; in CI this is a failure");
    eprintln!("{words}");
}
