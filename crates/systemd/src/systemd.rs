//! Asking systemd, through its own command.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{
    ask::{Answer, ask},
    error::{Action, SystemdError},
    name::UnitName,
    unit::{LoadState, PROPERTIES, Unit},
};

/// How long a question may take: systemd answers in milliseconds, a machine that boots is slower.
const QUESTION: Duration = Duration::from_secs(10);

/// The systemd of this machine.
#[derive(Debug, Clone)]
pub struct Systemd {
    systemctl: PathBuf,
    journalctl: PathBuf,
}

/// Which requests to stop a unit are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<'a> {
    /// Those that ended the run with this id.
    InRun(&'a str),
    /// Those since a moment of the wall clock, by which systemd's log is kept.
    Since(SystemTime),
}

impl Default for Systemd {
    fn default() -> Self {
        Self::new()
    }
}

impl Systemd {
    /// By the `systemctl` and the `journalctl` that the search path names.
    pub fn new() -> Self {
        Self { systemctl: PathBuf::from("systemctl"), journalctl: PathBuf::from("journalctl") }
    }

    /// By another `systemctl`, and by the `journalctl` beside it.
    pub fn with_program(systemctl: PathBuf) -> Self {
        let journalctl = systemctl.with_file_name("journalctl");
        Self { systemctl, journalctl }
    }

    /// All about a unit, by one call. That there is none, or that it is masked, is an answer: see
    /// [`Unit::load_state`], and [`Unit::startable`].
    ///
    /// # Errors
    /// Where there is no systemd, or it does not answer.
    pub async fn unit(&self, name: &UnitName) -> Result<Unit, SystemdError> {
        let properties = format!("--property={}", PROPERTIES.join(","));
        let answer = self.ask(Action::Show, &["show", &properties, "--", name.as_str()], QUESTION).await?;
        Unit::parse(&answer.stdout)
            .ok_or_else(|| SystemdError::Unknown { action: Action::Show, said: answer.said() })
    }

    /// Starts a unit and waits until that is done or `deadline` is over. A unit that runs is left alone.
    ///
    /// # Errors
    /// Where it cannot be started, or fails at it: then how it is afterwards. Where the deadline is over, the start
    /// goes on.
    pub async fn start(&self, name: &UnitName, deadline: Duration) -> Result<(), SystemdError> {
        self.job(Action::Start, name, deadline).await
    }

    /// As [`Systemd::start`], but what runs is stopped first. A unit that does not run is started.
    ///
    /// # Errors
    /// As for [`Systemd::start`].
    pub async fn restart(&self, name: &UnitName, deadline: Duration) -> Result<(), SystemdError> {
        self.job(Action::Restart, name, deadline).await
    }

    /// Stops a unit and waits until it is.
    ///
    /// # Errors
    /// As for [`Systemd::start`].
    pub async fn stop(&self, name: &UnitName, deadline: Duration) -> Result<(), SystemdError> {
        self.job(Action::Stop, name, deadline).await
    }

    /// Makes systemd forget that a unit failed, and how often it was started.
    ///
    /// # Errors
    /// Where it does not.
    pub async fn reset_failed(&self, name: &UnitName) -> Result<(), SystemdError> {
        let action = Action::ResetFailed;
        let answer = self.ask(action, &["reset-failed", "--", name.as_str()], QUESTION).await?;
        if answer.status.success() { Ok(()) } else { Err(self.why(action, name, &answer).await) }
    }

    /// Makes systemd read the files of all units again.
    ///
    /// # Errors
    /// Where it does not.
    pub async fn daemon_reload(&self) -> Result<(), SystemdError> {
        let action = Action::DaemonReload;
        // It reads every unit and runs every generator.
        let answer = self.ask(action, &["daemon-reload"], QUESTION * 9).await?;
        if answer.status.success() {
            return Ok(());
        }
        Err(SystemdError::Unknown { action, said: answer.said() })
    }

