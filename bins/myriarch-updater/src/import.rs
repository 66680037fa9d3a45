//! `import`: a collector that is installed and belongs to a unit is taken over; `import --undo` gives it back.
//!
//! Everything that is going to be written is worked out and shown first. Then the installed file becomes the first
//! slot, the record of all changes is written, the files are, systemd reads them, and where the unit ran it is
//! restarted and judged. Whatever fails on the way, or is killed, the record leads back to how it was.

mod content;
mod exec_start;
mod plan;
pub(crate) mod program;
mod record;
pub(crate) mod sandbox;
pub(crate) mod supervisor_file;

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use myriarch_cli::{Config, Ending, ExitCode, PlanDocument};
use myriarch_probe::{FileRef, Probe, Verdict};
use myriarch_store::Current;
use myriarch_systemd::{ActiveState, Systemd, SystemdError, Unit, UnitName};
use myriarch_update::{Accept, Event, Installed, Observe, Updater, does_nothing, regular};

use self::{
    plan::{Asked, DROP_IN, Plan, PlanError, plan},
    record::{AsLeft, Conflict, Record, State},
};
use crate::{compose, conduct, verbs, words::with_causes};

/// Starts of a supervisor that may hang in its bootstrap before it counts.
const STARTS: u32 = 3;

/// What both directions need.
pub(crate) struct Import<'a> {
    config: &'a Config,
    /// The command line that leads here, for hints.
    command: String,
    unit: UnitName,
    timeout: Duration,
    units: &'a Path,
    accept: BTreeSet<Accept>,
    systemd: Systemd,
    /// No soak: a program that ran before has only to come up again.
    probe: Probe,
    observe: Arc<dyn Observe>,
}

impl<'a> Import<'a> {
    /// Of the service that `config` describes.
    pub(crate) fn new(
        config: &'a Config,
        asked: &'a verbs::Import,
        command: String,
        observe: Arc<dyn Observe>,
    ) -> Result<Self, Box<Ending>> {
        let unusable = |error: &compose::ComposeError| Box::new(crate::composing(error));
        let Some((unit, timeout)) = compose::unit(config) else {
            let error = io::Error::other("import: expected restart.kind = \"systemd\", found another kind");
            let hint = "set restart.kind and restart.unit to the unit that runs the collector; `config example --detect` finds it";
            return Err(stop(ExitCode::Usage, &error, Some(hint.to_owned())));
        };
        Ok(Self {
            config,
            command,
            unit,
            timeout,
            units: &asked.unit_directory,
            accept: asked.accept.iter().map(|word| Accept::from(*word)).collect(),
            systemd: Systemd::new(),
            probe: compose::return_probe(config).map_err(|error| unusable(&error))?,
            observe,
        })
    }

    /// Shows what an import would change, and changes nothing.
    pub(crate) async fn dry_run(&self) -> Result<PlanDocument, Box<Ending>> {
        if let Some(record) = self.record()? {
            let error = match record.state {
                State::Done => io::Error::other(already(&record)),
                State::Writing => {
                    io::Error::other("an import was interrupted; `import` undoes it first and begins anew")
                }
                State::Undoing => io::Error::other(
                    "an undo was interrupted; `import` brings it to its end first and begins anew",
                ),
            };
            let hint = format!("`{} import --undo` puts everything back", self.command);
            return Err(stop(ExitCode::Failed, &error, Some(hint)));
        }
        Ok(self.plan(&self.ask().await?)?.document)
    }

    /// Takes the program over; `show` is told the plan before anything is changed.
    pub(crate) async fn carry_out(&self, updater: &Updater, show: impl FnOnce(&PlanDocument)) -> Ending {
        self.take_over(updater, show).await.unwrap_or_else(|ending| *ending)
    }

    async fn take_over(
        &self,
        updater: &Updater,
        show: impl FnOnce(&PlanDocument),
    ) -> Result<Ending, Box<Ending>> {
        if let Some(record) = self.record()?
            && let Some(ending) = self.interrupted(updater, record).await?
        {
            return Ok(ending);
        }
        let plan = self.plan(&self.ask().await?)?;
        show(&plan.document);
        if plan.was_active {
            self.was_healthy(&plan.installed).await?;
        }
        let installed =
            Installed { path: plan.installed.clone(), operator: operator(), accept: self.accept.clone() };
        let (mut record, build) = self.begin(updater, &plan, &installed).await?;
        let store = updater.store().root().to_owned();
        match self.switch(&record, &plan).await {
            Ok(()) => {
                record.set(&store, State::Done).map_err(|error| self.failed(&error))?;
                let runs =
                    if plan.was_active { "runs it and is healthy" } else { "will run it when it is started" };
                Ok(Ending::done(format!(
                    "imported: {build}; {} {runs}\nfrom now on `update`, `rollback`, `status` and `history` work; `{} import --undo` puts everything back",
                    self.unit, self.command
                )))
            }
            Err(reason) => Ok(self.go_back(updater, record, reason).await),
        }
    }

