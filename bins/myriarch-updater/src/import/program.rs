//! Which collector a unit runs, and what names it: the unit itself, or the configuration of its supervisor.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use myriarch_probe::process::Process;
use myriarch_systemd::{EnvironmentFile, StartCommand, Unit};
use myriarch_update::regular;

use super::supervisor_file;
pub(crate) use super::supervisor_file::expanded;
use crate::accounts;

/// A collector that a unit runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its file, links not followed.
    pub(crate) path: PathBuf,
    pub(crate) named: Named,
}

/// What names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// `ExecStart=`.
    Unit,
    /// `agent.executable` of a supervisor's configuration.
    Supervisor {
        /// Its file, links followed.
        configuration: PathBuf,
        /// What it says.
        text: String,
    },
    /// An environment variable of the supervisor's, to which `agent.executable` refers.
    Variable {
        /// Its name.
        name: String,
        /// The `EnvironmentFile=` that sets it, if one does.
        file: Option<PathBuf>,
    },
}

/// It cannot be told.
#[derive(Debug)]
pub(crate) enum ProgramError {
    /// The unit or the configuration says something that is not understood.
    Unclear {
        /// What was expected and what was found.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// A file could not be read.
    Unreadable {
        /// It.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ProgramError {
    /// What is wrong, and what to do.
    pub(crate) fn words(&self) -> (String, String) {
        match self {
            Self::Unclear { reason, hint } => (reason.clone(), (*hint).to_owned()),
            Self::Unreadable { path, source } => {
                (format!("{}: {source}", path.display()), "run as root, or check the path".to_owned())
            }
        }
    }
}

impl Program {
    /// Reads it off `unit` and, where it runs, off its process.
    pub(crate) fn of(unit: &Unit) -> Result<Self, ProgramError> {
        let [command] = unit.exec_start.as_slice() else {
            return Err(ProgramError::Unclear {
                reason: format!("{}: expected one ExecStart=, found {}", unit.name, unit.exec_start.len()),
                hint: "a unit that runs several programs cannot be imported",
            });
        };
        let Some(configuration) = supervisor_configuration(unit)? else {
            return Ok(Self { path: command.path.clone(), named: Named::Unit });
        };
        let unreadable = |source| ProgramError::Unreadable { path: configuration.clone(), source };
        let text = regular::text(&configuration).map_err(unreadable)?;
        let configuration = fs::canonicalize(&configuration).map_err(unreadable)?;
        let Some(executable) = supervisor_file::executable(&text) else {
            return Err(ProgramError::Unclear {
                reason: format!("{}: expected agent.executable, found none", configuration.display()),
                hint: "it must name the collector, as a text on one line",
            });
        };
        let value = executable.value.clone();
        let expanded = supervisor_file::expanded(&value, |name| variable(unit, name));
        if !expanded.starts_with('/') {
            return Err(ProgramError::Unclear {
                reason: format!(
                    "{}: agent.executable: expected an absolute path, found {expanded:?}",
                    configuration.display()
                ),
                hint: "name the collector by an absolute path",
            });
        }
        let named = match supervisor_file::variable(&value) {
            Some(name) => Named::Variable { name: name.to_owned(), file: file_setting(unit, name) },
            None => Named::Supervisor { configuration, text },
        };
        Ok(Self { path: expanded.into(), named })
    }
}

/// The configuration of the supervisor that `unit` runs; none where it runs something else.
pub(crate) fn supervisor_configuration(unit: &Unit) -> Result<Option<PathBuf>, ProgramError> {
    let name = unit.exec_start.first().and_then(|command| command.path.file_name());
    let is_supervisor = name.is_some_and(|name| name.to_string_lossy().contains("opampsupervisor"));
    match configuration_of(unit) {
        Some(path) if is_supervisor => Ok(Some(path)),
        Some(path) => {
            // A supervisor under another name is known by what its configuration says.
            let text = regular::text(&path).unwrap_or_default();
            Ok(supervisor_file::executable(&text).is_some().then_some(path))
        }
        None if is_supervisor => Err(ProgramError::Unclear {
            reason: format!(
                "{}: expected --config FILE among the supervisor's arguments, found none",
                unit.name
            ),
            hint: "name its configuration in ExecStart=",
        }),
        None => Ok(None),
    }
}

/// The one file that `--config` names.
pub(crate) fn configuration_of(unit: &Unit) -> Option<PathBuf> {
    let named = named_by(&arguments(unit))?;
    let here = unit.surroundings.working_directory.as_deref().unwrap_or("/");
    Some(Path::new(here.trim_start_matches(['!', '-'])).join(named))
}

/// The arguments of the process that runs; of the unit where none does.
pub(crate) fn arguments(unit: &Unit) -> Vec<String> {
    let lossy = |argument: OsString| argument.to_string_lossy().into_owned();
    let running = unit.main_pid.and_then(|pid| Process::with_pid(pid).ok()?.args().ok());
    let shown = || unit.exec_start.first().map(|command| command.argv.clone()).unwrap_or_default();
    match (running, started(unit)) {
        (Some(arguments), _) => arguments.into_iter().skip(1).map(lossy).collect(),
        (None, Some(start)) => start.arguments,
        (None, None) => shown().into_iter().skip(1).collect(),
    }
}

/// The start that systemd would make now; none where it would make none.
fn started(unit: &Unit) -> Option<StartCommand> {
    let home = accounts::of_unit(unit).ok().flatten().and_then(|credentials| accounts::home(credentials.uid));
    unit.start_command(accounts::variables(unit, home.as_deref())).ok().flatten()
}

pub(crate) fn named_by(arguments: &[String]) -> Option<String> {
    let mut found = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(name) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else { continue };
        match name.strip_prefix("config") {
            Some("") => found.extend(rest.next().cloned()),
            Some(value) => found.extend(value.strip_prefix('=').map(str::to_owned)),
            None => {}
        }
    }
    let [named] = found.as_slice() else { return None };
    let path = named.strip_prefix("file:").unwrap_or(named);
    let scheme = path.split_once(':').is_some_and(|(scheme, _)| scheme.len() > 1 && !scheme.contains('/'));
    (!scheme).then(|| path.to_owned())
}

/// A variable of the unit's environment: of the process that runs, or as its files say.
pub(crate) fn variable(unit: &Unit, name: &str) -> Option<String> {
    let environment = unit.main_pid.and_then(|pid| Process::with_pid(pid).ok()?.environment().ok());
    if let Some(environment) = environment {
        let found = environment.into_iter().find(|(known, _)| *known == *name);
        return found.map(|(_, value)| value.to_string_lossy().into_owned());
    }
    if let Some(start) = started(unit) {
        return start.environment.get(name).cloned();
    }
    let environment = unit.surroundings.environment.iter();
    environment.rev().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

/// The last `EnvironmentFile=` that sets `name`.
fn file_setting(unit: &Unit, name: &str) -> Option<PathBuf> {
    let mut files = unit.surroundings.environment_files.iter().rev();
    let sets = |file: &&EnvironmentFile| {
        file.assignments().is_ok_and(|found| found.iter().any(|(known, _)| known == name))
    };
    files.find(sets).map(|file| file.path.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_configuration_file_is_found_in_every_spelling() {
        let found = |words: &[&str]| named_by(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        for words in
            [&["--config", "/a.yaml"][..], &["-config=/a.yaml"], &["x", "--config=file:/a.yaml", "y"]]
        {
            assert_eq!(found(words).as_deref(), Some("/a.yaml"), "{words:?}");
        }
        for words in [&["--config", "a", "--config", "b"][..], &["--config=env:A"], &["--configure=/a"], &[]]
        {
            assert_eq!(found(words), None, "{words:?}");
        }
    }
}
