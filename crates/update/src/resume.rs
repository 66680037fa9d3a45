//! Resume: what every start does first. The pure [`recover`] decides, this carries it out.

use std::time::Duration;

use myriarch_store::{Current, Slot, StoreError, Writer, running};

use crate::{
    activate::OnTrial,
    build::Build,
    chain::{Error, Updater, with_causes},
    confirm::{Baseline, Failure, First},
    event::Event,
    journal::{Entry, Journal, JournalError, Leaving, Line},
    outcome::Outcome,
    ports::{Ended, Found, RestartError},
    recovery::{Recovery, last_act, recover},
    state::State,
};

/// How long a program that is being started by a supervisor is waited for.
const COMES_UP: Duration = Duration::from_secs(10);
/// Between two looks for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

const ALREADY_PAID: &str = "the trial that is open has paid for the start of this boot already";

/// What a start found to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resumed {
    /// Nothing was interrupted and `current` names an intact slot: it only has to run.
    Nothing,
    /// Nothing is installed.
    Empty,
    /// An interrupted trial or way back was brought to its end; what is current has been started.
    Finished(Box<Outcome>),
    /// `current` named nothing intact; it names the latest confirmed build that is, which has to be started.
    Rescued {
        /// It; none where nothing intact is left.
        to: Option<Box<Build>>,
        /// What was wrong.
        reason: String,
    },
    /// The disk is put right; starting and judging is left to the updater that owns the program.
    LeftToRun(String),
}

impl Updater {
    /// Brings an interrupted run to its end and makes sure that `current` names an intact slot. Idempotent.
    ///
    /// # Errors
    /// Where journal or store cannot be read or written.
    pub async fn recover(&self) -> Result<Resumed, Error> {
        let lines = self.journal.lines()?;
        let recovery = recover(&lines);
        if recovery == Recovery::Nothing {
            return self.rescue();
        }
        let found = self.ports.restart.find().await;
        if let Some(outcome) = self.take_up(&lines, &recovery, &found).await {
            return Ok(finished(outcome));
        }
        match recovery {
            Recovery::Resume { to, from, tries, baseline_healthy, leaving } => {
                let baseline = Baseline::told(baseline_healthy);
                Ok(finished(self.resume(to, from, tries, baseline, leaving).await))
            }
            Recovery::GoBack { from: build, to, reason, excuse, excerpt, recorded } => {
                self.tell(&Event::Recovering { reason: format!("{}: {reason}; going back", build.name()) });
                let began = self.ports.clock.boottime();
                let failure = Failure { build, to, reason, excuse, excerpt, began, trial: None };
                if !recorded {
                    self.record_or_owe(failure.entry());
                }
                // What `current` names already and runs needs no other start.
                let first = if found == Found::Running { First::AsFound } else { First::Start };
                Ok(finished(match found {
                    Found::Stopped(_) => {
                        let Failure { build, to, reason, .. } = failure;
                        self.step_back(build, to.as_ref(), reason, began)
                    }
                    _ => self.go_back(failure, first).await,
                }))
            }
            Recovery::Nothing => self.rescue(),
        }
    }

    /// Where somebody else keeps the program, what it does says how an open trial goes on: what runs is judged
    /// as it is, without another start and without another try; what failed is left at once; what somebody
    /// stopped is not started.
    async fn take_up(&self, lines: &[Line], recovery: &Recovery, found: &Found) -> Option<Outcome> {
        let Some(Entry::Trial { to: build, baseline_healthy, leaving, .. }) = last_act(lines) else {
            return None;
        };
        let from = match recovery {
            Recovery::Resume { from, .. } => from.clone(),
            Recovery::GoBack { to, .. } => to.clone(),
            Recovery::Nothing => return None,
        };
        let (build, leaving, name) = (build.clone(), leaving.clone(), build.name());
        let baseline = Baseline::told(*baseline_healthy);
        let began = self.ports.clock.boottime();
        match found {
            Found::Unknown => None,
            Found::Running => {
                let slot = self.intact_slot(&build).ok().filter(|slot| self.is_current(slot))?;
                let before = from.as_ref().and_then(|build| self.slot_of(build).ok());
                if !self.comes_up(&slot, before.as_ref()).await {
                    return None;
                }
                let reason = format!("the trial of {name} was interrupted; it runs, and is judged as it is");
                self.tell(&Event::Recovering { reason });
                let surroundings = self.surroundings(&self.start_of(Some(&slot)).await);
                let effective = self.settings.validation.effective.clone();
                let on_trial = OnTrial { slot, build, from, leaving, baseline, surroundings, effective };
                Some(self.confirm(on_trial, First::AsFound).await)
            }
            Found::Failed(ended) => {
                let (how, excuse) = match ended {
                    Ended::ByItself(how) => (how.clone(), baseline.excuse()),
                    Ended::BySurroundings(how) | Ended::Stopped(how) | Ended::Restarted(how) => {
                        (how.clone(), Some(how.clone()))
                    }
                };
                let reason = format!("the program ended on trial: {how}");
                self.tell(&Event::Recovering { reason: format!("{name}: {reason}; going back") });
                let failure = Failure { build, to: from, reason, excuse, excerpt: None, began, trial: None };
                Some(self.give_up(failure).await)
            }
            Found::Stopped(how) => {
                self.tell(&Event::Recovering { reason: format!("{name}: {how}; it is not started") });
                Some(self.withdraw(build, from.as_ref(), how.clone(), began))
            }
        }
    }

