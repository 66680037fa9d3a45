//! What a check found is told again as long as the file is the very same, and no longer.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::kit::{directory, overwrite, publish, words, writer};
use myriarch_store::{Slot, Store};

const FILE: &str = "checked.json";

fn save(store: &Store, path: &Path) {
    store.checks().save(path, |_| true).unwrap();
}

/// The same store as another process sees it that was told by the file at `path`.
fn elsewhere(store: &Store, path: &Path) -> Store {
    let other = Store::open(store.root()).unwrap();
    other.checks().load(path);
    other
}

fn told(store: &Store, slot: &Slot) -> Option<Result<(), String>> {
    store.slot(slot.name()).unwrap().last_check()
}

#[test]
fn nothing_is_known_before_the_first_check() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    assert_eq!(slot.last_check(), None);
    slot.check().unwrap();
    assert_eq!(slot.last_check(), Some(Ok(())));
    assert_eq!(told(&writer, &slot), Some(Ok(())), "by every handle");
}

#[test]
fn damage_is_remembered_with_what_was_wrong() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    overwrite(&slot.program(), b"progran");
    let damage = slot.check().unwrap_err();
    assert_eq!(slot.last_check(), Some(Err(damage.to_string())));
}

#[test]
fn whatever_touches_the_file_makes_the_finding_worth_nothing() {
    // The same bytes, the same length with the old times put back, another mode, the same bytes under a new inode.
    type Touch = fn(&Path);
    let touches: [(&str, Touch); 4] = [
        ("written anew", |path| overwrite(path, b"program")),
        ("its times put back", |path| {
            let before = fs::metadata(path).unwrap().modified().unwrap();
            overwrite(path, b"progran");
            fs::File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
        }),
        ("another mode", |path| fs::set_permissions(path, fs::Permissions::from_mode(0o500)).unwrap()),
        ("another file", |path| {
            let other = path.with_extension("other");
            fs::copy(path, &other).unwrap();
            fs::rename(other, path).unwrap();
        }),
    ];
    for (name, touch) in touches {
        let (dir, writer) = writer();
        let slot = publish(&writer, "1.2.3", b"program");
        slot.check().unwrap();
        save(&writer, &dir.path().join(FILE));
        // The kernel's clock for files moves in steps.
        std::thread::sleep(std::time::Duration::from_millis(20));
        touch(&slot.program());
        assert_eq!(slot.last_check(), None, "{name}");
        let other = elsewhere(&writer, &dir.path().join(FILE));
        assert_eq!(told(&other, &slot), None, "{name}, to another process");
    }
}

#[test]
fn what_is_not_there_needs_no_check_to_be_missed() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    slot.check().unwrap();
    fs::remove_file(slot.program()).unwrap();
    let expected = words(&slot.check().unwrap_err());
    assert_eq!(slot.last_check(), Some(Err(expected)));
}

#[test]
fn another_process_is_told_by_a_file_that_is_for_its_owner_alone() {
    let (dir, writer) = writer();
    let path = dir.path().join(FILE);
    let slot = publish(&writer, "1.2.3", b"program");
    slot.check().unwrap();
    save(&writer, &path);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(told(&elsewhere(&writer, &path), &slot), Some(Ok(())));
    // What it knew is kept by one that has checked nothing, but for slots that are gone.
    save(&Store::open(writer.root()).unwrap(), &path);
    assert_eq!(told(&elsewhere(&writer, &path), &slot), Some(Ok(())));
    Store::open(writer.root()).unwrap().checks().save(&path, |_| false).unwrap();
    assert_eq!(told(&elsewhere(&writer, &path), &slot), None);
}

#[test]
fn a_file_that_others_could_write_or_of_another_boot_says_nothing() {
    let (dir, writer) = writer();
    let path = dir.path().join(FILE);
    let slot = publish(&writer, "1.2.3", b"program");
    slot.check().unwrap();
    save(&writer, &path);
    let good = fs::read_to_string(&path).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for odd in
        [good.replace(boot.trim(), "another"), good.replace("\"schema\":1", "\"schema\":2"), "{".into()]
    {
        fs::write(&path, odd).unwrap();
        assert_eq!(told(&elsewhere(&writer, &path), &slot), None);
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(told(&elsewhere(&writer, &path), &slot), Some(Ok(())), "it was the oddness");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    assert_eq!(told(&elsewhere(&writer, &path), &slot), None, "others could write it");
    let elsewhere_on_disk = directory();
    let moved = elsewhere_on_disk.path().join(FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&path, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &path).unwrap();
    assert_eq!(told(&elsewhere(&writer, &path), &slot), None, "a link is not followed");
}
