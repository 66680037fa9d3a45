//! The demo: one collector goes from a release to the next, and five bad offers come to nothing.
//!
//! On a store in a temporary directory, with a source on loopback and a private Sigstore, the real binary is
//! driven as an operator would. With the real programs at hand the supervisor and the collectors are real;
//! otherwise the kit's stand-ins take their place, and the first line says so.
#![expect(clippy::print_stdout, reason = "the demo is what it prints")]

use std::{
    process::{ExitCode, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use myriarch_tests::{
    collector::{End, StandIn, Validate},
    machine::{DISTRIBUTION, Machine, Plan, Release, health},
    programs::{self, Programs},
    sigstore::Identity,
};
use myriarch_verify::Digest;

/// The collectors that are offered.
struct Collectors {
    a: (&'static str, Vec<u8>),
    b: (&'static str, Vec<u8>),
    picky: (&'static str, Vec<u8>),
    crashing: (&'static str, Vec<u8>),
}

/// A line of the table at the end.
struct Row {
    offer: String,
    outcome: &'static str,
    exit: i32,
    downtime: String,
    as_told: bool,
}

fn main() -> ExitCode {
    let (programs, collectors) = if let Some(real) = programs::real() {
        println!(
            "This demo runs the real opampsupervisor 0.149.0 and real collectors built from their modules."
        );
        let collectors = Collectors {
            a: ("0.149.0", real.bytes("collector-0.149.0")),
            b: ("0.158.0", real.bytes("collector-0.158.0")),
            picky: ("0.158.3", real.bytes("collector-0.158.3-picky")),
            crashing: ("0.158.2", real.bytes("collector-0.158.2-crashing")),
        };
        (Programs::real(&real, "0.149.0"), collectors)
    } else {
        println!(
            "This demo runs STAND-INS for collector and supervisor; the real ones are built where Go is."
        );
        let rejects = Validate::RejectsContaining("debug".to_owned());
        let collectors = Collectors {
            a: ("0.149.0", StandIn::version("0.149.0").build()),
            b: ("0.158.0", StandIn::version("0.158.0").build()),
            picky: ("0.158.3", StandIn::version("0.158.3").validate(rejects).build()),
            crashing: ("0.158.2", StandIn::version("0.158.2").end(End::Abort { ms: 300 }).build()),
        };
        (Programs::stand_ins(), collectors)
    };
    let plan = Plan { settle: Duration::from_secs(12), soak: Duration::from_secs(3), ..Plan::default() };
    let machine = Machine::new(programs, plan);
    let as_promised = play(machine, &collectors).iter().all(|row| row.as_told);
    if as_promised { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn play(mut machine: Machine, collectors: &Collectors) -> Vec<Row> {
    let mut rows = vec![];
    let Collectors { a, b, picky, crashing } = collectors;

    title(&format!("A: collector {} is installed and runs under the supervisor", a.0));
    machine.start_with(a.0, &a.1);
    show(&machine.verb(&["status"]));

    title(&format!("B: {} is offered over HTTP; a second terminal says `update`", b.0));
    machine.offer_program(b.0, &b.1);
    show(&machine.verb(&["check"]));
    rows.push(attempt(&machine, "good", b.0, 0, b.0));
    show(&machine.verb(&["status"]));

    let bad = |machine: &Machine, version: &str, program: &[u8]| machine.release(version, program);

    title("Bad offer 1: the archive was tampered with on its way");
    let mut tampered: Release = bad(&machine, "0.158.1", &b.1);
    let middle = tampered.archive.len() / 2;
    tampered.archive[middle] ^= 1;
    machine.offer(tampered);
    rows.push(attempt(&machine, "tampered archive", "0.158.1", 5, b.0));

    title("Bad offer 2: the right bytes, signed by somebody else");
    let mut stranger = bad(&machine, "0.158.1", &b.1);
    let identity = Identity::new(
        myriarch_tests::machine::ISSUER,
        "https://github.com/stranger/releases/.github/workflows/release.yaml@refs/tags/v0.158.1",
    );
    stranger.bundle = Some(machine.sigstore().sign(Digest::of(&stranger.archive), &identity));
    machine.offer(stranger);
    rows.push(attempt(&machine, "wrong signer", "0.158.1", 5, b.0));

    title("Bad offer 3: a build whose validation rejects the running configuration");
    machine.offer_program(picky.0, &picky.1);
    rows.push(attempt(&machine, "rejects the configuration", picky.0, 1, b.0));

    title("Bad offer 4: a build that validates and crashes on trial");
    machine.offer_program(crashing.0, &crashing.1);
    rows.push(attempt(&machine, "crashes on trial", crashing.0, 3, b.0));

    title("Bad offer 5: the same build is offered again");
    rows.push(attempt(&machine, "quarantined build", crashing.0, 5, b.0));
    show(&machine.verb(&["status"]));

    title("The end: SIGTERM to the updater stops the supervisor and its collector");
    let code = machine.stop();
    let left = machine.processes();
    println!("exit code {code:?}, processes left: {}", left.len());
    table(&rows);
    if !left.is_empty() || code != Some(0) {
        for row in &mut rows {
            row.as_told = false;
        }
    }
    rows
}

/// Says `update --to VERSION` and tells what is printed and what runs afterwards.
fn attempt(machine: &Machine, offer: &str, version: &str, expected_exit: i32, expected_running: &str) -> Row {
    let before = machine.collectors();
    let watch = Watch::begin(machine.health_port());
    let output = machine.verb(&["update", "--to", version]);
    let downtime = watch.end();
    show(&output);
    let running = machine.running_version();
    let (pids, health) = (machine.collectors(), machine.health());
    println!(
        "  running now: {DISTRIBUTION} {} as process {pids:?}{}, health endpoint says {}",
        running.as_deref().unwrap_or("nothing"),
        if pids == before { ", the same as before" } else { "" },
        health.map_or("nothing".to_owned(), |code| code.to_string()),
    );
    let exit = output.status.code().unwrap_or(-1);
    let touched = matches!(exit, 0 | 3 | 4);
    Row {
        offer: format!("{version}, {offer}"),
        outcome: match exit {
            0 => "confirmed",
            3 => "rolled back",
            4 => "NOTHING HEALTHY",
            1 | 5 => "refused, not touched",
            _ => "failed",
        },
        exit,
        downtime: downtime.as_millis().to_string(),
        as_told: exit == expected_exit
            && running.as_deref() == Some(expected_running)
            && (touched || (pids == before && downtime.is_zero())),
    }
}

/// Asks the health endpoint from outside, all the time, and adds up how long it did not answer well.
struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Watch {
    fn begin(port: u16) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let thread = std::thread::spawn(move || {
            let (mut down, mut since) = (Duration::ZERO, None);
            while !ends.load(Ordering::Relaxed) {
                if health(port) == Some(200) {
                    down += since.take().map_or(Duration::ZERO, |since: Instant| since.elapsed());
                } else {
                    since.get_or_insert_with(Instant::now);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            down + since.map_or(Duration::ZERO, |since| since.elapsed())
        });
        Self { over, thread }
    }

    fn end(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(Duration::MAX)
    }
}

fn title(words: &str) {
    println!("\n== {words}");
}

/// What an operator sees: words, then data, then the exit code.
fn show(output: &Output) {
    for stream in [&output.stderr, &output.stdout] {
        for line in String::from_utf8_lossy(stream).lines() {
            println!("  {line}");
        }
    }
    println!("  exit code {}", output.status.code().unwrap_or(-1));
}

fn table(rows: &[Row]) {
    let width = rows.iter().map(|row| row.offer.len()).max().unwrap_or(0);
    println!(
        "\n{:width$}  {:20}  {:>9}  {:>13}  as promised",
        "offer", "outcome", "exit code", "downtime (ms)"
    );
    for Row { offer, outcome, exit, downtime, as_told } in rows {
        let told = if *as_told { "yes" } else { "NO" };
        println!("{offer:width$}  {outcome:20}  {exit:>9}  {downtime:>13}  {told}");
    }
}
