//! `config example --detect`: looks for a collector on this machine and writes a configuration for it.
//!
//! A unit that runs is looked for first, then one that does not, then a process, then a file. Nothing is started
//! but the collector's own `--version`, as nobody and only if the file is one that nobody but root can have written.

pub(crate) mod health;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use myriarch_cli::{
    ServiceName,
    config::{Detected, Runs, Seen},
};
use myriarch_probe::{
    exec::{Credentials, Environment, Exec},
    process::Process,
};
use myriarch_systemd::{ActiveState, LoadState, Systemd, Unit, UnitName};
use myriarch_update::{installed_program, regular};
use serde_json::Value;

use crate::import::program::{self, Named, Program};

/// The user that owns nothing, as every Linux knows it.
const NOBODY: u32 = 65_534;
const PATIENCE: Duration = Duration::from_secs(10);
/// Where collectors are installed, and how their names begin.
const DIRECTORIES: &[&str] = &["/usr/bin", "/usr/local/bin", "/usr/sbin", "/opt/bin"];
/// Where a supervisor keeps its files unless told otherwise.
const STORAGE: &str = "/var/lib/otelcol/supervisor";

/// Nothing was found, or not what was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct NothingFound {
    reason: String,
    pub(crate) hint: String,
}

/// Looks; `wanted` chooses among several units.
pub(crate) async fn detect(systemd: &Systemd, wanted: Option<&UnitName>) -> Result<Detected, NothingFound> {
    if let Some(name) = wanted {
        return of_wanted(systemd, name).await;
    }
    let mut found = units(systemd).await;
    found.sort_by_key(|(unit, _)| unit.active_state != ActiveState::Active);
    if !found.is_empty() {
        let (unit, program) = found.remove(0);
        let mut detected = of_unit(&unit, &program).await;
        detected.others = found.iter().map(|(unit, program)| named(unit, program)).collect();
        return Ok(detected);
    }
    let mut files: Vec<(PathBuf, Option<Process>)> = processes();
    files.extend(installed().into_iter().map(|path| (path, None)));
    match files.split_first() {
        Some(((path, process), others)) => {
            let mut detected = of_file(path, *process).await;
            detected.others = others.iter().map(|(path, _)| path.display().to_string()).collect();
            Ok(detected)
        }
        None => Err(NothingFound {
            reason: "expected a collector on this machine, found none: no unit, no process, no otelcol* in /usr/bin or /usr/local/bin".to_owned(),
            hint: "`config example` prints a file with every key explained; as root more can be seen".to_owned(),
        }),
    }
}

async fn of_wanted(systemd: &Systemd, name: &UnitName) -> Result<Detected, NothingFound> {
    let failed = |reason: String, hint: String| NothingFound { reason, hint };
    let unit = systemd.unit(name).await.map_err(|error| failed(error.to_string(), error.hint()))?;
    unit.startable().map_err(|error| failed(error.to_string(), error.hint()))?;
    match Program::of(&unit) {
        Ok(program) => Ok(of_unit(&unit, &program).await),
        Err(error) => {
            let (reason, hint) = error.words();
            Err(failed(reason, hint))
        }
    }
}

/// Units that run a collector, or a supervisor of one.
async fn units(systemd: &Systemd) -> Vec<(Unit, Program)> {
    let mut found = Vec::new();
    for name in systemd.services().await.unwrap_or_default() {
        let Ok(unit) = systemd.unit(&name).await else { continue };
        if unit.load_state != LoadState::Loaded {
            continue;
        }
        if let Ok(program) = Program::of(&unit)
            && (program.named != Named::Unit || is_collector(&unit, &program.path))
        {
            found.push((unit, program));
        }
    }
    found
}

/// By its name or by what its configuration says: no service is run to find out.
fn is_collector(unit: &Unit, path: &Path) -> bool {
    is_named_so(path) || program::configuration_of(unit).is_some_and(|path| is_collectors(&path))
}

fn is_named_so(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with("otelcol") || name.contains("otel-collector")
}

fn is_collectors(configuration: &Path) -> bool {
    let text = regular::text(configuration).unwrap_or_default();
    let document = serde_saphyr::from_str::<Value>(&text).unwrap_or_default();
    document.pointer("/service/pipelines").is_some() && document.get("receivers").is_some()
}

async fn of_unit(unit: &Unit, program: &Program) -> Detected {
    let variable = |name: &str| program::variable(unit, name);
    let state = unit.words();
    let (effective, configurations, by) = match &program.named {
        Named::Unit => (None, program::configuration_of(unit).into_iter().collect(), String::new()),
        Named::Supervisor { .. } | Named::Variable { .. } => {
            let path = program::supervisor_configuration(unit).ok().flatten().unwrap_or_default();
            let supervisor = Supervisor::read(&path, variable);
            let files = [vec![supervisor.effective.clone()], supervisor.files].concat();
            let by = format!(", by the supervisor that {} configures", path.display());
            let at = format!("{} in {}", supervisor.said, path.display());
            (Some(Seen { value: supervisor.effective, at }), files, by)
        }
    };
    Detected {
        service: service(unit.name.stem()),
        health: health(&configurations, variable),
        effective,
        runs: Seen {
            at: format!("{}, which is {state}, runs {}{by}", unit.name, program.path.display()),
            value: Runs::Unit(unit.name.to_string()),
        },
        ..of_program(&program.path).await
    }
}

