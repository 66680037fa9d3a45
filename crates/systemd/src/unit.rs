//! A unit as systemd tells it at one moment.

use std::{fmt, path::PathBuf, time::Duration};

use crate::{command::Command, name::UnitName, properties::Properties, timespan::timespan};

/// What is asked for, so that one call tells a whole unit (org.freedesktop.systemd1(5)).
pub(crate) const PROPERTIES: &[&str] = &[
    "Id",
    "LoadState",
    "LoadError",
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "NRestarts",
    "InvocationID",
    "UnitFileState",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
    "Job",
    "ControlGroup",
    "Type",
    "Restart",
    "StartLimitBurst",
    "StartLimitIntervalUSec",
    "TimeoutStartUSec",
    "TimeoutStopUSec",
    "KillMode",
    "KillSignal",
    "ExecStartPre",
    "ExecStart",
    "User",
    "Group",
    "SupplementaryGroups",
    "DynamicUser",
    "AmbientCapabilities",
    "CapabilityBoundingSet",
    "NoNewPrivileges",
    "WorkingDirectory",
    "RootDirectory",
    "RootImage",
    "Environment",
    "EnvironmentFiles",
    "PassEnvironment",
    "ProtectSystem",
    "ProtectHome",
    "PrivateTmp",
    "ReadWritePaths",
    "ReadOnlyPaths",
    "InaccessiblePaths",
    "ExecPaths",
    "NoExecPaths",
    "TemporaryFileSystem",
    "BindPaths",
    "BindReadOnlyPaths",
    "OnFailure",
    "Wants",
    "Requires",
    "After",
];

/// A service unit at the moment it was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its name; of an alias the one it stands for.
    pub name: UnitName,
    /// Whether its files could be read.
    pub load_state: LoadState,
    /// What was wrong with them, in systemd's words; empty if nothing was.
    pub load_error: String,
    /// Whether it runs.
    pub active_state: ActiveState,
    /// More exactly, in words of the service's kind: `running`, `auto-restart`, `dead`, …
    pub sub_state: String,
    /// How it came to where it is: `success`, `exit-code`, `signal`, `oom-kill`, `timeout`, `start-limit-hit`, …
    /// Once `exit-code` is said, a start limit that is reached later does not change it; see
    /// [`Unit::is_held_by_start_limit`].
    pub result: String,
    /// Its main process; none where nothing runs.
    pub main_pid: Option<u32>,
    /// How its last main process ended; none where it runs or never ran.
    pub ended: Option<Ended>,
    /// How often systemd restarted it by itself since somebody started it.
    pub restarts: u32,
    /// The id of this run: another one for every start, of whomever. Empty where systemd knows of no run.
    pub invocation_id: String,
    /// Whether it starts at boot: `enabled`, `disabled`, `static`, `masked`, … Empty where there is no file.
    pub unit_file_state: String,
    /// Its own file; none where there is none.
    pub fragment_path: Option<PathBuf>,
    /// What is added to its file, in the order in which it counts.
    pub drop_in_paths: Vec<PathBuf>,
    /// Whether its files changed since systemd read them.
    pub needs_daemon_reload: bool,
    /// The request to start or stop it that systemd has not carried out yet.
    pub job: Option<u32>,
    /// Its control group below the hierarchy's root; none where nothing runs.
    pub control_group: Option<PathBuf>,
    /// When it counts as started: `simple`, `notify`, `exec`, …
    pub service_type: String,
    /// `Restart=`: `no`, `always`, `on-failure`, …
    pub restart: String,
    /// How many starts are allowed in [`Unit::start_limit_interval`].
    pub start_limit_burst: u32,
    /// See [`Unit::start_limit_burst`]; zero for no limit.
    pub start_limit_interval: Duration,
    /// How long a start may take; none for ever.
    pub timeout_start: Option<Duration>,
    /// How long a stop may take before it is killed; none for ever.
    pub timeout_stop: Option<Duration>,
    /// Who is told to stop: `control-group`, `mixed`, `process`, `none`.
    pub kill_mode: String,
    /// The signal by which it is asked to stop, as a number.
    pub kill_signal: u32,
    /// What runs before it.
    pub exec_start_pre: Vec<Command>,
    /// What runs; one command unless it is a oneshot.
    pub exec_start: Vec<Command>,
    /// Whom it runs as.
    pub account: UnitAccount,
    /// What it finds around it.
    pub surroundings: UnitSurroundings,
    /// What it can see and do.
    pub sandbox: Sandbox,
    /// Units started when it fails.
    pub on_failure: Vec<String>,
    /// Units started with it, if they can be.
    pub wants: Vec<String>,
    /// Units started with it, without which it is not.
    pub requires: Vec<String>,
    /// Units that it starts after.
    pub after: Vec<String>,
}

