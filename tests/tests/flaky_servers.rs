//! A server that fails for one part of a release, through the real binary: for the archive, its checksum file, its
//! bundle and the index, each fault that stays is a refusal with nothing touched, and each that passes is tried
//! again until the whole check can be made. None makes the check a weaker one.

use std::time::Duration;

use myriarch_tests::{
    collector::StandIn,
    machine::{DISTRIBUTION, Machine, Plan, words},
    programs::Programs,
    server::Lie,
    untouched::Untouched,
};

const OLD: &str = "1.0.0";

/// The parts of a release that a server can fail for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Archive,
    Checksum,
    Bundle,
    Index,
}

impl Part {
    fn path(self, version: &str) -> String {
        let archive = format!("/{DISTRIBUTION}_{version}_linux.tar.gz");
        match self {
            Self::Archive => archive,
            Self::Checksum => format!("{archive}.sha256"),
            Self::Bundle => format!("{archive}.sigstore.json"),
            Self::Index => "/index.json".to_owned(),
        }
    }
}

/// A machine that runs [`OLD`] and waits no longer than a second or two for anything.
fn machine() -> Machine {
    let plan = Plan { soak: Duration::from_millis(200), ..Plan::default() };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    machine.set_source(&format!(
        "kind = \"http\"\nindex = \"{}/index.json\"\nconnect_timeout = \"2s\"\nfirst_byte_timeout = \"1s\"\nstall_timeout = \"1s\"",
        machine.server().url()
    ));
    machine.start_with(OLD, &StandIn::version(OLD).build());
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
    machine
}

fn status(code: u16, retry_after: Option<&str>) -> Lie {
    Lie::Status { code, retry_after: retry_after.map(str::to_owned) }
}

/// Every fault for ever, then none: refused each time, and the last update installs `version`.
fn faults_that_stay_are_refused(part: Part) {
    let mut machine = machine();
    let version = "1.1.0";
    machine.offer_program(version, &StandIn::version(version).build());
    let path = part.path(version);
    let before = Untouched::of(&machine);
    for (lie, said) in [
        (status(401, None), "expected status 200, found 401"),
        (status(403, None), "expected status 200, found 403"),
        (status(404, None), ", found none"),
        (status(410, None), "expected status 200, found 410"),
        (status(429, Some("86400")), "the server asks to be left alone for 86400 s"),
        (status(500, None), "gave up after 4 tries"),
        (status(503, Some("0")), "gave up after 4 tries"),
        (status(204, None), "expected status 200, found 204"),
        (status(206, None), "found "),
        (status(304, None), "expected status 200, found 304"),
        (Lie::CloseBeforeAnswer, "gave up after 4 tries"),
        (Lie::Stall { after: None }, "found silence"),
        (Lie::Stall { after: Some(7) }, "found silence"),
        (Lie::Truncate { after: 7 }, "found the connection's end after "),
        (Lie::ChunkedTruncate { after: 7 }, "found the connection's end after "),
        (Lie::Length(7), ""),
        (Lie::Length(1 << 29), ""),
        (Lie::Garbage, "expected an HTTP answer"),
        (Lie::HugeHeaders(4 << 20), "expected an HTTP answer"),
        (Lie::Redirect { code: 302, to: path.clone() }, "expected at most 5 redirects"),
        (Lie::Redirect { code: 302, to: "file:///dev/null".to_owned() }, "expected to stay on http or https"),
    ] {
        machine.server().honest(&path);
        machine.server().lie(&path, lie.clone());
        let output = machine.verb(&["update"]);
        let found = words(&output);
        // A length that is a lie leaves bytes that are judged, and found wrong; without a bundle no rule trusts.
        let judged = matches!((&lie, part), (Lie::Length(7), Part::Archive | Part::Checksum | Part::Bundle))
            || (part == Part::Bundle && lie == status(404, None));
        assert_eq!(output.status.code(), Some(if judged { 5 } else { 1 }), "{part:?} {lie:?}: {found}");
        assert!(found.contains(said), "{part:?} {lie:?}: expected {said:?} in {found}");
        assert!(found.contains("hint: "), "{part:?} {lie:?}: {found}");
        assert_eq!(Untouched::of(&machine), before, "{part:?} {lie:?}: {found}");
    }
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
    machine.server().honest(&path);
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{part:?}: {}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some(version));
}

