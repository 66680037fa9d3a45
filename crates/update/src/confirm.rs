//! Confirm: the candidate proves itself, or is left and the last known good runs again.
//!
//! Whose fault a failed trial is, is decided last, when the previous build has been judged as well: where that
//! one is not healthy either, where nothing was healthy before, or where memory or disk ran out, the
//! surroundings are to blame and nothing is quarantined.

use std::{path::Path, time::Duration};

use myriarch_probe::{Phase, Probe, Reading, Verdict};
use myriarch_store::Slot;

use crate::{
    activate::OnTrial,
    build::Build,
    chain::{Error, Updater, with_causes},
    effective,
    event::{Event, millis},
    excerpt::Excerpt,
    journal::{Entry, Leaving, Took},
    outcome::{Fault, Outcome, RolledBack},
    ports::{Ended, RestartError},
    redact::Redactor,
    regular,
    resume::{WayBack, runs},
};

/// How what ran before the trial was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Baseline {
    /// It was healthy.
    Healthy,
    /// It was not, for this reason.
    Unhealthy(String),
    /// There was nothing to judge.
    Nothing,
}

impl Baseline {
    /// As the journal tells it.
    pub(crate) fn told(healthy: bool) -> Self {
        if healthy { Self::Healthy } else { Self::Unhealthy("as the journal says".to_owned()) }
    }

    /// What it says for a build that fails after it.
    pub(crate) fn excuse(&self) -> Option<String> {
        match self {
            Self::Healthy => None,
            Self::Unhealthy(seen) => Some(format!("what ran before was not healthy either: {seen}")),
            Self::Nothing => Some("nothing ran before that could be compared".to_owned()),
        }
    }

    pub(crate) fn is_healthy(&self) -> bool {
        *self == Self::Healthy
    }
}

/// How a judgement begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// By a restart.
    Start,
    /// With what was found running.
    AsFound,
}

/// Readings that a baseline gets to show itself healthy: one bad answer is not an outage.
const BASELINE_READINGS: u32 = 3;

/// Starts that the previous build gets on the way back.
const RETURN_STARTS: u32 = 3;

/// How often a soak begins anew because somebody else restarted the program.
const FOREIGN_RESTARTS: u32 = 5;

impl Updater {
    /// Judges and tells nobody yet: what was seen may have to be redacted first.
    pub(crate) async fn judge_baseline(&self, current: Option<&Slot>) -> Baseline {
        let Some(file) = current.and_then(|slot| slot.file_id().ok()) else { return Baseline::Nothing };
        let mut last = String::new();
        for reading in 0..BASELINE_READINGS {
            if reading > 0 {
                tokio::time::sleep(self.settings.probe.interval()).await;
            }
            match self.settings.probe.once((file.dev, file.ino)).await {
                Reading::Ready => return Baseline::Healthy,
                Reading::NotReady(seen) | Reading::Impostor(seen) | Reading::Restarted(seen) => last = seen,
            }
        }
        Baseline::Unhealthy(last)
    }

    /// Tells what was judged; answers it without secrets.
    pub(crate) fn tell_baseline(&self, baseline: Baseline, redactor: &Redactor) -> Baseline {
        let baseline = match baseline {
            Baseline::Unhealthy(seen) => Baseline::Unhealthy(redactor.redact(&seen)),
            other => other,
        };
        match &baseline {
            Baseline::Healthy => {
                self.tell(&Event::Baseline { healthy: true, detail: "healthy".to_owned() });
            }
            Baseline::Unhealthy(seen) => {
                self.tell(&Event::Baseline { healthy: false, detail: seen.clone() });
            }
            Baseline::Nothing => {}
        }
        baseline
    }

