//! The stand-ins do what the real programs do.
//!
//! Every observation is made on the stand-ins and, where `REAL_PROGRAMS` names a directory, on the real ones in it:
//! `collector-0.149.0`, `collector-0.158.0`, `opampsupervisor-0.149.0`, `opampsupervisor-0.158.0`. A difference
//! means that tests with stand-ins prove nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use myriarch_tests::{
    collector::StandIn,
    ports,
    supervisor::{self, Config, KNOBS, Knobs, Sigterm, collector_config},
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

/// A collector and a supervisor, and which version's manners they have.
struct Pair {
    name: String,
    version: &'static str,
    collector: PathBuf,
    supervisor: PathBuf,
    knobs: String,
    _built: TempDir,
}

fn pairs() -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (version, sigterm) in [("0.149.0", Sigterm::Orphans), ("0.158.0", Sigterm::Stops)] {
        let built = tempfile::tempdir().unwrap();
        let collector = built.path().join("collector");
        StandIn::version(version).write_to(&collector).unwrap();
        pairs.push(Pair {
            name: format!("stand-ins for {version}"),
            version,
            collector,
            supervisor: supervisor::executable(),
            knobs: Knobs { sigterm, ..Knobs::default() }.to_string(),
            _built: built,
        });
        if let Some(dir) = std::env::var_os("REAL_PROGRAMS").map(PathBuf::from) {
            pairs.push(Pair {
                name: format!("real programs {version}"),
                version,
                collector: dir.join(format!("collector-{version}")),
                supervisor: dir.join(format!("opampsupervisor-{version}")),
                knobs: String::new(),
                _built: tempfile::tempdir().unwrap(),
            });
        }
    }
    pairs
}

/// A freshly written executable may be busy for a moment, since other tests fork.
fn retry<T>(mut start: impl FnMut() -> std::io::Result<T>) -> T {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        match start() {
            Ok(started) => return started,
            Err(error) => assert!(
                error.kind() == std::io::ErrorKind::ExecutableFileBusy && Instant::now() < until,
                "{error}"
            ),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ask(program: &Path, args: &[&str]) -> Output {
    retry(|| Command::new(program).args(args).stdin(Stdio::null()).output())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn health(port: u16) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    write!(stream, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// State and parent, group, of a process.
fn stat(pid: u32) -> Option<(String, u32, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields[0].to_owned(), fields[1].parse().ok()?, fields[2].parse().ok()?))
}

fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, ..)| state != "Z")
}

/// The process that runs `exe` with `--config`, whoever its parent is.
fn collector_of(storage: &Path) -> Option<u32> {
    let effective = storage.join("effective.yaml");
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let mut args = line.split(|byte| *byte == 0);
        (args.any(|arg| arg == effective.as_os_str().as_encoded_bytes()) && alive(pid)).then_some(pid)
    })
}

