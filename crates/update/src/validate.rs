//! Validate: the candidate answers for itself while what runs goes on running.
//!
//! Its file is looked at first: whether this machine can load it. Then it is asked for its name, for its components and whether it accepts the effective configuration, in the
//! surroundings of the running program. What it answers is compared with what was offered and verified.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use myriarch_probe::exec::{Exec, ExecError, Output};
use myriarch_store::Slot;

use crate::{
    chain::{Error, Updater, with_causes},
    confirm::Baseline,
    effective::{Copy, Taken, does_nothing},
    elf::preflight,
    event::{Check, Event},
    excerpt,
    journal::Leaving,
    outcome::{Refusal, RefusalKind, Stage},
    ports::NotReady,
    redact::Redactor,
    regular,
    stage::Staged,
    start::{Start, shown},
    surroundings::Surroundings,
};

/// A candidate that runs here, is what it was offered as, and accepts the effective configuration.
#[derive(Debug)]
pub(crate) struct Validated {
    pub(crate) slot: Slot,
    pub(crate) baseline: Baseline,
    /// As they were while the program before still ran.
    pub(crate) surroundings: Surroundings,
    /// What is left for good, where an operator rolls back.
    pub(crate) leaving: Option<Leaving>,
    /// The file of the effective configuration, where it is known.
    pub(crate) effective: Option<PathBuf>,
    pub(crate) redactor: Redactor,
}

/// The extension by which a collector answers its supervisor.
const OPAMP: &str = "opamp";

/// What a question may print before the rest is dropped, in bytes.
const OUTPUT_LIMIT: usize = 1024 * 1024;

/// What of it is repeated in a message, in bytes.
const QUOTE_LIMIT: usize = 2048;

impl Updater {
    pub(crate) async fn validate(&self, Staged { slot }: Staged) -> Result<Validated, Error> {
        let current = self.store.current_slot()?;
        let baseline = self.judge_baseline(current.as_ref()).await;
        let start = self.start_of(current.as_ref()).await;
        let redactor = self.redactor(&start);
        let baseline = self.tell_baseline(baseline, &redactor);
        let surroundings = self.surroundings(&start);
        if baseline.is_healthy() {
            self.keep_effective(&start);
        }
        can_be_loaded(&slot)?;
        let checked = async {
            self.check_version(&slot, &start, &redactor).await?;
            self.check_components(&slot, &start, &redactor).await?;
            self.check_configuration(&slot, &start, &baseline, &redactor).await
        };
        // Arguments are the program's, too.
        checked.await.map_err(|refusal| Refusal { reason: redactor.redact(&refusal.reason), ..refusal })?;
        let effective =
            self.settings.validation.effective.clone().or_else(|| self.live_configuration(&start));
        Ok(Validated { slot, baseline, surroundings, leaving: None, effective, redactor })
    }

    pub(crate) fn surroundings(&self, start: &Start) -> Surroundings {
        let mut watched = vec![self.store.root().to_path_buf()];
        let effective = self.settings.validation.effective.clone().or_else(|| start.configuration());
        watched.extend(effective.as_deref().and_then(Path::parent).map(Into::into));
        watched.extend(start.working_directory.clone());
        Surroundings::look(start.pid, watched)
    }

    /// Keeps a copy of the effective configuration. Failing to is no reason to touch anything: validation says
    /// what it lacks.
    pub(crate) fn keep_effective(&self, start: &Start) -> Option<Taken> {
        let live = self.live_configuration(start)?;
        Copy::in_store(self.store.root()).take(&live, start.credentials.as_ref()).ok()
    }

    fn live_configuration(&self, start: &Start) -> Option<PathBuf> {
        start.pid?;
        self.settings.validation.effective.clone().or_else(|| start.configuration())
    }

    pub(crate) async fn check_version(
        &self,
        slot: &Slot,
        start: &Start,
        redactor: &Redactor,
    ) -> Result<(), Refusal> {
        let output = self.ask(slot, start, vec!["--version".into()]).await?;
        let said = String::from_utf8_lossy(&output.stdout);
        let expected = format!("{} version {}", self.settings.distribution, slot.manifest().version);
        let matches =
            output.status.success() && names(&said, &self.settings.distribution, &slot.manifest().version);
        if !matches {
            let (found, hint) = if output.status.success() {
                let hint = "the archive holds another program or version than it was published as; tell its publisher";
                (quote(&output.stdout, redactor), hint)
            } else {
                let hint = "the build does not run on this machine, or is no program of this kind; tell its publisher";
                (ended(&output, redactor), hint)
            };
            return Err(refused(format!("--version: expected {expected:?}, found {found}"), hint));
        }
        self.tell(&Event::Checked { check: Check::Version, detail: said.trim().to_owned() });
        Ok(())
    }

