//! What an update costs the updater does not grow with what it brings.
#![expect(clippy::expect_used, reason = "a test says what it expects by panicking")]

use std::{fs, io::Read as _, time::Duration};

use myriarch_tests::{
    collector::StandIn,
    machine::{Machine, Plan, Supervised},
    programs::Programs,
};

/// Much more than the updater may differ by, much less than a real archive has.
const LARGE: u64 = 64 * 1024 * 1024;
/// What two runs may differ by whatever they bring, in KiB: threads come and go, allocators round up.
const NOISE: u64 = 12 * 1024;

/// A program with `filling` bytes that do not compress.
fn program(version: &str, filling: u64) -> Vec<u8> {
    let (mut program, script) = StandIn::version(version).parts();
    let random = fs::File::open("/dev/urandom").expect("random bytes");
    random.take(filling).read_to_end(&mut program).expect("random bytes");
    program.extend(script);
    program
}

/// The most memory, in KiB, that the updater ever had resident in an update to a program of that size.
fn peak_of_an_update(filling: u64) -> u64 {
    let plan = Plan { settle: Duration::from_mins(1), supervised: Supervised::ByUpdater, ..Plan::default() };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    machine.start_with("0.1.0", &program("0.1.0", 0));
    machine.offer_program("0.2.0", &program("0.2.0", filling));
    let output = machine.verb(&["update"]);
    assert!(output.status.success(), "{output:?}");
    let status =
        fs::read_to_string(format!("/proc/{}/status", machine.updater())).expect("a running updater");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn memory_does_not_grow_with_the_archive() {
    let (small, large) = (peak_of_an_update(0), peak_of_an_update(LARGE));
    assert!(large < small + NOISE, "{small} KiB for a small archive, {large} KiB for one of {LARGE} bytes");
}
