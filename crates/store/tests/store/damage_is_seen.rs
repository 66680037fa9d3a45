//! Whatever is not exactly what was published is damage, and is named.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    process::Command,
};

use crate::kit::{overwrite, publish, words, writer};
use myriarch_store::{Damage, Slot, StoreError};
use myriarch_verify::Digest;

fn damaged(damage: impl FnOnce(&Slot)) -> Damage {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    slot.check().unwrap();
    damage(&slot);
    slot.check().unwrap_err()
}

fn unsaid(damage: impl FnOnce(&Slot)) -> StoreError {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    damage(&slot);
    let error = writer.slot(slot.name()).unwrap_err();
    let listed = writer.slots().unwrap();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].1.is_err());
    error
}

#[test]
fn a_flipped_bit_is_seen() {
    let damage = damaged(|slot| overwrite(&slot.program(), b"progran"));
    let Damage::Digest { expected, found, length, .. } = damage else { panic!("{damage}") };
    assert_eq!((expected, found, length), (Digest::of(b"program"), Digest::of(b"progran"), 7));
}

#[test]
fn a_program_cut_short_is_seen() {
    assert!(matches!(damaged(|slot| overwrite(&slot.program(), b"")), Damage::Digest { length: 0, .. }));
}

#[test]
fn a_missing_program_is_seen() {
    let damage = damaged(|slot| fs::remove_file(slot.program()).unwrap());
    assert!(matches!(damage, Damage::Missing { .. }), "{damage}");
    let damage = damaged(|slot| fs::remove_dir_all(slot.dir().join("bin")).unwrap());
    assert!(matches!(damage, Damage::Missing { .. }), "{damage}");
    let damage = damaged(|slot| fs::remove_dir_all(slot.dir()).unwrap());
    assert!(matches!(damage, Damage::Missing { .. }), "{damage}");
}

#[test]
fn a_link_to_the_right_bytes_is_no_program() {
    let damage = damaged(|slot| {
        let elsewhere = slot.dir().join("elsewhere");
        fs::rename(slot.program(), &elsewhere).unwrap();
        symlink(&elsewhere, slot.program()).unwrap();
    });
    assert!(matches!(damage, Damage::NotAFile { found: "a symbolic link", .. }), "{damage}");
    let damage = damaged(|slot| {
        fs::rename(slot.dir().join("bin"), slot.dir().join("nib")).unwrap();
        symlink("nib", slot.dir().join("bin")).unwrap();
    });
    assert!(matches!(damage, Damage::NotAFile { .. }), "{damage}");
}

#[test]
fn what_is_no_file_is_no_program_and_blocks_nothing() {
    let replaced = |make: &dyn Fn(&Slot)| {
        damaged(|slot| {
            fs::remove_file(slot.program()).unwrap();
            make(slot);
        })
    };
    let damage = replaced(&|slot| fs::create_dir(slot.program()).unwrap());
    assert!(matches!(damage, Damage::NotAFile { found: "a directory", .. }), "{damage}");
    let damage = replaced(&|slot| {
        assert!(Command::new("mkfifo").arg(slot.program()).status().unwrap().success());
    });
    assert!(matches!(damage, Damage::NotAFile { found: "a FIFO", .. }), "{damage}");
    let damage = replaced(&|slot| drop(UnixListener::bind(slot.program()).unwrap()));
    assert!(matches!(damage, Damage::NotAFile { .. }), "{damage}");
}

#[test]
fn a_slot_without_a_manifest_is_no_slot() {
    let error = unsaid(|slot| fs::remove_file(slot.dir().join("slot.json")).unwrap());
    assert!(words(&error).contains("slot.json"), "{}", words(&error));
}

#[test]
fn a_torn_manifest_is_seen() {
    let error = unsaid(|slot| {
        let path = slot.dir().join("slot.json");
        let whole = fs::read(&path).unwrap();
        overwrite(&path, &whole[..whole.len() / 2]);
    });
    assert!(matches!(error, StoreError::Manifest { .. }), "{error}");
}

#[test]
fn an_unknown_schema_is_refused_and_not_guessed() {
    let error = unsaid(|slot| overwrite(&slot.dir().join("slot.json"), br#"{"schema":2,"other":"shape"}"#));
    assert!(matches!(error, StoreError::Schema { found: 2, .. }), "{error}");
    assert!(error.to_string().contains("expected schema 1"), "{error}");
}

#[test]
fn a_manifest_of_another_slot_is_refused() {
    for (right, wrong) in [
        ("1.2.3".to_owned(), "1.2.4".to_owned()),
        (Digest::of(b"program").to_string(), Digest::of(b"other").to_string()),
    ] {
        let error = unsaid(|slot| {
            let path = slot.dir().join("slot.json");
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(&right));
            overwrite(&path, text.replace(&right, &wrong).as_bytes());
        });
        assert!(matches!(error, StoreError::Mismatch { .. }), "{error}");
    }
}

#[test]
fn a_manifest_cannot_lead_out_of_its_slot() {
    let error = unsaid(|slot| {
        let path = slot.dir().join("slot.json");
        let text = fs::read_to_string(&path).unwrap();
        overwrite(&path, text.replace("otelcol-contrib", "../../../../bin/sh").as_bytes());
    });
    assert!(matches!(error, StoreError::BinaryName { .. }), "{error}");
}

#[test]
fn what_has_no_slots_name_is_not_told() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    for name in ["lost+found", "1.2.3", "1.2.3-7623348C295E", ".hidden-7623348c295e"] {
        fs::create_dir(writer.versions_dir().join(name)).unwrap();
    }
    let listed: Vec<_> = writer.slots().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(listed, [slot.name().clone()]);
}
