//! What the journal becomes for people and programs: one entry for each thing that an operator remembers.
//! `UPDATE_GOLDEN=1 cargo test -p myriarch-cli` writes the golden files anew.

#![expect(clippy::unwrap_used, reason = "what these helpers build is constant, a failure is the test's")]

mod golden_file;

use std::{fs, path::PathBuf};

use golden_file::golden;
use jiff::tz::{self, TimeZone};
use myriarch_cli::{
    HistoryDocument,
    history::{TrialEnd, What},
};
use myriarch_update::{
    Build, Excerpt, Fault,
    journal::{Entry, Leaving, Line, Took},
};
use myriarch_verify::Digest;

fn build(text: &str) -> Build {
    again(text, "")
}

/// The same version released again with other bytes.
fn again(text: &str, salt: &str) -> Build {
    let version = text.parse().unwrap();
    let digest = |what: &str| Digest::of(format!("{text}{salt}{what}").as_bytes());
    Build { version, binary: digest("binary"), archive: digest("archive") }
}

/// Each entry a minute after the one before it.
fn lines(entries: impl IntoIterator<Item = Entry>) -> Vec<Line> {
    let begin: jiff::Timestamp = "2026-11-29T23:55:00.123Z".parse().unwrap();
    let at = |index| begin + jiff::SignedDuration::from_mins(i64::try_from(index).unwrap());
    entries.into_iter().enumerate().map(|(index, entry)| Line::new(at(index), entry)).collect()
}

fn trial(from: Option<Build>, to: Build, tries: u8) -> Entry {
    Entry::Trial { to, from, tries, baseline_healthy: true, leaving: None, boot: None }
}

fn confirmed(build: Build) -> Entry {
    let took = Some(Took { trial_ms: 61_234, downtime_ms: 830 });
    Entry::Confirmed { build, leaving: None, took }
}

fn excerpt() -> Excerpt {
    let file = "/opt/myriarch/otelcol/logs/0.164.0-20261130T000000Z.log";
    Excerpt { line: "panic: crash on start\u{1b}[31m".to_owned(), file: Some(file.into()) }
}

/// Ends in every way, with every line of the journal's that there is.
fn eventful() -> Vec<Line> {
    let [old, bad, new] = ["0.158.0", "0.164.0", "0.165.1"].map(build);
    let reason = || "not ready within 60 s, last seen: HTTP 503\u{1b}]0;owned\u{7}".to_owned();
    let blameless = Fault::Environment { because: "disk ran out: 0 bytes free".to_owned() };
    let rolled_back = |from: &Build, to: Option<&Build>, fault, healthy| Entry::RolledBack {
        from: from.clone(),
        to: to.cloned(),
        reason: reason(),
        fault,
        healthy,
        took: Some(Took { trial_ms: 60_100, downtime_ms: 64_200 }),
        excerpt: Some(excerpt()),
    };
    let failed = |build: &Build, to: Option<&Build>| Entry::Failed {
        build: build.clone(),
        to: to.cloned(),
        reason: reason(),
        excuse: None,
        excerpt: Some(excerpt()),
    };
    lines([
        trial(None, old.clone(), 2),
        // As a version before this one wrote it.
        Entry::Confirmed { build: old.clone(), leaving: None, took: None },
        trial(Some(old.clone()), bad.clone(), 2),
        failed(&bad, Some(&old)),
        Entry::Quarantined { build: bad.clone(), reason: reason() },
        rolled_back(&bad, Some(&old), Fault::Version, true),
        Entry::Released { version: "0.164.0".parse().unwrap() },
        Entry::Pinned { version: "0.158.0".parse().unwrap() },
        Entry::Unpinned,
        trial(Some(old.clone()), again("0.158.0", "again"), 2),
        rolled_back(&again("0.158.0", "again"), Some(&old), blameless, false),
        trial(Some(old.clone()), new.clone(), 2),
        // Stopped in order, which gives the try back, then killed twice and taken up again.
        trial(Some(old.clone()), new.clone(), 3),
        trial(Some(old.clone()), new.clone(), 1),
        trial(Some(old.clone()), new.clone(), 0),
        confirmed(new.clone()),
        trial(Some(new.clone()), old.clone(), 2),
        Entry::Confirmed {
            build: old.clone(),
            leaving: Some(Leaving { build: new.clone(), reason: "an operator rolled back from it".into() }),
            took: Some(Took { trial_ms: 3000, downtime_ms: 400 }),
        },
        Entry::Rescued { to: Some(old.clone()), reason: "expected SHA-256 aa, found bb".into() },
        Entry::Rescued { to: None, reason: "expected a program, found nothing".into() },
        Entry::Quarantined { build: new.clone(), reason: "by hand".into() },
        Entry::SetAside {
            kept_as: "/opt/journal.jsonl.set-aside-0".into(),
            reason: "line 7: garbage".into(),
        },
        Entry::Confirmed { build: old.clone(), leaving: None, took: None },
        trial(Some(old.clone()), build("0.169.0"), 2),
        Entry::Withdrawn {
            from: build("0.169.0"),
            to: Some(old.clone()),
            reason: "somebody else stopped otelcol.service".into(),
        },
        trial(Some(old.clone()), build("0.170.0"), 2),
        failed(&build("0.170.0"), Some(&old)),
    ])
}

