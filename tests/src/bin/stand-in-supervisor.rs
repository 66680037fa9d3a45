//! The stand-in OpAMP Supervisor: does to its collector what the real one was seen to do.

#![expect(clippy::print_stderr, reason = "a program whose output is what is tested")]
#![expect(clippy::exit, reason = "a program that ends as it is told")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test program dies loudly")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio, exit},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

#[path = "../stand_in/yaml.rs"]
mod yaml;

/// No stand-in lives longer, so that a failed test leaves nothing behind for good.
const LIFE: Duration = Duration::from_mins(5);
/// Between two looks at the collector.
const LOOK: Duration = Duration::from_millis(10);

fn main() {
    thread::spawn(|| {
        thread::sleep(LIFE);
        exit(99);
    });
    let config = Config::read();
    let port = config.opamp_server_port;
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap_or_else(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::AddrInUse => "address already in use".to_owned(),
            _ => error.to_string(),
        };
        fail(&format!("failed to start supervisor: listen tcp 127.0.0.1:{port}: bind: {reason}"))
    });
    let (hello, hellos) = channel();
    thread::spawn(move || greet(&listener, &hello));
    Supervisor { config, hellos }.run();
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(1)
}

/// What was asked for.
struct Config {
    executable: PathBuf,
    files: Vec<PathBuf>,
    args: Vec<String>,
    storage: PathBuf,
    opamp_server_port: u16,
    bootstrap_timeout: Duration,
    restart_after: Duration,
    kill_after: Duration,
    sigterm_stops: bool,
    bootstrap_hangs: bool,
    bootstrap_deaf: bool,
}

impl Config {
    fn read() -> Self {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let path = match words.as_slice() {
            ["-config" | "--config", path] => *path,
            [one] if one.trim_start_matches('-').starts_with("config=") => one.split_once('=').unwrap().1,
            _ => fail("flag provided but not defined, or no --config"),
        };
        let text =
            fs::read_to_string(path).unwrap_or_else(|error| fail(&format!("failed to load config: {error}")));
        let tree = yaml::parse(&yaml::expand(&text))
            .unwrap_or_else(|error| fail(&format!("failed to load config: {error}")));
        if tree["capabilities"]["accepts_packages"] == "true" {
            fail("failed to load config: capability accepts_packages is not yet fully implemented");
        }
        let agent = &tree["agent"];
        let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let strings = |value: &Value| value.as_array().into_iter().flatten().map(string).collect::<Vec<_>>();
        let executable = PathBuf::from(string(&agent["executable"]));
        if let Err(error) = fs::metadata(&executable) {
            fail(&format!(
                "failed to load config: could not stat agent::executable path {}: {error}",
                executable.display()
            ));
        }
        let knobs = std::env::var("STAND_IN_SUPERVISOR").unwrap_or_default();
        let knob = |name: &str| knobs.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let ms =
            |name, default| Duration::from_millis(knob(name).and_then(|v| v.parse().ok()).unwrap_or(default));
        Self {
            files: strings(&agent["config_files"]).into_iter().map(PathBuf::from).collect(),
            args: strings(&agent["args"]),
            storage: PathBuf::from(string(&tree["storage"]["directory"])),
            opamp_server_port: string(&agent["opamp_server_port"]).parse().unwrap_or_default(),
            bootstrap_timeout: duration(&string(&agent["bootstrap_timeout"]))
                .unwrap_or(Duration::from_secs(3)),
            restart_after: ms("restart_ms", 5000),
            kill_after: ms("kill_ms", 10_000),
            sigterm_stops: knob("sigterm") == Some("stops"),
            bootstrap_hangs: matches!(knob("bootstrap"), Some("hangs" | "deaf"))
                || fs::remove_file(PathBuf::from(string(&tree["storage"]["directory"])).join("hang-once"))
                    .is_ok(),
            bootstrap_deaf: knob("bootstrap") == Some("deaf"),
            executable,
        }
    }

    /// The opamp extension's part of every configuration.
    fn opamp(&self) -> Value {
        let endpoint = format!("ws://127.0.0.1:{}/v1/opamp", self.opamp_server_port);
        json!({
            "capabilities": { "reports_available_components": "false" },
            "instance_uid": "01a22ba1-f072-70b3-996f-5fed188fcd8c",
            "ppid": std::process::id().to_string(),
            "ppid_poll_interval": "5s",
            "server": { "ws": { "endpoint": endpoint, "tls": { "insecure": "true" } } },
        })
    }

    /// The configuration of nothing.
    fn bootstrap(&self) -> Value {
        json!({ "extensions": { "opamp": self.opamp() }, "service": { "extensions": ["opamp"] } })
    }

