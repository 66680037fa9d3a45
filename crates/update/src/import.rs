//! Import: a program that was installed without this store becomes its first slot.
//!
//! Nothing vouches for such a file but the operator who asks, and the evidence says exactly that. What can be
//! checked is: that nobody but its owner could have changed it, that it is a program and one that says who it
//! is, and that a copy in a slot is the same program as before. The bytes are read once, from a file that is
//! opened once. The journal has its line before `current` names the slot.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use myriarch_policy::Version;
use myriarch_store::{Current, FileId, Manifest, Slot};
use myriarch_verify::Evidence;

use crate::{
    build::Build,
    chain::{Error, Updater, with_causes},
    journal::Entry,
    outcome::{Refusal, RefusalKind, Stage},
    recovery::{Recovery, recover},
    redact::Redactor,
    select::quarantined,
    start::Start,
    validate::{ended, quote, said_version},
};

/// How every program of Linux begins.
const ELF: &[u8] = b"\x7fELF";
const WRITABLE_BY_OTHERS: u32 = 0o022;
const SET_ID: u32 = 0o6000;
/// File capabilities, see capabilities(7).
const CAPABILITIES: &str = "security.capability";
/// What is read at a time, in bytes.
const CHUNK: usize = 1 << 20;

/// A program that is installed and is to be taken over.
#[derive(Debug, Clone)]
pub struct Installed {
    /// Its file; links are followed.
    pub path: PathBuf,
    /// Who asks for it, in words: it is kept as the only evidence there is.
    pub operator: String,
    /// What is taken as it is, though it would be refused.
    pub accept: BTreeSet<Accept>,
}

/// Something about an installed program that is refused unless the operator accepts it by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Accept {
    /// It belongs to another user than root and us.
    Owner,
    /// Others than its owner can write to it.
    Writable,
    /// It has file capabilities, which no slot's copy has.
    Capabilities,
}

/// What an import came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The build that `current` names.
    pub build: Build,
    /// The file it was taken from, links followed.
    pub from: PathBuf,
}

impl Updater {
    /// Takes `installed` over: publishes its bytes as a slot, writes it down, and makes `current` name it.
    /// Nothing is stopped or started. Idempotent.
    ///
    /// # Errors
    /// Refused where `current` names something else already, where a trial is open, or where the file is not
    /// to be trusted or not the configured program; nothing but an unused slot was made then.
    pub async fn import(&self, installed: &Installed) -> Result<Imported, Error> {
        self.pay()?;
        self.nothing_is_open()?;
        self.store
            .fit()
            .map_err(|unfit| refused(RefusalKind::Environment, unfit.to_string(), &unfit.hint()))?;
        let mut program = Opened::open(&installed.path)?;
        program.judge(&installed.accept)?;
        let start = self.start_of_file(Some(program.id())).await;
        let redactor = self.redactor(&start);
        let version = self.version_of(&program.path, &start, &redactor).await?;
        let slot = self.copy(&mut program, installed, &version)?;
        // The copy answers for itself: it must run here, as whom it will run.
        self.check_version(&slot, &start, &redactor).await?;
        let build = Build::of(&slot)?;
        if let Some(standing) = self.state()?.standing(|known| known.binary == build.binary) {
            return Err(quarantined(standing).into());
        }
        self.make_current(&slot, &build, &program.path)?;
        Ok(Imported { build, from: program.path })
    }

    /// Gives the program back: from here on this store has confirmed nothing, and `current` is gone. The slots
    /// stay. Idempotent.
    ///
    /// # Errors
    /// Refused while a trial is open.
    pub fn undo_import(&self) -> Result<(), Error> {
        self.pay()?;
        self.nothing_is_open()?;
        let undone = self.state()?.confirmed().is_empty() && self.store.current()? == Current::Absent;
        if undone {
            return Ok(());
        }
        self.record(Entry::ImportUndone)?;
        Ok(self.store.clear()?)
    }

    /// That no trial is open and no way back.
    ///
    /// # Errors
    /// Refused where one is.
    pub fn nothing_is_open(&self) -> Result<(), Error> {
        if recover(&self.journal.lines()?) == Recovery::Nothing {
            return Ok(());
        }
        Err(refused(
            RefusalKind::Environment,
            "expected no trial, found one that is open".to_owned(),
            "`recover` brings it to its end; then try again",
        )
        .into())
    }

