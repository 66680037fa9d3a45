//! The figures: what an update costs, measured against what one does by hand, in one run on one machine.
//!
//! Each figure is a comparison of two sides that run one after the other, in turns, on the same inputs, from the
//! same server, on the same file system. What counts is the comparison, not the seconds: those belong to the
//! machine. The real updater is driven on the kit's machine; docs/benchmarks.md says what each figure means.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the figures are what it prints")]
#![expect(clippy::expect_used, reason = "a measurement that cannot be made says why and ends")]

mod by_hand;
mod figure;
mod file_server;
mod inputs;
mod outage;
mod restarts;
mod update;

use std::process::{Command, ExitCode, Stdio};

use figure::Figure;
use inputs::Inputs;

const USAGE: &str = "usage: bench [--only slot|memory|downtime|crash|status] [--runs N]";
const RUNS: usize = 5;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    only: Option<Part>,
    runs: usize,
}

/// The measurements that can be made by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Slot,
    Memory,
    Downtime,
    Crash,
    Status,
}

impl Part {
    const ALL: [Self; 5] = [Self::Slot, Self::Memory, Self::Downtime, Self::Crash, Self::Status];

    fn name(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Memory => "memory",
            Self::Downtime => "downtime",
            Self::Crash => "crash",
            Self::Status => "status",
        }
    }

    fn measure(self, runs: usize) -> Vec<Figure> {
        println!("measuring: {}, {runs} runs", self.name());
        match self {
            Self::Slot => vec![update::slot(&Inputs::open(), runs)],
            Self::Memory => update::memory(&Inputs::open(), runs),
            Self::Downtime => vec![restarts::downtime(runs)],
            Self::Crash => vec![restarts::crash(runs)],
            Self::Status => vec![update::status(&Inputs::open(), runs)],
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = match asked(&words) {
        Ok(asked) => asked,
        Err(what) => {
            eprintln!("bench: {what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Err(missing) = tools() {
        eprintln!("bench: {missing}");
        return ExitCode::FAILURE;
    }
    let parts = Part::ALL.into_iter().filter(|part| asked.only.is_none_or(|only| only == *part));
    let figures: Vec<Figure> = parts.flat_map(|part| part.measure(asked.runs)).collect();
    print!("\n{}", figure::table(&figures));
    ExitCode::SUCCESS
}

fn asked(words: &[String]) -> Result<Asked, String> {
    let mut asked = Asked { only: None, runs: RUNS };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("expected a value after {word}, found none"));
        match word.as_str() {
            "--only" => {
                let name = value()?;
                let part = Part::ALL.into_iter().find(|part| part.name() == name);
                asked.only = Some(part.ok_or_else(|| format!("expected a figure, found {name:?}"))?);
            }
            "--runs" => {
                let said = value()?;
                let runs = said.parse().ok().filter(|runs| *runs > 0);
                asked.runs = runs.ok_or_else(|| format!("expected a number of runs, found {said:?}"))?;
            }
            other => return Err(format!("expected --only or --runs, found {other:?}")),
        }
    }
    Ok(asked)
}

/// The programs that the yardsticks are made of.
fn tools() -> Result<(), String> {
    for (tool, package) in [
        ("curl", "curl"),
        ("sha256sum", "coreutils"),
        ("sync", "coreutils"),
        ("tar", "tar"),
        ("gzip", "gzip"),
    ] {
        let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Err(format!("{tool} is missing; `apt-get install -y {package}` brings it"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Asked, String> {
        asked(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn one_figure_or_all_are_asked_for() {
        assert_eq!(of(""), Ok(Asked { only: None, runs: RUNS }));
        assert_eq!(of("--runs 3 --only crash"), Ok(Asked { only: Some(Part::Crash), runs: 3 }));
        for line in ["--runs", "--runs 0", "--runs x", "--only", "--only speed", "slot"] {
            assert!(of(line).is_err(), "{line}");
        }
    }
}
