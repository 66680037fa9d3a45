//! One row of the table, and how a group of rows is played on a machine.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::Output,
    time::Duration,
};

use myriarch_cli::Ending;
use myriarch_tests::{
    collector::StandIn,
    machine::{Machine, Plan, words},
    programs::Programs,
};
use serde_json::Value;

use crate::{
    document,
    words::{Words, last},
};

/// What runs.
pub(crate) const OLD: &str = "1.0.0";
/// What is offered.
pub(crate) const NEW: &str = "1.1.0";

/// What was confirmed before, where a row needs it.
pub(crate) const OLDER: &str = "0.9.0";

/// A bad input and what comes of it. `..Row::UPDATE` fills in what most rows have.
pub(crate) struct Row {
    /// Its name, in the document and in failures.
    pub(crate) name: &'static str,
    /// The input, in words.
    pub(crate) input: &'static str,
    /// Brings the input about.
    pub(crate) bring: fn(&mut Machine),
    /// What is done then.
    pub(crate) done: Done,
    /// The exit code of a verb.
    pub(crate) exit: i32,
    /// What runs then, and what is on disk.
    pub(crate) after: After,
    /// Takes the input away again, so that a good update is there to be had.
    pub(crate) mend: fn(&mut Machine),
}

/// What is done with the input there.
#[derive(Clone, Copy)]
pub(crate) enum Done {
    /// A verb with its arguments.
    Verb(&'static [&'static str]),
    /// These bytes over the control socket, and then silence.
    Message(fn() -> Vec<u8>),
    /// These bytes over the control socket, and then the end.
    LastMessage(fn() -> Vec<u8>),
    /// `run` is started, and the program with it.
    Start,
}

/// What runs afterwards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The same processes, the same `current`, the same journal.
    Untouched,
    /// The previous build, started anew and healthy; the candidate is quarantined.
    RolledBack,
    /// The same build as before the stop; the journal then has entries of these kinds.
    Started(&'static [&'static str]),
    /// The latest confirmed build that is intact, of this version, which `current` names then; the journal says so.
    Rescued(&'static str),
}

impl Row {
    /// A good build is offered, `update` fails, nothing was touched.
    pub(crate) const UPDATE: Self = Self {
        name: "",
        input: "",
        bring: |_| {},
        done: Done::Verb(&["update"]),
        exit: 1,
        after: After::Untouched,
        mend: offer_good,
    };
}

/// Rows that share a machine.
pub(crate) struct Group {
    /// The section's heading in the document.
    pub(crate) title: &'static str,
    /// What stands below it.
    pub(crate) about: &'static str,
    /// The machine that [`OLD`] runs on, healthy.
    pub(crate) machine: fn() -> Machine,
    /// The rows, in the order of the document.
    pub(crate) rows: &'static [Row],
}

/// A machine under a supervisor that runs [`OLD`], which is well.
pub(crate) fn machine() -> Machine {
    machine_by(plan())
}

/// Short times.
pub(crate) fn plan() -> Plan {
    Plan { soak: Duration::from_millis(200), ..Plan::default() }
}

/// As planned, running [`OLD`], which is well.
pub(crate) fn machine_by(plan: Plan) -> Machine {
    machine_with(plan, &[])
}

/// The same after these changes of its configuration, each from one text to another.
pub(crate) fn machine_with(plan: Plan, edits: &[(&str, &str)]) -> Machine {
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    for (from, to) in edits {
        edit(&machine, from, to);
    }
    machine.start_with(OLD, &StandIn::version(OLD).build());
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
    machine
}

pub(crate) fn edit(machine: &Machine, from: &str, to: &str) {
    let text = fs::read_to_string(machine.configuration()).expect("the configuration");
    assert!(text.contains(from), "{text}");
    fs::write(machine.configuration(), text.replace(from, to)).expect("a configuration that can be written");
}

/// An honest offer of a good [`NEW`]. Its bytes are none that a row has seen refused.
pub(crate) fn offer_good(machine: &mut Machine) {
    machine.offer_program(NEW, &StandIn::version(NEW).salt("good").build());
}

/// Plays the rows one after the other on one machine and compares what was said with the document. In the end a good
/// update must succeed by itself.
pub(crate) fn play(group: &Group) {
    let mut machine = (group.machine)();
    let mut section = document::Section::of(group);
    offer_good(&mut machine);
    for row in group.rows {
        let said = play_row(row, &mut machine);
        section.add(row, &said);
    }
    offer_good(&mut machine);
    let output = machine.verb(&["update", "--to", NEW]);
    assert_eq!(output.status.code(), Some(0), "after {}: {}", group.title, words(&output));
    assert_eq!(machine.assert_well(), NEW);
    section.compare();
}

