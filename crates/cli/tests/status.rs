//! The status as one calm screen, kept as golden files: a change of words is a change of the operator's surface.
//! `UPDATE_GOLDEN=1 cargo test -p myriarch-cli` writes them anew.

#![expect(clippy::unwrap_used, reason = "what these helpers build is constant, a failure is the test's")]

mod golden_file;

use std::{fmt::Write as _, fs, path::PathBuf};

use golden_file::golden;
use jiff::tz::{self, TimeZone};
use myriarch_cli::{
    StatusDocument,
    history::{Happened, Named, Trial, TrialEnd, What},
    look::{Found, Look},
    status::{
        Confirmed, Current, Health, Integrity, OnTrial, Quarantined, Running, STATUS_SCHEMA, SlotState,
        Trusted, Unasked, Updater,
    },
};
use myriarch_policy::Version;
use myriarch_update::{Excerpt, Fault, Stage};
use myriarch_verify::Digest;
use serde_json::json;

const SLOT: &str = "0.165.1-7623348c295e";
const OLD_SLOT: &str = "0.158.0-0a1b2c3d4e5f";
const BAD_SLOT: &str = "0.164.0-ffffffffffff";

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn at(hour: u8) -> String {
    format!("2026-11-30T{hour:02}:00:00Z")
}

fn slot(name: &str, integrity: Integrity) -> SlotState {
    SlotState { slot: name.to_owned(), integrity }
}

fn named(slot: &str) -> Named {
    Named { version: version(slot.split('-').next().unwrap()), slot: slot.to_owned() }
}

fn current(slot: &str, integrity: Integrity) -> Current {
    Current::Slot {
        slot: slot.to_owned(),
        version: named(slot).version,
        binary: Digest::of(b"binary"),
        integrity,
    }
}

fn running(slot: &str, pids: &[u32]) -> Running {
    Running { slot: Some(slot.to_owned()), pids: pids.to_vec(), since: Some(at(8)) }
}

fn run() -> Updater {
    Updater { pid: 77, purpose: "run".to_owned(), since: at(8) }
}

fn look(found: Found) -> Look {
    Look { time: at(9), found }
}

/// All is well, and nothing is to be done.
fn calm() -> StatusDocument {
    StatusDocument {
        schema: STATUS_SCHEMA,
        service: "otelcol".parse().unwrap(),
        store: "/opt/myriarch/otelcol".into(),
        current: current(SLOT, Integrity::Intact),
        running: vec![running(SLOT, &[4242])],
        health: Health::Healthy,
        trusted: Some(Trusted {
            words: "signed by https://example.com/release.yaml@refs/tags/v0.165.1 (vouched for by https://token.example.com), entry 7 of the log"
                .to_owned(),
            source: "https://example.com/otelcol-contrib_0.165.1_linux_amd64.tar.gz".to_owned(),
            time: at(7),
        }),
        look: Some(look(Found::Nothing { reason: "0.165.1 is installed, nothing newer is offered".to_owned() })),
        next_look: Some(at(10)),
        updater: Some(run()),
        trial: None,
        pin: None,
        last: Some(Happened {
            time: at(7),
            what: What::Trial(Box::new(Trial {
                from: Some(named(OLD_SLOT)),
                to: named(SLOT),
                starts: 1,
                ended: Some(at(8)),
                end: TrialEnd::Confirmed { left: None },
                trial_ms: Some(61_300),
                downtime_ms: Some(830),
                excerpt: None,
            })),
        }),
        journal: None,
        confirmed: vec![
            Confirmed { version: version("0.165.1"), slot: SLOT.to_owned(), since: at(8) },
            Confirmed {
                version: version("0.158.0"),
                slot: OLD_SLOT.to_owned(),
                since: "2026-11-29T08:00:00Z".to_owned(),
            },
        ],
        quarantined: vec![],
        slots: vec![slot(OLD_SLOT, Integrity::Unchecked), slot(SLOT, Integrity::Intact)],
    }
}

/// Nothing was ever installed.
fn empty() -> StatusDocument {
    StatusDocument {
        current: Current::Absent,
        running: vec![],
        health: Health::NothingRuns,
        trusted: None,
        look: None,
        next_look: None,
        updater: None,
        last: None,
        confirmed: vec![],
        slots: vec![],
        ..calm()
    }
}

