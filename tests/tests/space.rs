//! A disk that is too small or fills up: refused in words that say what was counted, nothing touched, and once there
//! is space the next update succeeds by itself. On real small disks, as root.
#![expect(clippy::expect_used, reason = "a test says what it expects by panicking")]

use std::{
    fs,
    path::PathBuf,
    process::Output,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use myriarch_tests::{
    collector::StandIn,
    machine::{DISTRIBUTION, Machine, Plan, words},
    programs::Programs,
    server::{Etag, Lie, Request},
    small_disk::{self, SmallDisk},
    untouched::Untouched,
};

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";
const MIB: u64 = 1 << 20;
/// A twentieth of the disk that a download of unknown size is tried on.
const RESERVE: u64 = 8 * MIB;

/// A machine whose store is a disk of `mib` mebibytes, and that runs [`OLD`].
fn machine(mib: u64) -> (Machine, SmallDisk) {
    let machine = Machine::new(Programs::stand_ins(), plan());
    let disk = SmallDisk::at(&machine.store(), mib);
    (running_old(machine), disk)
}

fn plan() -> Plan {
    Plan { soak: Duration::from_millis(200), ..Plan::default() }
}

fn running_old(mut machine: Machine) -> Machine {
    machine.start_with(OLD, &StandIn::version(OLD).build());
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
    machine
}

/// [`NEW`] with so many bytes more in it, of which three quarters stay when it is packed.
fn new_program(bytes: u64) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(
            b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"[(state >> 58) as usize],
        )
    };
    let salt: String = (0..bytes).map(|_| next()).collect();
    StandIn::version(NEW).salt(&salt).build()
}

fn archive() -> String {
    format!("/{DISTRIBUTION}_{NEW}_linux.tar.gz")
}

/// The requests for bytes of the archive.
fn asked_for_the_archive(machine: &Machine) -> Vec<Request> {
    let requests = machine.server().requests_for(&archive());
    requests.into_iter().filter(|request| request.method == "GET").collect()
}

/// What lies in the directory of downloads, with its length; what only says where it is from left out.
fn partial(machine: &Machine) -> Vec<(PathBuf, u64)> {
    let files = fs::read_dir(machine.store().join("partial")).expect("the directory of downloads");
    let files = files.flatten().map(|entry| (entry.path(), entry.metadata().map_or(0, |found| found.len())));
    files.filter(|(path, _)| path.extension().is_some_and(|end| end == "gz")).collect()
}

fn staging(machine: &Machine) -> Option<PathBuf> {
    let entries = fs::read_dir(machine.store()).expect("the store").flatten().map(|entry| entry.path());
    let is_staging = |path: &PathBuf| path.to_string_lossy().contains("/staging-");
    entries.into_iter().find(is_staging)
}

/// `told` is refused by the surroundings, in these words, with nothing touched and nothing half done.
fn is_refused(machine: &Machine, told: &[&str], expected: &[&str]) -> Output {
    let before = Untouched::of(machine);
    let output = machine.verb(told);
    let said = words(&output);
    assert_eq!(output.status.code(), Some(1), "{said}\n--- run\n{}", machine.log());
    for word in expected {
        assert!(said.contains(word), "expected {word:?} in {said}");
    }
    assert!(said.contains("now runs: what ran before; nothing was touched"), "{said}");
    assert_eq!(Untouched::of(machine), before, "{said}");
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
    assert_eq!(staging(machine), None);
    output
}

fn succeeds(machine: &Machine, told: &[&str]) {
    let output = machine.verb(told);
    assert_eq!(output.status.code(), Some(0), "{}\n--- run\n{}", words(&output), machine.log());
    assert_eq!(machine.running_version().as_deref(), Some(NEW));
    assert_eq!(partial(machine), []);
}

#[test]
fn what_does_not_fit_is_refused_before_its_first_byte() {
    if !small_disk::can_be_mounted_in("what_does_not_fit_is_refused_before_its_first_byte") {
        return;
    }
    let (mut machine, disk) = machine(64);
    machine.offer_program(NEW, &new_program(2 * MIB));
    disk.fill(5 * MIB);
    let store = machine.store();
    let expected = [
        "refused at obtain",
        &format!("free at {} for the download (", store.display()),
        "the unpacked program (about ",
        "and 1.0 MiB besides, found ",
        &format!("hint: free space at {}", store.display()),
    ];
    is_refused(&machine, &["update"], &expected);
    assert_eq!(asked_for_the_archive(&machine), []);
    assert_eq!(partial(&machine), []);

    disk.give_back();
    succeeds(&machine, &["update"]);

    // What is kept as a way back is named by the next one that does not fit.
    let newer = "1.2.0";
    machine.offer_program(newer, &StandIn::version(newer).build());
    disk.fill(2 * MIB);
    let said = words(&machine.verb(&["update"]));
    assert!(said.contains("or lower store.keep from 2: kept as ways back are 1.0.0-"), "{said}");
}