    async fn check_components(&self, slot: &Slot, start: &Start, redactor: &Redactor) -> Result<(), Refusal> {
        let mut required = self.settings.validation.components.clone();
        // Whatever the configuration says: without it a supervisor's bootstrap comes to nothing.
        if start.is_supervised() {
            let extensions = required.entry("extensions".to_owned()).or_default();
            if !extensions.iter().any(|name| name == OPAMP) {
                extensions.push(OPAMP.to_owned());
            }
        }
        if required.values().all(Vec::is_empty) {
            return Ok(());
        }
        let output = self.ask(slot, start, vec!["components".into()]).await?;
        if !output.status.success() {
            return Err(refused(
                format!("components: {}", ended(&output, redactor)),
                "this build cannot tell its components",
            ));
        }
        let listed = listed_components(&String::from_utf8_lossy(&output.stdout)).map_err(|reason| {
            refused(format!("components: {reason}"), "this build cannot tell its components in a known form")
        })?;
        for (kind, name) in
            required.iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name)))
        {
            if !listed.iter().any(|(its_kind, its_name)| its_kind == kind && its_name == name) {
                let found: Vec<_> =
                    listed.iter().filter(|(its, _)| its == kind).map(|(_, name)| &**name).collect();
                return Err(refused(
                    format!("components: expected {name:?} among {kind}, found {}", found.join(", ")),
                    "choose a distribution that contains it; without the opamp extension a supervisor cannot start it",
                ));
            }
        }
        let all: Vec<_> = required
            .iter()
            .flat_map(|(kind, names)| names.iter().map(move |n| format!("{kind}/{n}")))
            .collect();
        self.tell(&Event::Checked { check: Check::Components, detail: all.join(", ") });
        Ok(())
    }

    async fn check_configuration(
        &self,
        slot: &Slot,
        start: &Start,
        baseline: &Baseline,
        redactor: &Redactor,
    ) -> Result<(), Refusal> {
        let mut arguments: Vec<OsString> = vec!["validate".into()];
        arguments.extend(self.configuration_arguments(start, baseline)?);
        let output = self.ask(slot, start, arguments.clone()).await?;
        if !output.status.success() {
            return Err(refused(
                format!("`{}`: {}", shown(&arguments), ended(&output, redactor)),
                "this build cannot run the effective configuration; change the configuration first or choose another version",
            ));
        }
        let by = match start.pid {
            Some(pid) => format!("accepted with the arguments and environment of process {pid}"),
            None => "accepted as the configuration file tells, for nothing runs".to_owned(),
        };
        self.tell(&Event::Checked { check: Check::Configuration, detail: by });
        Ok(())
    }

    /// The running program's own arguments, the one configuration file replaced by the copy taken while all was
    /// well. Where nothing runs the configuration tells them; where it does not, the copy of better times.
    fn configuration_arguments(&self, start: &Start, baseline: &Baseline) -> Result<Vec<OsString>, Refusal> {
        let copy = Copy::in_store(self.store.root());
        let unknown = |reason: String, hint: &str| Refusal {
            stage: Stage::Validate,
            kind: RefusalKind::Environment,
            reason,
            hint: hint.to_owned(),
        };
        let Some(live) = self.live_configuration(start) else {
            return match copy.path() {
                _ if !start.arguments.is_empty() => Ok(start.arguments.clone()),
                Some(path) => Ok(start.arguments_with(path)),
                None => Err(unknown(
                    "expected a running program or validate.configuration to tell which configuration to validate, found neither"
                        .to_owned(),
                    "set validate.configuration to the program's configuration file",
                )),
            };
        };
        if let Some(path) = copy.path() {
            return Ok(start.arguments_with(path));
        }
        match regular::text(&live) {
            Ok(text) if does_nothing(&text) => Err(unknown(
                format!(
                    "{}: expected the effective configuration, found one without pipelines, as a supervisor writes while it bootstraps",
                    live.display()
                ),
                "wait until the collector is healthy and try again",
            )),
            // Healthy, and yet no copy could be taken: the reason matters.
            Ok(_) if baseline.is_healthy() => match copy.take(&live, start.credentials.as_ref()) {
                Err(error) => Err(unreadable(&live, &error)),
                Ok(_) => Ok(start.arguments.clone()),
            },
            Ok(_) => Ok(start.arguments.clone()),
            Err(error) => Err(unreadable(&live, &error)),
        }
    }

    async fn ask(&self, slot: &Slot, start: &Start, args: Vec<OsString>) -> Result<Output, Refusal> {
        self.ask_program(&slot.program(), start, args).await
    }

    pub(crate) async fn ask_program(
        &self,
        program: &Path,
        start: &Start,
        args: Vec<OsString>,
    ) -> Result<Output, Refusal> {
        if let Some(NotReady { reason, hint }) = start.unknown_account.clone() {
            let (stage, kind) = (Stage::Validate, RefusalKind::Environment);
            return Err(Refusal { stage, kind, reason, hint });
        }
        let what = shown(&args);
        let exec = Exec {
            program: program.to_owned(),
            args,
            env: start.environment.clone(),
            cwd: start.working_directory.clone(),
            credentials: start.credentials.clone(),
            deadline: self.settings.validation.timeout,
            output_limit: OUTPUT_LIMIT,
        };
        exec.run().await.map_err(|error| {
            let deadline = matches!(error, ExecError::Deadline { .. });
            let reason = with_causes(&error);
            refused(
                format!("`{what}`: {reason}"),
                if deadline {
                    "the build hangs, or validate.timeout is too short"
                } else {
                    "the build does not run on this machine"
                },
            )
        })
    }
}

