//! One machine to update: a store, a source on loopback, a private Sigstore, a supervisor and its collector,
//! all in one temporary directory and on ports of their own. Tests and the demo drive the real binary on it.

mod configuration;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

pub use crate::publisher::{DISTRIBUTION, ISSUER, Release};
use crate::{
    ports,
    programs::Programs,
    publisher::{self, Publisher},
    server::Server,
    sigstore::{Identity, Sigstore},
};

/// The directory that releases are taken from where no server is asked.
const RELEASES: &str = "releases";

/// What the machine is made of; the defaults are a supervisor with short times.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How long a start may take to become healthy.
    pub settle: Duration,
    /// How long it must then stay healthy.
    pub soak: Duration,
    /// Added to the configuration, whole sections or keys of the last one.
    pub more: String,
    /// Whether the collector runs under a supervisor or is the child itself.
    pub supervised: Supervised,
    /// Starts that may follow an interrupted trial.
    pub tries: u8,
    /// Added to the environment of `run` and all that it starts.
    pub environment: Vec<(String, String)>,
    /// Added to the configuration's section `[restart]`.
    pub restart: String,
    /// The program's working directory below the machine's; the machine's own where empty.
    pub working_directory: String,
    /// A command that `run` is started by: its last act must be to become what the rest of its arguments say.
    pub around: Vec<String>,
}

/// Who starts the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supervised {
    /// The OpAMP supervisor.
    BySupervisor,
    /// The updater itself.
    ByUpdater,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            settle: Duration::from_secs(5),
            soak: Duration::from_secs(1),
            more: String::new(),
            supervised: Supervised::BySupervisor,
            tries: 2,
            environment: vec![],
            restart: String::new(),
            working_directory: String::new(),
            around: vec![],
        }
    }
}

/// The machine. Ends what it started when dropped.
#[derive(Debug)]
pub struct Machine {
    dir: TempDir,
    publisher: Publisher,
    programs: Programs,
    plan: Plan,
    health_port: u16,
    run: Option<Child>,
}

impl Machine {
    /// A machine with an empty store and nothing on offer. Nothing runs yet.
    pub fn new(programs: Programs, plan: Plan) -> Self {
        let dir = tempfile::Builder::new().prefix("myriarch-").tempdir().expect("a temporary directory");
        let machine = Self {
            publisher: Publisher::new(),
            health_port: ports::free::<1>()[0],
            run: None,
            dir,
            programs,
            plan,
        };
        machine.write_configurations();
        machine
    }

    /// Everything of this machine lies here.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The store.
    pub fn store(&self) -> PathBuf {
        self.path().join("store")
    }

    /// The updater's configuration.
    pub fn configuration(&self) -> PathBuf {
        self.path().join("updater.toml")
    }

    /// The collector's own configuration, which the supervisor merges.
    pub fn collector_configuration(&self) -> PathBuf {
        self.path().join("collector.yaml")
    }

    /// The source.
    pub fn server(&self) -> &Server {
        self.publisher.server()
    }

    /// The private Sigstore that is trusted here.
    pub fn sigstore(&self) -> &Sigstore {
        self.publisher.sigstore()
    }

    /// The port of the collector's health endpoint.
    pub fn health_port(&self) -> u16 {
        self.health_port
    }

    /// The programs in use.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The identity that releases of `version` are signed with.
    pub fn identity(version: &str) -> Identity {
        publisher::identity(version)
    }

    /// An honest release of `program` as `version`: packed, signed, with its checksum.
    pub fn release(&self, version: &str, program: &[u8]) -> Release {
        self.publisher.release(version, program)
    }

    /// Puts a release on offer; one of the same version is replaced.
    pub fn offer(&mut self, release: Release) {
        self.publisher.offer(release);
    }

    /// Takes `version` off the list.
    pub fn withdraw(&mut self, version: &str) {
        self.publisher.withdraw(version);
    }

    /// From now on releases are found in a directory of the machine's, and no server is asked.
    ///
    /// # Panics
    ///
    /// When the directory cannot be made.
    pub fn take_releases_from_a_directory(&mut self) {
        let directory = self.path().join(RELEASES);
        fs::create_dir_all(&directory).expect("a directory of the machine's");
        self.set_source(&format!("kind = \"directory\"\npath = \"{}\"", directory.display()));
        self.publisher.publish_in(&directory);
    }

