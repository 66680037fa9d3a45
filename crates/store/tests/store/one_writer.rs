//! There is one writer per store and machine, and its death or its children keep no one out.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use crate::kit::{store, words};
use myriarch_store::{LockError, Store};

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let (_dir, store) = store();
    assert_eq!(store.holder().unwrap(), None);
    let writer = store.lock("update to 1.2.3").unwrap();
    let error = store.lock("another").unwrap_err();
    let LockError::Held { holder: Some(holder), .. } = &error else { panic!("{}", words(&error)) };
    assert_eq!(holder.pid, std::process::id());
    assert_eq!(holder.purpose, "update to 1.2.3");
    assert!(holder.since.starts_with("20") && holder.since.ends_with('Z'), "{}", holder.since);
    assert!(error.to_string().contains("(update to 1.2.3) since 20"), "{error}");
    assert_eq!(store.holder().unwrap().as_ref(), Some(holder));
    drop(writer);
    assert_eq!(store.holder().unwrap(), None);
    store.lock("another").unwrap();
}

#[test]
fn a_child_does_not_inherit_the_lock() {
    let (_dir, store) = store();
    let writer = store.lock("start a collector").unwrap();
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let open: Vec<_> = fs::read_dir(format!("/proc/{}/fd", child.id()))
        .unwrap()
        .filter_map(|fd| fs::read_link(fd.ok()?.path()).ok())
        .collect();
    drop(writer);
    let again = store.lock("start it again");
    child.kill().unwrap();
    child.wait().unwrap();
    again.unwrap();
    assert!(!open.contains(&store.lock_path()), "{open:?}");
}

#[test]
fn a_writer_that_died_keeps_no_one_out() {
    let (_dir, store) = store();
    // What a killed writer leaves: its words, and no lock.
    fs::write(store.lock_path(), r#"{"pid":1,"purpose":"died","since":"2026-01-01T00:00:00Z"}"#).unwrap();
    assert_eq!(store.holder().unwrap(), None);
    store.lock("next").unwrap();
}

#[test]
fn a_holder_that_says_nothing_sensible_still_holds() {
    let (_dir, store) = store();
    let _writer = store.lock("update").unwrap();
    fs::write(store.lock_path(), b"\x00garbage\xff").unwrap();
    let error = store.lock("another").unwrap_err();
    assert!(matches!(error, LockError::Held { holder: None, .. }), "{}", words(&error));
    assert_eq!(store.holder().unwrap().unwrap().purpose, "unknown");
}

#[test]
fn asking_who_holds_the_lock_does_not_keep_a_writer_out() {
    let (_dir, store) = store();
    drop(store.lock("make the file").unwrap());
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| (0..2000).for_each(|_| assert!(store.holder().is_ok())));
        while !asking.is_finished() {
            store.lock("while asked").unwrap();
        }
    });
}

#[test]
fn the_collectors_user_cannot_hold_the_lock_file() {
    let (_dir, store) = store();
    drop(store.lock("make the file").unwrap());
    let mode = fs::metadata(store.lock_path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn a_link_in_the_locks_place_is_not_followed() {
    let (dir, store) = store();
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, store.lock_path()).unwrap();
    store.lock("update").unwrap_err();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn two_stores_have_two_writers() {
    let (dir, store) = store();
    let other = Store::create(dir.path().join("other")).unwrap();
    let _one = store.lock("one").unwrap();
    let _two = other.lock("two").unwrap();
}
