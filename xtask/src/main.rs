//! Development tasks: `cargo xtask VERB`.
//!
//! Everything a checkout needs beyond `cargo build` starts here, so that a person and CI type the same words. This
//! crate is compiled before all others and therefore uses next to nothing.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to whoever typed it")]

mod command;
mod demo;
mod failure;
mod host;
mod real;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use failure::{Failure, Result};
use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask VERB

  demo [--stand-ins]             one good update and five bad offers, told as they happen
  test [--install] [--tier NAME]... [--all]
                                 the test tiers; --install brings what is missing, --all adds those run by name only
  real [--list | NAME...]        builds the real programs (needs Go) into <target>/real, once
  host                           makes the image of a host with systemd (needs root, podman) in <target>/host, once
  tidy                           the design's invariants, checked over the sources
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<ExitCode> {
    let Some((verb, rest)) = words.split_first() else {
        print!("{USAGE}");
        return Ok(ExitCode::from(2));
    };
    match verb.as_str() {
        "demo" => demo::run(&Workspace::read()?, rest),
        "test" => test::run(&Workspace::read()?, rest),
        "real" => real::run(&Workspace::read()?, rest),
        "host" => host::run(&Workspace::read()?, rest),
        "tidy" => tidy::run(&Workspace::read()?),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => Err(Failure::usage(format!("no verb `{other}`\n\n{USAGE}"))),
    }
}
