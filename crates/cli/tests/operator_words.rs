//! What people read, kept as golden files: a change of words is a change of the operator's surface.
//! `UPDATE_GOLDEN=1 cargo test -p myriarch-cli` writes them anew.

#![expect(clippy::unwrap_used, reason = "what these helpers build is constant, a failure is the test's")]

mod golden_file;

use std::{
    fmt::Write as _,
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use golden_file::golden;
use myriarch_cli::{
    Ending, ExitCode, Reporter,
    config::{Config, ConfigError},
    describe,
};
use myriarch_policy::{Relation, Version};
use myriarch_update::{
    Build, Check, Event, Excerpt, Fault, Observe as _, Outcome, Refusal, RefusalKind, RolledBack, Stage,
};
use myriarch_verify::Digest;

const SLOT: &str = "0.165.1-7623348c295e";
const OLD_SLOT: &str = "0.158.0-0a1b2c3d4e5f";

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn build(text: &str) -> Build {
    Build {
        version: version(text),
        binary: Digest::of(text.as_bytes()),
        archive: Digest::of(format!("{text}.tar.gz").as_bytes()),
    }
}

fn excerpt() -> Excerpt {
    Excerpt {
        line: "panic: crash on start\u{1b}[31m".to_owned(),
        file: Some(format!("/opt/myriarch/otelcol/logs/{SLOT}-20261130T080000Z.log").into()),
    }
}

/// Every event there is; a new one does not compile until it is here.
fn every_event() -> Vec<Event> {
    let known = |event: &Event| match event {
        Event::Recovering { .. }
        | Event::Notice { .. }
        | Event::Selected { .. }
        | Event::Downloading { .. }
        | Event::Verified { .. }
        | Event::Staged { .. }
        | Event::Checked { .. }
        | Event::Baseline { .. }
        | Event::Activated { .. }
        | Event::Restarting { .. }
        | Event::Healthy { .. }
        | Event::Confirmed { .. }
        | Event::TrialFailed { .. }
        | Event::RolledBack { .. }
        | Event::Withdrawn { .. }
        | Event::Quarantined { .. }
        | Event::Pruned { .. }
        | Event::Refused { .. }
        | Event::ChildExited { .. } => {}
    };
    let (new, old) = (version("0.165.1"), version("0.158.0"));
    let (slot, old_slot) = (SLOT.to_owned(), OLD_SLOT.to_owned());
    let source = "https://releases.example.com/otelcol-contrib_0.165.1_linux_amd64.tar.gz".to_owned();
    let selected = |installed, relation| Event::Selected {
        version: new.clone(),
        installed,
        relation,
        source: source.clone(),
    };
    let downloading = |received, total| Event::Downloading { version: new.clone(), received, total };
    let events = vec![
        Event::Recovering { reason: format!("the trial of {SLOT} was interrupted; it goes on") },
        Event::Notice { words: "journal: No space left on device; it is written later".to_owned() },
        selected(None, None),
        selected(Some(old.clone()), None),
        selected(Some(old.clone()), Some(Relation::Upgrade)),
        selected(Some(new.clone()), Some(Relation::Same)),
        selected(Some(version("0.170.0")), Some(Relation::Downgrade)),
        selected(Some(version("dev")), Some(Relation::Incomparable)),
        downloading(0, Some(97_517_568)),
        downloading(48_758_784, Some(97_517_568)),
        downloading(97_517_569, Some(97_517_568)),
        downloading(512, None),
        Event::Verified {
            version: new.clone(),
            archive: Digest::of(b"archive"),
            trust: "signed by https://github.com/example".to_owned(),
        },
        Event::Staged { slot: slot.clone() },
        Event::Checked { check: Check::Version, detail: "otelcol-contrib version 0.165.1".to_owned() },
        Event::Checked { check: Check::Components, detail: "opamp is there".to_owned() },
        Event::Checked { check: Check::Configuration, detail: "accepted".to_owned() },
        Event::Baseline { healthy: true, detail: "200 OK by pid 4242".to_owned() },
        Event::Baseline { healthy: false, detail: "connection refused".to_owned() },
        Event::Activated { slot: slot.clone(), from: Some(old_slot.clone()), tries: 2 },
        Event::Activated { slot: slot.clone(), from: None, tries: 1 },
        Event::Restarting { slot: slot.clone() },
        Event::Healthy { downtime_ms: 1234, soak_ms: 60_000 },
        Event::Confirmed { version: new.clone(), slot: slot.clone(), downtime_ms: 830 },
        Event::TrialFailed {
            slot: slot.clone(),
            reason: "never ready: 503\u{1b}[2J\nlast line".to_owned(),
            excerpt: None,
        },
        Event::TrialFailed { slot: slot.clone(), reason: "never ready".to_owned(), excerpt: Some(excerpt()) },
        Event::RolledBack {
            from: slot.clone(),
            to: Some(old_slot.clone()),
            reason: "never ready within 60 s".to_owned(),
            fault: Fault::Version,
            healthy: true,
        },
        Event::RolledBack {
            from: slot.clone(),
            to: None,
            reason: "never ready within 60 s".to_owned(),
            fault: Fault::Environment { because: "it was not healthy before either".to_owned() },
            healthy: false,
        },
        Event::Withdrawn {
            from: slot.clone(),
            to: Some(old_slot.clone()),
            reason: "otelcol.service was stopped by somebody else".to_owned(),
        },
        Event::Withdrawn { from: slot.clone(), to: None, reason: "otelcol.service does not run".to_owned() },
        Event::Quarantined { version: new.clone(), slot, reason: "never ready within 60 s".to_owned() },
        Event::Pruned { slot: old_slot },
        Event::Refused { stage: Stage::Obtain, reason: "expected a signature, found none".to_owned() },
        Event::ChildExited { status: "exit status 1".to_owned(), restart_in_ms: 64_000 },
    ];
    events.iter().for_each(known);
    events
}

#[test]
fn every_event_has_one_line_for_people() {
    let mut text = String::new();
    for event in every_event() {
        let line = describe::event(&event);
        assert!(!line.chars().any(char::is_control), "{line:?}");
        text.push_str(&line);
        text.push('\n');
    }
    golden("events.txt", &text);
}

#[derive(Debug, Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[test]
fn a_pipe_hears_of_a_download_at_each_tenth() {
    let out = Written::default();
    let reporter = Reporter::lines(out.clone());
    let download = |version: &str, received, total| Event::Downloading {
        version: version.parse().unwrap(),
        received,
        total,
    };
    for received in 0..=1000 {
        reporter.observe(&download("1.0.0", received, Some(1000)));
    }
    assert_eq!(out.text().lines().count(), 11, "{}", out.text());
    assert!(out.text().ends_with("downloading 1.0.0: 1000 B of 1000 B (100 %)\n"), "{}", out.text());
    for received in 0..100 {
        reporter.observe(&download("2.0.0", received << 20, None));
    }
    assert_eq!(out.text().lines().count(), 11 + 4, "{}", out.text());
    assert!(!out.text().contains('\u{1b}'), "no colour in a pipe");
}

#[test]
fn programs_read_every_event_back_from_its_json_line() {
    let out = Written::default();
    let reporter = Reporter::json(out.clone());
    let events = every_event();
    for event in &events {
        reporter.observe(event);
    }
    let text = out.text();
    assert_eq!(text.lines().count(), events.len());
    for (line, event) in text.lines().zip(&events) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["schema"], 1);
        assert_eq!(&serde_json::from_value::<Event>(value).unwrap(), event);
    }
    golden("events.jsonl", &text);
}

