//! `current` names a slot at every instant, and only slots.

use std::{fs, os::unix::fs::symlink, path::Path};

use crate::kit::{BINARY, publish, words, writer};
use myriarch_store::{Current, Store, StoreError};

#[test]
fn current_is_a_relative_link_to_the_slot() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    assert_eq!(writer.current().unwrap(), Current::Absent);
    writer.point(&slot).unwrap();
    let target = fs::read_link(writer.root().join("current")).unwrap();
    assert_eq!(target, Path::new("versions").join(slot.name().as_str()));
    assert_eq!(writer.current().unwrap(), Current::Slot(slot.name().clone()));
    assert_eq!(fs::read(writer.program(BINARY)).unwrap(), b"program");
}

#[test]
fn a_reader_never_sees_no_program() {
    let (_dir, writer) = writer();
    let slots = [publish(&writer, "1.0.0", b"one"), publish(&writer, "2.0.0", b"two")];
    writer.point(&slots[0]).unwrap();
    let program = writer.program(BINARY);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..5000 {
                let bytes = fs::read(&program).unwrap();
                assert!(bytes == b"one" || bytes == b"two");
            }
        });
        for slot in slots.iter().cycle() {
            writer.point(slot).unwrap();
            if reader.is_finished() {
                break;
            }
        }
    });
}

#[test]
fn a_link_left_over_from_a_killed_switch_blocks_nothing() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    symlink("nowhere", writer.root().join("current.next")).unwrap();
    writer.point(&slot).unwrap();
    assert_eq!(writer.current().unwrap(), Current::Slot(slot.name().clone()));
    assert!(!writer.root().join("current.next").is_symlink());
}

#[test]
fn what_stands_in_the_links_place_is_set_aside_and_blocks_nothing() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    let link = writer.root().join("current");
    fs::create_dir_all(link.join("bin")).unwrap();
    writer.point(&slot).unwrap();
    assert_eq!(writer.current().unwrap(), Current::Slot(slot.name().clone()));
    assert!(writer.root().join("current.set-aside-0/bin").is_dir());
    fs::remove_file(&link).unwrap();
    fs::write(&link, "precious").unwrap();
    writer.clear().unwrap();
    assert_eq!(writer.current().unwrap(), Current::Absent);
    assert_eq!(fs::read(writer.root().join("current.set-aside-1")).unwrap(), b"precious");
}

#[test]
fn a_slot_that_is_gone_is_not_pointed_at() {
    let (_dir, writer) = writer();
    let old = publish(&writer, "1.0.0", b"one");
    let gone = publish(&writer, "2.0.0", b"two");
    writer.point(&old).unwrap();
    writer.prune(&[].into()).unwrap();
    let error = writer.point(&gone).unwrap_err();
    assert!(matches!(error, StoreError::Absent { .. }), "{error}");
    assert_eq!(writer.current().unwrap(), Current::Slot(old.name().clone()));
}

#[test]
fn a_slot_of_another_store_is_not_pointed_at() {
    let (_dir, here) = writer();
    let (_other, there) = writer();
    publish(&here, "1.2.3", b"program");
    let slot = publish(&there, "1.2.3", b"program");
    let error = here.point(&slot).unwrap_err();
    assert!(matches!(error, StoreError::Elsewhere { .. }), "{error}");
    assert_eq!(here.current().unwrap(), Current::Absent);
}

#[test]
fn what_is_not_ours_is_told_as_it_is_and_can_be_replaced() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    let link = writer.root().join("current");
    let name = slot.name().as_str();
    for target in [
        "versions".to_owned(),
        "versions/".to_owned(),
        format!("versions/{name}/"),
        format!("versions//{name}"),
        format!("./versions/{name}"),
        format!("versions/{name}/../{name}"),
        slot.dir().display().to_string(),
        "/usr/bin".to_owned(),
        "versions/..".to_owned(),
    ] {
        symlink(&target, &link).unwrap();
        assert_eq!(writer.current().unwrap(), Current::Foreign { target: target.into() });
        writer.point(&slot).unwrap();
        assert_eq!(writer.current().unwrap(), Current::Slot(slot.name().clone()));
        writer.clear().unwrap();
    }
    fs::create_dir(&link).unwrap();
    assert_eq!(writer.current().unwrap(), Current::Foreign { target: link.clone() });
}

#[test]
fn a_cleared_store_has_no_current_and_keeps_its_slots() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    writer.clear().unwrap();
    writer.point(&slot).unwrap();
    writer.clear().unwrap();
    assert_eq!(writer.current().unwrap(), Current::Absent);
    slot.check().unwrap();
}

#[test]
fn a_store_opens_only_where_one_is() {
    let dir = crate::kit::directory();
    let error = Store::open(dir.path().join("typo")).unwrap_err();
    assert!(words(&error).contains("typo"), "{}", words(&error));
    let error = Store::open(dir.path()).unwrap_err();
    assert!(words(&error).contains("versions"), "{}", words(&error));
    fs::write(dir.path().join("versions"), "").unwrap();
    let error = Store::create(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::NotADirectory { .. }), "{error}");
}

#[test]
fn a_store_is_made_with_everything_above_it_and_made_again_without_harm() {
    let dir = crate::kit::directory();
    let root = dir.path().join("opt/myriarch/otelcol");
    Store::create(&root).unwrap();
    let writer = Store::create(&root).unwrap().lock("test").unwrap();
    let slot = publish(&writer, "1.2.3", b"program");
    let store = Store::create(&root).unwrap();
    store.slot(slot.name()).unwrap().check().unwrap();
    assert!(store.available().unwrap().is_some_and(|bytes| bytes > 0));
}