/// Whom a unit runs as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitAccount {
    /// `User=`: a name or a number; root where none.
    pub user: Option<String>,
    /// `Group=`: a name or a number; the user's own where none.
    pub group: Option<String>,
    /// `SupplementaryGroups=`, added to those of the user.
    pub supplementary_groups: Vec<String>,
    /// `DynamicUser=`: the user exists only while it runs.
    pub dynamic_user: bool,
    /// Capabilities that the program gets although it is not root.
    pub ambient_capabilities: Vec<String>,
    /// Capabilities that it could get at all.
    pub capability_bounding_set: Vec<String>,
}

/// What a unit's program finds around it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UnitSurroundings {
    /// `WorkingDirectory=`; `/` where none, `~` for the user's home, a `!` before one that may be missing.
    pub working_directory: Option<String>,
    /// `Environment=`, in its order. Values may be secrets: the debug form shows the names alone.
    pub environment: Vec<(String, String)>,
    /// `EnvironmentFile=`, in its order; later ones win, and all of them over `Environment=`.
    pub environment_files: Vec<EnvironmentFile>,
    /// Names taken over from systemd's own environment.
    pub pass_environment: Vec<String>,
}

/// One `EnvironmentFile=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentFile {
    /// Where; may hold the wildcards of a shell.
    pub path: PathBuf,
    /// Whether it may be missing: a `-` stood before it.
    pub optional: bool,
}

/// What a unit's program can see and do of the file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// `RootDirectory=`: another root.
    pub root_directory: Option<PathBuf>,
    /// `RootImage=`: another root, in an image.
    pub root_image: Option<PathBuf>,
    /// `ProtectSystem=`: `no`, `yes`, `full`, `strict`.
    pub protect_system: String,
    /// `ProtectHome=`: `no`, `yes`, `read-only`, `tmpfs`.
    pub protect_home: String,
    /// `PrivateTmp=`: its `/tmp` is its own.
    pub private_tmp: bool,
    /// `NoNewPrivileges=`: file capabilities and set-user-id count for nothing.
    pub no_new_privileges: bool,
    /// `ReadWritePaths=`, as written: a `-` or `+` may stand before each.
    pub read_write_paths: Vec<String>,
    /// `ReadOnlyPaths=`, likewise.
    pub read_only_paths: Vec<String>,
    /// `InaccessiblePaths=`, likewise.
    pub inaccessible_paths: Vec<String>,
    /// `ExecPaths=`, likewise.
    pub exec_paths: Vec<String>,
    /// `NoExecPaths=`, likewise.
    pub no_exec_paths: Vec<String>,
    /// `TemporaryFileSystem=`: what is below is hidden.
    pub temporary_file_system: Vec<String>,
    /// `BindPaths=` and `BindReadOnlyPaths=`.
    pub bind_paths: Vec<String>,
}

/// Whether a unit's files could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadState {
    /// They were read.
    Loaded,
    /// It is linked to `/dev/null`, so that nobody starts it.
    Masked,
    /// There are none.
    NotFound,
    /// They say something that systemd does not take, or could not be read.
    Bad,
    /// A word of a systemd that we do not know.
    Other(String),
}

/// Whether a unit runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActiveState {
    /// It counts as started. That says nothing about its health.
    Active,
    /// It does not run, and nothing is wrong with that.
    Inactive,
    /// It does not run because something went wrong.
    Failed,
    /// It is being started; also while it waits to be restarted.
    Activating,
    /// It is being stopped.
    Deactivating,
    /// `reloading`, `maintenance`, or a word that we do not know.
    Other(String),
}

/// How a main process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code. From 200 on they can be systemd's own: it did not get to start the program.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// Exit codes by which systemd says which step before the program failed (systemd.exec(5)).
const STEPS: &[(i32, &str)] = &[
    (200, "its working directory cannot be changed to"),
    (203, "its executable cannot be run"),
    (206, "its credentials or limits cannot be set"),
    (216, "its group cannot be taken on"),
    (217, "its user cannot be taken on"),
    (226, "its sandbox cannot be set up"),
    (228, "its system call filter cannot be set up"),
];