    /// Restarts into the build on trial and watches it settle and soak. From here on there is always an
    /// outcome: a disk that fails now is told, and keeps nobody from looking after the program.
    pub(crate) async fn confirm(&self, on_trial: OnTrial, first: First) -> Outcome {
        let began = self.ports.clock.boottime();
        if first == First::Start {
            self.tell(&Event::Restarting { slot: on_trial.slot.name().to_string() });
        }
        match self.run_trial(&on_trial, first, began).await {
            Ok(downtime) => {
                // One line, so that no interruption comes between the two.
                let (build, leaving) = (on_trial.build.clone(), on_trial.leaving.clone());
                let took = Took { trial_ms: millis(self.since(began)), downtime_ms: millis(downtime) };
                self.record_or_owe(Entry::Confirmed { build, leaving, took: Some(took) });
                if let Some(Leaving { build, reason }) = on_trial.leaving {
                    self.tell(&Event::Quarantined { slot: build.name(), version: build.version, reason });
                }
                self.keep_effective(&self.start_of(Some(&on_trial.slot)).await);
                self.tell(&Event::Confirmed {
                    version: on_trial.build.version.clone(),
                    slot: on_trial.slot.name().to_string(),
                    downtime_ms: millis(downtime),
                });
                Outcome::Confirmed { build: on_trial.build, downtime }
            }
            Err(failed) => {
                let Failed { reason, whose } = failed;
                let excuse = match whose {
                    Whose::Operators => {
                        return self.withdraw(on_trial.build, on_trial.from.as_ref(), reason, began);
                    }
                    Whose::Surroundings => Some(reason.clone()),
                    Whose::ItsOwn => excuse(&on_trial),
                };
                let trial = Some(self.since(began));
                // The candidate may have been given a configuration that nobody has read yet.
                let redactor = self.with_configurations(on_trial.redactor, on_trial.effective.as_deref());
                // The way back empties the log.
                let excerpt = self.excerpt(&on_trial.build, &redactor).await;
                let reason = redactor.redact(&reason);
                let excuse = excuse.map(|excuse| redactor.redact(&excuse));
                let (build, to) = (on_trial.build, on_trial.from);
                let failure = Failure { build, to, reason, excuse, excerpt, began, trial, redactor };
                self.give_up(failure).await
            }
        }
    }

    /// The time without service when the build proved itself, what was seen when it did not. A supervisor's
    /// bootstrap hangs now and then on a busy machine, whatever it is to start: where it did not get to the
    /// effective configuration, the build gets one more start before it is blamed.
    async fn run_trial(&self, on_trial: &OnTrial, first: First, began: Duration) -> Result<Duration, Failed> {
        match self.try_once(on_trial, first, began).await {
            Err(Failed { reason, whose: Whose::ItsOwn | Whose::Surroundings })
                if bootstrap_hangs(on_trial.effective.as_deref()) =>
            {
                let words =
                    format!("the supervisor did not get past its bootstrap ({reason}); it starts again");
                self.tell(&Event::Notice { words: on_trial.redactor.redact(&words) });
                self.try_once(on_trial, First::Start, began).await
            }
            tried => tried,
        }
    }

    async fn try_once(&self, on_trial: &OnTrial, first: First, began: Duration) -> Result<Duration, Failed> {
        self.listen(on_trial.effective.as_deref()).await;
        let followed = async {
            self.ports.log.follow().await;
            std::future::pending().await
        };
        tokio::select! {
            biased;
            tried = self.start_and_watch(on_trial, first, began) => tried,
            never = followed => never,
        }
    }

    async fn start_and_watch(
        &self,
        on_trial: &OnTrial,
        first: First,
        began: Duration,
    ) -> Result<Duration, Failed> {
        let file = on_trial.slot.file_id().map_err(|error| Failed {
            reason: format!("the slot cannot be read: {error}"),
            whose: Whose::Surroundings,
        })?;
        if first == First::Start {
            let program = self.store.program(&self.settings.binary);
            self.ports.restart.restart(&program).await.map_err(|error| Failed {
                reason: format!("restart: {error}"),
                whose: match error {
                    RestartError::Program { .. } => Whose::ItsOwn,
                    RestartError::Surroundings { .. } => Whose::Surroundings,
                    RestartError::Stopped { .. } => Whose::Operators,
                },
            })?;
        }
        let down = || self.ports.clock.boottime().saturating_sub(began);
        let mut downtime = None;
        let mut foreign_restarts = 0;
        loop {
            let mut told = |phase: Phase| {
                if let Phase::BecameReady { .. } = phase {
                    let downtime = *downtime.get_or_insert_with(down);
                    let (downtime_ms, soak_ms) = (millis(downtime), millis(self.settings.probe.soak()));
                    self.tell(&Event::Healthy { downtime_ms, soak_ms });
                }
            };
            let ended = match self.watch(&self.settings.probe, (file.dev, file.ino), &mut told).await {
                // Without a soak becoming ready and being healthy are one.
                Seen::Verdict(Verdict::Healthy) => return Ok(downtime.unwrap_or_else(down)),
                Seen::Verdict(failed) => {
                    return Err(Failed { reason: failed.to_string(), whose: Whose::ItsOwn });
                }
                Seen::Ended(ended) => ended,
            };
            match ended {
                Ended::ByItself(how) => {
                    let reason = format!("the program ended on trial: {how}");
                    return Err(Failed { reason, whose: Whose::ItsOwn });
                }
                Ended::BySurroundings(how) => {
                    let reason = format!("the program was ended on trial: {how}");
                    return Err(Failed { reason, whose: Whose::Surroundings });
                }
                Ended::Stopped(how) => return Err(Failed { reason: how, whose: Whose::Operators }),
                Ended::Restarted(how) if foreign_restarts < FOREIGN_RESTARTS => {
                    foreign_restarts += 1;
                    self.tell(&Event::Notice { words: format!("{how}; the soak begins anew") });
                }
                Ended::Restarted(how) => {
                    let times = foreign_restarts + 1;
                    let reason = format!("{how}, for the {times}th time, so that no soak came to its end");
                    return Err(Failed { reason, whose: Whose::Surroundings });
                }
            }
        }
    }