    /// Whether `slot` runs, or will in a moment: a supervisor starts its program some seconds after itself. Where
    /// the build before still runs nobody has started this one.
    async fn comes_up(&self, slot: &Slot, before: Option<&Slot>) -> bool {
        for _ in 0..COMES_UP.as_millis() / LOOK_EVERY.as_millis() {
            if runs(slot) {
                return true;
            }
            if before.is_some_and(runs) {
                return false;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        false
    }

    fn is_current(&self, slot: &Slot) -> bool {
        self.store
            .current_slot()
            .is_ok_and(|current| current.is_some_and(|current| current.name() == slot.name()))
    }

    /// Starts what `current` names where whoever keeps the program says that it failed; answers whether it did.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub async fn start_failed(&self) -> Result<bool, RestartError> {
        let Found::Failed(_) = self.ports.restart.find().await else { return Ok(false) };
        self.ports.restart.restart(&self.store.program(&self.settings.binary)).await.map(|()| true)
    }

    /// As [`Updater::put_right`], right before the program is started by whoever keeps it, as at boot: a trial
    /// that is open pays for this start with one of its tries, in the journal, before it is made. `boot` names
    /// the boot, so that it pays once. Idempotent.
    ///
    /// # Errors
    /// Where journal or store cannot be read or written.
    pub fn before_start(&self, boot: &str) -> Result<Resumed, Error> {
        let lines = self.journal.lines()?;
        let paid = matches!(last_act(&lines), Some(Entry::Trial { boot: Some(paid), .. }) if paid == boot);
        let Recovery::Resume { to, from, tries, baseline_healthy, leaving } = recover(&lines) else {
            return if paid { Ok(Resumed::LeftToRun(ALREADY_PAID.to_owned())) } else { self.put_right() };
        };
        if paid {
            return Ok(Resumed::LeftToRun(ALREADY_PAID.to_owned()));
        }
        let (name, boot) = (to.name(), Some(boot.to_owned()));
        let ready = self.intact_slot(&to).and_then(|slot| {
            let (to, from) = (to.clone(), from.clone());
            let paid = self.record(Entry::Trial { to, from, tries, baseline_healthy, leaving, boot });
            paid.map_err(|error| with_causes(&error))?;
            self.store.point(&slot).map_err(|error| with_causes(&error))
        });
        match ready {
            Ok(()) => Ok(Resumed::LeftToRun(format!(
                "the trial of {name} is open; this start is a try of it, {tries} tries left after"
            ))),
            Err(seen) => {
                let excuse = Some(format!("the trial could not be taken up again: {seen}"));
                let (build, way, reason) = (to.clone(), from.clone(), seen.clone());
                self.record_or_owe(Entry::Failed { build, to: way, reason, excuse, excerpt: None });
                self.point_back(&to, from.as_ref(), &seen)
            }
        }
    }

    /// `current` moves back; starting what it names is left to others.
    fn point_back(&self, from: &Build, to: Option<&Build>, reason: &str) -> Result<Resumed, Error> {
        Ok(Resumed::LeftToRun(match self.way_back(from, to)? {
            WayBack::To(way) => {
                let (build, slot) = *way;
                self.store.point(&slot)?;
                format!("{}: {reason}; `current` names {} again", from.name(), build.name())
            }
            WayBack::Stay(damage) => format!("{reason}; {damage}"),
            WayBack::NothingBefore => format!("{reason}; nothing was installed before"),
        }))
    }

    /// As [`Updater::recover`], but starts and judges nothing: for boot time, where another process will own
    /// the program. `current` names what that one must start. Idempotent.
    ///
    /// # Errors
    /// Where journal or store cannot be read or written.
    pub fn put_right(&self) -> Result<Resumed, Error> {
        match recover(&self.journal.lines()?) {
            Recovery::Nothing => self.rescue(),
            Recovery::Resume { to, .. } => {
                let name = to.name();
                Ok(Resumed::LeftToRun(format!(
                    "the trial of {name} is open; the updater starts it again and judges it"
                )))
            }
            Recovery::GoBack { from, to, reason, excuse, excerpt, recorded } => {
                if !recorded {
                    let (build, to, reason) = (from.clone(), to.clone(), reason.clone());
                    self.record_or_owe(Entry::Failed { build, to, reason, excuse, excerpt });
                }
                self.point_back(&from, to.as_ref(), &reason)
            }
        }
    }

    /// An orderly stop in mid-trial is no try of the build's: it is given back.
    ///
    /// # Errors
    /// Where the journal cannot be read or written.
    pub fn stopped_in_order(&self) -> Result<(), Error> {
        self.pay()?;
        let mut given_back = last_act(&self.journal.lines()?).cloned();
        if let Some(Entry::Trial { tries, .. }) = &mut given_back {
            *tries = tries.saturating_add(1).min(self.settings.tries.saturating_add(1));
        } else {
            return Ok(());
        }
        Ok(given_back.map_or(Ok(()), |entry| self.record(entry))?)
    }

    /// Whether `current` names a slot whose bytes are what its manifest says.
    pub fn current_is_intact(&self) -> bool {
        self.store.current_slot().is_ok_and(|slot| slot.is_some_and(|slot| slot.check().is_ok()))
    }

    /// The count goes down on disk before the start it counts. Where that cannot be, or the slot is damaged,
    /// the trial is over.
    async fn resume(
        &self,
        to: Build,
        from: Option<Build>,
        tries: u8,
        baseline: Baseline,
        leaving: Option<Leaving>,
    ) -> Outcome {
        let reason =
            format!("the trial of {} was interrupted; it starts again, {tries} tries left after", to.name());
        self.tell(&Event::Recovering { reason });
        let began = self.ports.clock.boottime();
        let (way, build) = (from.clone(), to.clone());
        let surroundings = self.surroundings(&self.start_of(None).await);
        let resumed = self.intact_slot(&to).and_then(|slot| {
            let effective = self.settings.validation.effective.clone();
            let on_trial = OnTrial { slot, build, from, leaving, baseline, surroundings, effective };
            self.put_on_trial(on_trial, tries).map_err(|error| with_causes(&error))
        });
        match resumed {
            Ok(on_trial) => self.confirm(on_trial, First::Start).await,
            Err(seen) => {
                let excuse = Some(format!("the trial could not be taken up again: {seen}"));
                let (build, to, reason) = (to, way, seen);
                let failure = Failure { build, to, reason, excuse, excerpt: None, began, trial: None };
                self.record_or_owe(failure.entry());
                self.go_back(failure, First::Start).await
            }
        }
    }

    /// Nothing was interrupted; `current` must still name something intact, for the disk may have changed.
    fn rescue(&self) -> Result<Resumed, Error> {
        let state = State::of(&self.journal.lines()?);
        let wrong = match self.store.current_slot()? {
            Some(slot) => match slot.check() {
                Ok(()) => return Ok(Resumed::Nothing),
                Err(damage) => damage.to_string(),
            },
            None if state.confirmed().is_empty() => return Ok(Resumed::Empty),
            None => self.what_is_wrong_with_current()?,
        };
        let intact = self.newest_intact(&state, |_| true);
        if intact.is_none() && self.store.current()? == Current::Absent {
            return Ok(Resumed::Empty);
        }
        let to = intact.as_ref().map(|(build, _)| build.clone());
        let way = to.as_ref().map_or_else(
            || "nothing intact is left".to_owned(),
            |build| format!("{} takes over", build.name()),
        );
        self.tell(&Event::Recovering { reason: format!("{wrong}; {way}") });
        self.record_or_owe(Entry::Rescued { to: to.clone(), reason: wrong.clone() });
        match &intact {
            Some((_, slot)) => self.store.point(slot)?,
            // What is damaged is never started, and must not stand in the way of the same build from the source.
            None => self.store.clear()?,
        }
        Ok(Resumed::Rescued { to: to.map(Box::new), reason: wrong })
    }

    /// Where `current` names no slot that can be read.
    fn what_is_wrong_with_current(&self) -> Result<String, Error> {
        Ok(match self.store.current()? {
            Current::Absent => "`current` is not there".to_owned(),
            Current::Foreign { target } => {
                format!("`current` leads to {}, which is no slot of this store", target.display())
            }
            Current::Slot(name) => match self.store.slot(&name) {
                Err(error) => format!("`current` names {name}: {}", with_causes(&error)),
                Ok(_) => format!("`current` names {name}, which could not be read a moment ago"),
            },
        })
    }

    /// Where a failed trial can go back to: exactly `wanted` if it is intact, otherwise the latest confirmed
    /// build that is. What is not intact is never started.
    pub(crate) fn way_back(&self, left: &Build, wanted: Option<&Build>) -> Result<WayBack, Error> {
        let Some(wanted) = wanted else { return Ok(WayBack::NothingBefore) };
        let seen = match self.intact_slot(wanted) {
            Ok(slot) => return Ok(WayBack::To(Box::new((wanted.clone(), slot)))),
            Err(seen) => seen,
        };
        let state = State::of(&self.journal.lines()?);
        match self.newest_intact(&state, |build| build != left) {
            Some((build, slot)) => {
                self.tell(&Event::Recovering { reason: format!("{seen}; {} takes over", build.name()) });
                Ok(WayBack::To(Box::new((build, slot))))
            }
            None => Ok(WayBack::Stay(seen)),
        }
    }

    fn newest_intact(&self, state: &State, is_wanted: impl Fn(&Build) -> bool) -> Option<(Build, Slot)> {
        let mut latest_first = state.confirmed().iter().rev().filter(|build| is_wanted(build));
        latest_first.find_map(|build| Some((build.clone(), self.intact_slot(build).ok()?)))
    }

    /// The slot that holds `build`, its bytes checked; what is wrong where there is none.
    fn intact_slot(&self, build: &Build) -> Result<Slot, String> {
        let slot = self.slot_of(build).map_err(|error| with_causes(&error))?;
        slot.check().map_err(|damage| with_causes(&damage))?;
        Ok(slot)
    }
}

/// What to start where nothing can be updated, for want of a usable configuration: what `current` names if it is
/// intact and not on trial, else the latest confirmed build that is intact. `current` names it afterwards.
///
/// # Errors
/// Where `current` cannot be moved.
pub fn without_updating(store: &Writer) -> Result<Option<Slot>, StoreError> {
    let lines = match Journal::at(store.journal_path()).lines() {
        Ok(lines) | Err(JournalError::Unreadable { readable: lines, .. }) => lines,
        Err(_) => vec![],
    };
    let on_trial = match recover(&lines) {
        Recovery::Nothing => None,
        Recovery::Resume { to: build, .. } | Recovery::GoBack { from: build, .. } => build.slot().ok(),
    };
    let current = store.current_slot()?.filter(|slot| slot.check().is_ok());
    if let Some(slot) = current.as_ref().filter(|slot| Some(slot.name()) != on_trial.as_ref()) {
        return Ok(Some(slot.clone()));
    }
    let state = State::of(&lines);
    let names = state.confirmed().iter().rev().filter_map(|build| build.slot().ok());
    let mut others =
        names.filter(|name| Some(name) != on_trial.as_ref()).filter_map(|name| store.slot(&name).ok());
    match others.find(|slot| slot.check().is_ok()) {
        Some(slot) => {
            store.point(&slot)?;
            Ok(Some(slot))
        }
        // Verified, and all there is.
        None => Ok(current),
    }
}

/// Whether any process runs the program of `slot`.
pub(crate) fn runs(slot: &Slot) -> bool {
    let file = slot.file_id().ok();
    file.is_some_and(|file| running::processes_running(file).is_ok_and(|pids| !pids.is_empty()))
}

fn finished(outcome: Outcome) -> Resumed {
    Resumed::Finished(Box::new(outcome))
}

/// Where a failed trial can go.
#[derive(Debug)]
pub(crate) enum WayBack {
    /// An intact, confirmed slot.
    To(Box<(Build, Slot)>),
    /// There was a previous build, but nothing intact is left of any: the candidate, verified if not well, is
    /// all there is.
    Stay(String),
    /// It was a first installation.
    NothingBefore,
}