    /// The record first, then the slot and `current`: one that is killed between them can be undone.
    async fn begin(
        &self,
        updater: &Updater,
        plan: &Plan,
        installed: &Installed,
    ) -> Result<(Record, String), Box<Ending>> {
        let refused = |error: &myriarch_update::Error| Box::new(conduct::failed(error));
        let store = updater.store();
        updater.nothing_is_open().map_err(|error| refused(&error))?;
        let is_absent = || store.current().is_ok_and(|current| current == Current::Absent);
        if !is_absent() {
            // Not ours to undo: either it is refused here, or it is this very program already.
            updater.import(installed).await.map_err(|error| refused(&error))?;
        }
        let was_absent = is_absent();
        let unit = &plan.document.unit;
        let record = Record::begin(store.root(), unit, &plan.installed, plan.was_active, &plan.changes)
            .map_err(|error| {
                let hint = "nothing was changed: see what it is now, then `import` again";
                stop(ExitCode::Failed, &error, Some(hint.to_owned()))
            })?;
        match updater.import(installed).await {
            Ok(imported) => {
                let build = imported.build.name().clone();
                self.tell(&format!(
                    "{} is the slot {build}, and `current` names it",
                    imported.from.display()
                ));
                Ok((record, build))
            }
            Err(error) => {
                if was_absent && !is_absent() {
                    updater.undo_import().map_err(|error| refused(&error))?;
                }
                self.forget(&record)?;
                Err(refused(&error))
            }
        }
    }

    /// An import or an undo that was killed: taken for done if all of it came about, else put back, so that it can be
    /// made anew.
    async fn interrupted(
        &self,
        updater: &Updater,
        mut record: Record,
    ) -> Result<Option<Ending>, Box<Ending>> {
        if record.state == State::Done {
            return Ok(Some(Ending::done(already(&record))));
        }
        updater.nothing_is_open().map_err(|error| Box::new(conduct::failed(&error)))?;
        let unit = self.ask().await?;
        if record.state == State::Writing && self.came_about(updater, &record, &unit).await? {
            let store = updater.store().root();
            record.set(store, State::Done).map_err(|error| self.failed(&error))?;
            return Ok(Some(Ending::done(format!(
                "an import was interrupted when all of it was done: it counts as done\n{}",
                already(&record)
            ))));
        }
        self.tell(match record.state {
            State::Undoing => "an undo was interrupted; it is brought to its end, and the import begins anew",
            _ => "an import was interrupted; its changes are undone, and it begins anew",
        });
        let starts = starts(&record, &unit);
        // Whatever runs by now, it must be what was installed before it can be taken over.
        if self.put_back_and_restart(&mut record, starts).await? {
            self.give_up(updater, &record)?;
            return Ok(None);
        }
        let error = io::Error::other(format!(
            "what was interrupted is undone, and {} is not healthy with {}",
            self.unit,
            record.program.display()
        ));
        let hint = format!(
            "`journalctl -u {}` says more; the record of the import and `current` are kept: mend that program, then `{} import --undo`",
            self.unit, self.command
        );
        Err(stop(ExitCode::NoHealthy, &error, Some(hint)))
    }

    /// Whether an import came about of which nobody wrote down that it did: updates were confirmed since, or what
    /// runs is what it made the unit run, and is well.
    async fn came_about(&self, updater: &Updater, record: &Record, unit: &Unit) -> Result<bool, Box<Ending>> {
        let through = self.through_current();
        let follows = program::Program::of(unit).is_ok_and(|found| found.path == through);
        if !follows || !record.is_applied().map_err(|error| self.failed(&error))? {
            return Ok(false);
        }
        let state = updater.state().map_err(|error| Box::new(conduct::failed(&error)))?;
        if state.confirmed().len() > 1 {
            return Ok(true);
        }
        Ok(runs(unit) && self.judge(&through).await == Verdict::Healthy)
    }