#[test]
fn a_stream_that_fails_stops_nobody() {
    #[derive(Debug)]
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    for reporter in [Reporter::lines(Broken), Reporter::json(Broken), Reporter::bars_on_stderr(Broken)] {
        for event in every_event().iter().take(1) {
            reporter.observe(event);
        }
    }
}

fn every_ending() -> Vec<(&'static str, Ending)> {
    let way = |to: Option<Build>, fault| RolledBack {
        from: build("0.165.1"),
        to,
        reason: "never ready within 60 s\nlast: 503\u{7}".to_owned(),
        fault,
        downtime: Duration::from_millis(75_500),
        excerpt: None,
    };
    let environment = || Fault::Environment { because: "the disk is full".to_owned() };
    let refusal = |stage, kind| Refusal {
        stage,
        kind,
        reason: "expected X, found Y".to_owned(),
        hint: "do Z".to_owned(),
    };
    let confirmed = Outcome::Confirmed { build: build("0.165.1"), downtime: Duration::from_millis(1890) };
    let nothing =
        |installed| Outcome::NothingToDo { installed, reason: "nothing newer is offered".to_owned() };
    let old = || Some(build("0.158.0"));
    let io = io::Error::other("disk on fire");
    let unreadable = ConfigError::Unreadable { path: "/etc/myriarch/x.toml".into(), source: io };
    let invalid = Config::parse("schema = 1\nservic = 1\n", "/etc/myriarch/x.toml".as_ref()).unwrap_err();
    vec![
        ("confirmed", (&confirmed).into()),
        ("nothing to do", (&nothing(Some(version("0.165.1")))).into()),
        ("nothing to do, nothing installed", (&nothing(None)).into()),
        ("rolled back", (&Outcome::RolledBack(way(old(), Fault::Version))).into()),
        (
            "rolled back, its last words known",
            (&Outcome::RolledBack(RolledBack { excerpt: Some(excerpt()), ..way(old(), Fault::Version) }))
                .into(),
        ),
        ("rolled back, environment", (&Outcome::RolledBack(way(old(), environment()))).into()),
        ("rolled back, first installation", (&Outcome::RolledBack(way(None, Fault::Version))).into()),
        ("nothing healthy", (&Outcome::NothingHealthy(way(old(), environment()))).into()),
        ("nothing healthy, no build before", (&Outcome::NothingHealthy(way(None, Fault::Version))).into()),
        ("withdrawn", (&Outcome::Withdrawn(way(old(), environment()))).into()),
        ("withdrawn, first installation", (&Outcome::Withdrawn(way(None, environment()))).into()),
        ("refused by policy", (&refusal(Stage::Select, RefusalKind::Policy)).into()),
        ("refused by trust", (&refusal(Stage::Obtain, RefusalKind::Trust)).into()),
        ("refused by the candidate", (&refusal(Stage::Validate, RefusalKind::Candidate)).into()),
        ("refused by the environment", (&refusal(Stage::Stage, RefusalKind::Environment)).into()),
        ("failed", Ending::failed(ExitCode::Failed, &unreadable, unreadable.hint())),
        ("locked", Ending::failed(ExitCode::Locked, &io::Error::other("held by pid 7"), None)),
        ("configuration", (&invalid).into()),
        ("done", Ending::done("0.164.0 is released")),
        ("available", Ending::available(version("0.165.1"), Some(version("0.158.0")))),
    ]
}

#[test]
fn every_ending_says_what_happened_what_runs_and_what_to_do() {
    let mut text = String::new();
    for (name, ending) in every_ending() {
        let human = ending.human();
        assert!(human.ends_with('\n') && !human.chars().any(|c| c.is_control() && c != '\n'), "{human:?}");
        write!(text, "--- {name}: exit {}\n{human}", ending.exit_code.code()).unwrap();
    }
    golden("endings.txt", &text);
}

#[test]
fn programs_read_every_ending_back_from_its_document() {
    let mut text = String::new();
    for (_, ending) in every_ending() {
        let json = ending.json();
        assert_eq!(serde_json::from_str::<Ending>(&json).unwrap(), ending, "{json}");
        text.push_str(&json);
        text.push('\n');
    }
    golden("endings.jsonl", &text);
}