/// Three faults in a row that pass: the fourth try has all of it.
fn faults_that_pass_are_waited_for(part: Part) {
    let mut machine = machine();
    for (version, lies) in [
        ("1.1.0", [status(503, Some("1")), Lie::Truncate { after: 7 }, Lie::CloseBeforeAnswer]),
        ("1.2.0", [status(429, None), Lie::Stall { after: Some(7) }, Lie::ChunkedTruncate { after: 9 }]),
        ("1.3.0", [status(500, None), Lie::Stall { after: None }, Lie::Length(1 << 20)]),
    ] {
        machine.offer_program(version, &StandIn::version(version).build());
        let path = part.path(version);
        // What is longer than announced is no fault of the line: it is only announced so where there is less.
        let lies = lies.map(|lie| match lie {
            Lie::Length(_) if part == Part::Archive => Lie::Truncate { after: 11 },
            lie => lie,
        });
        for lie in &lies {
            machine.server().lie_times(&path, 1, lie.clone());
        }
        let asked = machine.server().requests_for(&path).len();
        let output = machine.verb(&["update"]);
        assert_eq!(output.status.code(), Some(0), "{part:?} {lies:?}: {}", words(&output));
        assert_eq!(machine.running_version().as_deref(), Some(version));
        assert!(machine.server().requests_for(&path).len() >= asked + 4, "{part:?} {lies:?}");
        // With everything that it is checked by.
        for companion in [Part::Checksum, Part::Bundle] {
            assert!(!machine.server().requests_for(&companion.path(version)).is_empty());
        }
    }
}

#[test]
fn an_archive_that_fails_for_ever_is_refused() {
    faults_that_stay_are_refused(Part::Archive);
}

#[test]
fn a_checksum_file_that_fails_for_ever_is_refused() {
    faults_that_stay_are_refused(Part::Checksum);
}

#[test]
fn a_bundle_that_fails_for_ever_is_refused() {
    faults_that_stay_are_refused(Part::Bundle);
}

#[test]
fn an_index_that_fails_for_ever_is_refused() {
    faults_that_stay_are_refused(Part::Index);
}

#[test]
fn an_archive_that_fails_for_a_while_is_waited_for() {
    faults_that_pass_are_waited_for(Part::Archive);
}

#[test]
fn a_checksum_file_that_fails_for_a_while_is_waited_for() {
    faults_that_pass_are_waited_for(Part::Checksum);
}

#[test]
fn a_bundle_that_fails_for_a_while_is_waited_for() {
    faults_that_pass_are_waited_for(Part::Bundle);
}

#[test]
fn an_index_that_fails_for_a_while_is_waited_for() {
    faults_that_pass_are_waited_for(Part::Index);
}

#[test]
fn nothing_is_left_of_a_download_that_was_refused_or_has_served() {
    let mut machine = machine();
    let left = |machine: &Machine| {
        let files = std::fs::read_dir(machine.store().join("partial")).expect("the directory of downloads");
        files.flatten().map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    let refused = "1.1.0";
    machine.offer_program(refused, &StandIn::version(refused).build());
    let wrong = format!("{}  {DISTRIBUTION}_{refused}_linux.tar.gz\n", "0".repeat(64));
    machine.server().put(&Part::Checksum.path(refused), wrong);
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(5), "{}", words(&output));
    assert_eq!(machine.server().requests_for(&Part::Archive.path(refused)).len(), 1);
    assert!(left(&machine).is_empty(), "{:?}", left(&machine));

    let good = "1.2.0";
    machine.offer_program(good, &StandIn::version(good).build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(left(&machine).is_empty(), "{:?}", left(&machine));
}

#[test]
fn an_archive_that_is_swapped_in_mid_download_is_never_installed() {
    let mut machine = machine();
    let version = "1.1.0";
    machine.offer_program(version, &StandIn::version(version).build());
    let path = Part::Archive.path(version);
    let good = machine.release(version, &StandIn::version(version).build()).archive;
    let before = Untouched::of(&machine);
    let other = machine.release(version, &StandIn::version(version).salt("other").build()).archive;
    machine.server().lie_times(&path, 1, Lie::TruncateThenChange { after: 100_000, to: other });
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(5), "{}", words(&output));
    assert!(words(&output).contains("as the source's list says"), "{}", words(&output));
    assert_eq!(Untouched::of(&machine), before);

    machine.server().put(&path, good);
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some(version));
}