    /// Writes the files and, where the unit ran, lets it run what they say.
    async fn switch(&self, record: &Record, plan: &Plan) -> Result<(), String> {
        record.apply(&plan.changes).map_err(|error| with_causes(&error))?;
        self.systemd.daemon_reload().await.map_err(|error| with_causes(&error))?;
        let unit = self.systemd.unit(&self.unit).await.map_err(|error| with_causes(&error))?;
        let drop_in = self.units.join(format!("{}.d", unit.name)).join(DROP_IN);
        if !unit.drop_in_paths.contains(&drop_in) {
            return Err(format!("{}: systemd does not read it for {}", drop_in.display(), unit.name));
        }
        let program = self.through_current();
        let runs = program::Program::of(&unit).map(|found| found.path);
        // A supervisor that runs goes on with the environment that it was started with.
        let told = plan.was_active && unit.exec_start.first().is_some_and(|command| command.path != program);
        if !told && runs.as_ref().is_ok_and(|found| *found != program) {
            return Err(format!("{}: expected it to run {}, it does not", unit.name, program.display()));
        }
        if !plan.was_active {
            return Ok(());
        }
        self.restart(&program).await
    }

    /// Restarts the unit and judges it. A supervisor that hangs in its bootstrap is started again (ADR 0008): that is
    /// nothing of the program's.
    async fn restart(&self, program: &Path) -> Result<(), String> {
        let effective = self.config.validate.effective.as_deref();
        let hangs = || {
            let text = effective.and_then(|path| regular::text(path).ok());
            text.is_some_and(|text| does_nothing(&text))
        };
        for left in (0..STARTS).rev() {
            self.tell(&format!("restarting {}", self.unit));
            self.systemd.restart(&self.unit, self.timeout).await.map_err(|error| with_causes(&error))?;
            match self.judge(program).await {
                Verdict::Healthy => return Ok(()),
                verdict if left == 0 || !hangs() => return Err(verdict.to_string()),
                _ => self.tell("the supervisor hangs in its bootstrap; it is started once more"),
            }
        }
        Err("it was not started".to_owned())
    }

    /// The import failed: all is put back, and what ran before runs again.
    async fn go_back(&self, updater: &Updater, mut record: Record, reason: String) -> Ending {
        self.tell(&format!("the import failed, everything is put back: {reason}"));
        let starts = record.was_active;
        let back = match self.put_back_and_restart(&mut record, starts).await {
            Ok(healthy) => self.give_up(updater, &record).map(|()| healthy),
            Err(ending) => Err(ending),
        };
        let error = io::Error::other(format!("the import failed: {reason}"));
        match back {
            Ok(true) => Ending::failed(
                if record.was_active { ExitCode::RolledBack } else { ExitCode::Failed },
                &error,
                Some(format!("everything is as it was before; `journalctl -u {}` says more", self.unit)),
            ),
            Ok(false) => Ending::failed(
                ExitCode::NoHealthy,
                &error,
                Some(format!(
                    "every file is as it was before, and yet {} is not healthy: see `journalctl -u {}`",
                    record.program.display(),
                    self.unit
                )),
            ),
            Err(ending) => *ending,
        }
    }

    /// Puts everything back.
    pub(crate) async fn undo(&self, updater: &Updater) -> Ending {
        self.undone(updater).await.unwrap_or_else(|ending| *ending)
    }

    async fn undone(&self, updater: &Updater) -> Result<Ending, Box<Ending>> {
        let Some(mut record) = self.record()? else {
            let store = self.config.store.path.display();
            return Ok(Ending::done(format!("nothing to undo: no import is recorded in {store}")));
        };
        updater.nothing_is_open().map_err(|error| Box::new(conduct::failed(&error)))?;
        if !record.program.exists() {
            let error = io::Error::other(format!(
                "{}: expected the program that was installed before, found none",
                record.program.display()
            ));
            let hint = "install its package again, then `import --undo`";
            return Err(stop(ExitCode::Failed, &error, Some(hint.to_owned())));
        }
        let unit = self.systemd.unit(&self.unit).await;
        let is_active = unit.as_ref().is_ok_and(|unit| starts(&record, unit));
        let was_healthy = record.state == State::Done
            && unit.is_ok_and(|unit| runs(&unit))
            && self.judge(&self.through_current()).await == Verdict::Healthy;
        if was_healthy {
            updater
                .installed_accepts(&record.program)
                .await
                .map_err(|refusal| Box::new(Ending::from(&refusal)))?;
        }
        let left = record.as_left().map_err(|error| self.failed(&error))?;
        let healthy = self.put_back_and_restart(&mut record, is_active).await?;
        if !healthy && was_healthy {
            return Err(self.import_again(updater, record, left).await);
        }
        self.give_up(updater, &record)?;
        let (program, store) = (record.program.display(), self.config.store.path.display());
        if !healthy {
            let error = io::Error::other(format!(
                "every file is put back, and {} is not healthy with {program}",
                self.unit
            ));
            let hint = format!("`journalctl -u {}` says more", self.unit);
            return Err(stop(ExitCode::NoHealthy, &error, Some(hint)));
        }
        let runs = if is_active { "runs it and is healthy" } else { "will run it when it is started" };
        Ok(Ending::done(format!(
            "undone: every file is as it was; {program} is the program again, and {} {runs}\nthe store {store} is not used any more and can be removed",
            self.unit
        )))
    }

