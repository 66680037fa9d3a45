//! The update chain, one story read from top to bottom.
//!
//! Each stage is a value that only the stage before it can make: a [`Candidate`] was selected, a `Verified`
//! one is trusted, a `Staged` one is durable in a slot, a `Validated` one has answered for itself, one
//! `OnTrial` is what `current` names. A refusal before `activate` has touched nothing; from there on the run
//! ends in an [`Outcome`].
//!
//! [`Candidate`]: crate::select::Candidate

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use myriarch_policy::{Bounds, Version};
use myriarch_probe::{Probe, exec::Credentials};
use myriarch_store::{Slot, StoreError, Writer};
use myriarch_verify::TrustPolicy;

use crate::{
    build::Build,
    confirm::First,
    event::Event,
    journal::{Entry, Journal, JournalError, Line},
    outcome::{Outcome, Refusal},
    ports::{Clock, NotReady, Observe, ProgramLog, Restart, Source},
    recovery::{Recovery, recover},
    redact::Redactor,
    resume::Resumed,
    select::Selection,
    state::State,
};

/// What is local and fixed: nothing that a source, a server or an offer says can change it.
#[derive(Debug)]
pub struct Settings {
    /// The program's file name, inside the archive and in a slot.
    pub binary: String,
    /// The name that the program's `--version` prints before its version.
    pub distribution: String,
    /// Which versions may run.
    pub bounds: Bounds,
    /// Which archives are trusted.
    pub trust: TrustPolicy,
    /// How a candidate is asked before anything stops.
    pub validation: Validation,
    /// How the program's health is judged.
    pub probe: Probe,
    /// How the health of a build is judged that was healthy before and was gone back to.
    pub return_probe: Probe,
    /// Confirmed builds kept besides the current one.
    pub keep: usize,
    /// Starts that may follow an interrupted trial.
    pub tries: u8,
    /// The largest program accepted, in bytes.
    pub largest_program: u64,
    /// Takes secrets out of what is quoted from the program. It learns the running one's by itself.
    pub redactor: Redactor,
}

/// How a candidate is asked before anything stops.
#[derive(Debug, Clone)]
pub struct Validation {
    /// Components that `components` must list, by kind, as in `extensions: [opamp]`.
    pub components: BTreeMap<String, Vec<String>>,
    /// The effective configuration's file; where absent, the one that the running program was started with.
    pub effective: Option<PathBuf>,
    /// How long each question may take.
    pub timeout: Duration,
    /// How the program is started; used where nothing runs that could tell.
    pub at_rest: AtRest,
}

/// How the program is started, as its configuration tells it.
#[derive(Debug, Clone, Default)]
pub struct AtRest {
    /// Its configuration's file.
    pub configuration: Option<PathBuf>,
    /// Further arguments.
    pub arguments: Vec<OsString>,
    /// Its environment; the updater's own where absent.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// Its working directory.
    pub working_directory: Option<PathBuf>,
    /// Its user and groups; the updater's own where absent.
    pub credentials: Option<Credentials>,
    /// Why these cannot be told although it has some: nothing is asked of a candidate then.
    pub unknown_account: Option<NotReady>,
    /// Who starts it.
    pub started_by: StartedBy,
}

/// Who starts the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StartedBy {
    /// Whoever restarts it.
    #[default]
    Keeper,
    /// An OpAMP Supervisor, which whoever restarts it starts.
    Supervisor,
}

/// What differs between a host, a container and an embedding program.
#[derive(Debug, Clone)]
pub struct Ports {
    /// Where offers come from.
    pub source: Arc<dyn Source>,
    /// How the program is restarted.
    pub restart: Arc<dyn Restart>,
    /// What it says on trial.
    pub log: Arc<dyn ProgramLog>,
    /// Who is told.
    pub observe: Arc<dyn Observe>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

/// The one writer of a store, and all it needs to carry out an update.
#[derive(Debug)]
pub struct Updater {
    pub(crate) store: Writer,
    pub(crate) journal: Journal,
    pub(crate) settings: Settings,
    pub(crate) ports: Ports,
    /// Lines that a failing disk did not take. They are written before anything new begins.
    owed: Mutex<Vec<Entry>>,
}

/// A run that could not come to an outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The chain refused; nothing was touched.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Updater {
    /// Takes the store over. An unreadable journal is set aside and begun anew here; staging left by an
    /// interrupted run is removed. Neither a full disk nor a journal of a newer schema ends this: what needs
    /// them is refused when it is asked for, and the program that is installed can still be run.
    pub fn new(store: Writer, settings: Settings, ports: Ports) -> Self {
        let journal = Journal::at(store.journal_path());
        let updater = Self { store, journal, settings, ports, owed: Mutex::new(vec![]) };
        updater.journal.keep_reserve();
        let swept = updater.store.sweep().map(drop).map_err(Error::from);
        for error in [swept, updater.open_journal()].into_iter().filter_map(Result::err) {
            updater.tell(&Event::Recovering { reason: with_causes(&error) });
        }
        updater
    }

