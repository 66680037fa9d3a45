//! A stand-in for systemd: it starts units, starts them again, counts, gives up, and answers `systemctl` as systemd
//! 252 was seen to. It lives in the test's own process; the stand-in `systemctl` in `PATH` passes words on to it.
//!
//! Faithful are the properties that a restart is judged by: every start has an invocation id of its own; a restart
//! by itself is counted, one that somebody asks for sets the count to nothing; a stop is written to the log; a unit
//! that is inactive is forgotten; one whose program ends with an error when it is stopped is failed; the result of a
//! crash stays when the start limit is reached.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{Read as _, Write as _},
    os::unix::{fs::symlink, net::UnixListener, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::{built, machine::signal};

/// How often the manager looks at its children.
const TICK: Duration = Duration::from_millis(10);
/// How long a unit may take to stop before it is killed.
const STOP: Duration = Duration::from_secs(10);

/// What a unit's file would say.
#[derive(Debug, Clone)]
pub struct UnitPlan {
    /// What is started.
    pub argv: Vec<String>,
    /// `User=`, which is told and not taken on; empty for root.
    pub user: &'static str,
    /// `Restart=`: `no`, `always` or `on-failure`.
    pub restart: &'static str,
    /// `StartLimitBurst=` within `StartLimitIntervalSec=1h`; 0 for no limit.
    pub burst: usize,
}

/// What a command says and how it ends.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The exit code.
    pub code: u8,
    /// What goes to stdout.
    pub stdout: String,
    /// What goes to stderr.
    pub stderr: String,
}

/// The manager. Kills what it started when dropped.
#[derive(Debug)]
pub struct ServiceManager {
    dir: TempDir,
    units: Arc<Mutex<Units>>,
    over: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Units {
    known: BTreeMap<String, Unit>,
    /// Runs that somebody asked to be stopped, and when.
    asked_to_stop: BTreeMap<String, Duration>,
    invocations: u32,
}

#[derive(Debug)]
struct Unit {
    plan: UnitPlan,
    masked: bool,
    state: State,
    result: &'static str,
    ended: Option<ExitStatus>,
    restarts: u32,
    invocation: String,
    starts: Vec<Instant>,
}

#[derive(Debug)]
enum State {
    Dead,
    Failed,
    Running(Child),
    Waiting(Instant),
}

impl ServiceManager {
    /// A manager without units.
    pub fn start() -> Self {
        let dir =
            tempfile::Builder::new().prefix("myriarch-systemd-").tempdir().expect("a temporary directory");
        let program = built::stand_in("stand-in-systemctl");
        std::fs::create_dir(dir.path().join("bin")).expect("a directory");
        for name in ["systemctl", "journalctl"] {
            symlink(&program, dir.path().join("bin").join(name)).expect("a link");
        }
        let listener = UnixListener::bind(dir.path().join("socket")).expect("a socket");
        let (units, over) = (Arc::new(Mutex::new(Units::default())), Arc::new(AtomicBool::new(false)));
        let manager = Self { dir, units: units.clone(), over: over.clone() };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let units = units.clone();
                thread::spawn(move || answer(stream, &units));
            }
        });
        let units = manager.units.clone();
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                lock(&units).look_after();
                thread::sleep(TICK);
            }
        });
        manager
    }

    /// What a program's environment must say so that it asks this manager and no other.
    pub fn environment(&self) -> Vec<(String, String)> {
        let here = |name: &str| self.dir.path().join(name).display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        vec![
            ("PATH".to_owned(), format!("{}:{path}", here("bin"))),
            ("STAND_IN_SYSTEMD".to_owned(), here("socket")),
        ]
    }

    /// A directory that holds no systemctl.
    pub fn empty_directory(&self) -> PathBuf {
        let empty = self.dir.path().join("empty");
        std::fs::create_dir_all(&empty).expect("a directory");
        empty
    }

    /// Puts a unit in place, `.service` included in its name.
    pub fn add(&self, name: &str, plan: UnitPlan) {
        let unit = Unit {
            plan,
            masked: false,
            state: State::Dead,
            result: "success",
            ended: None,
            restarts: 0,
            invocation: String::new(),
            starts: vec![],
        };
        lock(&self.units).known.insert(name.to_owned(), unit);
    }

    /// Masks a unit; what runs goes on.
    pub fn mask(&self, name: &str) {
        if let Some(unit) = lock(&self.units).known.get_mut(name) {
            unit.masked = true;
        }
    }

    /// Changes a unit's file.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut UnitPlan)) {
        if let Some(unit) = lock(&self.units).known.get_mut(name) {
            change(&mut unit.plan);
        }
    }

    /// What an operator types after `systemctl`.
    pub fn systemctl(&self, words: &[&str]) -> Answer {
        let words: Vec<_> = ["systemctl"].iter().chain(words).map(ToString::to_string).collect();
        lock(&self.units).carry_out(&words)
    }

    /// A unit's property as `systemctl show` prints it.
    pub fn property(&self, name: &str, property: &str) -> String {
        let shown = self.systemctl(&["show", name]).stdout;
        let line = shown.lines().find_map(|line| line.strip_prefix(property)?.strip_prefix('='));
        line.unwrap_or_default().to_owned()
    }

    /// The process of a unit; 0 where none runs.
    pub fn main_pid(&self, name: &str) -> u32 {
        self.property(name, "MainPID").parse().unwrap_or_default()
    }
}

