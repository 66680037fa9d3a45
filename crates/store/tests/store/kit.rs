//! A store of its own for each test, in memory where the machine has a file system for that.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, path::Path};

use myriarch_store::{Manifest, Slot, Store, StoreError, Writer};
use myriarch_verify::Digest;
use tempfile::TempDir;

pub(crate) const BINARY: &str = "otelcol-contrib";

pub(crate) fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("a temporary directory")
}

pub(crate) fn store() -> (TempDir, Store) {
    let dir = directory();
    let store = Store::create(dir.path().join("store")).expect("a new store");
    (dir, store)
}

pub(crate) fn writer() -> (TempDir, Writer) {
    let (dir, store) = store();
    let writer = store.lock("a test").expect("a lock that no one else knows");
    (dir, writer)
}

pub(crate) fn manifest(version: &str, binary: Digest) -> Manifest {
    Manifest {
        schema: Manifest::SCHEMA,
        name: BINARY.to_owned(),
        version: version.to_owned(),
        binary,
        archive: Digest::of(version.as_bytes()),
        evidence: serde_json::json!({ "by": "pin" }),
        source: "test".to_owned(),
        staged_at: "2026-01-02T03:04:05Z".to_owned(),
    }
}

pub(crate) fn try_publish(writer: &Writer, version: &str, bytes: &[u8]) -> Result<Slot, StoreError> {
    let mut staging = writer.staging(BINARY)?;
    staging.write_all(bytes).expect("room for a few bytes");
    writer.publish(staging, |binary| manifest(version, binary))
}

pub(crate) fn publish(writer: &Writer, version: &str, bytes: &[u8]) -> Slot {
    try_publish(writer, version, bytes).expect("a new slot")
}

/// Writes where the store never would: this is the disk's or an intruder's doing.
pub(crate) fn overwrite(path: &Path, bytes: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own file");
    fs::write(path, bytes).expect("own file");
}

/// The names in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The causes of an error, as an operator reads them.
pub(crate) fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