    /// Watches until there is a verdict, or the program is known to have ended, which says more: where the
    /// verdict is bad, it is asked once more whether it has.
    async fn watch(&self, probe: &Probe, file: (u64, u64), told: &mut (dyn FnMut(Phase) + Send)) -> Seen {
        let verdict = tokio::select! {
            biased;
            ended = self.ports.restart.ended() => return Seen::Ended(ended),
            verdict = probe.watch(file, told) => verdict,
        };
        if verdict.is_healthy() {
            return Seen::Verdict(verdict);
        }
        self.ports.restart.look().await.map_or(Seen::Verdict(verdict), Seen::Ended)
    }

    /// Says in the journal that the trial failed, then goes back. Where the journal cannot take it, the open
    /// trial's own line leads the same way.
    pub(crate) async fn give_up(&self, failure: Failure) -> Outcome {
        self.tell(&Event::TrialFailed {
            slot: failure.build.name(),
            reason: failure.reason.clone(),
            excerpt: failure.excerpt.clone(),
        });
        self.record_or_owe(failure.entry());
        self.go_back(failure, First::Start).await
    }

    /// The way back: `current` moves, the previous build starts and is judged, and only then is it said whose
    /// fault it was. Each step can be repeated, for recovery does.
    pub(crate) async fn go_back(&self, failure: Failure, first: First) -> Outcome {
        let Failure { build: from, to, reason, excuse, excerpt, began, trial, redactor } = failure;
        let (to, health) = match self.return_to(&from, to.as_ref(), first).await {
            Ok((to, health)) => (to, health.redacted(&redactor)),
            Err(error) => return self.not_moved_back(from, reason, &error, excerpt, began),
        };
        let downtime = self.since(began);
        let fault = match (excuse, &health) {
            (_, Health::Stopped(how)) => {
                let reason = format!("{reason}; on the way back: {how}");
                return self.withdrawn(from, to, reason, began);
            }
            (Some(because), _) => Fault::Environment { because },
            (None, Health::Unwell(seen)) => {
                Fault::Environment { because: format!("the previous build is not healthy either: {seen}") }
            }
            (None, Health::Well) => Fault::Version,
        };
        let healthy = health == Health::Well;
        if fault == Fault::Version {
            self.quarantine(&from, &reason);
        }
        self.record_or_owe(Entry::RolledBack {
            from: from.clone(),
            to: to.clone(),
            reason: reason.clone(),
            fault: fault.clone(),
            healthy,
            took: trial.map(|trial| Took { trial_ms: millis(trial), downtime_ms: millis(downtime) }),
            excerpt: excerpt.clone(),
        });
        self.tell(&Event::RolledBack {
            from: from.name(),
            to: to.as_ref().map(Build::name),
            reason: reason.clone(),
            fault: fault.clone(),
            healthy,
        });
        let rolled_back = RolledBack { from, to, reason, fault, downtime, excerpt };
        if healthy { Outcome::RolledBack(rolled_back) } else { Outcome::NothingHealthy(rolled_back) }
    }

