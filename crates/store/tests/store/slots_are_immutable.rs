//! A published slot is never written, renamed while needed, or repaired in place.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
};

use crate::kit::{BINARY, manifest, names, overwrite, publish, try_publish, words, writer};
use myriarch_store::{Current, StoreError};
use myriarch_verify::Digest;

#[test]
fn a_slot_holds_the_program_and_its_manifest_and_nothing_else() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    assert_eq!(slot.name().to_string(), format!("1.2.3-{}", Digest::of(b"program").short()));
    assert_eq!(names(slot.dir()), ["bin", "slot.json"]);
    assert_eq!(names(&slot.dir().join("bin")), [BINARY]);
    assert_eq!(fs::read(slot.program()).unwrap(), b"program");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(slot.program()), 0o555);
    assert_eq!(mode(slot.dir().join("slot.json")), 0o444);
    assert_eq!(mode(slot.dir().to_owned()), 0o755);
    assert_eq!(mode(slot.dir().join("bin")), 0o755);
    slot.check().unwrap();
    assert_eq!(writer.slot(slot.name()).unwrap(), slot);
    assert_eq!(names(writer.root()), ["inbox", "lock", "partial", "versions"]);
}

#[test]
fn publishing_the_same_build_again_leaves_the_slot_as_it_is() {
    let (_dir, writer) = writer();
    let first = publish(&writer, "1.2.3", b"program");
    let before = fs::metadata(first.program()).unwrap();
    let second = publish(&writer, "1.2.3", b"program");
    let after = fs::metadata(second.program()).unwrap();
    assert_eq!(first, second);
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert_eq!(names(writer.root()), ["inbox", "lock", "partial", "versions"]);
}

#[test]
fn a_version_released_again_with_other_bytes_is_another_slot() {
    let (_dir, writer) = writer();
    let first = publish(&writer, "1.2.3", b"program");
    let second = publish(&writer, "1.2.3", b"another program");
    assert_ne!(first.name(), second.name());
    first.check().unwrap();
    second.check().unwrap();
}

#[test]
fn a_damaged_slot_that_current_names_is_not_repaired_in_place() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    writer.point(&slot).unwrap();
    overwrite(&slot.program(), b"rubbish");
    let error = try_publish(&writer, "1.2.3", b"program").unwrap_err();
    assert!(matches!(error, StoreError::DamagedInUse { .. }), "{error}");
    assert_eq!(fs::read(slot.program()).unwrap(), b"rubbish");
    assert_eq!(names(writer.root()), ["current", "inbox", "lock", "partial", "versions"]);
}

#[test]
fn a_damaged_slot_that_a_foreign_link_leads_to_is_in_use_too() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    std::os::unix::fs::symlink(slot.dir(), writer.root().join("current")).unwrap();
    assert!(matches!(writer.current().unwrap(), Current::Foreign { .. }));
    fs::remove_file(slot.dir().join("slot.json")).unwrap();
    let error = try_publish(&writer, "1.2.3", b"program").unwrap_err();
    assert!(matches!(error, StoreError::DamagedInUse { .. }), "{error}");
}

#[test]
fn a_damaged_slot_that_nothing_names_is_replaced_by_a_new_one() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    let old = fs::File::open(slot.program()).unwrap();
    let damages: [&dyn Fn(); 4] = [
        &|| overwrite(&slot.program(), b"rubbish"),
        &|| fs::remove_file(slot.dir().join("slot.json")).unwrap(),
        &|| fs::remove_dir_all(slot.dir().join("bin")).unwrap(),
        &|| {
            fs::remove_dir_all(slot.dir()).unwrap();
            fs::create_dir(slot.dir()).unwrap();
        },
    ];
    for damage in damages {
        damage();
        let again = publish(&writer, "1.2.3", b"program");
        assert_eq!(again, slot);
        again.check().unwrap();
        assert_ne!(old.metadata().unwrap().ino(), fs::metadata(again.program()).unwrap().ino());
        assert_eq!(names(&writer.versions_dir()), [slot.name().as_str()]);
        assert_eq!(names(writer.root()), ["inbox", "lock", "partial", "versions"]);
    }
}

#[test]
fn a_manifest_that_contradicts_the_bytes_is_refused() {
    let (_dir, writer) = writer();
    let refused = |change: &dyn Fn(&mut myriarch_store::Manifest)| {
        let staging = writer.staging(BINARY).unwrap();
        let error = writer
            .publish(staging, |binary| {
                let mut manifest = manifest("1.2.3", binary);
                change(&mut manifest);
                manifest
            })
            .unwrap_err();
        assert_eq!(names(&writer.versions_dir()), [""; 0]);
        words(&error)
    };
    assert!(refused(&|m| m.binary = Digest::of(b"other")).contains("expected the manifest to say"));
    assert!(refused(&|m| m.name = "other".to_owned()).contains("found other"));
    assert!(refused(&|m| m.schema = 2).contains("expected schema 1"));
    assert!(refused(&|m| m.version = "../../etc".to_owned()).contains("expected a slot name"));
    assert!(refused(&|m| m.version = String::new()).contains("expected a slot name"));
}

#[test]
fn a_program_is_called_by_a_plain_file_name() {
    let (_dir, writer) = writer();
    for name in ["", ".", "..", "a/b", "/etc/passwd", "a\nb", "a\0b"] {
        let error = writer.staging(name).unwrap_err();
        assert!(matches!(error, StoreError::BinaryName { .. }), "{name:?}: {error}");
    }
}

#[test]
fn what_is_staged_is_not_executable_and_not_a_slot() {
    let (_dir, writer) = writer();
    let staging = writer.staging(BINARY).unwrap();
    let program = staging.dir().join("bin").join(BINARY);
    assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(writer.slots().unwrap().is_empty());
    drop(staging);
    assert!(!program.exists());
}