    /// That the program at `path` accepts the configuration that `current` runs with, asked with the arguments and in
    /// the surroundings of the one that runs. Where nothing runs, nothing is asked.
    ///
    /// # Errors
    /// Refused where it does not.
    pub async fn installed_accepts(&self, path: &Path) -> Result<(), Refusal> {
        let current = self.store.current_slot().ok().flatten();
        let start = self.start_of(current.as_ref()).await;
        if start.pid.is_none() {
            return Ok(());
        }
        let redactor = self.redactor(&start);
        let mut arguments = vec!["validate".into()];
        arguments.extend(start.arguments.clone());
        let hint = "change the configuration first, or install another version; with the unit stopped, nothing is asked";
        let reason = match self.ask_program(path, &start, arguments).await {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => format!(
                "{} does not accept the configuration that runs: {}",
                path.display(),
                ended(&output, &redactor)
            ),
            Err(refusal) => redactor.redact(&refusal.reason),
        };
        Err(refused(RefusalKind::Candidate, reason, hint))
    }

    /// What the installed file says it is, asked in the surroundings of the one that runs.
    async fn version_of(&self, path: &Path, start: &Start, redactor: &Redactor) -> Result<Version, Refusal> {
        let output = self.ask_program(path, start, vec!["--version".into()]).await?;
        let said = String::from_utf8_lossy(&output.stdout);
        let expected = format!("\"{} version …\"", self.settings.distribution);
        let wrong = |found: String| {
            refused(
                RefusalKind::Candidate,
                format!("{} --version: expected {expected}, found {found}", path.display()),
                "set program.binary and program.distribution to what is installed",
            )
        };
        if !output.status.success() {
            return Err(wrong(ended(&output, redactor)));
        }
        match said_version(&said) {
            Some((name, version)) if name == self.settings.distribution => {
                version.parse().map_err(|error| wrong(format!("{version:?}: {error}")))
            }
            _ => Err(wrong(quote(&output.stdout, redactor))),
        }
    }

    fn copy(&self, program: &mut Opened, installed: &Installed, version: &Version) -> Result<Slot, Error> {
        let disk = |error: &dyn std::error::Error| {
            let hint = "check the space and the permissions of the store";
            refused(RefusalKind::Environment, with_causes(error), hint)
        };
        let mut staging = self.store.staging(&self.settings.binary).map_err(|error| disk(&error))?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = program.file.read(&mut chunk).map_err(|error| program.unreadable(&error))?;
            if length == 0 {
                break;
            }
            staging.write_all(&chunk[..length]).map_err(|error| disk(&error))?;
            if staging.length() > self.settings.largest_program {
                return Err(program.too_large(self.settings.largest_program).into());
            }
        }
        program.is_unchanged()?;
        let evidence = Evidence::Imported {
            path: program.path.display().to_string(),
            operator: installed.operator.clone(),
        };
        let published = self.store.publish(staging, |binary| Manifest {
            schema: Manifest::SCHEMA,
            name: self.settings.binary.clone(),
            version: version.to_string(),
            binary,
            archive: binary,
            evidence: serde_json::to_value(&evidence).unwrap_or_default(),
            source: program.path.display().to_string(),
            staged_at: self.ports.clock.now().to_string(),
        });
        Ok(published.map_err(|error| disk(&error))?)
    }

    fn make_current(&self, slot: &Slot, build: &Build, from: &Path) -> Result<(), Error> {
        match self.store.current()? {
            Current::Slot(name) if name == *slot.name() => return Ok(()),
            Current::Absent => {}
            Current::Slot(name) => return Err(taken(&name.to_string()).into()),
            Current::Foreign { target } => return Err(taken(&target.display().to_string()).into()),
        }
        // Written by a run that died before the switch: once is enough.
        if self.state()?.confirmed().last() != Some(build) {
            self.record(Entry::Imported { build: build.clone(), from: from.to_owned() })?;
        }
        Ok(self.store.point(slot)?)
    }
}

/// The program at `path`, links followed, if it could be imported as far as its file alone tells.
///
/// # Errors
/// For everything that [`Updater::import`] refuses it for.
pub fn installed_program(path: &Path, accept: &BTreeSet<Accept>) -> Result<PathBuf, Refusal> {
    let mut opened = Opened::open(path)?;
    opened.judge(accept)?;
    Ok(opened.path)
}

/// The installed file, opened once.
#[derive(Debug)]
struct Opened {
    path: PathBuf,
    file: File,
    metadata: fs::Metadata,
}

impl Opened {
    fn open(path: &Path) -> Result<Self, Refusal> {
        let failed = |error: io::Error| {
            let reason = format!("{}: {error}", path.display());
            refused(RefusalKind::Environment, reason, "name the installed program by an absolute path")
        };
        let path = fs::canonicalize(path).map_err(failed)?;
        // Opening a FIFO would otherwise wait for a writer.
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        Ok(Self { path, file, metadata })
    }

