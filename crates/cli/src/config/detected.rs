//! A configuration for what was found on a machine, with a comment at each value that says where it was seen.
//!
//! Only what was seen is set; everything else keeps its default. Whom to trust cannot be seen on a machine: for the
//! distributions that OpenTelemetry releases it is known who signs them, for all others the sections stay empty, and
//! `config check` says so.

use std::{fmt::Write as _, path::PathBuf};

use super::ServiceName;

/// A value, and where it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<T> {
    /// It.
    pub value: T,
    /// Where, in words.
    pub at: String,
}

/// What was found on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    /// The service's name, made of the unit's.
    pub service: ServiceName,
    /// The program's file name.
    pub binary: String,
    /// What the program's `--version` says it is, and how that was asked.
    pub distribution: Seen<Option<String>>,
    /// Who runs it.
    pub runs: Seen<Runs>,
    /// The effective configuration that a supervisor writes.
    pub effective: Option<Seen<PathBuf>>,
    /// The health endpoint; none where the configuration has none, with what was looked at.
    pub health: Seen<Option<String>>,
    /// What else was found and is not used.
    pub others: Vec<String>,
}

/// Who runs the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runs {
    /// This unit of systemd's.
    Unit(String),
    /// Nobody that is known, or none: `run` can, with these arguments.
    Nobody {
        /// The program's arguments.
        arguments: Vec<String>,
    },
}

/// The distributions that OpenTelemetry releases, and the workflow that builds each.
const OFFICIAL: &[(&str, &str)] = &[
    ("otelcol", "release-core.yaml"),
    ("otelcol-contrib", "release-contrib.yaml"),
    ("otelcol-ebpf-profiler", "release-ebpf-profiler.yaml"),
    ("otelcol-k8s", "release-k8s.yaml"),
    ("otelcol-otlp", "release-otlp.yaml"),
];
const REPOSITORY: &str = "https://github.com/open-telemetry/opentelemetry-collector-releases";

impl Detected {
    /// The configuration as TOML.
    pub fn toml(&self) -> String {
        let mut out = Text::default();
        out.comment(&format!(
            "Configuration of myriarch-updater for {}, as found on this machine.",
            self.service
        ));
        out.comment(&format!("Belongs to /etc/myriarch/{}.toml, writable by root alone.", self.service));
        out.comment("Every other key has its default; `myriarch-updater config example` explains them all.");
        if !self.others.is_empty() {
            out.comment("");
            out.comment("Also found, and not used here; `--unit NAME` chooses another:");
            for other in &self.others {
                out.comment(&format!("  {other}"));
            }
        }
        out.line("schema = 1");
        out.key("service", self.service.as_str());
        self.program(&mut out);
        self.source_and_trust(&mut out);
        self.restart(&mut out);
        if let Some(Seen { value, at }) = &self.effective {
            out.section("[validate]");
            out.comment(&format!("Seen: {at}."));
            out.key("effective", &value.to_string_lossy());
        }
        out.section("[probe]");
        let Seen { value, at } = &self.health;
        if let Some(url) = value {
            out.comment(&format!("Seen: {at}."));
            out.key("http", url);
        } else {
            out.comment(&format!("Seen: {at}."));
            out.comment(
                "Without a health endpoint no update can be judged: let the collector have the extension",
            );
            out.comment("health_check, or name a command that exits 0 when it is healthy.");
            out.comment("http = \"http://127.0.0.1:13133/\"");
            out.comment("command = [\"/usr/local/bin/otelcol-healthy\"]");
        }
        out.0
    }

    fn program(&self, out: &mut Text) {
        out.section("[program]");
        let Seen { value, at } = &self.distribution;
        out.comment(&format!("Seen: {at}."));
        out.key("binary", &self.binary);
        match value {
            Some(distribution) if *distribution != self.binary => out.key("distribution", distribution),
            Some(_) => {}
            None => out.comment("distribution = \"what its --version says\""),
        }
    }

