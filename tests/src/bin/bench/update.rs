//! From an offer to a durable slot: how long, and how much memory the updater takes for it. And how long `status`
//! takes beside a slot of that size.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use myriarch_tests::{
    collector::StandIn,
    machine::{Machine, Plan, Supervised},
    programs::Programs,
};
use serde_json::{Value, json};

use crate::{
    by_hand,
    figure::{Comparison, Figure, Run},
    file_server::FileServer,
    inputs::{Input, Inputs, LARGE, MIDDLE, SMALL, Size, VERSION},
};

/// More often the memory is not measured: it is the same every time, and the large archive takes its time.
const MEMORY_RUNS: usize = 3;
/// How often `status` is called in one run.
const STATUS_CALLS: usize = 10;

/// Offer to durable slot against the same by hand.
pub(crate) fn slot(inputs: &Inputs, runs: usize) -> Figure {
    let server = FileServer::start(inputs.directory());
    let input = inputs.archive(MIDDLE);
    let runs = (0..runs).map(|run| {
        let machine = machine();
        let by_hand = || {
            settle(&input, machine.path());
            let url = server.url_of(&input.file_name);
            by_hand::install(&machine.path().join("by-hand"), &url, input.digest).as_secs_f64()
        };
        // The sides take turns at being first.
        let theirs_first = (run % 2 == 1).then(by_hand);
        let ours = update(&machine, &server, &input).as_secs_f64();
        let theirs = theirs_first.unwrap_or_else(by_hand);
        println!("  ours {ours:.2} s, by hand {theirs:.2} s");
        Run { ours, theirs: Some(theirs) }
    });
    Figure {
        name: "offer to durable slot, 100 MB archive".to_owned(),
        unit: "s",
        runs: runs.collect(),
        by: Comparison::Ratio,
        aim: 0.9,
    }
}

/// The most memory that `run` ever had resident, for archives of three sizes.
pub(crate) fn memory(inputs: &Inputs, runs: usize) -> Vec<Figure> {
    const SIZES: [Size; 3] = [SMALL, MIDDLE, LARGE];
    let server = FileServer::start(inputs.directory());
    let peaks: Vec<[f64; 3]> = (0..runs.min(MEMORY_RUNS))
        .map(|_| {
            let peaks = SIZES.map(|size| {
                let machine = machine();
                update(&machine, &server, &inputs.archive(size));
                peak(machine.updater())
            });
            println!("  {peaks:.1?} MiB");
            peaks
        })
        .collect();
    let alone = |name: String, aim: f64, of: &dyn Fn(&[f64; 3]) -> f64| Figure {
        name,
        unit: "MiB",
        runs: peaks.iter().map(|peaks| Run { ours: of(peaks), theirs: None }).collect(),
        by: Comparison::Alone,
        aim,
    };
    let mut figures: Vec<Figure> = SIZES
        .iter()
        .enumerate()
        .map(|(at, size)| alone(format!("peak memory, {} archive", size.name), 24.0, &|peaks| peaks[at]))
        .collect();
    let range = |peaks: &[f64; 3]| {
        let least = peaks.iter().copied().fold(f64::INFINITY, f64::min);
        peaks.iter().copied().fold(0.0, f64::max) - least
    };
    figures.push(alone("peak memory, largest less smallest".to_owned(), 2.0, &range));
    figures
}

/// `status` where the current slot holds a program of 350 MB.
pub(crate) fn status(inputs: &Inputs, runs: usize) -> Figure {
    let server = FileServer::start(inputs.directory());
    let machine = machine();
    update(&machine, &server, &inputs.archive(MIDDLE));
    machine.wait_idle();
    let one = || {
        let began = Instant::now();
        let output = machine.verb(&["status"]);
        assert!(output.status.success(), "{output:?}");
        Run { ours: began.elapsed().as_secs_f64() * 1000.0, theirs: None }
    };
    Figure {
        name: "status".to_owned(),
        unit: "ms",
        runs: (0..runs * STATUS_CALLS).map(|_| one()).collect(),
        by: Comparison::Alone,
        aim: 20.0,
    }
}

/// A machine with a small collector that runs, owned by `run`.
fn machine() -> Machine {
    let plan = Plan {
        settle: Duration::from_mins(1),
        soak: Duration::from_millis(100),
        supervised: Supervised::ByUpdater,
        ..Plan::default()
    };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    machine.start_with("0.1.0", &StandIn::version("0.1.0").build());
    machine
}

/// One whole update to `input`. Answers the time from the verb's start until its JSON lines say that the slot is
/// durable; that the update is then confirmed is asserted.
fn update(machine: &Machine, server: &FileServer, input: &Input) -> Duration {
    offer(machine, server, input);
    settle(input, machine.path());
    let began = Instant::now();
    let mut verb = machine
        .command(&["update", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("myriarch-updater starts");
    let (mut staged, mut said) = (None, vec![]);
    for line in BufReader::new(verb.stderr.take().expect("a pipe")).lines() {
        let line = line.expect("a line");
        let event: Value = serde_json::from_str(&line).unwrap_or_default();
        if event["event"] == "staged" {
            staged = Some(began.elapsed());
        }
        said.push(line);
    }
    let status = verb.wait().expect("myriarch-updater ends");
    assert!(status.success(), "{status}\n{}\n{}", said.join("\n"), machine.log());
    staged.expect("the slot to be said to be durable")
}

/// The machine's source names `input` alone, on the file server, properly signed.
fn offer(machine: &Machine, server: &FileServer, input: &Input) {
    let bundle = machine.sigstore().sign(input.digest, &Machine::identity(VERSION));
    machine.server().put("/bundle.json", bundle);
    let arch = if std::env::consts::ARCH == "aarch64" { "arm64" } else { "amd64" };
    let asset = json!({
        "os": "linux",
        "arch": arch,
        "archive": server.url_of(&input.file_name),
        "sha256": input.digest.to_string(),
        "bundle": "bundle.json",
    });
    let index = json!({"schema": 1, "releases": [{"version": VERSION, "assets": [asset]}]});
    machine.server().put("/index.json", index.to_string());
}

/// Both sides begin alike: the archive in the page cache, nothing on this file system left to be written.
fn settle(input: &Input, place: &Path) {
    let mut file = File::open(&input.path).expect("the archive");
    io::copy(&mut file, &mut io::sink()).expect("a readable archive");
    let place = File::open(place).expect("the machine's directory");
    rustix::fs::syncfs(place).expect("a file system that can be synced");
}

/// The most memory a process ever had resident, in MiB.
fn peak(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a running updater");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib / 1024.0
}
