//! The excerpt: what a program said last before its trial failed.
//!
//! Whoever is called at night wants one line first, and then the lines around it. The supervisor empties its
//! collector's log at each start, so they are read before the way back starts the previous build, and kept in the
//! store: the last few of them, for root alone, and without secrets. It is a courtesy: nothing of it fails a trial,
//! and nobody waits for a disk.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::{
    build::Build,
    chain::Updater,
    effective::Copy,
    redact::Redactor,
    regular,
    start::{Start, at_rest},
};
use myriarch_probe::exec::Environment;

/// The most that is kept of what a program said, in bytes.
pub const EXCERPT_LIMIT: usize = 64 * 1024;
/// The most that is quoted of one line, in characters.
const LINE_LIMIT: usize = 300;
/// Excerpts that are kept, the latest.
const KEPT: usize = 5;
/// How long a log may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is kept of the last words of a program whose trial failed. Secrets are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// The one line that tells the most.
    pub line: String,
    /// The file with the lines around it; absent where it could not be kept.
    pub file: Option<PathBuf>,
}

impl Updater {
    /// What the program says from now on is of interest.
    pub(crate) async fn listen(&self, effective: Option<&Path>) {
        let _ = timeout(PATIENCE, self.ports.log.begin(effective)).await;
    }

    /// Keeps what the program said, and picks the line that tells the most.
    pub(crate) async fn excerpt(&self, build: &Build, redactor: &Redactor) -> Option<Excerpt> {
        let said = timeout(PATIENCE, self.ports.log.said()).await.unwrap_or_default();
        let said = tail(&said);
        let text = redactor.redact(&said);
        let line = quotable(&said, &text, redactor)?;
        Some(Excerpt { line, file: self.keep(build, &text).ok() })
    }

    /// What the running program tells of its secrets, by its environment and its configurations.
    pub(crate) fn redactor(&self, start: &Start) -> Redactor {
        let known = self.settings.redactor.clone();
        let known = match &start.environment {
            Environment::Exactly(variables) => known.with_environment(variables.clone()),
            Environment::Inherit => known,
        };
        let known = known.with_directory(start.working_directory.as_deref()).with_arguments(&start.arguments);
        self.with_configurations(known, start.configuration().as_deref())
    }

    pub(crate) fn redactor_at_rest(&self) -> Redactor {
        self.redactor(&at_rest(&self.settings.validation.at_rest))
    }

    /// Every configuration that the program may have been given.
    pub(crate) fn with_configurations(&self, known: Redactor, effective: Option<&Path>) -> Redactor {
        let validation = &self.settings.validation;
        let copy = Copy::in_store(self.store.root());
        let files = [
            effective,
            validation.effective.as_deref(),
            validation.at_rest.configuration.as_deref(),
            copy.path(),
        ];
        files.into_iter().flatten().fold(known, |known, path| match regular::beginning(path) {
            Ok(text) => known.with_configuration(&text),
            Err(_) => known,
        })
    }

    /// Without a sync: that a power cut takes it is no loss, and the way back does not wait.
    fn keep(&self, build: &Build, text: &str) -> io::Result<PathBuf> {
        let directory = self.store.logs_dir();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let slot = build.slot().map_err(io::Error::other)?;
        let time = self.ports.clock.now().strftime("%Y%m%dT%H%M%S%3fZ");
        let path = directory.join(format!("{slot}-{time}.log"));
        let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        if let Err(error) = file.write_all(text.as_bytes()) {
            // Half of it on a full disk helps nobody.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let _ = prune(&directory);
        Ok(path)
    }
}

/// Removes all but the latest excerpts, by the time in their names.
fn prune(directory: &Path) -> io::Result<()> {
    let names = fs::read_dir(directory)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut excerpts: Vec<String> = names.filter(|name| is_excerpt(name)).collect();
    excerpts.sort_by(|one, other| written(other).cmp(written(one)));
    excerpts.iter().skip(KEPT).try_for_each(|name| fs::remove_file(directory.join(name)))
}

fn is_excerpt(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "log")
}

fn written(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or_default()
}

/// The last [`EXCERPT_LIMIT`] bytes as text. What was cut begins with a whole line, for half a secret is known to
/// nobody.
pub(crate) fn tail(bytes: &[u8]) -> String {
    let cut = bytes.len().saturating_sub(EXCERPT_LIMIT);
    let mut rest = &bytes[cut..];
    if cut > 0 && bytes[cut - 1] != b'\n' {
        let whole = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        rest = &rest[whole..];
    }
    String::from_utf8_lossy(rest).into_owned()
}

