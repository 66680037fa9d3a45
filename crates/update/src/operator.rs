//! What an operator may ask for besides an update: back, pinned, released.

use myriarch_policy::Version;

use crate::{
    build::Build,
    chain::{Error, Updater},
    confirm::{Failure, First},
    event::Event,
    journal::{Entry, Leaving},
    outcome::{Outcome, Refusal, RefusalKind, Stage},
    recovery::{Recovery, recover},
    stage::Staged,
    state::Quarantined,
};

/// Why an operator's rollback quarantines what it leaves.
const ROLLED_BACK: &str = "an operator rolled back from it";

impl Updater {
    /// Goes back to the previous confirmed build, or to the confirmed build of version `to`, by the same trial
    /// as an update. The build that is left is quarantined, so that no later run takes it up again by itself.
    ///
    /// # Errors
    /// As for [`Updater::update`]; refused where this store has confirmed no such build.
    pub async fn roll_back(&self, to: Option<&Version>) -> Result<Outcome, Error> {
        self.pay()?;
        if let Recovery::Resume { to: open, from, .. } = recover(&self.journal.lines()?) {
            // What is on trial is what the operator wants to leave.
            let began = self.ports.clock.boottime();
            // What failed meanwhile failed by this trial.
            self.ports.restart.find().await;
            let (build, to, reason) = (open, from, ROLLED_BACK.to_owned());
            let failure = Failure { build, to, reason, excuse: None, excerpt: None, began, trial: None };
            return Ok(self.give_up(failure).await);
        }
        if let Some(rolled_back) = self.finish_what_is_open().await? {
            return Ok(rolled_back);
        }
        let state = self.state()?;
        let current = self.store.current_slot()?.map(|slot| Build::of(&slot)).transpose()?;
        let target = state
            .confirmed()
            .iter()
            .rev()
            .filter(|build| Some(*build) != current.as_ref())
            .find(|build| to.is_none_or(|to| to.names_same(&build.version)));
        let Some(target) = target else {
            let known: Vec<_> = state.confirmed().iter().map(Build::name).collect();
            let wanted = to.map_or_else(
                || "a confirmed build before the current one".to_owned(),
                |to| format!("a confirmed build of {to}"),
            );
            return Err(refused(
                format!("expected {wanted}, this store has confirmed {}", list(&known)),
                "to install another version: pin it, then update",
            ));
        };
        let slot = self.slot_of(target)?;
        slot.check().map_err(|damage| {
            refused(damage.to_string(), "install this version anew: pin it, then update")
        })?;
        self.check_restart().await?;
        self.tell(&Event::Selected {
            version: target.version.clone(),
            installed: current.as_ref().map(|build| build.version.clone()),
            relation: current.as_ref().map(|build| target.version.relation_to(&build.version)),
            source: slot.dir().display().to_string(),
        });
        let mut validated = self.validate(Staged { slot }).await?;
        validated.leaving = current.map(|build| Leaving { build, reason: ROLLED_BACK.to_owned() });
        let on_trial = self.activate(validated)?;
        let outcome = self.confirm(on_trial, First::Start).await;
        self.prune();
        Ok(outcome)
    }

    /// From now on only `version` may be installed, lower than the current one or not.
    ///
    /// # Errors
    /// Where the journal cannot be read or written.
    pub fn pin(&self, version: Version) -> Result<(), Error> {
        // Nothing is appended to a journal that this program does not understand.
        self.state()?;
        Ok(self.record(Entry::Pinned { version })?)
    }

    /// Lifts the pin; answers the version that was pinned.
    ///
    /// # Errors
    /// Where the journal cannot be read or written.
    pub fn unpin(&self) -> Result<Option<Version>, Error> {
        let pinned = self.state()?.pin().cloned();
        if pinned.is_some() {
            self.record(Entry::Unpinned)?;
        }
        Ok(pinned)
    }

    /// Releases every build of `version` from quarantine; answers them.
    ///
    /// # Errors
    /// Refused where no build of it is quarantined.
    pub fn release(&self, version: &Version) -> Result<Vec<Build>, Error> {
        let state = self.state()?;
        let builds = state.quarantined().iter().map(|Quarantined { build, .. }| build);
        let released: Vec<Build> =
            builds.clone().filter(|build| build.version.names_same(version)).cloned().collect();
        if released.is_empty() {
            let known: Vec<_> = builds.map(|build| build.version.to_string()).collect();
            return Err(refused(
                format!("expected a quarantined version, found {version}; quarantined: {}", list(&known)),
                "`status` lists what is quarantined",
            ));
        }
        self.record(Entry::Released { version: version.clone() })?;
        Ok(released)
    }
}

fn refused(reason: String, hint: &str) -> Error {
    Refusal { stage: Stage::Select, kind: RefusalKind::Policy, reason, hint: hint.to_owned() }.into()
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