    /// Offers `program` honestly as `version`.
    pub fn offer_program(&mut self, version: &str, program: &[u8]) {
        let release = self.release(version, program);
        self.offer(release);
    }

    /// Starts `run` and waits until its control socket answers.
    pub fn start(&mut self) {
        self.spawn();
        self.wait(Duration::from_mins(1), "the control socket to answer", |machine| {
            UnixStream::connect(machine.socket()).is_ok()
        });
    }

    /// Starts `run` and waits for nothing.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn spawn(&mut self) {
        assert!(self.run.is_none(), "run is running already");
        let log = fs::File::options().create(true).append(true).open(self.log_path()).expect("a log");
        let mut command = self.around(self.command(&["run"]));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.run = Some(command.spawn().expect("myriarch-updater starts"));
    }

    /// Starts `run` with the offer of `version` as the first installation, and waits for its confirmation.
    pub fn start_with(&mut self, version: &str, program: &[u8]) {
        self.offer_program(version, program);
        self.start();
        self.wait(Duration::from_mins(1), "the first version to be confirmed", |machine| {
            machine.current_version().as_deref() == Some(version)
                && machine.journal().contains("\"confirmed\"")
        });
        self.wait_idle();
    }

    /// Waits until `run` has nothing under way.
    pub fn wait_idle(&self) {
        self.wait(Duration::from_mins(1), "the updater to be idle", Self::is_idle);
    }

    /// Whether `run` would carry a verb out now. It is asked for one that changes nothing.
    pub fn is_idle(&self) -> bool {
        let answer = self.ask(b"{\"schema\":1,\"verb\":\"release\",\"version\":\"0.0.0-nobody\"}\n");
        !answer.is_empty() && !answer.contains("\"exit_code\":6")
    }

    /// Sends these bytes over the control socket and returns all that is answered until it is closed.
    pub fn ask(&self, request: &[u8]) -> String {
        let mut answer = vec![];
        if let Ok(mut stream) = UnixStream::connect(self.socket()) {
            // A request that is refused early is not read to its end.
            let _ = stream.write_all(request);
            let _ = stream.set_read_timeout(Some(Duration::from_mins(1)));
            let _ = stream.read_to_end(&mut answer);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        self.path().join("run/control.sock")
    }

    /// Runs a verb to its end.
    pub fn verb(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().expect("myriarch-updater runs")
    }

    /// The status document.
    pub fn status(&self) -> Value {
        let output = self.verb(&["status", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// The command line of the updater on this machine.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.programs.updater());
        command.arg("--config").arg(self.configuration()).args(arguments);
        command
            .env("COLLECTOR_CONFIG", self.collector_configuration())
            .env("SUPERVISOR_STORAGE", self.path().join("supervisor"))
            .envs(self.plan.environment.iter().cloned());
        command
    }

    /// The version that `current` names.
    pub fn current_version(&self) -> Option<String> {
        let manifest = fs::read(self.store().join("current/slot.json")).ok()?;
        let manifest: Value = serde_json::from_slice(&manifest).ok()?;
        Some(manifest["version"].as_str()?.to_owned())
    }

    /// The journal's text.
    pub fn journal(&self) -> String {
        fs::read_to_string(self.store().join("journal.jsonl")).unwrap_or_default()
    }

    /// The journal's lines that are whole and are JSON.
    pub fn entries(&self) -> Vec<Value> {
        self.journal().split_inclusive('\n').filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// How many journal lines are of this kind: `trial`, `confirmed`, …
    pub fn count(&self, kind: &str) -> usize {
        self.entries().iter().filter(|entry| entry["entry"] == kind).count()
    }

    /// What `run` has said so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// The status code of the health endpoint, if anything answers.
    pub fn health(&self) -> Option<u16> {
        health(self.health_port)
    }

    /// The pids of every process that runs a program of the store.
    pub fn collectors(&self) -> Vec<u32> {
        let versions = self.store().join("versions");
        processes().filter(|(_, exe)| exe.starts_with(&versions)).map(|(pid, _)| pid).collect()
    }

    /// The version whose program runs and, as the only one, answers healthy.
    pub fn running_version(&self) -> Option<String> {
        let [pid] = self.collectors()[..] else { return None };
        (self.health() == Some(200)).then(|| version_of(pid))?
    }

    /// The pids of every process that runs the program of `version`.
    pub fn collectors_of(&self, version: &str) -> Vec<u32> {
        self.collectors().into_iter().filter(|pid| version_of(*pid).as_deref() == Some(version)).collect()
    }

    /// Waits for rest and asserts that all is well then: what `current` names runs, alone and healthy, is intact,
    /// confirmed and not quarantined, and no trial is open. Answers its version.
    pub fn assert_well(&self) -> String {
        self.wait_idle();
        self.wait(Duration::from_secs(30), "something healthy", |machine| {
            machine.running_version().is_some()
        });
        let status = self.status();
        let current = &status["current"];
        assert_eq!(current["state"], "slot", "{status}");
        assert_eq!(current["integrity"]["is"], "intact", "{status}");
        assert!(status["trial"].is_null(), "{status}");
        let list = |name: &str| status[name].as_array().cloned().unwrap_or_default();
        let running = list("running");
        assert!(running.len() == 1 && running[0]["slot"] == current["slot"], "{status}");
        let among = |name: &str| list(name).iter().any(|build| build["slot"] == current["slot"]);
        assert!(among("confirmed") && !among("quarantined"), "{status}");
        current["version"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until `holds`, or panics with everything that helps to see why it does not.
    pub fn wait(&self, deadline: Duration, what: &str, holds: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(
                began.elapsed() < deadline,
                "waited {deadline:?} for {what}\n--- journal\n{}--- run\n{}",
                self.journal(),
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The pid of `run`.
    pub fn updater(&self) -> u32 {
        self.run.as_ref().expect("run is running").id()
    }

    /// `kill -9` of the updater alone: what it started goes on.
    pub fn kill_updater(&mut self) {
        let mut run = self.run.take().expect("run is running");
        run.kill().expect("SIGKILL");
        run.wait().expect("the updater is reaped");
    }

    /// SIGTERM to the updater; its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let mut run = self.run.take()?;
        signal("TERM", run.id());
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(40) {
            if let Ok(Some(status)) = run.try_wait() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        run.kill().expect("SIGKILL");
        run.wait().expect("the updater is reaped");
        panic!("the updater did not end on SIGTERM\n{}", self.log());
    }

    /// Every process that belongs to this machine, by its command line or program.
    pub fn processes(&self) -> Vec<u32> {
        let here = self.path().to_string_lossy().into_owned();
        processes()
            .filter(|(pid, exe)| {
                let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                exe.starts_with(self.path()) || String::from_utf8_lossy(&words).contains(&here)
            })
            .map(|(pid, _)| pid)
            .filter(|pid| *pid != std::process::id())
            .collect()
    }

    fn around(&self, inner: Command) -> Command {
        let Some((program, arguments)) = self.plan.around.split_first() else { return inner };
        let mut command = Command::new(program);
        command.args(arguments).arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    fn log_path(&self) -> PathBuf {
        self.path().join("run.log")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut run) = self.run.take() {
            signal("TERM", run.id());
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(30) && matches!(run.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = run.kill();
            let _ = run.wait();
        }
        // Whatever a failed test left: only processes that name this machine's own directory.
        for pid in self.processes() {
            signal("KILL", pid);
        }
    }
}

/// What a health endpoint on loopback says, if anything answers.
pub fn health(port: u16) -> Option<u16> {
    let address = ([127, 0, 0, 1], port).into();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    // The first line may arrive in pieces.
    let mut line = String::new();
    BufReader::new(stream.take(1024)).read_line(&mut line).ok()?;
    line.split(' ').nth(1)?.parse().ok()
}

/// The version of the slot whose program the process runs.
fn version_of(pid: u32) -> Option<String> {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let manifest = fs::read(exe.parent()?.parent()?.join("slot.json")).ok()?;
    let manifest: Value = serde_json::from_slice(&manifest).ok()?;
    Some(manifest["version"].as_str()?.to_owned())
}

fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, fs::read_link(entry.path().join("exe")).ok()?))
    })
}

/// All that a verb printed: its data, then its words.
pub fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Sends a signal to one process.
pub fn signal(name: &str, pid: u32) {
    let _ = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).stderr(Stdio::null()).status();
}
