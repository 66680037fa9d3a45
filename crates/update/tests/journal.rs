//! The journal loses nothing that was promised, and no content of it can wedge the updater.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::{fs, io::Write as _};

use myriarch_update::{
    Build,
    journal::{Entry, Journal, JournalError},
};

fn journal(dir: &tempfile::TempDir) -> Journal {
    Journal::at(dir.path().join("journal.jsonl"))
}

fn confirmed(n: u8) -> Entry {
    let version = format!("0.{n}.0").parse().unwrap();
    Entry::Confirmed {
        leaving: None,
        took: None,
        build: Build { version, binary: [n; 32].into(), archive: [n; 32].into() },
    }
}

fn record(journal: &Journal, n: u8) {
    journal.record(jiff::Timestamp::UNIX_EPOCH, confirmed(n)).unwrap();
}

fn append(journal: &Journal, bytes: &[u8]) {
    fs::OpenOptions::new().append(true).open(journal.path()).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_line_recorded_is_a_line_read() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    assert_eq!(journal.lines().unwrap(), []);
    record(&journal, 1);
    record(&journal, 2);
    let entries: Vec<_> = journal.lines().unwrap().into_iter().map(|line| line.entry).collect();
    assert_eq!(entries, [confirmed(1), confirmed(2)]);
}

#[test]
fn a_torn_last_line_is_dropped_and_swallows_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    record(&journal, 1);
    let whole = fs::read(journal.path()).unwrap();
    for cut in (1..whole.len()).step_by(7) {
        fs::write(journal.path(), &whole).unwrap();
        append(&journal, &whole[..cut]);
        assert_eq!(journal.lines().unwrap().len(), 1, "cut at {cut}");
        record(&journal, 2);
        let entries: Vec<_> = journal.lines().unwrap().into_iter().map(|line| line.entry).collect();
        assert_eq!(entries, [confirmed(1), confirmed(2)], "cut at {cut}");
    }
}

#[test]
fn garbage_is_set_aside_and_what_can_be_read_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    record(&journal, 1);
    append(&journal, b"\0\xffgarbage\n");
    record(&journal, 2);
    let before = fs::read(journal.path()).unwrap();
    let error = journal.lines().unwrap_err();
    let JournalError::Unreadable { line: 2, readable, .. } = error else { panic!("{error}") };
    let kept_as = journal.begin_anew(jiff::Timestamp::UNIX_EPOCH, "garbage", readable).unwrap();
    assert_eq!(fs::read(kept_as).unwrap(), before, "nothing is lost");
    let entries: Vec<_> = journal.lines().unwrap().into_iter().map(|line| line.entry).collect();
    assert_eq!(entries[..2], [confirmed(1), confirmed(2)]);
    assert!(matches!(entries[2], Entry::SetAside { .. }));
}

#[test]
fn a_newer_schema_is_refused_not_guessed() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(&dir);
    record(&journal, 1);
    append(&journal, b"{\"schema\":2,\"entry\":\"moved-to-mars\"}\n");
    let error = journal.lines().unwrap_err();
    assert!(matches!(error, JournalError::NewerSchema { line: 2, found: 2, .. }), "{error}");
    assert!(error.to_string().contains("expected schema 1 or lower, found 2"));
}