impl Unit {
    /// From what `systemctl show` printed; none where it has no form that we know.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let told = Properties::parse(text);
        if !(told.has("LoadState") && told.has("ActiveState") && told.has("MainPID")) {
            return None;
        }
        let number = |name: &str| told.one(name).parse::<u32>().unwrap_or_default();
        let path = |name: &str| told.some(name).map(PathBuf::from);
        Some(Self {
            name: told.one("Id").parse().ok()?,
            load_state: LoadState::of(told.one("LoadState")),
            load_error: load_error(told.one("LoadError")),
            active_state: ActiveState::of(told.one("ActiveState")),
            sub_state: told.one("SubState").to_owned(),
            result: told.one("Result").to_owned(),
            main_pid: Some(number("MainPID")).filter(|pid| *pid > 0),
            ended: Ended::of(told.one("ExecMainCode"), told.one("ExecMainStatus")),
            restarts: number("NRestarts"),
            invocation_id: told.one("InvocationID").to_owned(),
            unit_file_state: told.one("UnitFileState").to_owned(),
            fragment_path: path("FragmentPath"),
            drop_in_paths: told.words("DropInPaths").into_iter().map(PathBuf::from).collect(),
            needs_daemon_reload: told.yes("NeedDaemonReload"),
            job: Some(number("Job")).filter(|job| *job > 0),
            control_group: path("ControlGroup"),
            service_type: told.one("Type").to_owned(),
            restart: told.one("Restart").to_owned(),
            start_limit_burst: number("StartLimitBurst"),
            start_limit_interval: timespan(told.one("StartLimitIntervalUSec")).unwrap_or_default(),
            timeout_start: timespan(told.one("TimeoutStartUSec")),
            timeout_stop: timespan(told.one("TimeoutStopUSec")),
            kill_mode: told.one("KillMode").to_owned(),
            kill_signal: number("KillSignal"),
            exec_start_pre: told.all("ExecStartPre").filter_map(Command::parse).collect(),
            exec_start: told.all("ExecStart").filter_map(Command::parse).collect(),
            account: UnitAccount::of(&told),
            surroundings: UnitSurroundings::of(&told),
            sandbox: Sandbox::of(&told),
            on_failure: told.words("OnFailure"),
            wants: told.words("Wants"),
            requires: told.words("Requires"),
            after: told.words("After"),
        })
    }

    /// Whether it will not start again by itself because it was started too often. systemd keeps the first result
    /// of a crash loop, `exit-code` for one, so that this shows only in that it is failed although it is to be
    /// restarted and was, at least once: the restart that the limit refuses is counted as well. One that failed when
    /// it was stopped was not. A start that somebody asks for now may be refused until `reset-failed`.
    pub fn is_held_by_start_limit(&self) -> bool {
        let would_restart = match (self.restart.as_str(), self.result.as_str()) {
            ("always", _) | ("on-failure", "exit-code" | "signal" | "core-dump" | "timeout" | "watchdog") => {
                true
            }
            ("on-abnormal", result) => matches!(result, "signal" | "core-dump" | "timeout" | "watchdog"),
            ("on-abort", result) => matches!(result, "signal" | "core-dump"),
            ("on-watchdog", result) => result == "watchdog",
            _ => false,
        };
        self.result == "start-limit-hit"
            || (self.active_state == ActiveState::Failed
                && would_restart
                && self.restarts > 0
                && self.start_limit_burst > 0
                && !self.start_limit_interval.is_zero())
    }

    /// State, result and how the last process ended, in words: `failed (exit-code: exited with 7)`.
    pub fn words(&self) -> String {
        let state = match &self.active_state {
            ActiveState::Active => "active".to_owned(),
            ActiveState::Inactive => "inactive".to_owned(),
            ActiveState::Failed => "failed".to_owned(),
            ActiveState::Activating => format!("activating, {}", self.sub_state),
            ActiveState::Deactivating => format!("deactivating, {}", self.sub_state),
            ActiveState::Other(word) => word.clone(),
        };
        let limit = if self.is_held_by_start_limit() {
            format!(
                "; held by its start limit, {} starts in {:?}",
                self.start_limit_burst, self.start_limit_interval
            )
        } else {
            String::new()
        };
        match (&*self.result, self.ended) {
            ("success" | "", None) => format!("{state}{limit}"),
            (result, None) => format!("{state} ({result}){limit}"),
            (result, Some(ended)) => format!("{state} ({result}: {ended}){limit}"),
        }
    }
}