#[test]
fn a_directory_is_not_copied_where_it_does_not_fit() {
    if !small_disk::can_be_mounted_in("a_directory_is_not_copied_where_it_does_not_fit") {
        return;
    }
    let mut machine = Machine::new(Programs::stand_ins(), plan());
    machine.take_releases_from_a_directory();
    let disk = SmallDisk::at(&machine.store(), 64);
    machine = running_old(machine);
    machine.offer_program(NEW, &new_program(2 * MIB));
    disk.fill(3 * MIB);
    is_refused(&machine, &["update"], &["refused at obtain", "for the download (", "hint: free space at "]);
    assert_eq!(partial(&machine), []);
    disk.give_back();
    succeeds(&machine, &["update"]);
}

#[test]
fn a_disk_without_room_for_more_files_is_refused() {
    if !small_disk::can_be_mounted_in("a_disk_without_room_for_more_files_is_refused") {
        return;
    }
    let machine = Machine::new(Programs::stand_ins(), plan());
    let _disk = SmallDisk::with_options(&machine.store(), "size=64m,nr_inodes=60");
    let mut machine = running_old(machine);
    machine.offer_program(NEW, &new_program(1));
    let others: Vec<_> = (0..60).map(|number| machine.store().join(format!("other-{number}"))).collect();
    let made = others.iter().take_while(|path| fs::write(path, "").is_ok()).count();
    // Room for the few that the refusal itself may need.
    others[made - 8..made].iter().for_each(|path| fs::remove_file(path).expect("a file that was made"));
    is_refused(&machine, &["update"], &["refused at obtain", "expected room for 16 more files", "(inodes)"]);
    assert_eq!(asked_for_the_archive(&machine), []);
    others[..made - 8].iter().for_each(|path| fs::remove_file(path).expect("a file that was made"));
    succeeds(&machine, &["update"]);
}

#[test]
fn what_nothing_needs_makes_room() {
    if !small_disk::can_be_mounted_in("what_nothing_needs_makes_room") {
        return;
    }
    let (mut machine, disk) = machine(64);
    machine.offer_program(NEW, &new_program(2 * MIB));
    // Half a download of a version that nobody wants any more.
    let left = machine.store().join("partial/0123456789abcdef-otelcol_1.0.9_linux.tar.gz");
    fs::write(&left, vec![0; 40 << 20]).expect("room for it");
    disk.fill(4 * MIB);
    succeeds(&machine, &["update"]);
    assert!(!left.exists());
}

#[test]
fn a_disk_that_fills_up_in_mid_download_is_refused_and_the_next_update_goes_on() {
    let test = "a_disk_that_fills_up_in_mid_download_is_refused_and_the_next_update_goes_on";
    if !small_disk::can_be_mounted_in(test) {
        return;
    }
    let (mut machine, disk) = machine(64);
    machine.offer_program(NEW, &new_program(16 * MIB));
    let slow = Lie::Drip { bytes: 64 << 10, every: Duration::from_millis(10) };
    machine.server().lie(&archive(), slow);
    let path = machine.store().join("partial");
    let path = path.to_string_lossy();
    let expected = ["refused at obtain", &path, "could not write it", "No space left", "hint: free space"];
    // Somebody takes next to all that is left in mid-download.
    let is_refused_in_mid_download = || {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if partial(&machine).first().is_some_and(|(_, length)| *length > 3 * MIB) {
                        disk.fill(MIB / 2);
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            is_refused(&machine, &["update"], &expected);
            over.store(true, Ordering::Relaxed);
        });
    };
    // What could not be resumed only takes room from others.
    machine.server().etag(&archive(), Etag::Weak);
    is_refused_in_mid_download();
    assert_eq!(partial(&machine), []);
    disk.give_back();

    machine.server().etag(&archive(), Etag::OfContent);
    is_refused_in_mid_download();
    let kept = partial(&machine);
    assert!(kept.len() == 1 && kept[0].1 > MIB, "{kept:?}");
    assert!(disk.free() >= MIB, "others have room to write: {}", disk.free());

    disk.give_back();
    let before = asked_for_the_archive(&machine).len();
    succeeds(&machine, &["update"]);
    let asked = asked_for_the_archive(&machine).split_off(before);
    assert_eq!(asked[0].header("range"), Some(&*format!("bytes={}-", kept[0].1)));
}