    /// The installed program is not healthy and `current` was: the undo is taken back.
    async fn import_again(&self, updater: &Updater, mut record: Record, left: AsLeft) -> Box<Ending> {
        let program = record.program.display().to_string();
        self.tell(&format!("{program} is not healthy: the undo is taken back"));
        if let Err(error) = record.apply_again(updater.store().root(), left) {
            return self.failed(&error);
        }
        if let Err(ending) = self.reload().await {
            return ending;
        }
        let _ = self.systemd.reset_failed(&self.unit).await;
        let restarted = self.restart(&self.through_current()).await;
        let error = io::Error::other(format!("the undo failed: {} is not healthy with {program}", self.unit));
        let (code, how) = match restarted {
            Ok(()) => (
                ExitCode::RolledBack,
                format!("it is imported as before, and {} runs through `current` and is healthy", self.unit),
            ),
            Err(reason) => (
                ExitCode::NoHealthy,
                format!("it is imported as before, and yet it is not healthy through `current`: {reason}"),
            ),
        };
        let hint = format!(
            "{how}; `journalctl -u {}` says more: mend {program}, then `{} import --undo`",
            self.unit, self.command
        );
        stop(code, &error, Some(hint))
    }

    /// Files, systemd, the unit: in this order, so that one that is killed can be made again. Answers whether what
    /// runs is healthy; that nothing ran is.
    async fn put_back_and_restart(&self, record: &mut Record, starts: bool) -> Result<bool, Box<Ending>> {
        self.put_back(record)?;
        self.reload().await?;
        if !starts {
            return Ok(true);
        }
        // A trial that crashed may have used its starts up; they were ours.
        let _ = self.systemd.reset_failed(&self.unit).await;
        let restarted = self.restart(&record.program).await;
        if let Err(reason) = &restarted {
            self.tell(reason);
        }
        Ok(restarted.is_ok())
    }

    /// The journal, `current`, the record: all is put back, and nothing of the import is needed any more.
    fn give_up(&self, updater: &Updater, record: &Record) -> Result<(), Box<Ending>> {
        updater.undo_import().map_err(|error| Box::new(conduct::failed(&error)))?;
        self.forget(record)
    }

    /// The program's path through `current`.
    fn through_current(&self) -> PathBuf {
        self.config.store.path.join("current/bin").join(&self.config.program.binary)
    }

    fn plan(&self, unit: &Unit) -> Result<Plan, Box<Ending>> {
        let config = self.config;
        let program = self.through_current();
        let mut plan = plan(&Asked {
            unit,
            service: config.service.as_str(),
            store: &config.store.path,
            program: &program,
            units: self.units,
            accept: &self.accept,
            undo: format!("{} import --undo", self.command),
        })
        .map_err(|error| match &error {
            PlanError::Refused(refusal) => Box::new(Ending::from(refusal)),
            PlanError::Unit { hint, .. } => stop(ExitCode::Failed, &error, Some(hint.clone())),
            PlanError::Unreadable { .. } => stop(ExitCode::Failed, &error, Some("run as root".to_owned())),
        })?;
        let expected = Config::default_path(&config.service);
        if !self.command.ends_with(&expected.display().to_string()) && !expected.exists() {
            plan.document.remarks.push(format!(
                "myriarch-boot@, myriarch-recover@ and myriarch-updater@ read {}: put the configuration there",
                expected.display()
            ));
        }
        Ok(plan)
    }

    async fn ask(&self) -> Result<Unit, Box<Ending>> {
        self.systemd.unit(&self.unit).await.map_err(|error| systemd_failed(&error))
    }