impl UnitAccount {
    fn of(told: &Properties) -> Self {
        Self {
            user: told.some("User"),
            group: told.some("Group"),
            supplementary_groups: told.words("SupplementaryGroups"),
            dynamic_user: told.yes("DynamicUser"),
            ambient_capabilities: told.words("AmbientCapabilities"),
            capability_bounding_set: told.words("CapabilityBoundingSet"),
        }
    }
}

impl UnitSurroundings {
    fn of(told: &Properties) -> Self {
        let pair =
            |word: String| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            working_directory: told.some("WorkingDirectory"),
            environment: told.words("Environment").into_iter().filter_map(pair).collect(),
            environment_files: told.all("EnvironmentFiles").filter_map(EnvironmentFile::parse).collect(),
            pass_environment: told.words("PassEnvironment"),
        }
    }
}

impl fmt::Debug for UnitSurroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnitSurroundings")
            .field("working_directory", &self.working_directory)
            .field("environment", &self.environment.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("environment_files", &self.environment_files)
            .field("pass_environment", &self.pass_environment)
            .finish()
    }
}

impl EnvironmentFile {
    /// Reads `/etc/otelcol.env (ignore_errors=no)`.
    fn parse(text: &str) -> Option<Self> {
        let (path, rest) = text.rsplit_once(" (ignore_errors=")?;
        Some(Self { path: PathBuf::from(path), optional: rest.starts_with("yes") })
    }
}

impl Sandbox {
    fn of(told: &Properties) -> Self {
        let mut bind_paths = told.words("BindPaths");
        bind_paths.extend(told.words("BindReadOnlyPaths"));
        Self {
            root_directory: told.some("RootDirectory").map(PathBuf::from),
            root_image: told.some("RootImage").map(PathBuf::from),
            protect_system: told.one("ProtectSystem").to_owned(),
            protect_home: told.one("ProtectHome").to_owned(),
            private_tmp: told.yes("PrivateTmp"),
            no_new_privileges: told.yes("NoNewPrivileges"),
            read_write_paths: told.words("ReadWritePaths"),
            read_only_paths: told.words("ReadOnlyPaths"),
            inaccessible_paths: told.words("InaccessiblePaths"),
            exec_paths: told.words("ExecPaths"),
            no_exec_paths: told.words("NoExecPaths"),
            temporary_file_system: told.words("TemporaryFileSystem"),
            bind_paths,
        }
    }
}

impl LoadState {
    fn of(word: &str) -> Self {
        match word {
            "loaded" => Self::Loaded,
            "masked" => Self::Masked,
            "not-found" => Self::NotFound,
            "bad-setting" | "error" => Self::Bad,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl ActiveState {
    fn of(word: &str) -> Self {
        match word {
            "active" => Self::Active,
            "inactive" => Self::Inactive,
            "failed" => Self::Failed,
            "activating" => Self::Activating,
            "deactivating" => Self::Deactivating,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl Ended {
    /// `ExecMainCode` is what waitid(2) says: 1 for an exit, 2 and 3 for a signal without and with a core.
    fn of(code: &str, status: &str) -> Option<Self> {
        let status = status.parse().ok()?;
        match code {
            "1" => Some(Self::Exited(status)),
            "2" | "3" => Some(Self::Killed(status)),
            _ => None,
        }
    }

    /// Whether systemd did not get as far as the program.
    pub fn is_before_the_program(self) -> bool {
        matches!(self, Self::Exited(code) if STEPS.iter().any(|(known, _)| *known == code))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => match STEPS.iter().find(|(known, _)| known == code) {
                Some((_, step)) => write!(f, "exited with {code}, by which systemd means: {step}"),
                None => write!(f, "exited with {code}"),
            },
            Self::Killed(9) => f.write_str("killed by SIGKILL"),
            Self::Killed(15) => f.write_str("killed by SIGTERM"),
            Self::Killed(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// Of `org.freedesktop.systemd1.UnitMasked "Unit a.service is masked."` the sentence.
fn load_error(text: &str) -> String {
    text.split_once(' ').map_or("", |(_, words)| words.trim_matches('"')).to_owned()
}