/// Before it is run, for then it is only told that it does not run.
fn can_be_loaded(slot: &Slot) -> Result<(), Refusal> {
    let path = slot.program();
    let (reason, hint) = match std::fs::File::open(&path).map(|program| preflight(&program)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(problem)) => (problem.to_string(), problem.hint()),
        Err(error) => (format!("it could not be opened: {error}"), "look at the store's disk"),
    };
    Err(refused(format!("program {}: {reason}", path.display()), hint))
}

/// `<distribution> version <version>`, one leading `v` aside.
fn names(said: &str, distribution: &str, version: &str) -> bool {
    let bare = |text: &str| text.parse::<myriarch_policy::Version>().map(|version| version.bare().to_owned());
    said_version(said).is_some_and(|(name, found)| {
        name == distribution && bare(found).is_ok_and(|found| bare(version) == Ok(found))
    })
}

/// Distribution and version, as `<distribution> version <version>` says them.
pub(crate) fn said_version(said: &str) -> Option<(&str, &str)> {
    let mut words = said.split_whitespace();
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(name), Some("version"), Some(version), None) => Some((name, version)),
        _ => None,
    }
}

/// Kind and name of every component listed.
fn listed_components(text: &str) -> Result<Vec<(String, String)>, String> {
    let document: serde_json::Value =
        serde_saphyr::from_str(text).map_err(|error| format!("expected YAML: {error}"))?;
    let kinds = document.as_object().ok_or("expected a mapping of kinds to components")?;
    let mut listed = vec![];
    for (kind, components) in kinds {
        for component in components.as_array().into_iter().flatten() {
            let name = component.get("name").unwrap_or(component);
            listed.extend(name.as_str().map(|name| (kind.clone(), name.to_owned())));
        }
    }
    Ok(listed)
}

fn unreadable(live: &Path, error: &std::io::Error) -> Refusal {
    Refusal {
        stage: Stage::Validate,
        kind: RefusalKind::Environment,
        reason: format!("effective configuration {}: {error}", live.display()),
        hint: "set validate.effective to the file that the supervisor writes".to_owned(),
    }
}

fn refused(reason: String, hint: &str) -> Refusal {
    Refusal { stage: Stage::Validate, kind: RefusalKind::Candidate, reason, hint: hint.to_owned() }
}

pub(crate) fn ended(output: &Output, redactor: &Redactor) -> String {
    let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    format!("{}, saying {}", output.status, quote(said, redactor))
}

/// The end of what was said. Redacted before it is cut, for half a secret is one, too.
pub(crate) fn quote(bytes: &[u8], redactor: &Redactor) -> String {
    let text = redactor.redact(&excerpt::tail(bytes));
    let text = text.trim();
    let start = text.len().saturating_sub(QUOTE_LIMIT);
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    if text.is_empty() { "nothing".to_owned() } else { format!("{:?}", &text[start..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_line_must_name_distribution_and_version() {
        assert!(names("otelcol version 0.158.0\n", "otelcol", "0.158.0"));
        assert!(names("otelcol version v1.2.3", "otelcol", "1.2.3"));
        for said in [
            "otelcol version 0.158.1",
            "otelcol-contrib version 0.158.0",
            "0.158.0",
            "",
            "otelcol version 0.158.0 x",
        ] {
            assert!(!names(said, "otelcol", "0.158.0"), "{said:?}");
        }
    }

    #[test]
    fn components_are_read_in_both_forms() {
        let listed = listed_components(
            "buildinfo:\n  version: 1\nextensions:\n  - name: opamp\n    module: m\n  - zpages\n",
        )
        .unwrap();
        assert_eq!(listed, [("extensions".into(), "opamp".into()), ("extensions".into(), "zpages".into())]);
        assert!(listed_components("<html>").is_err() || listed_components("<html>").unwrap().is_empty());
    }
}
