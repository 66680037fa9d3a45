//! An offer that is no good is refused before anything is touched: for each, the exit code, the words, and
//! the same processes, the same `current` and the same journal as before.
#![expect(clippy::expect_used, reason = "a test says what it expects by panicking")]

use std::{fs, process::Output, time::Duration};

use myriarch_tests::{
    archive::{Member, pack_members},
    collector::{StandIn, Validate, VersionFlag},
    machine::{DISTRIBUTION, ISSUER, Machine, Plan, Release},
    programs::Programs,
    sigstore::Identity,
};
use myriarch_verify::Digest;

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";
const OLDER: &str = "0.9.0";

/// The hint for a signature of somebody else.
const MOVED: &str = "if the publisher has moved, change the rule's issuer, identity or claims by hand";

/// A machine that runs [`OLD`], which is well.
fn machine() -> Machine {
    let plan = Plan { soak: Duration::from_millis(200), ..Plan::default() };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    machine.start_with(OLD, &StandIn::version(OLD).build());
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
    machine
}

/// An honest release of a good [`NEW`], to be spoiled.
fn good(machine: &Machine) -> Release {
    machine.release(NEW, &StandIn::version(NEW).build())
}

/// [`NEW`] in this archive, signed as it should be.
fn packed(machine: &Machine, archive: Vec<u8>) -> Release {
    let bundle = Some(machine.sigstore().sign(Digest::of(&archive), &Machine::identity(NEW)));
    let checksum = Some(Digest::of(&archive).to_string().into_bytes());
    Release { version: NEW.to_owned(), archive, bundle, checksum }
}

/// What nothing may change.
#[derive(Debug, PartialEq, Eq)]
struct Untouched {
    /// The updater, the supervisor and the collector.
    processes: Vec<u32>,
    collectors: Vec<u32>,
    current: std::path::PathBuf,
    journal: Vec<u8>,
}

fn look(machine: &Machine) -> Untouched {
    Untouched {
        processes: machine.processes(),
        collectors: machine.collectors(),
        current: fs::read_link(machine.store().join("current")).expect("`current`"),
        journal: fs::read(machine.store().join("journal.jsonl")).expect("a journal"),
    }
}

/// Carries `update` out and sees the offer refused with `exit`, in words that hold all of `words` and a hint
/// that holds `hint`, with nothing touched.
fn is_refused(machine: &Machine, exit: i32, words: &[&str], hint: &str) {
    is_refused_when_told(machine, &["update"], exit, words, hint);
}

fn is_refused_when_told(machine: &Machine, told: &[&str], exit: i32, words: &[&str], hint: &str) {
    let before = look(machine);
    let output = machine.verb(told);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(exit), "{said}");
    for word in words {
        assert!(said.contains(word), "expected {word:?} in {said}");
    }
    assert!(said.contains("now runs: what ran before; nothing was touched"), "{said}");
    assert!(said.contains(&format!("hint: {hint}")), "expected the hint {hint:?} in {said}");
    assert_eq!(look(machine), before, "{said}");
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn an_archive_tampered_with_is_refused() {
    let mut machine = machine();
    let mut release = good(&machine);
    let signed = Digest::of(&release.archive).to_string();
    let middle = release.archive.len() / 2;
    release.archive[middle] ^= 1;
    let found = Digest::of(&release.archive).to_string();

    // The list, made from the tampered bytes, agrees with them: the checksum file does not.
    machine.offer(release.clone());
    let hint = "the archive was altered or damaged on its way";
    let words = ["refused at obtain", "expected sha256", &signed, ".sha256 says", &found];
    is_refused(&machine, 5, &words, hint);

    // Whoever can change the archive can change its checksum; the signature is what is left.
    release.checksum = Some(found.clone().into_bytes());
    machine.offer(release.clone());
    is_refused(
        &machine,
        5,
        &["refused at obtain", "no rule trusts", &found],
        "archive and bundle do not belong together",
    );

    // The bytes are not what the list itself says.
    machine.offer(good(&machine));
    machine.server().put(&format!("/{DISTRIBUTION}_{NEW}_linux.tar.gz"), release.archive);
    let words = ["refused at obtain", "expected sha256", &signed, "as the source's list says", &found];
    is_refused(&machine, 5, &words, hint);
}

#[test]
fn right_bytes_with_the_wrong_signer_are_refused() {
    let mut machine = machine();
    let mut release = good(&machine);
    let stranger = "https://github.com/stranger/releases/.github/workflows/release.yaml@refs/tags/v1.1.0";
    let identity = Identity::new(ISSUER, stranger);
    release.bundle = Some(machine.sigstore().sign(Digest::of(&release.archive), &identity));
    machine.offer(release);
    let ours = "https://github.com/testbed/releases/.github/workflows/release.yaml@refs/tags/v1.1.0";
    is_refused(&machine, 5, &["refused at obtain", "no rule trusts", ours, stranger], MOVED);
}