fn play_row(row: &Row, machine: &mut Machine) -> String {
    let name = row.name;
    let words_of = Words::on(machine);
    (row.bring)(machine);
    let before = look(machine);
    let (told, said) = match row.done {
        Done::Verb(verb) => {
            let output = machine.verb(verb);
            let told = words(&output);
            assert_eq!(
                output.status.code(),
                Some(row.exit),
                "row `{name}`: {told}\n--- run\n{}",
                machine.log()
            );
            let said = last(&told).unwrap_or_else(|| panic!("row `{name}`: no last words in {told}"));
            assert!(said.contains("hint: "), "row `{name}`: expected a hint in {said}");
            let said = words_of.normal(said);
            (told, said)
        }
        Done::Message(sent) => answer(machine, &sent(), None, &words_of),
        Done::LastMessage(sent) => answer(machine, &sent(), Some(Shutdown::Write), &words_of),
        Done::Start => start(machine, &words_of),
    };
    match row.after {
        After::Untouched => {
            assert_eq!(look(machine), before, "row `{name}`: {told}");
            if let Done::Verb(verb) = row.done {
                let document = machine.verb(&[verb, &["--json"]].concat());
                assert_eq!(words_of.normal(&human(&document)), said, "row `{name}`, --json: {document:?}");
                assert_eq!(look(machine), before, "row `{name}`, --json");
            }
        }
        After::RolledBack => {
            let after = look(machine);
            assert_eq!(after.current, before.current, "row `{name}`: {told}");
            assert_ne!(after.collectors, before.collectors, "row `{name}`: {told}");
            let entries = machine.entries();
            let lines = before.journal.lines().count();
            let kinds: Vec<_> = entries[lines..].iter().map(|entry| &entry["entry"]).collect();
            let expected = ["trial", "failed", "quarantined", "rolled-back"];
            assert_eq!(kinds, expected, "row `{name}`: {told}");
            let status = machine.status();
            assert!(status["trial"].is_null(), "row `{name}`: {status}");
        }
        After::Started(kinds) => {
            assert_eq!(look(machine).current, before.current, "row `{name}`: {told}");
            let entries = machine.entries();
            let found: Vec<_> =
                entries.iter().map(|entry| entry["entry"].as_str().unwrap_or_default()).collect();
            assert_eq!(found, kinds, "row `{name}`: {told}");
        }
        After::Rescued(version) => {
            assert_eq!(machine.current_version().as_deref(), Some(version), "row `{name}`: {told}");
            let rescued = &machine.entries()[before.journal.lines().count()..];
            let [rescued] = rescued else {
                panic!("row `{name}`: expected one more line, found {rescued:?}")
            };
            assert_eq!(rescued["entry"], "rescued", "row `{name}`: {told}");
        }
    }
    let runs = if let After::Rescued(version) = row.after { version } else { OLD };
    assert_eq!(machine.running_version().as_deref(), Some(runs), "row `{name}`: {told}");
    (row.mend)(machine);
    let output = machine.verb(&["check"]);
    assert_eq!(output.status.code(), Some(100), "row `{name}` is mended: {}", words(&output));
    said
}

/// What is answered over the control socket: as it came, and as the document has it.
fn answer(machine: &Machine, sent: &[u8], then: Option<Shutdown>, words_of: &Words) -> (String, String) {
    let mut stream = UnixStream::connect(machine.socket()).expect("the control socket");
    // A request that is refused early is not read to its end.
    let _ = stream.write_all(sent);
    if let Some(then) = then {
        stream.shutdown(then).expect("half of a socket can be closed");
    }
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a time-out");
    let mut told = String::new();
    let _ = stream.read_to_string(&mut told);
    let lines: Vec<Value> = told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let [reply] = &lines[..] else { panic!("expected one reply to {sent:?}, found {told:?}") };
    assert_eq!(reply["reply"], "error", "{told}");
    assert!(reply["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{told}");
    let said = words_of.normal(&told);
    (told, said)
}

/// What `run` says when it is started, until something healthy runs.
fn start(machine: &mut Machine, words_of: &Words) -> (String, String) {
    let before = machine.log().len();
    machine.start();
    machine.wait_idle();
    machine.wait(Duration::from_mins(1), "something healthy", |machine| machine.running_version().is_some());
    let told = machine.log()[before..].to_owned();
    let begins = |line: &&str| line.starts_with("recovering: ") || line.starts_with("recovery: ");
    let said: String = told.lines().filter(begins).map(|line| line.to_owned() + "\n").collect();
    let said = words_of.normal(&said);
    (told, said)
}

/// The words for people that belong to a document for programs.
fn human(output: &Output) -> String {
    let ending: Ending = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    assert_eq!(Some(i32::from(ending.exit_code.code())), output.status.code(), "{output:?}");
    ending.human()
}

/// What nothing may change.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    /// The updater, the supervisor and the collector.
    processes: Vec<u32>,
    collectors: Vec<u32>,
    current: Option<PathBuf>,
    journal: String,
}

fn look(machine: &Machine) -> Look {
    let journal = fs::read(machine.store().join("journal.jsonl")).unwrap_or_default();
    Look {
        processes: machine.processes(),
        collectors: machine.collectors(),
        current: fs::read_link(machine.store().join("current")).ok(),
        journal: String::from_utf8_lossy(&journal).into_owned(),
    }
}
