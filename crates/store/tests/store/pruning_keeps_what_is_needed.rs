//! Pruning keeps what is asked for, what `current` names and what runs; in doubt it removes nothing.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::kit::{names, publish, writer};
use myriarch_store::{FileId, SlotName, running};

struct Running(Child);

impl Running {
    fn start(program: &std::path::Path) -> Self {
        loop {
            // Another test's child between fork and exec may hold this program open for writing still.
            match Command::new(program).arg("60").stdin(Stdio::null()).spawn() {
                Ok(child) => return Self(child),
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A program that runs: `sleep`, made unique by what follows its end.
fn sleeper(unique: &str) -> Vec<u8> {
    let mut bytes = fs::read("/bin/sleep").unwrap();
    bytes.extend_from_slice(unique.as_bytes());
    bytes
}

#[test]
fn what_is_asked_for_and_what_current_names_stay() {
    let (_dir, writer) = writer();
    let slots: Vec<_> =
        (0..5).map(|n| publish(&writer, &format!("1.0.{n}"), format!("{n}").as_bytes())).collect();
    writer.point(&slots[3]).unwrap();
    let removed = writer.prune(&BTreeSet::from([slots[1].name().clone()])).unwrap();
    let expected: Vec<SlotName> = [0, 2, 4].map(|n: usize| slots[n].name().clone()).to_vec();
    assert_eq!(removed, expected);
    assert_eq!(names(&writer.versions_dir()), [slots[1].name().as_str(), slots[3].name().as_str()]);
    assert_eq!(names(writer.root()), ["current", "inbox", "lock", "partial", "versions"]);
}

#[test]
fn what_a_foreign_current_leads_to_stays() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    symlink(slot.dir(), writer.root().join("current")).unwrap();
    assert_eq!(writer.prune(&BTreeSet::new()).unwrap(), []);
    slot.check().unwrap();
}

#[test]
fn what_runs_stays_until_it_ends() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", &sleeper("what runs stays"));
    let running = Running::start(&slot.program());
    assert_eq!(running::processes_running(slot.file_id().unwrap()).unwrap(), [running.0.id()]);
    assert_eq!(writer.prune(&BTreeSet::new()).unwrap(), []);
    slot.check().unwrap();
    // A damaged manifest does not hide that it runs.
    fs::remove_file(slot.dir().join("slot.json")).unwrap();
    assert_eq!(writer.prune(&BTreeSet::new()).unwrap(), []);
    drop(running);
    assert_eq!(writer.prune(&BTreeSet::new()).unwrap(), [slot.name().clone()]);
    assert_eq!(names(&writer.versions_dir()), [""; 0]);
}

#[test]
fn a_process_is_found_after_its_file_was_removed_and_not_once_it_is_a_zombie() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", &sleeper("a zombie runs nothing"));
    let file = slot.file_id().unwrap();
    let mut running = Running::start(&slot.program());
    let pid = running.0.id();
    fs::remove_dir_all(slot.dir()).unwrap();
    assert_eq!(running::processes_running(file).unwrap(), [pid]);
    running.0.kill().unwrap();
    let state = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !state().contains(") Z ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(running::processes_running(file).unwrap(), [0; 0]);
}

#[test]
fn no_process_runs_a_file_that_is_not() {
    assert_eq!(running::processes_running(FileId { dev: 0, ino: 0 }).unwrap(), [0; 0]);
}

#[test]
fn what_is_not_a_slot_is_left_alone_and_a_damaged_slot_is_not() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    fs::remove_file(slot.dir().join("slot.json")).unwrap();
    fs::create_dir(writer.versions_dir().join("lost+found")).unwrap();
    assert_eq!(writer.prune(&BTreeSet::new()).unwrap(), [slot.name().clone()]);
    assert_eq!(names(&writer.versions_dir()), ["lost+found"]);
}

#[test]
fn a_sweep_removes_what_a_killed_writer_left_and_nothing_else() {
    let (_dir, writer) = writer();
    let slot = publish(&writer, "1.2.3", b"program");
    writer.point(&slot).unwrap();
    fs::write(writer.partial_dir().join("download"), "half").unwrap();
    fs::write(writer.journal_path(), "{}\n").unwrap();
    assert_eq!(writer.sweep().unwrap(), 0);
    let before = names(writer.root());
    std::mem::forget(writer.staging("otelcol").unwrap());
    fs::write(writer.root().join(".status.json.staging-0123456789abcdef"), "half").unwrap();
    symlink("nowhere", writer.root().join("current.next")).unwrap();
    symlink("/etc", writer.root().join("staging-link")).unwrap();
    assert_eq!(writer.sweep().unwrap(), 4);
    assert_eq!(names(writer.root()), before);
    assert_eq!(names(&writer.partial_dir()), ["download"]);
    slot.check().unwrap();
}
