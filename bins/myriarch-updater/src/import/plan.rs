//! What an import would change, worked out without changing anything.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use myriarch_cli::import::{PLAN_SCHEMA, PlanDocument, PlannedFile};
use myriarch_systemd::{ActiveState, Unit};
use myriarch_update::{Accept, Refusal, installed_program};
use myriarch_verify::Digest;

use super::{
    exec_start,
    program::{Named, Program, ProgramError},
    record::{Change, Kind},
    sandbox::{Sight, sight},
    supervisor_file,
};
use crate::units::{self, UnitFile};

/// The name of the drop-in.
pub(crate) const DROP_IN: &str = "50-myriarch.conf";

/// Keys of a unit whose commands are shown to the operator where they name the installed program.
const BESIDES: &[&str] = &["ExecCondition", "ExecStartPre", "ExecStartPost", "ExecReload", "ExecStop"];

/// Where packages put units.
const PACKAGED: &[&str] =
    &["/usr/lib/systemd/system", "/lib/systemd/system", "/usr/local/lib/systemd/system"];

/// An import that cannot be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    /// The unit cannot be imported as it is.
    #[error("{reason}")]
    Unit {
        /// What was expected and what was found.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// The installed program is not taken over.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A file could not be read.
    #[error("{}", path.display())]
    Unreadable {
        /// It.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) unit: &'a Unit,
    /// The service as the configuration names it.
    pub(crate) service: &'a str,
    pub(crate) store: &'a Path,
    /// The program's path through `current`.
    pub(crate) program: &'a Path,
    /// Where units and drop-ins of this machine are.
    pub(crate) units: &'a Path,
    pub(crate) accept: &'a BTreeSet<Accept>,
    /// The command that puts everything back.
    pub(crate) undo: String,
}

/// The plan.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The installed program, links followed.
    pub(crate) installed: PathBuf,
    pub(crate) changes: Vec<Change>,
    pub(crate) was_active: bool,
    pub(crate) document: PlanDocument,
}

/// Works it out.
pub(crate) fn plan(asked: &Asked<'_>) -> Result<Plan, PlanError> {
    let Asked { unit, .. } = asked;
    if let Err(error) = unit.startable() {
        return Err(cannot(error.to_string(), error.hint()));
    }
    let lines = match sight(unit, asked.store) {
        Sight::With(lines) => lines,
        Sight::Never { reason, hint } => return Err(cannot(format!("{}: {reason}", unit.name), hint)),
    };
    let program = Program::of(unit).map_err(|error| match error {
        ProgramError::Unclear { reason, hint } => cannot(reason, hint),
        ProgramError::Unreadable { path, source } => PlanError::Unreadable { path, source },
    })?;
    let through_current = asked.program.to_string_lossy();
    if program.path == *asked.program {
        return Err(cannot(
            format!("{}: it runs {through_current} already", unit.name),
            "it is imported, or was set up by hand: `update` works",
        ));
    }
    let installed = installed_program(&program.path, asked.accept)?;
    let texts = texts(unit)?;
    let (mut service_lines, mut changes, mut files) = (Vec::new(), Vec::new(), Vec::new());
    match &program.named {
        Named::Unit => service_lines.extend(new_exec_start(asked, &texts)?),
        Named::Variable { name, file: None } => {
            service_lines
                .push(format!("Environment={}", exec_start::quoted(&format!("{name}={through_current}"))));
        }
        Named::Variable { name, file: Some(file) } => {
            return Err(cannot(
                format!(
                    "{}: its supervisor's program is ${{env:{name}}}, which {} sets; a drop-in cannot win over that file",
                    unit.name,
                    file.display()
                ),
                format!("take {name} out of that file and into Environment= of the unit, then import again"),
            ));
        }
        Named::Supervisor { configuration, text } => {
            let (change, file) = edit(configuration, text, &through_current)?;
            changes.push(change);
            files.push(file);
        }
    }
    service_lines.extend(lines);
    for UnitFile { name, text } in units::ALL {
        if !is_there(name, asked.units) {
            changes.push(Change { path: asked.units.join(name), after: text.to_owned(), kind: Kind::Shared });
        }
    }
    let directory = asked.units.join(format!("{}.d", unit.name));
    let path = directory.join(DROP_IN);
    if path.symlink_metadata().is_ok() {
        return Err(cannot(
            format!("{}: expected no such drop-in, found one that no record tells of", path.display()),
            "see who wrote it; remove it, then import again",
        ));
    }
    let after = drop_in(asked.service, &asked.undo, &service_lines);
    // The drop-in is written last: it is what makes the rest count.
    changes.push(Change { path, after, kind: Kind::New });
    let new = changes.iter().filter(|change| !matches!(change.kind, Kind::Scalar { .. }));
    files
        .extend(new.map(|change| PlannedFile::New { path: change.path.clone(), text: change.after.clone() }));
    let was_active = matches!(unit.active_state, ActiveState::Active | ActiveState::Activating);
    Ok(Plan {
        document: PlanDocument {
            schema: PLAN_SCHEMA,
            unit: unit.name.to_string(),
            program: installed.clone(),
            store: asked.store.to_owned(),
            files,
            remarks: remarks(asked, &texts, &program.path),
            then: then(asked, was_active),
            undo: asked.undo.clone(),
        },
        installed,
        changes,
        was_active,
    })
}

