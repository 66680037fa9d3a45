//! What is not the version's fault is not held against it: a failed trial quarantines nothing where the
//! surroundings are to blame, and the same build may be tried again when they are mended.
#![expect(clippy::expect_used, reason = "a test says what it expects by panicking")]

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    path::PathBuf,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use myriarch_tests::{
    collector::{Health, StandIn},
    machine::{Machine, Plan, Supervised, words},
    programs::Programs,
    shared,
    supervisor::{KNOBS, Knobs},
};

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";

/// Short times, and a supervisor that starts a dead collector again after a second.
fn plan(supervised: Supervised) -> Plan {
    let knobs = Knobs { restart_after: Duration::from_secs(1), ..Knobs::default() };
    Plan {
        settle: Duration::from_secs(3),
        soak: Duration::from_secs(1),
        environment: vec![(KNOBS.to_owned(), knobs.to_string())],
        supervised,
        ..Plan::default()
    }
}

/// A machine that runs [`OLD`], which is well.
fn machine(plan: Plan) -> Machine {
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    machine.start_with(OLD, &StandIn::version(OLD).build());
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
    machine
}

/// Nothing is quarantined, neither in what people are told nor in what is remembered; the surroundings are
/// blamed for `because`.
fn is_not_blamed(machine: &Machine, output: &Output, because: &str) {
    let said = words(output);
    assert!(said.contains("nothing is quarantined, since "), "{said}");
    assert!(said.contains(because), "expected {because:?} in {said}");
    assert_eq!(machine.status()["quarantined"].as_array().map(Vec::len), Some(0));
    let journal = machine.journal();
    assert!(!journal.contains(r#""entry":"quarantined""#), "{journal}");
    assert!(journal.contains(r#""of":"environment""#), "{journal}");
    assert_eq!(machine.current_version().as_deref(), Some(OLD), "what was good before is current");
}

fn updates(machine: &Machine) {
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}\n--- run\n{}", words(&output), machine.log());
    assert_eq!(machine.running_version().as_deref(), Some(NEW));
}

/// Another program that wants a port, takes it as soon as it is free, and answers that all is well.
struct Stranger {
    leaves: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stranger {
    fn wants(port: u16) -> Self {
        let leaves = Arc::new(AtomicBool::new(false));
        let told = leaves.clone();
        let thread = std::thread::spawn(move || {
            let pause = || std::thread::sleep(Duration::from_millis(1));
            let mut listener = None;
            while !told.load(Ordering::Relaxed) {
                let Some(taken) = &listener else {
                    listener = TcpListener::bind(("127.0.0.1", port)).ok();
                    if let Some(taken) = &listener {
                        taken.set_nonblocking(true).expect("a socket that does not block");
                    }
                    pause();
                    continue;
                };
                if let Ok((mut stream, _)) = taken.accept() {
                    let _ = stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                }
                pause();
            }
        });
        Self { leaves, thread: Some(thread) }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.leaves.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A stranger takes `port` in the moment between the old build and the new one. Neither becomes healthy, and
/// when the stranger has left, both can again.
fn a_stranger_is_blamed(port: impl Fn(&Machine) -> u16) {
    // The trial and three starts of the old build each take the whole of it.
    let settle = Duration::from_secs(2);
    let mut machine = machine(Plan { settle, ..plan(Supervised::BySupervisor) });
    machine.offer_program(NEW, &StandIn::version(NEW).build());
    let stranger = Stranger::wants(port(&machine));
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(4), "{}\n--- run\n{}", words(&output), machine.log());
    is_not_blamed(&machine, &output, "the previous build is not healthy either");
    assert_eq!(machine.running_version(), None);

    drop(stranger);
    machine.wait(Duration::from_secs(15), "the old build to be healthy again by itself", |machine| {
        machine.running_version().as_deref() == Some(OLD)
    });
    updates(&machine);
}

#[test]
fn a_stranger_on_the_health_port_is_not_the_versions_fault() {
    a_stranger_is_blamed(Machine::health_port);
}

#[test]
fn a_stranger_on_the_collectors_own_port_is_not_the_versions_fault() {
    a_stranger_is_blamed(|machine| {
        let text = fs::read_to_string(machine.collector_configuration()).expect("a configuration");
        let (_, after) = text.split_once("endpoint: 127.0.0.1:").expect("the receiver's endpoint");
        after.lines().next().and_then(|port| port.parse().ok()).expect("a port")
    });
}

#[test]
fn an_updater_started_beside_a_stranger_has_the_collector_healthy_when_the_stranger_leaves() {
    let mut machine = machine(plan(Supervised::ByUpdater));
    assert_eq!(machine.stop(), Some(0));
    let stranger = Stranger::wants(machine.health_port());
    machine.start();
    machine.wait(Duration::from_secs(10), "a start that comes to nothing", |machine| {
        machine.log().matches("address already in use").count() > 0
    });
    drop(stranger);
    machine.wait(Duration::from_secs(15), "the collector to be healthy by itself", |machine| {
        machine.running_version().as_deref() == Some(OLD)
    });
}

#[test]
fn a_failed_trial_after_an_unhealthy_baseline_is_not_the_versions_fault() {
    // Whatever made the old build sick may be what the new one suffers from.
    let mut machine = Machine::new(Programs::stand_ins(), plan(Supervised::BySupervisor));
    machine.start_with(OLD, &StandIn::version(OLD).health(Health::UnhealthyAfter { ms: 4000 }).build());
    machine.wait(Duration::from_secs(10), "the old build to sicken", |machine| machine.health() == Some(503));
    machine.offer_program(NEW, &StandIn::version(NEW).health(Health::Never).build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(3), "{}\n--- run\n{}", words(&output), machine.log());
    is_not_blamed(&machine, &output, "what ran before was not healthy either");

    // It does not keep a good build from being installed.
    machine.wait(Duration::from_secs(10), "the old build to sicken", |machine| machine.health() == Some(503));
    machine.offer_program(NEW, &StandIn::version(NEW).build());
    updates(&machine);
}

/// A memory group of our own with a limit; removed at the end.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// `None` where none can be made: without root, or without a memory controller.
    fn limited_to(bytes: u64) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("myriarch-blameless-{}-{number}", std::process::id());
        let write = |path: PathBuf, value: &str| fs::write(path, value).is_ok();
        for (root, limits) in [
            ("/sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]),
            ("/sys/fs/cgroup", ["memory.max", "memory.swap.max"]),
        ] {
            let group = Self(PathBuf::from(root).join(&name));
            if fs::create_dir(&group.0).is_err() {
                continue;
            }
            let [memory, swap] = limits.map(|limit| group.0.join(limit));
            if write(memory, &bytes.to_string()) {
                // Not there without swap accounting, and then there is no swap to hide in, as a rule.
                let swap_bytes = if root.ends_with("memory") { bytes } else { 0 };
                let _ = write(swap, &swap_bytes.to_string());
                return Some(group);
            }
        }
        None
    }

    /// The words that start a program in it.
    fn around(&self) -> Vec<String> {
        let script = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
        ["sh", "-c", script, &self.0.to_string_lossy()].map(str::to_owned).to_vec()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The last process may take a moment to be gone from it.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn memory_runs_out(test: &str, supervised: Supervised) {
    let Some(group) = MemoryGroup::limited_to(160 * 1024 * 1024) else {
        return shared::skip(test, "no memory group can be made, which takes root and a memory controller");
    };
    // On a busy machine it takes a while until the group's memory is used up; the trial must not be over by then.
    let soak = Duration::from_secs(10);
    let mut machine = machine(Plan { around: group.around(), soak, ..plan(supervised) });
    machine.offer_program(NEW, &StandIn::version(NEW).allocates(512).build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(3), "{}\n--- run\n{}", words(&output), machine.log());
    is_not_blamed(&machine, &output, "memory ran out: ");
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
    drop(machine);
    drop(group);
}

#[test]
fn memory_that_runs_out_is_not_the_versions_fault() {
    memory_runs_out("memory_that_runs_out_is_not_the_versions_fault", Supervised::BySupervisor);
}

#[test]
fn memory_that_runs_out_for_our_own_child_is_not_the_versions_fault() {
    memory_runs_out(
        "memory_that_runs_out_for_our_own_child_is_not_the_versions_fault",
        Supervised::ByUpdater,
    );
}

/// Starts `run` with a small disk of its own at `directory`, in a mount namespace; the disk goes with the last
/// process in there.
fn small_disk_at(directory: &str) -> Vec<String> {
    // The configuration's path comes third: the updater, `--config`, it.
    let script = format!(r#"mount -t tmpfs -o size=8m none "${{3%/*}}/{directory}" && exec "$@""#);
    ["unshare", "--mount", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec()
}

fn disks_can_be_mounted() -> bool {
    let probe = ["--mount", "sh", "-c", "mount -t tmpfs none /mnt"];
    Command::new("unshare").args(probe).output().is_ok_and(|output| output.status.success())
}

fn disk_runs_out(test: &str, disk: &str, plan: Plan) {
    if !disks_can_be_mounted() {
        return shared::skip(test, "no disk can be mounted in a namespace of its own, which takes root");
    }
    let mut machine = machine(Plan { around: small_disk_at(disk), ..plan });
    let full = machine.path().join(disk);
    machine.offer_program(NEW, &StandIn::version(NEW).fills(&full.to_string_lossy()).build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(3), "{}\n--- run\n{}", words(&output), machine.log());
    is_not_blamed(&machine, &output, "disk ran out: ");
    assert!(words(&output).contains(&*full.to_string_lossy()), "{}", words(&output));
    assert_eq!(machine.running_version().as_deref(), Some(OLD));
}

#[test]
fn a_disk_that_runs_out_where_the_supervisor_keeps_its_state_is_not_the_versions_fault() {
    let test = "a_disk_that_runs_out_where_the_supervisor_keeps_its_state_is_not_the_versions_fault";
    disk_runs_out(test, "supervisor", plan(Supervised::BySupervisor));
}

#[test]
fn a_disk_that_runs_out_where_the_collector_works_is_not_the_versions_fault() {
    let test = "a_disk_that_runs_out_where_the_collector_works_is_not_the_versions_fault";
    let working_directory = "work".to_owned();
    disk_runs_out(test, "work", Plan { working_directory, ..plan(Supervised::ByUpdater) });
}