/// A build was left, and what it said is kept.
fn left() -> StatusDocument {
    let reason = "not ready within 60 s\n\u{1b}]0;owned\u{7}";
    StatusDocument {
        current: current(OLD_SLOT, Integrity::Intact),
        running: vec![running(OLD_SLOT, &[17, 18])],
        look: Some(look(Found::Left { version: version("0.164.0") })),
        last: Some(Happened {
            time: at(7),
            what: What::Trial(Box::new(Trial {
                from: Some(named(OLD_SLOT)),
                to: named(BAD_SLOT),
                starts: 1,
                ended: Some(at(8)),
                end: TrialEnd::RolledBack {
                    to: Some(named(OLD_SLOT)),
                    healthy: true,
                    reason: reason.to_owned(),
                    fault: Fault::Version,
                },
                trial_ms: Some(60_100),
                downtime_ms: Some(64_200),
                excerpt: Some(Excerpt {
                    line: "panic: crash on start\u{1b}[31m".to_owned(),
                    file: Some("/opt/myriarch/otelcol/logs/0.164.0-ffffffffffff-20261130T080000Z.log".into()),
                }),
            })),
        }),
        quarantined: vec![Quarantined {
            version: version("0.164.0"),
            slot: BAD_SLOT.to_owned(),
            reason: reason.to_owned(),
            since: at(8),
        }],
        ..calm()
    }
}

/// A trial that nobody judges any more, odd processes, damage, a journal with garbage.
fn troubled() -> StatusDocument {
    StatusDocument {
        running: vec![running(OLD_SLOT, &[17]), Running { slot: None, pids: vec![19], since: None }],
        health: Health::NotHealthy { seen: "http://127.0.0.1:13133/: Connection refused".to_owned() },
        look: Some(look(Found::Refused {
            stage: Stage::Obtain,
            reason: "expected a signature, found none".to_owned(),
            hint: "ask the publisher".to_owned(),
        })),
        updater: None,
        trial: Some(OnTrial { to: SLOT.to_owned(), from: Some(OLD_SLOT.to_owned()), tries: 1 }),
        pin: Some(version("0.165.1")),
        journal: Some("cannot be read whole: line 7: garbage".to_owned()),
        slots: vec![
            slot(OLD_SLOT, Integrity::Intact),
            slot(BAD_SLOT, Integrity::Damaged { reason: "expected aa, found bb".to_owned() }),
        ],
        ..left()
    }
}

#[test]
fn the_status_reads_the_same_to_people_and_programs() {
    let zone = TimeZone::fixed(tz::offset(1));
    let foreign =
        StatusDocument { current: Current::Foreign { target: "/usr/bin/otelcol".into() }, ..empty() };
    let mut text = String::new();
    for (name, status) in [
        ("calm", calm()),
        ("empty", empty()),
        ("left", left()),
        ("troubled", troubled()),
        ("foreign", foreign),
    ] {
        let human = status.human(&zone);
        assert!(!human.chars().any(|c| c.is_control() && c != '\n'), "{human:?}");
        write!(text, "--- {name}\n{human}").unwrap();
        let json = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<StatusDocument>(&json).unwrap(), status);
    }
    golden("status.txt", &text);
    golden("status.json", &format!("{}\n", serde_json::to_string_pretty(&troubled()).unwrap()));
}

/// The rows `next` of a status, joined.
fn next(status: &StatusDocument) -> String {
    let text = status.human(&TimeZone::UTC);
    let rows = text.lines().skip_while(|line| !line.starts_with("next "));
    let rows = rows.take_while(|line| line.starts_with("next ") || line.starts_with(' '));
    rows.map(|line| line[13..].to_owned()).collect::<Vec<_>>().join(" | ")
}

