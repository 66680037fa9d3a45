//! Confirm: the candidate proves itself, or is left and the last known good runs again.
//!
//! Whose fault a failed trial is, is decided last, when the previous build has been judged as well: where that
//! one is not healthy either, where nothing was healthy before, or where memory or disk ran out, the
//! surroundings are to blame and nothing is quarantined.

use std::{path::Path, time::Duration};

use myriarch_probe::{Phase, Reading, Verdict};
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
    ports::RestartError,
    redact::Redactor,
    resume::WayBack,
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
    pub(crate) fn is_healthy(&self) -> bool {
        *self == Self::Healthy
    }
}

/// Readings that a baseline gets to show itself healthy: one bad answer is not an outage.
const BASELINE_READINGS: u32 = 3;

/// Starts that the previous build gets on the way back.
const RETURN_STARTS: u32 = 3;

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
    pub(crate) async fn confirm(&self, on_trial: OnTrial) -> Outcome {
        let began = self.ports.clock.boottime();
        self.tell(&Event::Restarting { slot: on_trial.slot.name().to_string() });
        match self.run_trial(&on_trial, began).await {
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
            Err(Failed { reason, excuse: none_yet }) => {
                let excuse = none_yet.or_else(|| excuse(&on_trial));
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
    async fn run_trial(&self, on_trial: &OnTrial, began: Duration) -> Result<Duration, Failed> {
        match self.try_once(on_trial, began).await {
            Err(Failed { reason, .. }) if bootstrap_hangs(on_trial.effective.as_deref()) => {
                let words =
                    format!("the supervisor did not get past its bootstrap ({reason}); it starts again");
                self.tell(&Event::Notice { words: on_trial.redactor.redact(&words) });
                self.try_once(on_trial, began).await
            }
            tried => tried,
        }
    }

    async fn try_once(&self, on_trial: &OnTrial, began: Duration) -> Result<Duration, Failed> {
        self.listen(on_trial.effective.as_deref()).await;
        let followed = async {
            self.ports.log.follow().await;
            std::future::pending().await
        };
        tokio::select! {
            biased;
            tried = self.start_and_watch(on_trial, began) => tried,
            never = followed => never,
        }
    }

    async fn start_and_watch(&self, on_trial: &OnTrial, began: Duration) -> Result<Duration, Failed> {
        let program = self.store.program(&self.settings.binary);
        let file = on_trial.slot.file_id().map_err(|error| {
            let reason = format!("the slot cannot be read: {error}");
            Failed { excuse: Some(reason.clone()), reason }
        })?;
        self.ports.restart.restart(&program).await.map_err(|error| {
            let reason = format!("restart: {error}");
            let excuse = matches!(error, RestartError::Surroundings { .. }).then(|| reason.clone());
            Failed { reason, excuse }
        })?;
        let down = || self.ports.clock.boottime().saturating_sub(began);
        let mut downtime = None;
        let mut told = |phase: Phase| {
            if let Phase::BecameReady { .. } = phase {
                downtime = Some(down());
                let (downtime_ms, soak_ms) = (millis(down()), millis(self.settings.probe.soak()));
                self.tell(&Event::Healthy { downtime_ms, soak_ms });
            }
        };
        let verdict = tokio::select! {
            biased;
            ended = self.ports.restart.ended() => {
                return Err(Failed { reason: format!("the program ended on trial: {ended}"), excuse: None });
            }
            verdict = self.settings.probe.watch((file.dev, file.ino), &mut told) => verdict,
        };
        match verdict {
            // Without a soak becoming ready and being healthy are one.
            Verdict::Healthy => Ok(downtime.unwrap_or_else(down)),
            failed => Err(Failed { reason: failed.to_string(), excuse: None }),
        }
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
        self.go_back(failure).await
    }

    /// The way back: `current` moves, the previous build starts and is judged, and only then is it said whose
    /// fault it was. Each step can be repeated, for recovery does.
    pub(crate) async fn go_back(&self, failure: Failure) -> Outcome {
        let Failure { build: from, to, reason, excuse, excerpt, began, trial, redactor } = failure;
        let (to, healthy) = match self.return_to(&from, to.as_ref()).await {
            Ok((to, healthy)) => (to, healthy.map_err(|seen| redactor.redact(&seen))),
            // `current` may still name the failed build: the journal says so, and the next start tries again.
            Err(error) => {
                let because = format!("`current` could not be moved back: {}", with_causes(&error));
                self.tell(&Event::Notice { words: because.clone() });
                let (fault, downtime) = (Fault::Environment { because }, self.since(began));
                let to = None;
                return Outcome::NothingHealthy(RolledBack { from, to, reason, fault, downtime, excerpt });
            }
        };
        let downtime = self.since(began);
        let fault = match (excuse, &healthy) {
            (Some(because), _) => Fault::Environment { because },
            (None, Err(seen)) => {
                Fault::Environment { because: format!("the previous build is not healthy either: {seen}") }
            }
            (None, Ok(())) => Fault::Version,
        };
        if fault == Fault::Version {
            self.quarantine(&from, &reason);
        }
        self.record_or_owe(Entry::RolledBack {
            from: from.clone(),
            to: to.clone(),
            reason: reason.clone(),
            fault: fault.clone(),
            healthy: healthy.is_ok(),
            took: trial.map(|trial| Took { trial_ms: millis(trial), downtime_ms: millis(downtime) }),
            excerpt: excerpt.clone(),
        });
        self.tell(&Event::RolledBack {
            from: from.name(),
            to: to.as_ref().map(Build::name),
            reason: reason.clone(),
            fault: fault.clone(),
            healthy: healthy.is_ok(),
        });
        let rolled_back = RolledBack { from, to, reason, fault, downtime, excerpt };
        match healthy {
            Ok(()) => Outcome::RolledBack(rolled_back),
            Err(_) => Outcome::NothingHealthy(rolled_back),
        }
    }

    /// Moves `current` back and starts what it names: what that is, and whether it is healthy.
    async fn return_to(
        &self,
        from: &Build,
        to: Option<&Build>,
    ) -> Result<(Option<Build>, Result<(), String>), Error> {
        Ok(match self.way_back(from, to)? {
            WayBack::To(way) => {
                let (to, slot) = *way;
                self.store.point(&slot)?;
                self.tell(&Event::Restarting { slot: slot.name().to_string() });
                (Some(to), self.restart_healthy(&slot).await)
            }
            WayBack::Stay(damage) => (None, Err(format!("no intact build is left to go back to: {damage}"))),
            WayBack::NothingBefore => {
                let stopped = self.ports.restart.stop().await;
                self.store.clear()?;
                let nothing = "nothing was installed before".to_owned();
                (None, Err(stopped.err().map_or(nothing, |error| error.to_string())))
            }
        })
    }

    /// Starts `slot`, which was healthy before, and waits until it is so again. A supervisor's bootstrap hangs
    /// now and then, so a start that comes to nothing is made again before anybody is called.
    async fn restart_healthy(&self, slot: &Slot) -> Result<(), String> {
        let program = self.store.program(&self.settings.binary);
        let mut seen = String::new();
        for start in 0..RETURN_STARTS {
            if start > 0 {
                tokio::time::sleep(self.settings.return_probe.interval()).await;
            }
            let file = slot.file_id().map_err(|error| error.to_string())?;
            if let Err(error) = self.ports.restart.restart(&program).await {
                seen = format!("restart: {error}");
                continue;
            }
            match self.settings.return_probe.watch((file.dev, file.ino), &mut |_| {}).await {
                Verdict::Healthy => return Ok(()),
                failed => seen = failed.to_string(),
            }
        }
        Err(seen)
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
    let text = effective.and_then(|path| std::fs::read_to_string(path).ok());
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
    /// What points to the surroundings already now.
    excuse: Option<String>,
}

/// What speaks for the surroundings before the previous build was judged.
fn excuse(on_trial: &OnTrial) -> Option<String> {
    match &on_trial.baseline {
        Baseline::Healthy => on_trial.surroundings.ran_out_of(),
        Baseline::Unhealthy(seen) => Some(format!("what ran before was not healthy either: {seen}")),
        Baseline::Nothing => Some("nothing ran before that could be compared".to_owned()),
    }
}