    /// All configuration files, and the opamp extension.
    fn real(&self) -> Value {
        let mut tree = json!({});
        for file in &self.files {
            let text = fs::read_to_string(file)
                .unwrap_or_else(|error| fail(&format!("{}: {error}", file.display())));
            yaml::merge(&mut tree, yaml::parse(&text).unwrap_or_else(|error| fail(&error)));
        }
        let mut extensions = tree["service"]["extensions"].as_array().cloned().unwrap_or_default();
        extensions.push("opamp".into());
        let logs =
            json!({ "encoding": "json", "error_output_paths": ["stderr"], "output_paths": ["stdout"] });
        let over = json!({
            "extensions": { "opamp": self.opamp() },
            "service": { "extensions": extensions, "telemetry": { "logs": logs } },
        });
        yaml::merge(&mut tree, over);
        tree
    }
}

/// `60s`, `1m`, `500ms`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(60 * number)),
        _ => None,
    }
}

/// Passes on the process id that a collector says hello with.
fn greet(listener: &TcpListener, hello: &Sender<u32>) {
    for stream in listener.incoming().flatten() {
        let hello = hello.clone();
        thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            if let Some(pid) = line.trim().strip_prefix("hello ").and_then(|pid| pid.parse().ok()) {
                let _ = hello.send(pid);
            }
            // Holds the connection until the collector lets go.
            let _ = reader.read_line(&mut line);
        });
    }
}

struct Supervisor {
    config: Config,
    hellos: Receiver<u32>,
}

impl Supervisor {
    fn run(self) {
        // While it bootstraps, a signal does what it does to any program: it kills, or nothing where it was ignored
        // by whoever started this.
        let deaf = self.config.bootstrap_deaf.then(|| Signals::new([SIGINT]).expect("a signal handler"));
        self.bootstrap();
        drop(deaf);
        let mut interrupts = Signals::new([SIGINT]).expect("a signal handler");
        if self.config.sigterm_stops {
            interrupts.add_signal(SIGTERM).expect("a signal handler");
        }
        self.write_effective(&self.config.real());
        // A collector that cannot be spawned is not tried again, and the supervisor goes on without one.
        let mut collector = self.spawn();
        let mut dead_since: Option<Instant> = None;
        loop {
            if interrupts.pending().next().is_some() {
                if let Some(child) = &mut collector {
                    self.stop(child);
                }
                exit(0);
            }
            if let Some(child) = &mut collector {
                let ended = child.try_wait().expect("own child").is_some();
                match dead_since {
                    None if ended => {
                        eprintln!("Agent process exited unexpectedly, will restart in a bit...");
                        dead_since = Some(Instant::now());
                    }
                    Some(since) if since.elapsed() >= self.config.restart_after => {
                        collector = self.spawn();
                        dead_since = None;
                    }
                    _ => {}
                }
            }
            thread::sleep(LOOK);
        }
    }

    /// Learns what the collector is by running it once with a configuration of nothing.
    fn bootstrap(&self) {
        let asked = Command::new(&self.config.executable).arg("featuregate").stdin(Stdio::null()).output();
        if let Err(error) = asked {
            fail(&format!("failed to start supervisor: could not get feature gates: {error}"));
        }
        self.write_effective(&self.config.bootstrap());
        let mut child = self.spawn().unwrap_or_else(|| {
            fail("failed to start supervisor: could not get bootstrap info from the Collector: cannot start the agent")
        });
        let until = Instant::now() + self.config.bootstrap_timeout;
        loop {
            match self.hellos.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(pid) if pid == child.id() && !self.config.bootstrap_hangs => break,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    self.stop(&mut child);
                    fail(
                        "failed to start supervisor: could not get bootstrap info from the Collector: collector's OpAMP client never connected to the Supervisor",
                    );
                }
            }
        }
        self.stop(&mut child);
    }

    fn write_effective(&self, tree: &Value) {
        fs::create_dir_all(&self.config.storage).expect("a storage directory");
        let text = yaml::emit(tree);
        fs::write(self.effective(), text).expect("an effective configuration");
    }

    fn effective(&self) -> PathBuf {
        self.config.storage.join("effective.yaml")
    }

    fn spawn(&self) -> Option<Child> {
        let path = self.config.storage.join("agent.log");
        let _ = fs::remove_file(&path);
        let open = |path: &Path| fs::OpenOptions::new().create(true).append(true).open(path).expect("a log");
        let spawned = Command::new(&self.config.executable)
            .arg0(&self.config.executable)
            .arg("--config")
            .arg(self.effective())
            .args(["--feature-gates", "service.AllowNoPipelines"])
            .args(&self.config.args)
            .stdin(Stdio::null())
            .stdout(open(&path))
            .stderr(open(&path))
            .spawn();
        spawned.map_err(|error| eprintln!("Cannot start the agent: {error}")).ok()
    }

    fn stop(&self, child: &mut Child) {
        if child.try_wait().expect("own child").is_some() {
            return;
        }
        let _ = kill_process(Pid::from_child(child), Signal::INT);
        let until = Instant::now() + self.config.kill_after;
        while child.try_wait().expect("own child").is_none() {
            if Instant::now() >= until {
                let _ = child.kill();
            }
            thread::sleep(LOOK);
        }
    }
}