/// The line of `said` that tells the most, as it is in `redacted`. It is picked before the redaction: a word such as
/// `level`, by which it is known, may be somebody's secret.
fn quotable(said: &str, redacted: &str, redactor: &Redactor) -> Option<String> {
    let line = most_telling(said).map(|line| redactor.redact(line));
    // What a line hides only together with those around it is not quoted.
    let line = line.as_deref().filter(|line| redacted.lines().any(|other| other.trim() == *line));
    let line = line.or_else(|| most_telling(redacted))?;
    let mut quoted: String = line.chars().take(LINE_LIMIT).collect();
    if quoted.len() < line.len() {
        quoted.push_str(" ...");
    }
    Some(quoted)
}

/// The line that tells the most of why a program ended: a panic, a fatal word, an error, else its last.
fn most_telling(text: &str) -> Option<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let tells: [fn(&str) -> bool; 5] = [
        |line| {
            line.starts_with("panic:") || line.contains(" panicked at ") || line.starts_with("fatal error:")
        },
        |line| {
            [r#""level":"fatal""#, r#""level":"panic""#, "\tfatal\t", "FATAL"]
                .iter()
                .any(|word| line.contains(word))
        },
        |line| line.starts_with("Error:") || line.starts_with("error:"),
        |line| [r#""level":"error""#, "\terror\t"].iter().any(|word| line.contains(word)),
        |_| true,
    ];
    tells.iter().find_map(|tells| lines.iter().rev().find(|line| tells(line))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_tells_the_most_is_found() {
        for (text, expected) in [
            ("", None),
            ("\n \n", None),
            ("one\ntwo\n\n", Some("two")),
            ("Error: no such file\n2026 info Shutdown complete.\n", Some("Error: no such file")),
            ("{\"level\":\"error\",\"msg\":\"x\"}\nlast", Some("{\"level\":\"error\",\"msg\":\"x\"}")),
            ("{\"level\":\"fatal\"}\nError: x\n", Some("{\"level\":\"fatal\"}")),
            (
                "Error: x\npanic: first\n\npanic: crash on start\ngoroutine 1 [running]:\n\t/go/x.go:1 +0x1d",
                Some("panic: crash on start"),
            ),
            (
                "thread 'main' panicked at src/main.rs:1:2:\nboom",
                Some("thread 'main' panicked at src/main.rs:1:2:"),
            ),
        ] {
            assert_eq!(most_telling(text), expected, "{text:?}");
        }
        let long = "é".repeat(301);
        let quoted = quotable(&long, &long, &Redactor::default()).unwrap();
        assert_eq!(quoted, format!("{} ...", "é".repeat(300)));
    }

    #[test]
    fn the_telling_line_is_found_though_its_words_are_secrets() {
        let redactor = Redactor::default().with_configuration("passwords: [level, error, panic]");
        for (said, expected) in [
            ("{\"level\":\"error\",\"msg\":\"x\"}\nlast", "{\"<redacted>\":\"<redacted>\",\"msg\":\"x\"}"),
            ("panic: crash\nlast", "<redacted>: crash"),
            ("first\nheaders:\n  x: abc", "headers:<redacted>"),
        ] {
            assert_eq!(
                quotable(said, &redactor.redact(said), &redactor).as_deref(),
                Some(expected),
                "{said}"
            );
        }
    }

    #[test]
    fn what_is_cut_off_begins_with_a_whole_line() {
        let line = format!("{}\n", "x".repeat(99));
        let text = line.repeat(EXCERPT_LIMIT / 100 + 10);
        let tail = tail(text.as_bytes());
        assert!(tail.len() <= EXCERPT_LIMIT && tail.len() > EXCERPT_LIMIT - 100);
        assert!(tail.lines().all(|found| found.len() == 99));
        assert_eq!(super::tail(&vec![b's'; EXCERPT_LIMIT + 1]), "", "half a secret is one, too");
        assert_eq!(super::tail(b"short"), "short");
    }

    #[test]
    fn the_latest_excerpts_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        for hour in [3, 1, 7, 5, 2, 6, 4] {
            fs::write(dir.path().join(format!("1.{hour}.0-abc-20261130T0{hour}0000000Z.log")), "").unwrap();
        }
        fs::write(dir.path().join("notes.txt"), "").unwrap();
        prune(dir.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left.len(), KEPT + 1, "{left:?}");
        assert!(left[0].starts_with("1.3.0-") && left[5] == "notes.txt", "{left:?}");
    }
}