/// A program that the test started, ended with its group when the test is over.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        // The test itself may have been started with SIGINT ignored; what it tests must not be.
        let _handler = signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT]).unwrap();
        Self(retry(|| command.process_group(0).stdin(Stdio::null()).spawn()))
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn ended(&mut self) -> ExitStatus {
        until("an end", || self.0.try_wait().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Once its status is collected, its id may be somebody else's.
        if let Ok(None) = self.0.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// A supervisor on its own ports in its own directory.
struct Supervised {
    dir: TempDir,
    health: u16,
    config: PathBuf,
    running: Option<Running>,
}

impl Supervised {
    fn configured(pair: &Pair, executable: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [health, otlp, opamp] = ports::free();
        let (collector, config) = (dir.path().join("collector.yaml"), dir.path().join("supervisor.yaml"));
        fs::write(&collector, collector_config(health, otlp)).unwrap();
        let settings = Config {
            executable: executable.into(),
            config_files: vec![collector],
            storage: dir.path().join("storage"),
            opamp_server_port: opamp,
            bootstrap_timeout: Duration::from_secs(20),
        };
        settings.write_to(&config).unwrap();
        let mut supervised = Self { dir, health, config, running: None };
        supervised.running = Some(supervised.start(pair));
        supervised
    }

    fn start(&self, pair: &Pair) -> Running {
        let log = fs::File::create(self.dir.path().join("supervisor.log")).unwrap();
        Running::start(
            Command::new(&pair.supervisor)
                .arg("-config")
                .arg(&self.config)
                .env("COLLECTOR_EXE", &pair.collector)
                .env(KNOBS, &pair.knobs)
                .stdout(log.try_clone().unwrap())
                .stderr(log),
        )
    }

    fn storage(&self) -> PathBuf {
        self.dir.path().join("storage")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("supervisor.log")).unwrap()
    }

    fn healthy(&self) -> u32 {
        until("health", || (health(self.health) == Some(200)).then_some(()));
        collector_of(&self.storage()).unwrap()
    }

    fn running(&mut self) -> &mut Running {
        self.running.as_mut().unwrap()
    }
}

#[test]
fn the_version_is_one_line_on_stdout() {
    for pair in pairs() {
        let output = ask(&pair.collector, &["--version"]);
        assert!(output.status.success(), "{}", pair.name);
        assert_eq!(
            text(&output.stdout),
            format!("otelcol-testbed version {}\n", pair.version),
            "{}",
            pair.name
        );
    }
}

#[test]
fn components_are_yaml_with_build_info_and_the_opamp_extension() {
    for pair in pairs() {
        let output = ask(&pair.collector, &["components"]);
        let text = text(&output.stdout);
        let info = "buildinfo:\n    command: otelcol-testbed\n    description: ";
        assert!(output.status.success() && text.starts_with(info), "{}: {text}", pair.name);
        assert!(text.contains(&format!("\n    version: {}\n", pair.version)), "{}: {text}", pair.name);
        for part in
            ["\nreceivers:\n", "\n    - name: otlp\n      module: ", "\nconnectors: []\nextensions:\n"]
        {
            assert!(text.contains(part), "{}: {part}: {text}", pair.name);
        }
        assert!(text.contains("\n    - name: opamp\n"), "{}: {text}", pair.name);
    }
}

#[test]
fn validate_is_silent_or_says_error_and_exits_with_one() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good.yaml");
    fs::write(&good, collector_config(1, 2)).unwrap();
    let bad = dir.path().join("bad.yaml");
    fs::write(&bad, collector_config(1, 2).replace("debug: {}", "nowhere: {}")).unwrap();
    let empty = dir.path().join("empty.yaml");
    fs::write(&empty, "").unwrap();
    let none = dir.path().join("none.yaml");
    for pair in pairs() {
        let validate = |file: &Path| ask(&pair.collector, &["validate", "--config", file.to_str().unwrap()]);
        let output = validate(&good);
        assert!(output.status.success(), "{}: {}", pair.name, text(&output.stderr));
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}", pair.name);
        for (file, part) in [
            (&bad, "'exporters' unknown type: \"nowhere\" for id: \"nowhere\""),
            (&empty, "empty configuration file"),
            (&none, "no such file or directory"),
        ] {
            let output = validate(file);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{}", pair.name);
            assert!(said.starts_with("Error: ") && said.contains(part), "{}: {said}", pair.name);
        }
        for (args, part) in [
            (&["--bogus"][..], "unknown flag: --bogus"),
            (
                &["validate", "--config", good.to_str().unwrap(), "--feature-gates", "nosuch"],
                "no such feature gate",
            ),
        ] {
            let output = ask(&pair.collector, args);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{}", pair.name);
            assert!(said.contains(part), "{}: {said}", pair.name);
        }
    }
}

#[test]
fn feature_gates_are_a_table() {
    for pair in pairs() {
        let output = ask(&pair.collector, &["featuregate"]);
        let text = text(&output.stdout);
        let first: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(first, ["ID", "Enabled", "Stage", "Description"], "{}", pair.name);
        assert!(text.lines().any(|line| line.starts_with("service.AllowNoPipelines ")), "{}", pair.name);
    }
}

#[test]
fn a_collector_alone_becomes_healthy_holds_its_ports_and_stops_with_zero() {
    for pair in pairs() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("c.yaml");
        let [port, otlp] = ports::free();
        fs::write(&config, collector_config(port, otlp)).unwrap();
        let run = || {
            let mut command = Command::new(&pair.collector);
            command.arg("--config").arg(&config).stdout(Stdio::null());
            command
        };
        for signal in [Signal::INT, Signal::TERM] {
            let mut first = Running::start(run().stderr(Stdio::null()));
            until("health", || (health(port) == Some(200)).then_some(()));
            let second = run().output().unwrap();
            let said = text(&second.stderr);
            assert_eq!(second.status.code(), Some(1), "{}", pair.name);
            assert!(said.contains("address already in use"), "{}: {said}", pair.name);
            first.send(signal);
            assert_eq!(first.ended().code(), Some(0), "{}", pair.name);
        }
    }
}