    /// Every service that is loaded or has a file, sorted; templates have no instance and are left out.
    ///
    /// # Errors
    /// Where there is no systemd, or it does not answer.
    pub async fn services(&self) -> Result<Vec<UnitName>, SystemdError> {
        let mut names = vec![];
        for list in [&["list-units", "--all"] as &[_], &["list-unit-files"]] {
            let shape = ["--type=service", "--no-legend", "--plain", "--full"];
            let answer = self.ask(Action::Show, &[list, &shape].concat(), QUESTION).await?;
            if !answer.status.success() {
                return Err(SystemdError::Unknown { action: Action::Show, said: answer.said() });
            }
            // Units that others only speak of are listed as well, as `not-found`.
            let lines = answer.stdout.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
            let there = lines.filter(|words| words.get(1).is_some_and(|state| *state != "not-found"));
            names.extend(there.filter_map(|words| words.first()?.parse::<UnitName>().ok()));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The last `lines` that a unit's program said since a moment of the wall clock, oldest first, over all of its runs.
    /// What a program says can hold secrets.
    ///
    /// # Errors
    /// Where there is no journalctl, or it does not answer.
    pub async fn said(
        &self,
        name: &UnitName,
        since: SystemTime,
        lines: u32,
    ) -> Result<Vec<String>, SystemdError> {
        let (count, since, unit) = (lines.to_string(), by_wall_clock(since), format!("_SYSTEMD_UNIT={name}"));
        let args = ["--no-pager", "--quiet", "--output=cat", "--lines", &count, &since, &unit];
        let answer = ask(&self.journalctl, args, Action::Journal, QUESTION).await?;
        if !answer.status.success() {
            return Err(SystemdError::Unknown { action: Action::Journal, said: answer.said() });
        }
        Ok(answer.stdout.lines().map(str::to_owned).collect())
    }

    /// Whether somebody asked for a unit to be stopped, as systemd wrote down. Tells a stop from a program that ended
    /// by itself without an error, which leave a unit in the same state.
    ///
    /// # Errors
    /// As for [`Systemd::said`].
    pub async fn was_asked_to_stop(&self, name: &UnitName, asked: Asked<'_>) -> Result<bool, SystemdError> {
        let (unit, mut args) =
            (format!("UNIT={name}"), vec!["--no-pager", "--quiet", "--output=cat", "--lines=1"]);
        let limit = match asked {
            Asked::InRun(invocation) => format!("INVOCATION_ID={invocation}"),
            Asked::Since(time) => by_wall_clock(time),
        };
        args.extend(["_PID=1", "JOB_TYPE=stop", &unit, &limit]);
        let answer = ask(&self.journalctl, args, Action::Journal, QUESTION).await?;
        if !answer.status.success() {
            return Err(SystemdError::Unknown { action: Action::Journal, said: answer.said() });
        }
        Ok(!answer.stdout.trim().is_empty())
    }

    /// Whether the machine is being shut down, so that all its units are stopped.
    ///
    /// # Errors
    /// Where there is no systemd, or it does not answer.
    pub async fn is_shutting_down(&self) -> Result<bool, SystemdError> {
        // Its exit code only says whether all is well.
        let answer = self.ask(Action::Show, &["is-system-running"], QUESTION).await?;
        Ok(answer.stdout.trim() == "stopping")
    }

    async fn job(&self, action: Action, name: &UnitName, deadline: Duration) -> Result<(), SystemdError> {
        let answer = self.ask(action, &[&action.to_string(), "--", name.as_str()], deadline).await?;
        if answer.status.success() { Ok(()) } else { Err(self.why(action, name, &answer).await) }
    }

    /// Asks; what no unit is the reason of is told apart here.
    async fn ask(&self, action: Action, args: &[&str], deadline: Duration) -> Result<Answer, SystemdError> {
        let args = ["--no-pager", "--no-ask-password"].iter().chain(args);
        let answer = ask(&self.systemctl, args, action, deadline).await?;
        let said = answer.said();
        let says =
            |words: &[&str]| !answer.status.success() && words.iter().any(|words| said.contains(words));
        if says(&[
            "not been booted with systemd",
            "Failed to connect to bus",
            "Transport endpoint is not connected",
        ]) {
            return Err(SystemdError::NotBooted { action, said });
        }
        if says(&["Access denied", "Permission denied", "authentication required", "Operation not permitted"])
        {
            return Err(SystemdError::Denied { action, said });
        }
        Ok(answer)
    }

    /// Why a request came to nothing: the unit's own state says more than the words.
    async fn why(&self, action: Action, name: &UnitName, answer: &Answer) -> SystemdError {
        let unit = match self.unit(name).await {
            Ok(unit) => unit,
            Err(error) => return error,
        };
        let said = answer.said();
        match unit.startable() {
            Err(error) => error,
            Ok(()) if said.contains("canceled") => {
                SystemdError::Canceled { unit: name.clone(), action, said }
            }
            Ok(()) if said.starts_with("Job for") => SystemdError::Failed { unit: Box::new(unit), action },
            Ok(()) => SystemdError::Unknown { action, said },
        }
    }
}

impl Unit {
    /// Whether systemd could start it at all.
    ///
    /// # Errors
    /// Where it is missing, masked or cannot be read.
    pub fn startable(&self) -> Result<(), SystemdError> {
        let unit = self.name.clone();
        match &self.load_state {
            LoadState::Loaded | LoadState::Other(_) => Ok(()),
            LoadState::NotFound => Err(SystemdError::NotFound { unit }),
            LoadState::Masked => Err(SystemdError::Masked { unit }),
            LoadState::Bad => Err(SystemdError::Bad { unit, said: self.load_error.clone() }),
        }
    }
}

fn by_wall_clock(since: SystemTime) -> String {
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("--since=@{}.{:06}", since.as_secs(), since.subsec_micros())
}