#[test]
fn a_download_of_unknown_size_leaves_others_room_and_never_stands_in_its_own_way() {
    let test = "a_download_of_unknown_size_leaves_others_room_and_never_stands_in_its_own_way";
    if !small_disk::can_be_mounted_in(test) {
        return;
    }
    let mut machine = Machine::new(Programs::stand_ins(), plan());
    let disk = SmallDisk::at(&machine.store(), 20 * RESERVE / MIB);
    // A program that does not fit into the reserve.
    machine.start_with(OLD, &StandIn::version(OLD).salt(&"x".repeat(12 << 20)).build());
    machine.offer_program(NEW, &new_program(24 * MIB));
    machine.stop();
    // Neither index nor server say how large it is, so that only the disk can.
    let url = machine.server().url();
    let name = format!("{url}/{DISTRIBUTION}_{{version}}_linux.tar.gz");
    machine.set_source(&format!(
        "kind = \"http\"\narchive = \"{name}\"\nchecksum = \"{{archive}}.sha256\"\nbundle = \"{{archive}}.sigstore.json\""
    ));
    machine.server().lie(&archive(), Lie::Chunked);
    machine.start();
    machine.wait_idle();
    machine
        .wait(Duration::from_mins(1), "the old program is healthy", |machine| machine.health() == Some(200));
    disk.fill(RESERVE + 10 * MIB);
    let update = ["update", "--to", NEW];
    let expected = [
        "refused at obtain",
        "expected 8.0 MiB to stay free beside a download of a size",
        "hint: free space",
    ];
    // What could not be resumed only takes room from others.
    machine.server().etag(&archive(), Etag::Weak);
    is_refused(&machine, &update, &expected);
    assert_eq!(partial(&machine), []);

    machine.server().etag(&archive(), Etag::OfContent);
    is_refused(&machine, &update, &expected);
    let kept = partial(&machine);
    assert!(kept.len() == 1 && kept[0].1 > 8 * MIB, "{kept:?}");
    assert!(disk.free() > RESERVE / 2, "others have room to write: {}", disk.free());

    // With it there is no room for a program any more: it is not kept on to refuse itself for ever.
    let before = asked_for_the_archive(&machine).len();
    is_refused(&machine, &update, &expected);
    assert_eq!(asked_for_the_archive(&machine).split_off(before)[0].header("range"), None);

    disk.give_back();
    let kept = partial(&machine);
    let before = asked_for_the_archive(&machine).len();
    succeeds(&machine, &update);
    let asked = asked_for_the_archive(&machine).split_off(before);
    assert_eq!(asked[0].header("range"), Some(&*format!("bytes={}-", kept[0].1)));
}

#[test]
fn a_disk_that_does_not_tell_its_size_is_not_full() {
    if !small_disk::can_be_mounted_in("a_disk_that_does_not_tell_its_size_is_not_full") {
        return;
    }
    let machine = Machine::new(Programs::stand_ins(), plan());
    // A disk in memory without a limit says zero of everything.
    let disk = SmallDisk::with_options(&machine.store(), "size=0,nr_inodes=0");
    assert_eq!(disk.free(), 0);
    let mut machine = running_old(machine);
    machine.offer_program(NEW, &new_program(1));
    succeeds(&machine, &["update"]);
}

#[test]
fn a_disk_that_fills_up_in_mid_unpacking_is_refused_and_the_next_update_goes_on() {
    let test = "a_disk_that_fills_up_in_mid_unpacking_is_refused_and_the_next_update_goes_on";
    if !small_disk::can_be_mounted_in(test) {
        return;
    }
    let (mut machine, disk) = machine(160);
    let program = new_program(24 * MIB);
    machine.offer_program(NEW, &program);
    // Somebody takes all that is left as soon as unpacking has begun.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let file = staging(&machine).map(|path| path.join("bin").join(DISTRIBUTION));
                if file.is_some_and(|file| fs::metadata(file).is_ok_and(|found| found.len() > 0)) {
                    disk.fill_greedily();
                    return;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let expected = ["refused at stage", "could not write the unpacked file", "No space left"];
        let store = machine.store();
        let hint = format!("hint: free space at {}; the download is kept", store.display());
        is_refused(&machine, &["update"], &[expected.as_slice(), &[&hint]].concat());
        over.store(true, Ordering::Relaxed);
    });
    let whole = machine.release(NEW, &program).archive.len() as u64;
    assert_eq!(partial(&machine).iter().map(|(_, length)| *length).collect::<Vec<_>>(), [whole]);

    // As long as it does not fit, the archive's own entry says so, before anything is written.
    let length = program.len() as u64;
    disk.give_back();
    disk.fill(length);
    let exactly = format!("for the unpacked program ({}.", length / MIB);
    is_refused(&machine, &["update"], &["refused at stage", &exactly, "and 1.0 MiB besides"]);

    disk.give_back();
    let before = asked_for_the_archive(&machine).len();
    succeeds(&machine, &["update"]);
    let asked = asked_for_the_archive(&machine).split_off(before);
    assert_eq!(asked[0].header("range"), Some(&*format!("bytes={}-", whole - 1)), "only asked after");
}