    fn source_and_trust(&self, out: &mut Text) {
        let distribution = self.distribution.value.as_deref().unwrap_or_default();
        let Some((name, workflow)) = OFFICIAL.iter().find(|(name, _)| *name == distribution) else {
            out.section("[source]");
            out.comment(
                "Not a distribution that OpenTelemetry releases: nobody but you knows where its releases are",
            );
            out.comment("and who signs them. Both sections must be filled in; until then `config check` refuses this file.");
            out.comment("kind = \"http\"");
            out.comment(&format!(
                "archive = \"https://releases.example.com/{0}_{{version}}_{{os}}_{{arch}}.tar.gz\"",
                self.binary
            ));
            out.comment("checksum = \"{archive}.sha256\"");
            out.comment("bundle = \"{archive}.sigstore.json\"");
            out.section("[trust]");
            out.comment("[[trust.keyless]]");
            out.comment("issuer = \"https://token.actions.githubusercontent.com\"");
            out.comment("identity = \"https://github.com/OWNER/REPOSITORY/.github/workflows/release.yaml@refs/tags/v{version}\"");
            return;
        };
        out.section("[source]");
        out.comment(&format!(
            "{name} is released by OpenTelemetry. No index lists its releases: `update --to VERSION`."
        ));
        out.key("kind", "http");
        out.key(
            "archive",
            &format!("{REPOSITORY}/releases/download/v{{version}}/{name}_{{version}}_{{os}}_{{arch}}.tar.gz"),
        );
        out.key("checksum", "{archive}.sha256");
        out.key("bundle", "{archive}.sigstore.json");
        out.section("[[trust.keyless]]");
        out.comment("Who signs those releases, from 0.158.0 on.");
        out.key("issuer", "https://token.actions.githubusercontent.com");
        out.key(
            "identity",
            &format!("{REPOSITORY}/.github/workflows/base-release.yaml@refs/tags/v{{version}}"),
        );
        out.line("require = [\"timestamp\", \"sct\"]");
        out.section("[trust.keyless.claims]");
        out.key(
            "build_config_uri",
            &format!("{REPOSITORY}/.github/workflows/{workflow}@refs/tags/v{{version}}"),
        );
    }

    fn restart(&self, out: &mut Text) {
        out.section("[restart]");
        let Seen { value, at } = &self.runs;
        out.comment(&format!("Seen: {at}."));
        match value {
            Runs::Unit(unit) => {
                out.key("kind", "systemd");
                out.key("unit", unit);
            }
            Runs::Nobody { arguments } => {
                out.comment("No unit runs it: `myriarch-updater run` starts it as its own child.");
                out.key("kind", "child");
                let all = ["{program}".to_owned()].into_iter().chain(arguments.iter().cloned());
                let all: Vec<_> = all.map(toml::Value::String).collect();
                out.line(&format!("command = {}", toml::Value::Array(all)));
            }
        }
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    /// What was seen may hold anything, and stays in its comment.
    fn comment(&mut self, words: &str) {
        let line = format!("# {}", crate::escape::line(words));
        self.line(line.trim_end());
    }

    fn key(&mut self, key: &str, value: &str) {
        self.line(&format!("{key} = {}", toml::Value::String(value.to_owned())));
    }

    fn section(&mut self, header: &str) {
        self.line(&format!("\n{header}"));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Config;

    fn detected(distribution: &str) -> Detected {
        let seen = |at: &str| at.to_owned();
        Detected {
            service: "edge".parse().unwrap(),
            binary: distribution.to_owned(),
            distribution: Seen { value: Some(distribution.to_owned()), at: seen("it says so\n[evil]") },
            runs: Seen { value: Runs::Unit("edge.service".to_owned()), at: seen("edge.service runs it") },
            effective: Some(Seen {
                value: "/var/lib/s/effective.yaml".into(),
                at: seen("storage.directory"),
            }),
            health: Seen { value: Some("http://127.0.0.1:13133/".to_owned()), at: seen("in a.yaml") },
            others: vec!["other.service: otelcol".to_owned()],
        }
    }

    #[test]
    fn every_official_distribution_gives_a_valid_configuration() {
        for (name, _) in OFFICIAL {
            let text = detected(name).toml();
            Config::parse(&text, Path::new("edge.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }

    #[test]
    fn another_distribution_is_refused_until_source_and_trust_are_filled_in() {
        let mut detected = detected("otelcol-own");
        detected.health.value = None;
        let error = Config::parse(&detected.toml(), Path::new("edge.toml")).unwrap_err().to_string();
        assert!(error.contains("`source.kind` is missing"), "{error}");
        assert!(error.contains("`trust`: expected at least one [[trust.keyless]] rule"), "{error}");
        assert_eq!(error.lines().count(), 2, "{error}");
    }

    #[test]
    fn where_nothing_runs_it_the_updater_can() {
        let arguments = vec!["--config".to_owned(), "/etc/\"odd\".yaml".to_owned()];
        let found = Detected {
            runs: Seen { value: Runs::Nobody { arguments }, at: "a file".to_owned() },
            effective: None,
            ..detected("otelcol")
        };
        let config = Config::parse(&found.toml(), Path::new("edge.toml")).unwrap();
        let super::super::Restart::Child(child) = config.restart else { panic!("{config:?}") };
        assert_eq!(child.command, ["{program}", "--config", "/etc/\"odd\".yaml"]);
    }
}