    /// Carries out what `request` asks for, if the policy agrees.
    ///
    /// # Errors
    /// [`Error::Refused`] where nothing was touched; the others where the disk failed.
    pub async fn update(&self, request: &Request) -> Result<Outcome, Error> {
        if let Some(rolled_back) = self.finish_what_is_open().await? {
            return Ok(rolled_back);
        }
        let outcome = self.advance(request).await;
        if let Err(Error::Refused(Refusal { stage, reason, .. })) = &outcome {
            self.tell(&Event::Refused { stage: *stage, reason: reason.clone() });
        }
        self.prune();
        outcome
    }

    /// The whole story.
    async fn advance(&self, request: &Request) -> Result<Outcome, Error> {
        let candidate = match self.select(request).await? {
            Selection::Candidate(candidate) => candidate,
            Selection::Nothing { installed, reason } => {
                return Ok(Outcome::NothingToDo { installed, reason });
            }
        };
        self.check_restart().await?;
        let verified = self.obtain(candidate).await?;
        let staged = self.stage(verified)?;
        let validated = self.validate(staged).await?;
        let on_trial = self.activate(validated)?;
        Ok(self.confirm(on_trial, First::Start).await)
    }

    /// Nothing new begins on top of an open trial or of lines that are owed. Answers the outcome that has to be
    /// told first, if finishing rolled back.
    pub(crate) async fn finish_what_is_open(&self) -> Result<Option<Outcome>, Error> {
        self.pay()?;
        if recover(&self.journal.lines()?) == Recovery::Nothing {
            return Ok(None);
        }
        Ok(match self.recover().await? {
            Resumed::Finished(outcome) if !matches!(*outcome, Outcome::Confirmed { .. }) => Some(*outcome),
            _ => None,
        })
    }

    /// What an operator may see of a journal that is open here.
    ///
    /// # Errors
    /// Where the journal cannot be read.
    pub fn state(&self) -> Result<State, Error> {
        Ok(State::of(&self.journal.lines()?))
    }

    /// The store this updater writes.
    pub fn store(&self) -> &Writer {
        &self.store
    }

    pub(crate) fn slot_of(&self, build: &Build) -> Result<Slot, StoreError> {
        self.store.slot(&build.slot()?)
    }

    pub(crate) fn record(&self, entry: Entry) -> Result<(), JournalError> {
        self.pay()?;
        self.journal.record(self.ports.clock.now(), entry)
    }

    /// For lines after which the program must be looked after, whatever the disk says: what cannot be written
    /// is owed. Until it is paid the open trial's line stands, and that leads recovery the same way.
    pub(crate) fn record_or_owe(&self, entry: Entry) {
        if let Err(error) = self.record(entry.clone()) {
            self.tell(&Event::Notice { words: format!("{}; it is written later", with_causes(&error)) });
            self.owed.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        }
    }

    pub(crate) fn pay(&self) -> Result<(), JournalError> {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(entry) = owed.first() {
            self.journal.record(self.ports.clock.now(), entry.clone())?;
            owed.remove(0);
        }
        Ok(())
    }

    pub(crate) fn tell(&self, event: &Event) {
        self.ports.observe.observe(event);
    }

    /// Where nothing is confirmed yet, what `current` names counts as confirmed: it is what runs.
    fn open_journal(&self) -> Result<(), Error> {
        if self.journal.is_torn() {
            let path = self.journal.path().display();
            let reason = format!(
                "journal {path}: the last line is torn, as a power cut leaves one; nothing had been promised with it, and the next line moves it to {path}.torn"
            );
            self.tell(&Event::Recovering { reason });
        }
        let lines = match self.journal.lines() {
            Err(error @ JournalError::Unreadable { .. }) => self.salvage(error)?,
            other => other?,
        };
        if State::of(&lines).confirmed().is_empty()
            && !lines.iter().any(|line| matches!(line.entry, Entry::Trial { .. }))
            && let Some(slot) = self.store.current_slot()?
            && slot.check().is_ok()
        {
            self.record(Entry::Confirmed { build: Build::of(&slot)?, leaving: None, took: None })?;
        }
        Ok(())
    }

    fn salvage(&self, error: JournalError) -> Result<Vec<Line>, JournalError> {
        let reason = error.to_string();
        let JournalError::Unreadable { readable, .. } = error else { return Err(error) };
        let kept_as = self.journal.begin_anew(self.ports.clock.now(), &reason, readable.clone())?;
        let reason = format!("{reason}; kept as {}, begun anew", kept_as.display());
        self.tell(&Event::Recovering { reason });
        Ok(readable)
    }
}

/// An error and its causes in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Exactly this version; where absent, the one the policy selects.
    pub to: Option<Version>,
}