/// Whether the machine has the unit `name`, in `units` or from a package.
fn is_there(name: &str, units: &Path) -> bool {
    let packaged = PACKAGED.iter().map(Path::new);
    packaged.chain([units]).any(|directory| directory.join(name).exists())
}

/// The unit's file and its drop-ins, in the order in which they count.
fn texts(unit: &Unit) -> Result<Vec<(PathBuf, String)>, PlanError> {
    let Some(fragment) = &unit.fragment_path else {
        let reason = format!("{}: expected a file of its own, found none", unit.name);
        return Err(cannot(reason, "a unit made at run time cannot be imported; write a file for it"));
    };
    let paths = std::iter::once(fragment).chain(&unit.drop_in_paths);
    let read = |path: &PathBuf| match fs::read_to_string(path) {
        Ok(text) => Ok((path.clone(), text)),
        Err(source) => Err(PlanError::Unreadable { path: path.clone(), source }),
    };
    paths.map(read).collect()
}

fn new_exec_start(asked: &Asked<'_>, texts: &[(PathBuf, String)]) -> Result<[String; 2], PlanError> {
    let unit = asked.unit;
    let later = texts.iter().skip(1).find(|(path, text)| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.as_str() > DROP_IN && text.lines().any(|line| line.trim_start().starts_with("ExecStart="))
    });
    if let Some((path, _)) = later {
        return Err(cannot(
            format!("{}: it sets ExecStart=, and would win over {DROP_IN}", path.display()),
            format!("rename it so that it sorts before {DROP_IN}, then import again"),
        ));
    }
    let commands = exec_start::commands(texts.iter().map(|(_, text)| text.as_str()), "ExecStart");
    let [command] = commands.as_slice() else {
        let reason = format!("{}: expected one ExecStart=, found {}", unit.name, commands.len());
        return Err(cannot(reason, "a unit that runs several programs cannot be imported"));
    };
    let shown = unit.exec_start.first().map(|command| command.path.clone()).unwrap_or_default();
    let replaced = exec_start::with_program(command, &asked.program.to_string_lossy());
    // A bare name is searched by systemd; a path must be the one that systemd runs.
    match replaced.filter(|(_, word)| !word.contains('/') || Path::new(word) == shown) {
        Some((command, _)) => Ok(["ExecStart=".to_owned(), format!("ExecStart={command}")]),
        None => Err(cannot(
            format!(
                "{}: expected an ExecStart= that begins with {}, found {command:?}",
                unit.name,
                shown.display()
            ),
            "write the program's path in the unit as it is, without quotes and specifiers",
        )),
    }
}

fn edit(configuration: &Path, text: &str, program: &str) -> Result<(Change, PlannedFile), PlanError> {
    let unclear = || {
        cannot(
            format!("{}: agent.executable cannot be replaced in place", configuration.display()),
            "write it as a plain text on one line, without anchors, then import again",
        )
    };
    let found = supervisor_file::executable(text).ok_or_else(unclear)?;
    let after = supervisor_file::with_executable(text, program).ok_or_else(unclear)?;
    let (start, before) = (found.range.start, text[found.range].to_owned());
    let written = after[start..].to_owned();
    let written = &written[..after.len() - (text.len() - before.len())];
    let line = text[..start].matches('\n').count();
    let line_of = |text: &str| text.lines().nth(line).unwrap_or_default().to_owned();
    let file = PlannedFile::Line {
        path: configuration.to_owned(),
        line: line + 1,
        before: line_of(text),
        after: line_of(&after),
    };
    let of = Digest::of(text.as_bytes());
    let kind = Kind::Scalar { before, after: written.to_owned(), of };
    Ok((Change { path: configuration.to_owned(), after, kind }, file))
}

fn drop_in(service: &str, undo: &str, service_lines: &[String]) -> String {
    let mut text = format!(
        "# Written by `myriarch-updater import`; `{undo}` puts everything back.\n[Unit]\n\
         Wants=myriarch-boot@{service}.service\nAfter=myriarch-boot@{service}.service\n\
         OnFailure=myriarch-recover@{service}.service\n"
    );
    if !service_lines.is_empty() {
        text.push_str("\n[Service]\n");
        for line in service_lines {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// What stays as it is and names the installed program.
fn remarks(asked: &Asked<'_>, texts: &[(PathBuf, String)], installed: &Path) -> Vec<String> {
    let mut remarks = Vec::new();
    let installed = installed.to_string_lossy();
    for key in BESIDES {
        for command in exec_start::commands(texts.iter().map(|(_, text)| text.as_str()), key) {
            if command
                .split_whitespace()
                .any(|word| word.trim_matches(['"', '\'', '-', '+', '!']) == installed)
            {
                let through = asked.program.display();
                remarks.push(format!(
                    "{key}={command} goes on to name {installed}: after an update it is another version than what runs; {through} follows"
                ));
            }
        }
    }
    remarks
}

fn then(asked: &Asked<'_>, was_active: bool) -> Vec<String> {
    let mut then = vec!["systemctl daemon-reload".to_owned()];
    if was_active {
        then.push(format!("systemctl restart {}, and its health is judged", asked.unit.name));
        then.push("if it is not healthy, everything is put back and it is restarted as it was".to_owned());
    } else {
        then.push(format!("nothing is started: {} does not run now", asked.unit.name));
    }
    then
}

pub(crate) fn cannot(reason: impl Into<String>, hint: impl Into<String>) -> PlanError {
    PlanError::Unit { reason: reason.into(), hint: hint.into() }
}