#[test]
fn right_bytes_signed_as_another_version_are_refused() {
    // An old release with a known hole, offered under a new number, keeps its good signature.
    let mut machine = machine();
    let mut release = good(&machine);
    release.bundle = Some(machine.sigstore().sign(Digest::of(&release.archive), &Machine::identity("1.0.9")));
    machine.offer(release);
    is_refused(&machine, 5, &["refused at obtain", "refs/tags/v1.1.0", "refs/tags/v1.0.9"], MOVED);
}

#[test]
fn an_archive_without_a_bundle_is_refused() {
    let mut machine = machine();
    let release = Release { bundle: None, ..good(&machine) };
    machine.offer(release);
    let hint = "deliver the publisher's <archive>.sigstore.json";
    is_refused(&machine, 5, &["refused at obtain", "expected a Sigstore bundle, found none"], hint);
}

#[test]
fn a_bundle_that_is_promised_and_not_there_is_refused() {
    let mut machine = machine();
    machine.offer(good(&machine));
    machine.server().remove(&format!("/{DISTRIBUTION}_{NEW}_linux.tar.gz.sigstore.json"));
    let hint = "deliver the publisher's <archive>.sigstore.json";
    is_refused(&machine, 5, &["refused at obtain", "expected a Sigstore bundle, found none"], hint);
}

#[test]
fn a_checksum_file_that_disagrees_is_refused_whatever_the_signature_says() {
    let mut machine = machine();
    let mut release = good(&machine);
    let (expected, found) =
        (Digest::of(b"something else").to_string(), Digest::of(&release.archive).to_string());
    release.checksum = Some(expected.clone().into_bytes());
    machine.offer(release);
    let words = ["refused at obtain", &*expected, ".sha256 says", &found];
    is_refused(&machine, 5, &words, "the archive was altered or damaged on its way");
}

#[test]
fn a_build_that_rejects_the_configuration_is_refused() {
    let mut machine = machine();
    let picky = StandIn::version(NEW).validate(Validate::RejectsContaining("debug".to_owned()));
    machine.offer_program(NEW, &picky.build());
    let words = ["refused at validate", "`validate --config", "'' has invalid keys: debug"];
    is_refused(&machine, 1, &words, "this build cannot run the effective configuration");
}

#[test]
fn a_build_without_a_required_component_is_refused() {
    let mut machine = machine();
    let without = StandIn::version(NEW).extensions(&["file_storage", "health_check"]);
    machine.offer_program(NEW, &without.build());
    let words =
        ["refused at validate", "expected \"opamp\" among extensions, found file_storage, health_check"];
    is_refused(&machine, 1, &words, "choose a distribution that contains it");
}

#[test]
fn a_build_that_names_another_version_is_refused() {
    let mut machine = machine();
    let misnamed = VersionFlag::Says(format!("{DISTRIBUTION} version 1.0.9"));
    machine.offer_program(NEW, &StandIn::version(NEW).version_flag(misnamed).build());
    let expected = format!("expected \"{DISTRIBUTION} version {NEW}\"");
    let found = format!("found \"{DISTRIBUTION} version 1.0.9\"");
    let words = ["refused at validate", "--version", &expected, &found];
    is_refused(&machine, 1, &words, "the archive holds another program or version than it was published as");
}

#[test]
fn an_older_version_without_a_pin_is_refused() {
    let mut machine = machine();
    machine.offer_program(OLDER, &StandIn::version(OLDER).build());
    let told = ["update", "--to", OLDER];
    let words = ["refused at select", OLDER, OLD];
    is_refused_when_told(&machine, &told, 5, &words, "pin the version to go down to it");
}

#[test]
fn an_archive_with_the_program_twice_is_refused() {
    let mut machine = machine();
    let program = StandIn::version(NEW).build();
    let (one, other) =
        (Member::File(DISTRIBUTION, &program, 0o755), Member::File(DISTRIBUTION, b"#!/bin/sh\n", 0o755));
    let release = packed(&machine, pack_members(&[one, other]));
    machine.offer(release);
    let words = ["refused at stage", "expected one file \"otelcol-testbed\" in the archive, found several"];
    is_refused(&machine, 1, &words, "it was published like this: tell its publisher");
}

#[test]
fn an_archive_with_a_link_in_the_programs_place_is_refused() {
    let mut machine = machine();
    let release = packed(&machine, pack_members(&[Member::Link(DISTRIBUTION, "/bin/sh")]));
    machine.offer(release);
    let words = ["refused at stage", "to be a regular file, found", "link"];
    is_refused(&machine, 1, &words, "it was published like this: tell its publisher");
}
