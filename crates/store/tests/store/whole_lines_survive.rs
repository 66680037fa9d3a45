//! What was acknowledged stays whole: a replaced file, and every whole line of one that grows.

use std::{fs, io::ErrorKind, os::unix::fs::PermissionsExt as _};

use crate::kit::{directory, names, words};
use myriarch_store::durable::{Owner, append_line, replace, replace_for};
use proptest::prelude::*;

#[test]
fn a_file_is_replaced_as_a_whole_with_its_mode() {
    let dir = directory();
    let path = dir.path().join("status.json");
    replace(&path, b"one", 0o644).unwrap();
    replace(&path, b"2", 0o600).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"2");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(names(dir.path()), ["status.json"]);
}

#[test]
fn a_link_is_replaced_and_not_followed() {
    let dir = directory();
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let path = dir.path().join("status.json");
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    replace(&path, b"new", 0o644).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");

    let path = dir.path().join("journal.jsonl");
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    append_line(&path, b"line").unwrap_err();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn an_error_says_where_and_keeps_its_kind() {
    let dir = directory();
    let path = dir.path().join("missing/status.json");
    for error in [replace(&path, b"", 0o644).unwrap_err(), append_line(&path, b"").unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(words(&error).contains("missing/"), "{}", words(&error));
    }
}

#[test]
fn a_failed_replacement_leaves_the_old_content_and_no_litter() {
    let dir = directory();
    let path = dir.path().join("status.json");
    fs::create_dir(&path).unwrap();
    replace(&path, b"new", 0o644).unwrap_err();
    assert_eq!(names(dir.path()), ["status.json"]);
}

#[test]
fn a_line_within_a_line_is_refused() {
    let dir = directory();
    let path = dir.path().join("journal.jsonl");
    assert_eq!(append_line(&path, b"one\ntwo").unwrap_err().kind(), ErrorKind::InvalidInput);
    append_line(&path, b"one\n").unwrap();
    append_line(&path, b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
}

#[test]
fn a_torn_line_is_set_aside_and_does_not_swallow_the_next() {
    let dir = directory();
    let path = dir.path().join("journal.jsonl");
    fs::write(&path, "one\ntwo\n{\"to").unwrap();
    append_line(&path, b"three").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
    assert_eq!(fs::read(dir.path().join("journal.jsonl.torn")).unwrap(), b"{\"to");
}

proptest! {
    /// Lines of every length, torn at every place, some longer than what is read in one step.
    #[test]
    fn whole_lines_are_never_lost(
        lines in prop::collection::vec(0usize..9000, 0..6),
        torn in 0usize..9000,
        next in 0usize..50,
    ) {
        let dir = directory();
        let path = dir.path().join("journal.jsonl");
        let mut expected: Vec<u8> = Vec::new();
        for length in lines {
            expected.extend(std::iter::repeat_n(b'x', length));
            expected.push(b'\n');
        }
        let mut content = expected.clone();
        content.extend(std::iter::repeat_n(b't', torn));
        fs::write(&path, &content).unwrap();
        append_line(&path, &vec![b'n'; next]).unwrap();
        expected.extend(std::iter::repeat_n(b'n', next));
        expected.push(b'\n');
        prop_assert_eq!(fs::read(&path).unwrap(), expected);
        let aside = dir.path().join("journal.jsonl.torn");
        prop_assert_eq!(aside.exists().then(|| fs::read(&aside).unwrap()), (torn > 0).then(|| vec![b't'; torn]));
    }
}

#[test]
fn a_file_is_given_away_with_its_mode_and_a_link_is_replaced() {
    use std::os::unix::fs::{MetadataExt as _, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("file"), dir.path().join("other"));
    std::fs::write(&other, "other").unwrap();
    symlink(&other, &path).unwrap();
    // Only root may give a file away.
    let ours = Owner::ours();
    let owner = if ours.uid == 0 { Owner { uid: 1, gid: 2 } } else { ours };
    replace_for(&path, b"new", 0o2640, owner).unwrap();
    let found = std::fs::symlink_metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (owner.uid, owner.gid, 0o2640));
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(std::fs::read(&other).unwrap(), b"other");
    assert_ne!(std::fs::metadata(&other).unwrap().uid(), if ours.uid == 0 { 1 } else { u32::MAX });
}