    fn id(&self) -> FileId {
        FileId::from(&self.metadata)
    }

    /// Everything that can be told from the file alone.
    fn judge(&mut self, accept: &BTreeSet<Accept>) -> Result<(), Refusal> {
        let path = self.path.display();
        if !self.metadata.is_file() {
            let reason = format!("{path}: expected a regular file, found something else");
            return Err(refused(RefusalKind::Trust, reason, "name the installed program's own file"));
        }
        let (mode, owner) = (self.metadata.mode() & 0o7777, self.metadata.uid());
        let we = rustix::process::geteuid().as_raw();
        if mode & WRITABLE_BY_OTHERS != 0 && !accept.contains(&Accept::Writable) {
            let reason =
                format!("{path}: expected a file that its owner alone can write, found mode {mode:04o}");
            let hint = format!(
                "see who changed it, then `chmod go-w {path}`, or `--accept writable` takes it as it is"
            );
            return Err(refused(RefusalKind::Trust, reason, &hint));
        }
        if owner != 0 && owner != we && !accept.contains(&Accept::Owner) {
            let reason = format!("{path}: expected a file of root's, found one of user {owner}");
            let hint = format!(
                "see who changed it, then `chown root {path}`, or `--accept owner` takes it as it is"
            );
            return Err(refused(RefusalKind::Trust, reason, &hint));
        }
        if mode & SET_ID != 0 {
            let reason =
                format!("{path}: expected no set-user-ID or set-group-ID bit, found mode {mode:04o}");
            let hint = "a slot's copy has none: give the unit User=, Group= and AmbientCapabilities= instead";
            return Err(refused(RefusalKind::Candidate, reason, hint));
        }
        if has_capabilities(&self.file) && !accept.contains(&Accept::Capabilities) {
            let reason = format!(
                "{path}: expected no file capabilities, found some, which a slot's copy would not have"
            );
            let hint = format!(
                "`getcap {path}` shows them; give the unit the same as AmbientCapabilities=, then `--accept capabilities`"
            );
            return Err(refused(RefusalKind::Candidate, reason, &hint));
        }
        let mut magic = [0; ELF.len()];
        // Read where it stands, so that the copy begins at the beginning.
        let read =
            rustix::io::pread(&self.file, &mut magic, 0).map_err(|error| self.unreadable(&error.into()))?;
        if &magic[..read] != ELF {
            let found = if magic.starts_with(b"#!") { "a script" } else { "something else" };
            let reason = format!("{path}: expected an ELF program, found {found}");
            let hint = "find the program that it starts, and let the unit start that one";
            return Err(refused(RefusalKind::Candidate, reason, hint));
        }
        Ok(())
    }

    /// What was asked for its version, by its path, is what was copied.
    fn is_unchanged(&self) -> Result<(), Refusal> {
        let what = |metadata: &fs::Metadata| {
            (metadata.dev(), metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
        };
        let still =
            |found: io::Result<fs::Metadata>| found.is_ok_and(|found| what(&found) == what(&self.metadata));
        if still(self.file.metadata()) && still(fs::symlink_metadata(&self.path)) {
            return Ok(());
        }
        let reason = format!("{}: it was changed while it was copied", self.path.display());
        Err(refused(RefusalKind::Environment, reason, "wait for what installs it to end, then try again"))
    }

    fn unreadable(&self, error: &io::Error) -> Refusal {
        let reason = format!("{}: {error}", self.path.display());
        refused(RefusalKind::Environment, reason, "check the file and its disk")
    }

    fn too_large(&self, most: u64) -> Refusal {
        let reason = format!("{}: expected at most {most} bytes, found more", self.path.display());
        refused(
            RefusalKind::Environment,
            reason,
            "raise source.max_archive; a program may have eight times as much",
        )
    }
}

fn has_capabilities(file: &File) -> bool {
    let mut nothing: [u8; 0] = [];
    rustix::fs::fgetxattr(file, CAPABILITIES, &mut nothing).is_ok()
}

fn taken(current: &str) -> Refusal {
    refused(
        RefusalKind::Policy,
        format!("expected a store without a current build, found {current}"),
        "`status` says what it is; to import anew, undo the import first, or name another store",
    )
}

fn refused(kind: RefusalKind, reason: String, hint: &str) -> Refusal {
    Refusal { stage: Stage::Stage, kind, reason, hint: hint.to_owned() }
}