    /// Somebody else stopped the program in mid-trial: the trial ends, nobody is blamed, and nothing is started
    /// against their will. Where the journal cannot take it, the open trial's own line leads to the same end.
    pub(crate) fn withdraw(
        &self,
        build: Build,
        from: Option<&Build>,
        reason: String,
        began: Duration,
    ) -> Outcome {
        self.tell(&Event::TrialFailed { slot: build.name(), reason: reason.clone(), excerpt: None });
        self.record_or_owe(Entry::Failed {
            build: build.clone(),
            to: from.cloned(),
            reason: reason.clone(),
            excuse: Some(reason.clone()),
            excerpt: None,
        });
        self.step_back(build, from, reason, began)
    }

    /// The way back where nothing is to be started.
    pub(crate) fn step_back(
        &self,
        from: Build,
        to: Option<&Build>,
        reason: String,
        began: Duration,
    ) -> Outcome {
        let moved = self.way_back(&from, to).and_then(|way| {
            Ok(match way {
                WayBack::To(way) => {
                    self.store.point(&way.1)?;
                    Some(way.0)
                }
                WayBack::Stay(damage) => {
                    self.tell(&Event::Notice { words: format!("no intact build to go back to: {damage}") });
                    None
                }
                WayBack::NothingBefore => {
                    self.store.clear()?;
                    None
                }
            })
        });
        match moved {
            Ok(to) => self.withdrawn(from, to, reason, began),
            Err(error) => self.not_moved_back(from, reason, &error, None, began),
        }
    }

    fn withdrawn(&self, from: Build, to: Option<Build>, reason: String, began: Duration) -> Outcome {
        self.record_or_owe(Entry::Withdrawn { from: from.clone(), to: to.clone(), reason: reason.clone() });
        self.tell(&Event::Withdrawn {
            from: from.name(),
            to: to.as_ref().map(Build::name),
            reason: reason.clone(),
        });
        let fault = Fault::Environment { because: reason.clone() };
        let downtime = self.since(began);
        Outcome::Withdrawn(RolledBack { from, to, reason, fault, downtime, excerpt: None })
    }

    /// `current` may still name the failed build: the journal says so, and the next start tries again.
    fn not_moved_back(
        &self,
        from: Build,
        reason: String,
        error: &Error,
        excerpt: Option<Excerpt>,
        began: Duration,
    ) -> Outcome {
        let because = format!("`current` could not be moved back: {}", with_causes(error));
        self.tell(&Event::Notice { words: because.clone() });
        let (fault, downtime) = (Fault::Environment { because }, self.since(began));
        Outcome::NothingHealthy(RolledBack { from, to: None, reason, fault, downtime, excerpt })
    }

    /// Moves `current` back and starts what it names: what that is, and whether it is healthy.
    async fn return_to(
        &self,
        from: &Build,
        to: Option<&Build>,
        first: First,
    ) -> Result<(Option<Build>, Health), Error> {
        Ok(match self.way_back(from, to)? {
            WayBack::To(way) => {
                let (to, slot) = *way;
                self.store.point(&slot)?;
                (Some(to), self.restart_healthy(&slot, first).await)
            }
            WayBack::Stay(damage) => {
                (None, Health::Unwell(format!("no intact build is left to go back to: {damage}")))
            }
            WayBack::NothingBefore => {
                let stopped = self.ports.restart.stop().await;
                self.store.clear()?;
                let nothing = "nothing was installed before".to_owned();
                (None, Health::Unwell(stopped.err().map_or(nothing, |error| error.to_string())))
            }
        })
    }

    /// Starts `slot`, which was healthy before, and waits until it is so again. A supervisor's bootstrap hangs
    /// now and then, so a start that comes to nothing is made again before anybody is called.
    async fn restart_healthy(&self, slot: &Slot, first: First) -> Health {
        let program = self.store.program(&self.settings.binary);
        let mut seen = String::new();
        for start in 0..RETURN_STARTS {
            if start > 0 {
                tokio::time::sleep(self.settings.return_probe.interval()).await;
            }
            let file = match slot.file_id() {
                Ok(file) => file,
                Err(error) => return Health::Unwell(error.to_string()),
            };
            let is_to_start = start > 0 || first == First::Start || !runs(slot);
            if is_to_start {
                if start == 0 {
                    self.tell(&Event::Restarting { slot: slot.name().to_string() });
                }
                match self.ports.restart.restart(&program).await {
                    Ok(()) => {}
                    Err(RestartError::Stopped { reason }) => return Health::Stopped(reason),
                    Err(error) => {
                        seen = format!("restart: {error}");
                        continue;
                    }
                }
            }
            match self.watch_return((file.dev, file.ino)).await {
                Ok(Verdict::Healthy) => return Health::Well,
                Ok(failed) => seen = failed.to_string(),
                Err(how) => return Health::Stopped(how),
            }
        }
        Health::Unwell(seen)
    }

