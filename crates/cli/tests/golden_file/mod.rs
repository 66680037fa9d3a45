//! Texts that are compared with files in `tests/golden`; `UPDATE_GOLDEN=1` takes a new text over.

use std::{fs, path::PathBuf};

/// Asserts that `found` is what the file `name` holds.
pub(crate) fn golden(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{}", path.display());
}
