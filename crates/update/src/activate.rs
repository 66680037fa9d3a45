//! Activate: the journal says that a trial begins, then `current` moves, in one rename.

use std::path::PathBuf;

use myriarch_store::{Current, Slot, StoreError};

use crate::{
    build::Build,
    chain::{Error, Updater, with_causes},
    confirm::Baseline,
    event::Event,
    journal::{Entry, Leaving},
    outcome::{Fault, Refusal, RefusalKind, Stage},
    ports::NotReady,
    recovery::last_confirmed,
    state::State,
    surroundings::Surroundings,
    validate::Validated,
};

/// A build that `current` names and that has not proved itself yet.
#[derive(Debug)]
pub(crate) struct OnTrial {
    pub(crate) slot: Slot,
    pub(crate) build: Build,
    pub(crate) from: Option<Build>,
    /// What is left for good, where an operator rolls back.
    pub(crate) leaving: Option<Leaving>,
    pub(crate) baseline: Baseline,
    pub(crate) surroundings: Surroundings,
    /// The file of the effective configuration, where it is known.
    pub(crate) effective: Option<PathBuf>,
}

impl Updater {
    pub(crate) fn activate(&self, validated: Validated) -> Result<OnTrial, Error> {
        let Validated { slot, baseline, surroundings, leaving, effective } = validated;
        slot.check().map_err(|damage| Refusal {
            stage: Stage::Validate,
            kind: RefusalKind::Environment,
            reason: damage.to_string(),
            hint: "the disk or somebody changed the candidate after it was staged; nothing was touched"
                .to_owned(),
        })?;
        let build = Build::of(&slot)?;
        let from = self.good_before(&build)?;
        self.put_on_trial(
            OnTrial { slot, build, from, leaving, baseline, surroundings, effective },
            self.settings.tries,
        )
    }

    /// The build that runs now if it is known to be good, else the last confirmed one. Where a damaged journal
    /// knows of no confirmed build at all, an intact one that is current and not quarantined counts as good.
    fn good_before(&self, candidate: &Build) -> Result<Option<Build>, Error> {
        let state = State::of(&self.journal.lines()?);
        let current = match self.store.current_slot()? {
            Some(slot) => Some((Build::of(&slot)?, slot)).filter(|(build, _)| build != candidate),
            None => None,
        };
        let good = current.filter(|(build, slot)| {
            let known = state.confirmed().contains(build);
            let quarantined = state.standing(|other| other == build).is_some();
            known || (state.confirmed().is_empty() && !quarantined && slot.check().is_ok())
        });
        Ok(good.map(|(build, _)| build).or_else(|| last_confirmed(&state, candidate).cloned()))
    }

    /// Asked as soon as there is a candidate: what cannot be restarted is refused before anything is touched.
    pub(crate) async fn check_restart(&self) -> Result<(), Refusal> {
        self.ports.restart.ready().await.map_err(|NotReady { reason, hint }| Refusal {
            stage: Stage::Select,
            kind: RefusalKind::Environment,
            reason,
            hint,
        })
    }

    /// The line, then the rename.
    pub(crate) fn put_on_trial(&self, on_trial: OnTrial, tries: u8) -> Result<OnTrial, Error> {
        self.record(Entry::Trial {
            to: on_trial.build.clone(),
            from: on_trial.from.clone(),
            tries,
            baseline_healthy: on_trial.baseline.is_healthy(),
            leaving: on_trial.leaving.clone(),
            boot: None,
        })?;
        let before = self.store.current()?;
        if let Err(error) = self.store.point(&on_trial.slot) {
            return Err(self.abandon(on_trial, &before, error));
        }
        self.tell(&Event::Activated {
            slot: on_trial.slot.name().to_string(),
            from: on_trial.from.as_ref().map(Build::name),
            tries,
        });
        Ok(on_trial)
    }

    /// `current` could not be moved for sure: where it was, it is moved back, and only if that is sure the trial
    /// ends here, before it began. Otherwise its line stands and the next start decides.
    fn abandon(&self, on_trial: OnTrial, before: &Current, error: StoreError) -> Error {
        let OnTrial { build, from, .. } = on_trial;
        let back = match (before, self.store.current()) {
            (before, Ok(now)) if *before == now => Ok(()),
            (Current::Slot(name), _) => self.store.slot(name).and_then(|slot| self.store.point(&slot)),
            (Current::Absent | Current::Foreign { .. }, _) => self.store.clear(),
        };
        if back.is_ok() {
            let reason = format!("`current` could not be moved: {}", with_causes(&error));
            let fault = Fault::Environment { because: reason.clone() };
            let (from, to) = (build, from);
            self.record_or_owe(Entry::RolledBack {
                from,
                to,
                reason,
                fault,
                healthy: true,
                took: None,
                excerpt: None,
            });
        }
        error.into()
    }
}