impl Drop for ServiceManager {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for unit in lock(&self.units).known.values_mut() {
            if let State::Running(child) = &mut unit.state {
                let _ = child.kill();
                let _ = child.wait();
            }
            unit.state = State::Dead;
        }
    }
}

fn lock(units: &Mutex<Units>) -> MutexGuard<'_, Units> {
    units.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(mut stream: std::os::unix::net::UnixStream, units: &Mutex<Units>) {
    let mut asked = vec![];
    if stream.read_to_end(&mut asked).is_ok()
        && let Ok(words) = serde_json::from_slice::<Vec<String>>(&asked)
    {
        let answer = lock(units).carry_out(&words);
        let _ = stream.write_all(&serde_json::to_vec(&answer).unwrap_or_default());
    }
}

impl Units {
    fn carry_out(&mut self, words: &[String]) -> Answer {
        let journal = words.first().is_some_and(|name| Path::new(name).ends_with("journalctl"));
        let mut plain = words.iter().skip(1).filter(|word| !word.starts_with("--")).map(String::as_str);
        if journal {
            let run = plain.find_map(|word| word.strip_prefix("INVOCATION_ID="));
            let since = words.iter().find_map(|word| word.strip_prefix("--since=@")?.parse::<f64>().ok());
            let stopped = self.asked_to_stop.iter().any(|(stopped, at)| {
                run.is_none_or(|run| run == stopped) && since.is_none_or(|since| at.as_secs_f64() >= since)
            });
            return Answer {
                stdout: if stopped { "Stopping the unit...\n" } else { "" }.to_owned(),
                ..Answer::default()
            };
        }
        let (verb, name) = (plain.next().unwrap_or_default(), plain.next().unwrap_or_default());
        if verb == "is-system-running" {
            return Answer { stdout: "running\n".to_owned(), ..Answer::default() };
        }
        let failed = |code, words: String| Answer { code, stderr: words, ..Answer::default() };
        let Some(unit) = self.known.get_mut(name) else {
            return match verb {
                "show" => Answer { stdout: shown(name, None), ..Answer::default() },
                _ => failed(5, format!("Failed to {verb} {name}: Unit {name} not found.\n")),
            };
        };
        match verb {
            "show" => Answer { stdout: shown(name, Some(unit)), ..Answer::default() },
            "start" | "restart" if unit.masked => {
                failed(1, format!("Failed to {verb} {name}: Unit {name} is masked.\n"))
            }
            "reset-failed" => {
                unit.starts.clear();
                if let State::Failed = unit.state {
                    unit.state = State::Dead;
                    unit.result = "success";
                }
                Answer::default()
            }
            "stop" => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                self.asked_to_stop.insert(unit.invocation.clone(), now);
                unit.stop();
                Answer::default()
            }
            "start" | "restart" => {
                unit.stop();
                unit.restarts = 0;
                self.invocations += 1;
                if unit.start(self.invocations) {
                    return Answer::default();
                }
                failed(
                    1,
                    format!("Job for {name} failed because the control process exited with error code.\n"),
                )
            }
            other => failed(1, format!("Unknown command verb {other}.\n")),
        }
    }

    /// What ended is restarted, or not.
    fn look_after(&mut self) {
        for unit in self.known.values_mut() {
            match &mut unit.state {
                State::Running(child) => {
                    if let Ok(Some(status)) = child.try_wait() {
                        unit.over(status);
                    }
                }
                State::Waiting(until) if *until <= Instant::now() => {
                    unit.restarts += 1;
                    self.invocations += 1;
                    unit.start(self.invocations);
                }
                State::Dead | State::Failed | State::Waiting(_) => {}
            }
        }
    }
}