    /// The verdict on a build that is gone back to; how it was stopped where somebody did. One that ends by itself
    /// may be started again by whoever keeps it, and has its time for that.
    async fn watch_return(&self, file: (u64, u64)) -> Result<Verdict, String> {
        let mut told = |_| {};
        let verdict = self.settings.return_probe.watch(file, &mut told);
        tokio::pin!(verdict);
        let verdict = tokio::select! {
            biased;
            ended = self.ports.restart.ended() => match ended {
                Ended::Stopped(how) => return Err(how),
                _ => verdict.await,
            },
            verdict = &mut verdict => verdict,
        };
        match self.ports.restart.look().await {
            Some(Ended::Stopped(how)) if !verdict.is_healthy() => Err(how),
            _ => Ok(verdict),
        }
    }

    fn quarantine(&self, build: &Build, reason: &str) {
        self.record_or_owe(Entry::Quarantined { build: build.clone(), reason: reason.to_owned() });
        let (version, slot) = (build.version.clone(), build.name());
        self.tell(&Event::Quarantined { version, slot, reason: reason.to_owned() });
    }

    fn since(&self, began: Duration) -> Duration {
        self.ports.clock.boottime().saturating_sub(began)
    }
}

/// Whether the effective configuration is still the one of a bootstrap.
fn bootstrap_hangs(effective: Option<&Path>) -> bool {
    let text = effective.and_then(|path| regular::text(path).ok());
    text.is_some_and(|text| effective::does_nothing(&text))
}

/// A trial that is over: what is left, what it is left for, and why.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) build: Build,
    pub(crate) to: Option<Build>,
    pub(crate) reason: String,
    /// What points to the surroundings already now.
    pub(crate) excuse: Option<String>,
    pub(crate) excerpt: Option<Excerpt>,
    /// When the first stop, or what recovers from an interruption, began.
    pub(crate) began: Duration,
    /// How long it was on trial; unknown where the trial was interrupted.
    pub(crate) trial: Option<Duration>,
    pub(crate) redactor: Redactor,
}

impl Failure {
    /// The line that says so before `current` moves back.
    pub(crate) fn entry(&self) -> Entry {
        let Self { build, to, reason, excuse, excerpt, .. } = self.clone();
        Entry::Failed { build, to, reason, excuse, excerpt }
    }
}

/// A start on trial that came to nothing.
struct Failed {
    reason: String,
    whose: Whose,
}

/// Whose doing it is, as far as it shows before the previous build was judged.
enum Whose {
    /// The build's, unless something speaks for it.
    ItsOwn,
    /// What is around it.
    Surroundings,
    /// Somebody's who stopped the program.
    Operators,
}

/// What came first.
enum Seen {
    Verdict(Verdict),
    Ended(Ended),
}

/// How the build is that was gone back to.
#[derive(PartialEq, Eq)]
enum Health {
    Well,
    Unwell(String),
    /// Somebody else stopped it.
    Stopped(String),
}

impl Health {
    fn redacted(self, redactor: &Redactor) -> Self {
        match self {
            Self::Unwell(seen) => Self::Unwell(redactor.redact(&seen)),
            other => other,
        }
    }
}

/// What speaks for the surroundings before the previous build was judged.
fn excuse(on_trial: &OnTrial) -> Option<String> {
    on_trial.baseline.excuse().or_else(|| on_trial.surroundings.ran_out_of())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_the_programs_user_prepared_is_no_bootstrap_and_holds_no_trial_up() {
        let dir = tempfile::tempdir().unwrap();
        for trap in regular::tests::traps(dir.path()) {
            assert!(!regular::tests::in_time(move || bootstrap_hangs(Some(&trap))));
        }
    }
}