    async fn reload(&self) -> Result<(), Box<Ending>> {
        self.systemd.daemon_reload().await.map_err(|error| systemd_failed(&error))
    }

    /// Without this, an import could only fail, and be blamed for it.
    async fn was_healthy(&self, installed: &Path) -> Result<(), Box<Ending>> {
        match self.judge(installed).await {
            Verdict::Healthy => Ok(()),
            verdict => {
                let error = io::Error::other(format!(
                    "expected {} to be healthy before its program is taken over: {verdict}",
                    self.unit
                ));
                let hint = "see [probe] in the configuration, and `doctor`; nothing was changed";
                Err(stop(ExitCode::Failed, &error, Some(hint.to_owned())))
            }
        }
    }

    async fn judge(&self, program: &Path) -> Verdict {
        match FileRef::from(program).id() {
            Ok(file) => self.probe.watch(file, &mut |_| {}).await,
            Err(error) => Verdict::NeverReady { waited: Duration::ZERO, last: error.to_string() },
        }
    }

    fn record(&self) -> Result<Option<Record>, Box<Ending>> {
        Record::read(&self.config.store.path).map_err(|error| {
            let hint = "without its record an import is undone by hand: remove the drop-in that it names, then `systemctl daemon-reload`";
            stop(ExitCode::Failed, &error, Some(hint.to_owned()))
        })
    }

    fn put_back(&self, record: &mut Record) -> Result<(), Box<Ending>> {
        let is_needed = self.others_are_imported(&record.unit);
        match record.put_back(&self.config.store.path, is_needed).map_err(|error| self.failed(&error))? {
            Ok(()) => Ok(()),
            Err(conflicts) => Err(cannot_be_put_back(&conflicts, &self.command)),
        }
    }

    /// Whether another unit has a drop-in of ours, and so needs the units that came along.
    fn others_are_imported(&self, unit: &str) -> bool {
        let ours = format!("{unit}.d");
        let directories = std::fs::read_dir(self.units).into_iter().flatten().flatten();
        let mut others = directories.filter(|entry| *entry.file_name() != *ours);
        others.any(|entry| entry.path().join(DROP_IN).exists())
    }

    fn forget(&self, record: &Record) -> Result<(), Box<Ending>> {
        record.forget(&self.config.store.path).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> Box<Ending> {
        let hint = format!(
            "mend that; then `{} import` finishes or `import --undo` puts everything back",
            self.command
        );
        stop(ExitCode::Failed, error, Some(hint))
    }

    fn tell(&self, words: &str) {
        self.observe.observe(&Event::Notice { words: words.to_owned() });
    }
}

/// An ending that stops what is under way.
fn stop(code: ExitCode, error: &(dyn std::error::Error + 'static), hint: Option<String>) -> Box<Ending> {
    Box::new(Ending::failed(code, error, hint))
}

fn runs(unit: &Unit) -> bool {
    matches!(unit.active_state, ActiveState::Active | ActiveState::Activating)
}

/// Whether putting back ends in a start: not of a unit that somebody stopped since, but of one that our own changes
/// may have brought down.
fn starts(record: &Record, unit: &Unit) -> bool {
    runs(unit) || (record.was_active && unit.active_state != ActiveState::Inactive)
}

fn already(record: &Record) -> String {
    format!("{} is imported already: {} runs through `current`", record.program.display(), record.unit)
}

fn systemd_failed(error: &SystemdError) -> Box<Ending> {
    stop(ExitCode::Failed, error, Some(error.hint()))
}

fn cannot_be_put_back(conflicts: &[Conflict], command: &str) -> Box<Ending> {
    let reasons: Vec<_> = conflicts.iter().map(|conflict| conflict.reason.as_str()).collect();
    let error = io::Error::other(reasons.join("\n"));
    let remedies: Vec<_> = conflicts.iter().map(|conflict| conflict.remedy.as_str()).collect();
    let hint = format!(
        "nothing was touched. Keep what you need of it elsewhere, then {} and `{command} import --undo`",
        remedies.join(", ")
    );
    stop(ExitCode::Failed, &error, Some(hint))
}

/// Who answers for the bytes.
fn operator() -> String {
    let uid = rustix::process::getuid().as_raw();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
    });
    let name = name.unwrap_or_else(|| format!("user {uid}"));
    match std::env::var("SUDO_USER") {
        Ok(caller) if caller != name => format!("{caller} (as {name})"),
        _ => name,
    }
}