impl Unit {
    /// Whether the limit allows it. What cannot be executed ends at once with systemd's own code.
    fn start(&mut self, invocation: u32) -> bool {
        let within = self.starts.len() < self.plan.burst || self.plan.burst == 0;
        if !within {
            self.state = State::Failed;
            // A crash that led here stays the result.
            if self.result == "success" {
                self.result = "start-limit-hit";
            }
            return false;
        }
        self.starts.push(Instant::now());
        self.invocation = format!("{invocation:032x}");
        self.result = "success";
        self.ended = None;
        let mut command = Command::new(&self.plan.argv[0]);
        command.args(&self.plan.argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => self.state = State::Running(child),
            Err(_) => self.over(ExitStatus::from_raw(203 << 8)),
        }
        true
    }

    fn over(&mut self, status: ExitStatus) {
        self.ended = Some(status);
        self.result = match (status.code(), status.signal()) {
            (Some(0), _) => "success",
            (None, Some(6 | 11)) => "core-dump",
            (None, _) => "signal",
            (Some(_), _) => "exit-code",
        };
        let restarts = match self.plan.restart {
            "always" => true,
            "on-failure" => self.result != "success",
            _ => false,
        };
        self.state = match (restarts, self.result) {
            (true, _) => State::Waiting(Instant::now() + Duration::from_millis(100)),
            (false, "success") => State::Dead,
            (false, _) => State::Failed,
        };
    }

    fn stop(&mut self) {
        if let State::Running(child) = &mut self.state {
            signal("TERM", child.id());
            let began = Instant::now();
            while began.elapsed() < STOP && matches!(child.try_wait(), Ok(None)) {
                thread::sleep(TICK);
            }
            let _ = child.kill();
            let ended = child.wait().ok();
            if ended.and_then(|ended| ended.code()).is_some_and(|code| code != 0) {
                (self.state, self.result, self.ended) = (State::Failed, "exit-code", ended);
            }
        }
        if !matches!(self.state, State::Failed) {
            self.state = State::Dead;
            self.result = "success";
        }
        self.restarts = 0;
    }
}

/// What `systemctl show` prints of it; of a unit that is inactive systemd remembers no run.
fn shown(name: &str, unit: Option<&Unit>) -> String {
    let mut text = format!("Id={name}\nType=simple\nTimeoutStartUSec=1min 30s\nTimeoutStopUSec=10s\nJob=\n");
    let load = match unit {
        None => "not-found",
        Some(unit) if unit.masked => "masked",
        Some(_) => "loaded",
    };
    let Some(unit) = unit else {
        return text + &format!("LoadState={load}\nActiveState=inactive\nSubState=dead\nMainPID=0\n");
    };
    let (active, sub, pid) = match &unit.state {
        State::Dead => ("inactive", "dead", 0),
        State::Failed => ("failed", "failed", 0),
        State::Running(child) => ("active", "running", child.id()),
        State::Waiting(_) => ("activating", "auto-restart", 0),
    };
    let (invocation, ended) = if active == "inactive" { ("", None) } else { (&*unit.invocation, unit.ended) };
    let (code, status) = match ended.map(|ended| (ended.code(), ended.signal())) {
        Some((Some(code), _)) => (1, code),
        Some((None, Some(signal))) => (2, signal),
        _ => (0, 0),
    };
    let UnitPlan { argv, user, restart, burst } = &unit.plan;
    let interval = if *burst == 0 { "0" } else { "1h" };
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "LoadState={load}\nActiveState={active}\nSubState={sub}\nMainPID={pid}\nResult={}\nExecMainCode={code}\n\
         ExecMainStatus={status}\nNRestarts={}\nInvocationID={invocation}\nUser={user}\nRestart={restart}\n\
         StartLimitBurst={burst}\nStartLimitIntervalUSec={interval}\n\
         ExecStart={{ path={} ; argv[]={} ; ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }}\n",
        unit.result,
        unit.restarts,
        argv[0],
        argv.join(" "),
    );
    text
}