#[test]
fn an_eventful_journal_reads_as_what_an_operator_remembers() {
    let zone = TimeZone::fixed(tz::offset(1));
    let history = HistoryDocument::of(&eventful());
    let text = history.human(&zone);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    golden("history.txt", &text);
    let json = serde_json::to_string_pretty(&history).unwrap();
    assert_eq!(serde_json::from_str::<HistoryDocument>(&json).unwrap(), history);
    golden("history.json", &format!("{json}\n"));
    assert_eq!(HistoryDocument::of(&[]).human(&zone), "nothing has happened yet\n");
}

#[test]
fn an_open_trial_is_told_as_open() {
    let history = HistoryDocument::of(&lines([trial(None, build("0.158.0"), 2)]));
    let [What::Trial(trial)] = &history.entries.iter().map(|entry| &entry.what).collect::<Vec<_>>()[..]
    else {
        panic!("{history:?}")
    };
    assert_eq!((&trial.end, &trial.ended), (&TrialEnd::Open, &None));
    assert_eq!(history.human(&TimeZone::UTC), "2026-11-29 23:55:00+00:00  0.158.0 installed: on trial\n");
}

#[test]
fn a_journal_whose_lines_were_lost_still_tells_the_rest() {
    let all = eventful();
    for lost in 0..all.len() {
        let mut rest = all.clone();
        rest.remove(lost);
        let history = HistoryDocument::of(&rest);
        let ends = |kind: fn(&TrialEnd) -> bool| {
            history
                .entries
                .iter()
                .filter(|entry| matches!(&entry.what, What::Trial(t) if kind(&t.end)))
                .count()
        };
        // Every rollback that the journal still says is told, with the line of its begin or without.
        let said = rest.iter().filter(|line| matches!(line.entry, Entry::RolledBack { .. })).count();
        assert_eq!(ends(|end| matches!(end, TrialEnd::RolledBack { .. })), said, "without line {lost}");
    }
}

#[test]
fn the_operations_page_shows_a_history_as_it_is_printed() {
    let [old, new] = ["0.149.0", "0.158.0"].map(build);
    let at = |time: &str, entry| Line::new(time.parse().unwrap(), entry);
    let took = |trial_ms, downtime_ms| Some(Took { trial_ms, downtime_ms });
    let confirmed = |build: &Build, took| Entry::Confirmed { build: build.clone(), leaving: None, took };
    let history = HistoryDocument::of(&[
        at("2026-11-28T03:10:12Z", trial(None, old.clone(), 2)),
        at("2026-11-28T03:11:13Z", confirmed(&old, took(60_455, 412))),
        at("2026-11-29T03:10:09Z", trial(Some(old.clone()), new.clone(), 2)),
        at(
            "2026-11-29T03:10:17Z",
            Entry::RolledBack {
                from: new.clone(),
                to: Some(old.clone()),
                reason: "not ready within 7 s, last seen: http://127.0.0.1:13133/: Connection refused (os error 111)"
                    .to_owned(),
                fault: Fault::Version,
                healthy: true,
                took: took(7213, 7942),
                excerpt: None,
            },
        ),
        at("2026-11-29T09:41:55Z", Entry::Released { version: "0.158.0".parse().unwrap() }),
        at("2026-11-30T03:10:07Z", trial(Some(old), new.clone(), 2)),
        at("2026-11-30T03:11:09Z", confirmed(&new, took(61_300, 830))),
    ]);
    let printed = history.human(&TimeZone::UTC);
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("```text\n{printed}```\n")), "docs/operations.md shows no\n{printed}");
}
