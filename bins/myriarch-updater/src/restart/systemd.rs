//! Restart of a unit of systemd's.
//!
//! systemd starts the program, restarts it when it ends, and may be asked by others at any time. So after a restart
//! of ours the unit is looked at four times a second, and what it does is told apart by the id that each run has and
//! by the count of restarts that systemd made by itself:
//!
//! - another run, counted: the program ended by itself;
//! - another run, not counted: somebody else restarted it;
//! - no run and a failure: the program ended by itself, unless memory ran out or it was killed from outside, or
//!   somebody stopped it and it ended with an error then. systemd's log tells;
//! - no run and no failure: somebody stopped it, or it ended by itself without an error. Only systemd's log tells.
//!
//! That a unit is active is never taken for healthy, and a failure that was there before ours is never reset.

use std::{
    mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use myriarch_systemd::{ActiveState, Asked, Ended as Exit, Systemd, SystemdError, Unit, UnitName};
use myriarch_update::{AtRest, Ended, Event, Found, NotReady, Observe, Restart, RestartError, StartedBy};
use tokio::time::{Instant, sleep};

use super::through_current::another;
use crate::accounts;

/// Between two looks at a unit on trial. One takes 19 ms of systemd and systemctl together.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often systemd's log is looked at for a request to stop.
const LOG_LOOKS: u32 = 5;
/// How long a restart may take where the unit's own files set no limit.
const WITHOUT_LIMIT: Duration = Duration::from_secs(90);
/// The longest restart that is waited for, whatever the unit's files allow.
const LONGEST: Duration = Duration::from_mins(10);
/// What a restart may take beyond the limits of the unit's own stop and start.
const SLACK: Duration = Duration::from_secs(10);

/// What to do about a unit that starts something else.
const NOT_IMPORTED: &str = "`import` makes it start the program through `current`, and `import --dry-run` shows how; where it was imported already, `doctor` says what wins over that";

/// What to do about a user that this machine's files do not know.
const UNKNOWN_ACCOUNT: &str = "set validate.user by number, and validate.group: `systemctl show` and `id` tell them; or start the unit, so that its process tells";

/// A unit in the hands of the chain.
#[derive(Debug)]
pub(crate) struct SystemdRestart {
    systemd: Systemd,
    unit: UnitName,
    timeout: Option<Duration>,
    /// The collector's path through `current`: a unit that starts something else starts a supervisor.
    program: PathBuf,
    observe: Arc<dyn Observe>,
    known: Mutex<Known>,
}

/// What is known of the unit from what we did.
#[derive(Debug, Default)]
struct Known {
    /// The run that is watched.
    run: Option<Run>,
    /// Whether a failed state is of our doing, so that it may be reset.
    failure: Failure,
    /// How the unit was when an update began; forgotten with our first restart.
    before: Before,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    /// It did not run, or nobody looked.
    #[default]
    AtRest,
    /// It ran.
    Ran,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    invocation: String,
    pid: Option<u32>,
    /// Restarts that systemd had made by itself when the watch began.
    restarts: u32,
    /// When it began, by the wall clock as systemd's log is kept.
    since: SystemTime,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Failure {
    /// It was there before.
    #[default]
    Foreign,
    /// It came by a trial.
    Ours,
}

impl SystemdRestart {
    pub(crate) fn new(
        systemd: Systemd,
        unit: UnitName,
        timeout: Option<Duration>,
        program: PathBuf,
        observe: Arc<dyn Observe>,
    ) -> Self {
        Self { systemd, unit, timeout, program, observe, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, words: String) {
        self.observe.observe(&Event::Notice { words });
    }

    /// A unit that could be started at all.
    async fn startable(&self) -> Result<Unit, SystemdError> {
        let unit = self.systemd.unit(&self.unit).await?;
        unit.startable()?;
        Ok(unit)
    }

    fn deadline(&self, unit: &Unit) -> Duration {
        self.timeout.unwrap_or_else(|| match (unit.timeout_stop, unit.timeout_start) {
            (Some(stop), Some(start)) => (stop + start + SLACK).min(LONGEST),
            _ => WITHOUT_LIMIT,
        })
    }

    /// Nothing is done to a unit that is known to start something else than our program.
    fn is_ours(&self, unit: &Unit) -> Result<(), RestartError> {
        match another(unit, &self.program) {
            Ok(Some(found)) => Err(RestartError::Surroundings { reason: self.starts_another(&found) }),
            // Where it cannot be told it was told before the trial.
            Ok(None) | Err(_) => Ok(()),
        }
    }

    fn starts_another(&self, found: &Path) -> String {
        format!(
            "{}: expected a unit that starts {}, found one that starts {}",
            self.unit,
            self.program.display(),
            found.display()
        )
    }

    async fn restart_unit(&self) -> Result<(), RestartError> {
        let mut before = self.startable().await.map_err(|error| self.surroundings(&error))?;
        self.is_ours(&before)?;
        let ran = mem::take(&mut self.known().before) == Before::Ran;
        if ran {
            // A restart would take the place of a stop that is under way.
            before = self.at_rest_or_running().await.unwrap_or(before);
            if self.is_at_rest(&before).await {
                let reason =
                    format!("{} was stopped by somebody else while the update was made ready", self.unit);
                return Err(RestartError::Stopped { reason });
            }
        }
        let failed = before.active_state == ActiveState::Failed;
        if failed && self.known().failure == Failure::Ours {
            self.systemd.reset_failed(&self.unit).await.map_err(|error| self.surroundings(&error))?;
        }
        let since = SystemTime::now();
        let mut restarted = self.systemd.restart(&self.unit, self.deadline(&before)).await;
        // It ran, and only we asked for one start too many.
        if !failed
            && matches!(&restarted, Err(SystemdError::Failed { unit, .. }) if unit.result == "start-limit-hit")
        {
            self.systemd.reset_failed(&self.unit).await.map_err(|error| self.surroundings(&error))?;
            restarted = self.systemd.restart(&self.unit, self.deadline(&before)).await;
        }
        match restarted {
            Ok(()) => {}
            // Whoever asked for something else has it: a restart is watched like ours.
            Err(SystemdError::Canceled { .. }) => {
                let now = self.at_rest_or_running().await;
                if now.is_some_and(|unit| unit.active_state == ActiveState::Inactive) {
                    let reason = format!("{} was stopped by somebody else while it was restarted", self.unit);
                    return Err(RestartError::Stopped { reason });
                }
            }
            Err(SystemdError::Failed { unit, .. }) if is_refused(&before, &unit) => {
                return Err(RestartError::Surroundings {
                    reason: format!(
                        "{}: it was {} before the update, and systemd refuses another start; `systemctl reset-failed {}` allows it",
                        self.unit,
                        before.words(),
                        self.unit
                    ),
                });
            }
            Err(error @ SystemdError::Failed { .. }) => {
                self.known().failure = Failure::Ours;
                return Err(self.judged(&error));
            }
            Err(error @ SystemdError::TimedOut { .. }) => {
                self.known().failure = Failure::Ours;
                let now = self.systemd.unit(&self.unit).await.ok();
                return Err(self.too_long(&before, now.as_ref(), &error));
            }
            Err(error) => return Err(self.surroundings(&error)),
        }
        let now = self.systemd.unit(&self.unit).await.map_err(|error| self.surroundings(&error))?;
        let mut known = self.known();
        known.failure = Failure::Ours;
        // A start that somebody asks for sets the count to nothing: whatever it says by now came after ours.
        known.run = Some(Run { restarts: 0, since, ..Run::of(&now) });
        Ok(())
    }

    /// Whose fault a start is that systemd made and that failed.
    fn judged(&self, error: &SystemdError) -> RestartError {
        let SystemdError::Failed { unit, .. } = error else { return self.surroundings(error) };
        let reason = format!("{error}");
        match by(unit) {
            By::Itself if !unit.ended.is_some_and(Exit::is_before_the_program) => {
                RestartError::Program { reason }
            }
            _ => RestartError::Surroundings { reason },
        }
    }

    /// Whose fault a restart is that was waited for as long as it may take. Until the run before has ended the program
    /// was not started.
    fn too_long(&self, before: &Unit, now: Option<&Unit>, error: &SystemdError) -> RestartError {
        let reason = format!("{}: {error}", self.unit);
        match now {
            Some(now) if is_another_run(before, now) => RestartError::Program { reason },
            Some(now) => RestartError::Surroundings {
                reason: format!("{reason}; what ran before has not ended, the unit is {}", now.words()),
            },
            None => RestartError::Surroundings { reason },
        }
    }

    fn surroundings(&self, error: &SystemdError) -> RestartError {
        self.say(format!("{}: hint: {}", self.unit, error.hint()));
        RestartError::Surroundings { reason: error.to_string() }
    }

    /// What has become of the run that is watched; none while it runs, and where that cannot be known now.
    async fn become_of_it(&self) -> Option<Ended> {
        let run = self.known().run.clone()?;
        let unit = self.at_rest_or_running().await?;
        let name = &self.unit;
        match unit.active_state {
            ActiveState::Active if unit.invocation_id == run.invocation && unit.main_pid == run.pid => None,
            ActiveState::Active | ActiveState::Activating if unit.restarts > run.restarts => {
                let times = unit.restarts - run.restarts;
                let restarted = format!("systemd has restarted {name} {times} times since");
                Some(Ended::ByItself(match unit.ended {
                    Some(ended) => format!("{ended}; {restarted}"),
                    None => restarted,
                }))
            }
            ActiveState::Activating if unit.sub_state.starts_with("auto-restart") => {
                Some(Ended::ByItself(format!("{name} is {}", unit.words())))
            }
            ActiveState::Active
            | ActiveState::Activating
            | ActiveState::Other(_)
            | ActiveState::Deactivating => {
                self.known().run = Some(Run::of(&unit));
                if unit.invocation_id == run.invocation && unit.main_pid == run.pid {
                    return None;
                }
                Some(Ended::Restarted(format!("{name} was restarted by somebody else")))
            }
            // A program that ends with an error when it is told to stop leaves its unit failed.
            ActiveState::Failed => match self.why_not_running(&unit).await {
                NotRunning::ShutDown => None,
                NotRunning::Stopped => Some(Ended::Stopped(self.stopped_words(&unit))),
                NotRunning::Unasked => Some(self.failed(&unit)),
            },
            ActiveState::Inactive => self.stopped_or_over(&unit, &run).await,
        }
    }

    /// The unit when it is neither being stopped nor about to be started, or after as long as that may take.
    async fn at_rest_or_running(&self) -> Option<Unit> {
        let began = Instant::now();
        loop {
            let unit = self.systemd.unit(&self.unit).await.ok()?;
            let between = matches!(unit.active_state, ActiveState::Deactivating)
                || (unit.job.is_some() && unit.active_state != ActiveState::Active);
            if !between || began.elapsed() > self.deadline(&unit) {
                return Some(unit);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn failed(&self, unit: &Unit) -> Ended {
        let words = format!("{} is {}", self.unit, unit.words());
        match by(unit) {
            By::Itself => Ended::ByItself(words),
            By::Surroundings => Ended::BySurroundings(words),
            By::Stop => Ended::Stopped(format!("{words}: somebody else asked for its stop")),
        }
    }

    /// A unit that restarts whatever ends is inactive only if it was stopped; of another systemd's log tells.
    async fn stopped_or_over(&self, unit: &Unit, run: &Run) -> Option<Ended> {
        // When the machine goes down all units are stopped. So are we, and the trial stays open.
        if self.is_shutting_down().await {
            return None;
        }
        let stopped = Ended::Stopped(format!("{} was stopped by somebody else", self.unit));
        if unit.restart == "always" || unit.restart == "on-success" {
            return Some(stopped);
        }
        let asked = match run.invocation.as_str() {
            // It was over, and forgotten, before it was seen to run.
            "" => Asked::Since(run.since),
            invocation => Asked::InRun(invocation),
        };
        Some(match self.was_asked_to_stop(asked).await {
            Some(true) => stopped,
            Some(false) => {
                Ended::ByItself(format!("{} ended without an error and is not restarted", self.unit))
            }
            None => Ended::ByItself(format!("{} does not run any more", self.unit)),
        })
    }

    /// Why a unit that is failed does not run, as far as it is not its program's doing.
    async fn why_not_running(&self, unit: &Unit) -> NotRunning {
        if self.is_shutting_down().await {
            return NotRunning::ShutDown;
        }
        let asked = match unit.invocation_id.as_str() {
            "" => None,
            invocation => self.was_asked_to_stop(Asked::InRun(invocation)).await,
        };
        if asked == Some(true) { NotRunning::Stopped } else { NotRunning::Unasked }
    }

    fn stopped_words(&self, unit: &Unit) -> String {
        format!("{} was stopped by somebody else, and is {}", self.unit, unit.words())
    }

    async fn is_shutting_down(&self) -> bool {
        self.systemd.is_shutting_down().await.unwrap_or(false)
    }

    /// What systemd's log says of it; none where it cannot be read.
    async fn was_asked_to_stop(&self, asked: Asked<'_>) -> Option<bool> {
        // What systemd wrote a moment ago may not be in its log yet.
        for _ in 0..LOG_LOOKS {
            match self.systemd.was_asked_to_stop(&self.unit, asked).await {
                Ok(true) => return Some(true),
                Ok(false) => sleep(LOOK_EVERY).await,
                Err(error) => {
                    self.say(format!("whether {} was stopped cannot be seen: {error}", self.unit));
                    return None;
                }
            }
        }
        Some(false)
    }

    /// Whether it does not run because somebody stopped it or nobody started it.
    async fn is_at_rest(&self, unit: &Unit) -> bool {
        match unit.active_state {
            ActiveState::Inactive => unit.job.is_none(),
            ActiveState::Failed => !matches!(self.why_not_running(unit).await, NotRunning::Unasked),
            _ => false,
        }
    }
}

#[async_trait]
impl Restart for SystemdRestart {
    async fn restart(&self, _program: &Path) -> Result<(), RestartError> {
        self.restart_unit().await
    }

    async fn stop(&self) -> Result<(), RestartError> {
        self.known().run = None;
        let unit = self.systemd.unit(&self.unit).await.map_err(|error| self.surroundings(&error))?;
        self.is_ours(&unit)?;
        let deadline = self.deadline(&unit);
        self.systemd.stop(&self.unit, deadline).await.map_err(|error| self.surroundings(&error))
    }

    async fn ended(&self) -> Ended {
        loop {
            if let Some(ended) = self.become_of_it().await {
                return ended;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&self) -> Option<Ended> {
        self.become_of_it().await
    }

    async fn ready(&self) -> Result<(), NotReady> {
        {
            let mut known = self.known();
            *known = Known::default();
        }
        let unit = self
            .startable()
            .await
            .map_err(|error| NotReady { reason: error.to_string(), hint: error.hint() })?;
        match another(&unit, &self.program) {
            Ok(None) => {
                if !matches!(unit.active_state, ActiveState::Inactive | ActiveState::Failed) {
                    self.known().before = Before::Ran;
                }
                Ok(())
            }
            Ok(Some(found)) => {
                Err(NotReady { reason: self.starts_another(&found), hint: NOT_IMPORTED.to_owned() })
            }
            Err(error) => {
                let (reason, hint) = error.words();
                Err(NotReady { reason, hint })
            }
        }
    }

    async fn find(&self) -> Found {
        {
            let mut known = self.known();
            (known.failure, known.before) = (Failure::Ours, Before::AtRest);
        }
        let Some(unit) = self.at_rest_or_running().await else { return Found::Unknown };
        match unit.active_state {
            ActiveState::Failed => match self.why_not_running(&unit).await {
                NotRunning::ShutDown | NotRunning::Stopped => Found::Stopped(self.stopped_words(&unit)),
                NotRunning::Unasked => Found::Failed(self.failed(&unit)),
            },
            ActiveState::Inactive => Found::Stopped(format!("{} does not run", self.unit)),
            ActiveState::Activating if unit.sub_state.starts_with("auto-restart") => {
                Found::Failed(Ended::ByItself(format!("{} is {}", self.unit, unit.words())))
            }
            _ => {
                self.known().run = Some(Run::of(&unit));
                Found::Running
            }
        }
    }

    async fn is_stopped(&self) -> bool {
        match self.systemd.unit(&self.unit).await {
            Ok(unit) => self.is_at_rest(&unit).await,
            Err(_) => false,
        }
    }

    async fn at_rest(&self) -> Option<AtRest> {
        let unit = match self.systemd.unit(&self.unit).await {
            Ok(unit) => unit,
            // Root is not what is left where nobody knows whom it runs as.
            Err(error) => {
                let unknown = NotReady { reason: error.to_string(), hint: error.hint() };
                return Some(AtRest { unknown_account: Some(unknown), ..AtRest::default() });
            }
        };
        let (credentials, unknown_account) = match accounts::of_unit(&unit) {
            Ok(credentials) => (credentials, None),
            Err(unknown) => {
                let reason = format!("{}: {unknown}", self.unit);
                (None, Some(NotReady { reason, hint: UNKNOWN_ACCOUNT.to_owned() }))
            }
        };
        let home = credentials.as_ref().and_then(|who| accounts::home(who.uid));
        let working_directory = accounts::working_directory(&unit, home.as_deref());
        let start = match unit.start_command(accounts::variables(&unit, home.as_deref())) {
            Ok(start) => start?,
            Err(error) => {
                self.say(error.to_string());
                return Some(AtRest { credentials, unknown_account, working_directory, ..AtRest::default() });
            }
        };
        let supervised = start.path != self.program;
        Some(AtRest {
            configuration: None,
            arguments: if supervised {
                vec![]
            } else {
                start.arguments.into_iter().map(Into::into).collect()
            },
            environment: Some(
                start.environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            ),
            working_directory,
            credentials,
            unknown_account,
            started_by: if supervised { StartedBy::Supervisor } else { StartedBy::Keeper },
        })
    }
}

impl Run {
    fn of(unit: &Unit) -> Self {
        let invocation = unit.invocation_id.clone();
        Self { invocation, pid: unit.main_pid, restarts: unit.restarts, since: SystemTime::now() }
    }
}

/// Why a unit that is failed does not run.
enum NotRunning {
    /// The machine goes down.
    ShutDown,
    /// Somebody asked for its stop.
    Stopped,
    /// Nobody did.
    Unasked,
}

/// Whose doing a failure is.
enum By {
    Itself,
    Surroundings,
    Stop,
}

fn by(unit: &Unit) -> By {
    match (unit.result.as_str(), unit.ended) {
        // Nothing kills itself by SIGKILL; where memory ran out, older systems say no more than that.
        ("oom-kill" | "resources" | "exec-condition" | "start-limit-hit", _)
        | ("signal", Some(Exit::Killed(9))) => By::Surroundings,
        // Once it ran, only a stop has a limit.
        ("timeout", _) if unit.sub_state == "failed" && unit.service_type == "simple" => By::Stop,
        _ => By::Itself,
    }
}

/// Whether what ran before is over and another start was made.
fn is_another_run(before: &Unit, now: &Unit) -> bool {
    now.active_state != ActiveState::Deactivating
        && !now.invocation_id.is_empty()
        && now.invocation_id != before.invocation_id
}

/// Whether systemd did not even begin: the unit is as it was, held by its start limit.
fn is_refused(before: &Unit, after: &Unit) -> bool {
    before.active_state == ActiveState::Failed
        && after.active_state == ActiveState::Failed
        && before.invocation_id == after.invocation_id
}
