//! Activate: the journal says that a trial begins, then `current` moves, in one rename.

use myriarch_store::{Slot, StoreError};

use crate::{
    build::Build,
    chain::{Error, Updater, with_causes},
    confirm::Baseline,
    event::Event,
    journal::Entry,
    outcome::{Fault, Refusal, RefusalKind, Stage},
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
    /// Why `from` is left for good, where an operator rolls back.
    pub(crate) leaving: Option<String>,
    pub(crate) baseline: Baseline,
    pub(crate) surroundings: Surroundings,
}

impl Updater {
    pub(crate) fn activate(&self, validated: Validated) -> Result<OnTrial, Error> {
        let Validated { slot, baseline, surroundings, leaving } = validated;
        slot.check().map_err(|damage| Refusal {
            stage: Stage::Validate,
            kind: RefusalKind::Environment,
            reason: damage.to_string(),
            hint: "the disk or somebody changed the candidate after it was staged; nothing was touched"
                .to_owned(),
        })?;
        let build = Build::of(&slot)?;
        let from = self.good_before(&build)?;
        self.put_on_trial(OnTrial { slot, build, from, leaving, baseline, surroundings }, self.settings.tries)
    }

    /// The build that runs now if it is known to be good, else the last confirmed one.
    fn good_before(&self, candidate: &Build) -> Result<Option<Build>, Error> {
        let current = self.current_slot()?.map(|slot| Build::of(&slot)).transpose()?;
        let state = State::of(&self.journal.lines()?);
        let good = current.filter(|build| build != candidate && state.confirmed().contains(build));
        Ok(good.or_else(|| last_confirmed(&state, candidate).cloned()))
    }

    /// The line, then the rename.
    pub(crate) fn put_on_trial(&self, on_trial: OnTrial, tries: u8) -> Result<OnTrial, Error> {
        self.record(Entry::Trial {
            to: on_trial.build.clone(),
            from: on_trial.from.clone(),
            tries,
            baseline_healthy: on_trial.baseline.is_healthy(),
            leaving: on_trial.leaving.clone(),
        })?;
        if let Err(error) = self.store.point(&on_trial.slot) {
            return Err(self.abandon(on_trial, error));
        }
        self.tell(&Event::Activated {
            slot: on_trial.slot.name().to_string(),
            from: on_trial.from.as_ref().map(Build::name),
            tries,
        });
        Ok(on_trial)
    }

    /// `current` could not be moved for sure: it is moved back, and only if that is sure the trial ends here,
    /// before it began. Otherwise its line stands and the next start decides.
    fn abandon(&self, on_trial: OnTrial, error: StoreError) -> Error {
        let OnTrial { build, from, .. } = on_trial;
        let back = match from.as_ref().map(|from| self.slot_of(from)) {
            Some(Ok(slot)) => self.store.point(&slot),
            Some(Err(unreadable)) => Err(unreadable),
            None => self.store.clear(),
        };
        if back.is_ok() {
            let reason = format!("`current` could not be moved: {}", with_causes(&error));
            let fault = Fault::Environment { because: reason.clone() };
            self.record_or_owe(Entry::RolledBack { from: build, to: from, reason, fault, healthy: true });
        }
        error.into()
    }
}
