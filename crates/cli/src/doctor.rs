//! What stands in the way of updates, or will: one list of checks, each with what was seen.
//!
//! A check that could not look says so and is no problem by itself: an ordinary user sees less than root.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{escape, exit::ExitCode};

/// The schema of [`DoctorDocument`].
pub const DOCTOR_SCHEMA: u32 = 1;

/// Everything that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorDocument {
    /// The schema of this document.
    pub schema: u32,
    /// The exit code that goes with it.
    pub exit_code: ExitCode,
    /// In the order in which they were looked at.
    pub findings: Vec<Finding>,
}

/// What one check saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at, in one or two words: `unit`, `store`, `clock`.
    pub check: String,
    /// How it stands.
    pub level: Level,
    /// What was seen.
    pub seen: String,
    /// What can be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It could not be looked at from here, or there is nothing to look at yet.
    Unseen,
    /// It will do, and may become a problem.
    Warning,
    /// An update, or the way back, will fail.
    Problem,
}

impl Finding {
    /// All is as it should be.
    pub fn ok(check: &str, seen: impl Into<String>) -> Self {
        Self { check: check.to_owned(), level: Level::Ok, seen: seen.into(), hint: None }
    }

    /// It could not be looked at, for this reason.
    pub fn unseen(check: &str, why: impl Into<String>) -> Self {
        Self { check: check.to_owned(), level: Level::Unseen, seen: why.into(), hint: None }
    }

    /// It will do.
    pub fn warning(check: &str, seen: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check: check.to_owned(), level: Level::Warning, seen: seen.into(), hint: Some(hint.into()) }
    }

    /// It will not do.
    pub fn problem(check: &str, seen: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check: check.to_owned(), level: Level::Problem, seen: seen.into(), hint: Some(hint.into()) }
    }
}

impl DoctorDocument {
    /// A document of `findings`; a problem among them decides the exit code.
    pub fn new(findings: Vec<Finding>) -> Self {
        let bad = findings.iter().any(|finding| finding.level == Level::Problem);
        let exit_code = if bad { ExitCode::Failed } else { ExitCode::Done };
        Self { schema: DOCTOR_SCHEMA, exit_code, findings }
    }

    /// For people: a line for each check, a hint below it, and the sum.
    pub fn human(&self) -> String {
        let word = |level| match level {
            Level::Ok => "ok",
            Level::Unseen => "unseen",
            Level::Warning => "warning",
            Level::Problem => "PROBLEM",
        };
        let width = self.findings.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for finding in &self.findings {
            let (level, check) = (word(finding.level), escape::line(&finding.check));
            let seen = escape::line(&finding.seen);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{level:8} {check:width$}  {seen}");
            if let Some(hint) = &finding.hint {
                let _ = writeln!(text, "{:8} {:width$}  hint: {}", "", "", escape::line(hint));
            }
        }
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
        let _ = writeln!(text, "{}, {}", plural(problems, "problem"), plural(warnings, "warning"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_decides_the_exit_code_and_a_warning_does_not() {
        let fine = vec![Finding::ok("clock", "set"), Finding::unseen("store", "not root")];
        let warned = [fine.clone(), vec![Finding::warning("space", "little", "make some")]].concat();
        let bad = [warned.clone(), vec![Finding::problem("unit", "masked", "unmask it")]].concat();
        for (findings, code) in [(fine, ExitCode::Done), (warned, ExitCode::Done), (bad, ExitCode::Failed)] {
            assert_eq!(DoctorDocument::new(findings).exit_code, code);
        }
    }

    #[test]
    fn each_line_says_how_it_stands_and_a_hint_follows() {
        let findings = vec![
            Finding::ok("clock", "set"),
            Finding::warning("free space", "little\u{1b}[2J", "make some"),
            Finding::problem("unit", "masked", "unmask it"),
        ];
        let text = DoctorDocument::new(findings).human();
        let expected = "\
ok       clock       set
warning  free space  little\\u{1b}[2J
                     hint: make some
PROBLEM  unit        masked
                     hint: unmask it
1 problem, 1 warning
";
        assert_eq!(text, expected);
    }
}