async fn of_file(path: &Path, process: Option<Process>) -> Detected {
    let arguments = process.and_then(|process| process.args().ok()).unwrap_or_default();
    let arguments: Vec<String> =
        arguments.into_iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let named = program::named_by(&arguments).map(PathBuf::from);
    let beside = path.file_name().map(|name| Path::new("/etc").join(name).join("config.yaml"));
    let configuration = named.or_else(|| beside.filter(|path| path.is_file()));
    let variable = |name: &str| {
        let environment = process?.environment().ok()?;
        environment
            .into_iter()
            .find(|(known, _)| *known == *name)
            .map(|(_, value)| value.to_string_lossy().into_owned())
    };
    let at = match process {
        Some(process) => {
            format!("process {}, of no unit that is known, runs {}", process.pid(), path.display())
        }
        None => format!("the file {} is there; no unit and no process runs it", path.display()),
    };
    let arguments = match &configuration {
        Some(path) if process.is_none() => vec!["--config".to_owned(), path.display().to_string()],
        _ => arguments,
    };
    Detected {
        health: health(configuration.as_slice(), variable),
        runs: Seen { value: Runs::Nobody { arguments }, at },
        ..of_program(path).await
    }
}

/// All that the program itself tells.
async fn of_program(path: &Path) -> Detected {
    let binary = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Detected {
        service: service(&binary),
        distribution: distribution(path).await,
        binary,
        runs: Seen { value: Runs::Nobody { arguments: vec![] }, at: String::new() },
        effective: None,
        health: Seen { value: None, at: String::new() },
        others: vec![],
    }
}

async fn distribution(path: &Path) -> Seen<Option<String>> {
    let shown = path.display();
    let program = match installed_program(path, &BTreeSet::new()) {
        Ok(program) => program,
        Err(refusal) => {
            return Seen {
                value: None,
                at: format!("{shown}, not asked for its --version: {}", refusal.reason),
            };
        }
    };
    let nobody = Credentials { uid: NOBODY, gid: NOBODY, groups: vec![NOBODY] };
    let exec = Exec {
        env: Environment::Exactly(vec![]),
        cwd: Some(PathBuf::from("/")),
        credentials: rustix::process::geteuid().is_root().then_some(nobody),
        deadline: PATIENCE,
        ..Exec::new(program, ["--version"])
    };
    match exec.run().await {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            let name = said.split_once(" version ").map(|(name, _)| name.to_owned());
            let name = name.filter(|name| output.status.success() && !name.contains(char::is_whitespace));
            Seen { value: name, at: format!("{shown} --version says {said:?}") }
        }
        Err(error) => Seen { value: None, at: format!("{shown} --version: {error}") },
    }
}

/// What a supervisor's configuration tells of its collector.
pub(crate) struct Supervisor {
    pub(crate) effective: PathBuf,
    /// How that is known.
    said: String,
    /// What it merges into the effective configuration.
    files: Vec<PathBuf>,
}

impl Supervisor {
    pub(crate) fn read(path: &Path, variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = regular::text(path).unwrap_or_default();
        let document: Value =
            serde_saphyr::from_str(&program::expanded(&text, &variable)).unwrap_or_default();
        let storage = document.pointer("/storage/directory").and_then(Value::as_str);
        let said = match storage {
            Some(storage) => format!("storage.directory = {storage:?}"),
            None => format!("no storage.directory, which then is {STORAGE:?},"),
        };
        let files = document.pointer("/agent/config_files").and_then(Value::as_array);
        let files =
            files.into_iter().flatten().filter_map(Value::as_str).filter(|file| file.starts_with('/'));
        Self {
            effective: Path::new(storage.unwrap_or(STORAGE)).join("effective.yaml"),
            said,
            files: files.map(PathBuf::from).collect(),
        }
    }
}

/// The first of `configurations` that opens an endpoint says which.
fn health(configurations: &[PathBuf], variable: impl Fn(&str) -> Option<String>) -> Seen<Option<String>> {
    for path in configurations {
        let Ok(text) = regular::text(path) else { continue };
        if let Some(found) = health::endpoint(&text, &variable) {
            return Seen { value: Some(found.url), at: format!("{} in {}", found.said, path.display()) };
        }
    }
    let looked: Vec<_> = configurations.iter().map(|path| path.display().to_string()).collect();
    let at = if looked.is_empty() {
        "no configuration file of the collector that could be looked at".to_owned()
    } else {
        format!("no health endpoint in {}, or it could not be read", looked.join(", "))
    };
    Seen { value: None, at }
}

/// Collectors that run, whoever started them.
fn processes() -> Vec<(PathBuf, Option<Process>)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<(PathBuf, Option<Process>)> = Vec::new();
    for process in pids.filter_map(|pid| Process::with_pid(pid).ok()) {
        let Ok(path) = process.exe() else { continue };
        if is_named_so(&path) && path.is_file() && found.iter().all(|(known, _)| *known != path) {
            found.push((path, Some(process)));
        }
    }
    found
}

/// Collectors that are installed.
fn installed() -> Vec<PathBuf> {
    let entries = DIRECTORIES.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_named_so(path)).collect();
    found.sort();
    found
}

fn named(unit: &Unit, program: &Program) -> String {
    format!("{}, which is {}, runs {}", unit.name, unit.words(), program.path.display())
}

/// A unit's or a file's name as a service's.
fn service(name: &str) -> ServiceName {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).take(64).collect();
    name.trim_matches('-').parse().unwrap_or_default()
}
