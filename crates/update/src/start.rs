//! How the program is started: read from the running one; where none runs, told by the configuration, and for what
//! that does not say by whoever keeps the program.
//!
//! A candidate is only validated honestly in the surroundings that it will run in: the same arguments,
//! environment, working directory, user and groups.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use myriarch_probe::{
    exec::{Credentials, Environment},
    process::Process,
};
use myriarch_store::{FileId, Slot, running};

use crate::{
    chain::{AtRest, StartedBy, Updater},
    effective,
    ports::NotReady,
};

/// The supervisor's name as the kernel tells it, which is at most 15 bytes.
const SUPERVISOR: &str = "opampsupervisor";

/// Arguments and surroundings of the program.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// The running process that told; none where the configuration did.
    pub(crate) pid: Option<u32>,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Environment,
    pub(crate) working_directory: Option<PathBuf>,
    pub(crate) credentials: Option<Credentials>,
    /// Why they cannot be told.
    pub(crate) unknown_account: Option<NotReady>,
    /// Who starts it, as far as that is told where nothing runs.
    started_by: StartedBy,
}

impl Updater {
    /// What the running program tells; what the configuration tells where nothing runs.
    ///
    /// The process that answers for the program's health is asked first; another one that runs the same file
    /// counts only if it is ours or root's, for anybody may start a program that anybody can read.
    pub(crate) async fn start_of(&self, current: Option<&Slot>) -> Start {
        self.start_of_file(current.and_then(|slot| slot.file_id().ok())).await
    }

    /// As [`Updater::start_of`], for a program that may be in no slot.
    pub(crate) async fn start_of_file(&self, file: Option<FileId>) -> Start {
        let answering = match file {
            Some(file) => self.settings.probe.who((file.dev, file.ino)).await,
            None => None,
        };
        if let Some(start) = answering.and_then(|process| read(&process).ok()) {
            return start;
        }
        let told = self.settings.validation.at_rest.clone();
        let at_rest = at_rest(&match self.ports.restart.at_rest().await {
            Some(kept) => told.over(kept),
            None => told,
        });
        let running = file.and_then(|file| running_start(file, at_rest.credentials.as_ref()));
        running.unwrap_or(at_rest)
    }
}

/// Prefers the process that was started with a configuration: others are moments of a `--version`.
fn running_start(file: FileId, told: Option<&Credentials>) -> Option<Start> {
    let pids = running::processes_running(file).ok()?;
    let trusted = [Some(0), Some(rustix::process::geteuid().as_raw()), told.map(|told| told.uid)];
    let mut starts: Vec<Start> = pids
        .into_iter()
        .filter_map(|pid| read(&Process::with_pid(pid).ok()?).ok())
        .filter(|start| trusted.contains(&start.credentials.as_ref().map(|credentials| credentials.uid)))
        .collect();
    let best = starts.iter().position(|start| effective::named_by(&start.arguments).is_some()).unwrap_or(0);
    (best < starts.len()).then(|| starts.swap_remove(best))
}

fn read(process: &Process) -> std::io::Result<Start> {
    Ok(Start {
        pid: Some(process.pid()),
        arguments: process.args()?.into_iter().skip(1).collect(),
        environment: Environment::Exactly(process.environment()?),
        working_directory: Some(process.cwd()?),
        credentials: Some(process.credentials()?),
        unknown_account: None,
        started_by: StartedBy::Keeper,
    })
}

pub(crate) fn at_rest(told: &AtRest) -> Start {
    let configuration = told.configuration.iter().flat_map(|path| ["--config".into(), path.clone().into()]);
    Start {
        pid: None,
        arguments: configuration.chain(told.arguments.iter().cloned()).collect(),
        environment: told.environment.clone().map_or(Environment::Inherit, Environment::Exactly),
        working_directory: told.working_directory.clone(),
        credentials: told.credentials.clone(),
        unknown_account: told.unknown_account.clone(),
        started_by: told.started_by,
    }
}

impl AtRest {
    /// What is said here, and `kept` where nothing is.
    fn over(self, kept: Self) -> Self {
        let says_arguments = self.configuration.is_some() || !self.arguments.is_empty();
        let (configuration, arguments) = if says_arguments {
            (self.configuration, self.arguments)
        } else {
            (kept.configuration, kept.arguments)
        };
        let said = self.environment.unwrap_or_default();
        let mut environment = kept.environment.unwrap_or_default();
        environment.retain(|(name, _)| said.iter().all(|(other, _)| other != name));
        environment.extend(said);
        Self {
            configuration,
            arguments,
            environment: Some(environment),
            working_directory: self.working_directory.or(kept.working_directory),
            unknown_account: kept.unknown_account.filter(|_| self.credentials.is_none()),
            credentials: self.credentials.or(kept.credentials),
            started_by: kept.started_by,
        }
    }
}

impl Start {
    /// Whether an OpAMP Supervisor starts it: by the name of its parent, or as whoever keeps it tells.
    pub(crate) fn is_supervised(&self) -> bool {
        if self.pid.is_none() {
            return self.started_by == StartedBy::Supervisor;
        }
        let status = self.pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
        let parent =
            status.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("PPid:")));
        let name = parent.and_then(|pid| fs::read_to_string(format!("/proc/{}/comm", pid.trim())).ok());
        name.is_some_and(|name| name.trim_end() == SUPERVISOR)
    }

    /// The one configuration file named by the arguments, absolute.
    pub(crate) fn configuration(&self) -> Option<PathBuf> {
        let named = effective::named_by(&self.arguments)?;
        Some(self.working_directory.as_deref().unwrap_or(Path::new("/")).join(named))
    }

    /// The arguments with the one configuration file replaced by `copy`.
    pub(crate) fn arguments_with(&self, copy: &Path) -> Vec<OsString> {
        let named = effective::named_by(&self.arguments);
        let mut arguments = vec![OsString::from("--config"), copy.into()];
        let mut rest = self.arguments.iter();
        while let Some(argument) = rest.next() {
            match effective::flag(argument) {
                Some(effective::Flag::Separate) if named.is_some() => drop(rest.next()),
                Some(effective::Flag::Joined(_)) if named.is_some() => {}
                _ => arguments.push(argument.clone()),
            }
        }
        arguments
    }
}

/// Shown in messages.
pub(crate) fn shown(arguments: &[OsString]) -> String {
    arguments.iter().map(|argument| OsStr::to_string_lossy(argument)).collect::<Vec<_>>().join(" ")
}