#[test]
fn what_happens_next_follows_from_how_things_stand() {
    let available = || Some(look(Found::Available { version: version("0.170.0") }));
    let alone = |status: StatusDocument| StatusDocument { updater: None, ..status };
    let ran = |health| StatusDocument { health, ..calm() };
    let on_trial = |tries| StatusDocument {
        trial: Some(OnTrial { to: SLOT.to_owned(), from: Some(OLD_SLOT.to_owned()), tries }),
        ..calm()
    };
    let damaged = Integrity::Damaged { reason: "expected aa, found bb".to_owned() };
    let table = [
        ("calm", calm(), "next look at 2026-11-30 10:00:00+00:00"),
        (
            "an offer and run",
            StatusDocument { look: available(), ..calm() },
            "update to 0.170.0 at the next look, 2026-11-30 10:00:00+00:00, or now by `update`",
        ),
        (
            "an offer and no run",
            alone(StatusDocument { look: available(), ..calm() }),
            "`update` takes 0.170.0; nothing does by itself",
        ),
        ("no run", alone(calm()), "no look by itself, since `run` is not alive; `check` looks now"),
        (
            "no interval",
            StatusDocument { next_look: None, ..calm() },
            "no look by itself, since run.check_interval is \"off\"; `check` looks now",
        ),
        (
            "a pin",
            StatusDocument { pin: Some(version("0.165.1")), ..calm() },
            "next look at 2026-11-30 10:00:00+00:00; the pin lets nothing but 0.165.1 in, until `unpin`",
        ),
        ("a trial", on_trial(2), "the trial is judged; if it fails, 0.158.0-0a1b2c3d4e5f runs again"),
        (
            "a trial that nobody judges",
            alone(on_trial(1)),
            "nobody judges the trial: start `run`, or `recover`, which takes it up again",
        ),
        (
            "the same without tries",
            alone(on_trial(0)),
            "nobody judges the trial: start `run`, or `recover`, which goes back to 0.158.0-0a1b2c3d4e5f",
        ),
        (
            "ill",
            ran(Health::NotHealthy { seen: "503".to_owned() }),
            "it is not healthy: look at its log; `rollback` goes back to the build before | next look at 2026-11-30 10:00:00+00:00",
        ),
        (
            "nothing runs",
            alone(ran(Health::NothingRuns)),
            "nothing runs: start `run`, or the program's service | no look by itself, since `run` is not alive; `check` looks now",
        ),
        (
            "damaged",
            StatusDocument { current: current(SLOT, damaged), ..calm() },
            "the program is damaged: start `run` anew, or `recover`, before it is started again | next look at 2026-11-30 10:00:00+00:00",
        ),
        (
            "empty",
            empty(),
            "start `run`, or `update`, to install what the policy selects | no look by itself, since `run` is not alive; `check` looks now",
        ),
        (
            "left",
            left(),
            "next look at 2026-11-30 10:00:00+00:00 | 0.164.0 is not tried again until `release 0.164.0`",
        ),
        (
            "an offer that was taken by name",
            StatusDocument { look: Some(look(Found::Available { version: version("0.165.1") })), ..calm() },
            "next look at 2026-11-30 10:00:00+00:00",
        ),
        (
            "an offer that was taken by name and no run",
            alone(StatusDocument {
                look: Some(look(Found::Available { version: version("0.165.1") })),
                ..calm()
            }),
            "no look by itself, since `run` is not alive; `check` looks now",
        ),
        (
            "an offer that was tried by name and left",
            StatusDocument { look: Some(look(Found::Available { version: version("0.164.0") })), ..left() },
            "next look at 2026-11-30 10:00:00+00:00 | 0.164.0 is not tried again until `release 0.164.0`",
        ),
        (
            "left and released",
            StatusDocument { quarantined: vec![], ..left() },
            "next look at 2026-11-30 10:00:00+00:00",
        ),
    ];
    for (name, status, expected) in table {
        assert_eq!(next(&status), expected, "{name}");
    }
}

#[test]
fn an_offer_says_what_became_of_it() {
    let offered = |status: StatusDocument, offer: &str| {
        let look = Some(look(Found::Available { version: version(offer) }));
        let text = StatusDocument { look, ..status }.human(&TimeZone::UTC);
        let row = text.lines().find_map(|line| line.strip_prefix("offered      ")).unwrap();
        row.split(" (").next().unwrap().to_owned()
    };
    assert_eq!(offered(calm(), "0.170.0"), "0.170.0");
    assert_eq!(offered(calm(), "0.165.1"), "0.165.1, which is installed");
    assert_eq!(offered(left(), "0.164.0"), "0.164.0, which is quarantined");
    assert_eq!(offered(empty(), "0.164.0"), "0.164.0");
}

#[test]
fn what_was_not_asked_is_said_beside_an_answer() {
    for (unasked, words, json) in [
        (vec![Unasked::Identity], "who it is was not asked", json!(["identity"])),
        (vec![Unasked::Command], "the command was not asked", json!(["command"])),
        (
            vec![Unasked::Identity, Unasked::Command],
            "who it is and the command were not asked",
            json!(["identity", "command"]),
        ),
    ] {
        let status = StatusDocument { health: Health::Answers { unasked }, ..calm() };
        let row = format!("\nhealth       answers; {words}\n");
        assert!(status.human(&TimeZone::UTC).contains(&row), "{}", status.human(&TimeZone::UTC));
        let document = serde_json::to_value(&status).unwrap();
        assert_eq!(document["health"], json!({ "is": "answers", "unasked": json }));
        assert_eq!(next(&status), "next look at 2026-11-30 10:00:00+00:00");
    }
}

#[test]
fn the_operations_page_shows_a_status_as_it_is_printed() {
    let printed = calm().human(&TimeZone::UTC);
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("```text\n{printed}```\n")), "docs/operations.md shows no\n{printed}");
}
