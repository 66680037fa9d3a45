//! `import`: a collector that is installed and belongs to a unit is taken over; `import --undo` gives it back.
//!
//! Everything that is going to be written is worked out and shown first. Then the installed file becomes the first
//! slot, the record of all changes is written, the files are, systemd reads them, and where the unit ran it is
//! restarted and judged. Whatever fails on the way, or is killed, the record leads back to how it was.

mod exec_start;
mod plan;
pub(crate) mod program;
mod record;
pub(crate) mod sandbox;
pub(crate) mod supervisor_file;

use std::{collections::BTreeSet, io, path::Path, sync::Arc, time::Duration};

use myriarch_cli::{Config, Ending, ExitCode, PlanDocument};
use myriarch_probe::{FileRef, Probe, Verdict};
use myriarch_systemd::{ActiveState, Systemd, SystemdError, Unit, UnitName};
use myriarch_update::{Accept, Event, Installed, Observe, Updater, does_nothing, regular};

use self::{
    plan::{Asked, DROP_IN, Plan, PlanError, plan},
    record::{Conflict, Record, State},
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
        let mut ran_before = false;
        if let Some(record) = self.record()? {
            if record.state == State::Done {
                return Ok(Ending::done(already(&record)));
            }
            self.tell("an import was interrupted; its changes are undone, and it begins anew");
            ran_before = record.was_active;
            // Whatever runs by now, it must be what was installed before it can be taken over.
            if !self.give_back(updater, &record, ran_before).await? {
                let error = io::Error::other(format!(
                    "an interrupted import is undone, and {} is not healthy with {}",
                    self.unit,
                    record.program.display()
                ));
                let hint = format!("`journalctl -u {}` says more", self.unit);
                return Err(stop(ExitCode::NoHealthy, &error, Some(hint)));
            }
        }
        let mut plan = self.plan(&self.ask().await?)?;
        plan.was_active |= ran_before;
        show(&plan.document);
        if plan.was_active {
            self.was_healthy(&plan.installed).await?;
        }
        let installed =
            Installed { path: plan.installed.clone(), operator: operator(), accept: self.accept.clone() };
        let imported = updater.import(&installed).await.map_err(|error| Box::new(conduct::failed(&error)))?;
        let build = imported.build.name();
        self.tell(&format!("{} is the slot {build}, and `current` names it", imported.from.display()));
        let store = updater.store().root().to_owned();
        let began =
            Record::begin(&store, &plan.document.unit, &plan.installed, plan.was_active, &plan.changes);
        let mut record = began.map_err(|error| self.failed(&error))?;
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
            Err(reason) => Ok(self.go_back(updater, &record, reason).await),
        }
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
        let program = self.config.store.path.join("current/bin").join(&self.config.program.binary);
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
    async fn go_back(&self, updater: &Updater, record: &Record, reason: String) -> Ending {
        self.tell(&format!("the import failed, everything is put back: {reason}"));
        let back = self.give_back(updater, record, record.was_active).await;
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
        let Some(record) = self.record()? else {
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
        let is_active = unit.is_ok_and(|unit| runs(&unit));
        let healthy = self.give_back(updater, &record, is_active).await?;
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

    /// Files, systemd, the unit, the journal, the record: in this order, so that one that is killed can be made again.
    /// Answers whether what runs is healthy; that nothing ran is.
    async fn give_back(&self, updater: &Updater, record: &Record, starts: bool) -> Result<bool, Box<Ending>> {
        self.put_back(record)?;
        self.reload().await?;
        let mut healthy = true;
        if starts {
            // A trial that crashed may have used its starts up; they were ours.
            let _ = self.systemd.reset_failed(&self.unit).await;
            let restarted = self.restart(&record.program).await;
            if let Err(reason) = &restarted {
                self.tell(reason);
            }
            healthy = restarted.is_ok();
        }
        updater.undo_import().map_err(|error| Box::new(conduct::failed(&error)))?;
        self.forget(record)?;
        Ok(healthy)
    }

    fn plan(&self, unit: &Unit) -> Result<Plan, Box<Ending>> {
        let config = self.config;
        let program = config.store.path.join("current/bin").join(&config.program.binary);
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

    fn put_back(&self, record: &Record) -> Result<(), Box<Ending>> {
        match record.put_back(self.others_are_imported(&record.unit)).map_err(|error| self.failed(&error))? {
            Ok(()) => Ok(()),
            Err(conflicts) => Err(changed_since(&conflicts, &self.command)),
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

fn already(record: &Record) -> String {
    format!("{} is imported already: {} runs through `current`", record.program.display(), record.unit)
}

fn systemd_failed(error: &SystemdError) -> Box<Ending> {
    stop(ExitCode::Failed, error, Some(error.hint()))
}

fn changed_since(conflicts: &[Conflict], command: &str) -> Box<Ending> {
    let words = |conflict: &Conflict| {
        format!("{}: expected it as the import left it, found it changed since", conflict.path.display())
    };
    let error = io::Error::other(conflicts.iter().map(words).collect::<Vec<_>>().join("\n"));
    let commands: Vec<_> = conflicts.iter().map(|conflict| format!("`{}`", conflict.command)).collect();
    let hint = format!(
        "nothing was touched. Keep what you need of it elsewhere, then {} and `{command} import --undo`",
        commands.join(", ")
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