#[test]
fn a_supervisor_runs_the_collector_in_its_own_group_with_the_effective_configuration() {
    for pair in pairs() {
        let mut supervised = Supervised::configured(&pair, "${env:COLLECTOR_EXE}");
        let collector = supervised.healthy();
        let id = supervised.running().0.id();
        let (_, parent, group) = stat(collector).unwrap();
        assert_eq!((parent, group), (id, id), "{}: child and group of the supervisor", pair.name);

        let effective = supervised.storage().join("effective.yaml");
        let line = fs::read(format!("/proc/{collector}/cmdline")).unwrap();
        let expected = [
            pair.collector.to_str().unwrap(),
            "--config",
            effective.to_str().unwrap(),
            "--feature-gates",
            "service.AllowNoPipelines",
        ];
        assert_eq!(
            text(&line).trim_end_matches('\0').split('\0').collect::<Vec<_>>(),
            expected,
            "{}",
            pair.name
        );

        let config = fs::read_to_string(&effective).unwrap();
        for part in [
            "exporters:\n    debug: {}\n",
            "    opamp:\n        capabilities:\n            reports_available_components: false\n        instance_uid: ",
            &format!(
                "        ppid: {id}\n        ppid_poll_interval: 5s\n        server:\n            ws:\n                endpoint: ws://127.0.0.1:"
            ),
            "    extensions:\n        - health_check\n        - opamp\n    pipelines:\n        traces:\n",
        ] {
            assert!(config.contains(part), "{}: {part}\n{config}", pair.name);
        }
        let log = fs::read_to_string(supervised.storage().join("agent.log")).unwrap();
        assert!(log.contains("Everything is ready"), "{}: {log}", pair.name);

        supervised.running().send(Signal::INT);
        assert_eq!(supervised.running().ended().code(), Some(0), "{}", pair.name);
        assert!(!alive(collector), "{}: SIGINT stops the collector too", pair.name);
    }
}

#[test]
fn sigterm_orphans_the_collector_of_the_older_supervisor_only() {
    for pair in pairs() {
        let mut supervised = Supervised::configured(&pair, "${env:COLLECTOR_EXE}");
        let collector = supervised.healthy();
        supervised.running().send(Signal::TERM);
        let status = supervised.running().ended();
        if pair.version == "0.149.0" {
            assert_eq!(status.signal(), Some(15), "{}", pair.name);
            assert!(alive(collector) && health(supervised.health) == Some(200), "{}", pair.name);
            // It polls its parent, and yet real ones were seen healthy 45 s later: whoever starts the next one must
            // end it.
            let orphan = Pid::from_raw(i32::try_from(collector).unwrap()).unwrap();
            kill_process(orphan, Signal::KILL).unwrap();
            until("the orphan's end", || (!alive(collector)).then_some(()));
        } else {
            assert_eq!(status.code(), Some(0), "{}", pair.name);
            assert!(!alive(collector), "{}", pair.name);
        }
    }
}

#[test]
fn a_dead_collector_is_started_again_after_five_seconds() {
    for pair in pairs() {
        let mut supervised = Supervised::configured(&pair, "${env:COLLECTOR_EXE}");
        let first = supervised.healthy();
        let begin = Instant::now();
        let pid = Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        until("the first one's end", || (!alive(first)).then_some(()));
        assert_ne!(supervised.healthy(), first, "{}", pair.name);
        let after = begin.elapsed().as_secs_f64();
        assert!((4.5..9.0).contains(&after), "{}: {after}", pair.name);
        supervised.running().send(Signal::INT);
        supervised.running().ended();
    }
}

#[test]
fn a_missing_executable_is_exit_one_at_once() {
    for pair in pairs() {
        let begin = Instant::now();
        let mut supervised = Supervised::configured(&pair, "/nowhere/otelcol");
        assert_eq!(supervised.running().ended().code(), Some(1), "{}", pair.name);
        assert!(begin.elapsed() < Duration::from_secs(5), "{}", pair.name);
        let log = supervised.log();
        assert!(log.contains("could not stat agent::executable path"), "{}: {log}", pair.name);
    }
}

#[test]
fn two_supervisors_on_one_port_cannot_be() {
    for pair in pairs() {
        let mut supervised = Supervised::configured(&pair, "${env:COLLECTOR_EXE}");
        supervised.healthy();
        let mut second = supervised.start(&pair);
        assert_eq!(second.ended().code(), Some(1), "{}", pair.name);
        let log = supervised.log();
        assert!(log.contains("address already in use"), "{}: {log}", pair.name);
        supervised.running().send(Signal::INT);
        supervised.running().ended();
    }
}
