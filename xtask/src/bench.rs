//! `bench`: builds everything as it is shipped, then lets the measurements speak for themselves.
//!
//! They are a program of the test package. Its inputs are kept below the target directory, and what it writes goes to
//! the same file system, which must be a real disk for the figures to mean something.

use std::process::ExitCode;

use crate::{
    command,
    failure::{Failure, Result},
    workspace::Workspace,
};

/// What takes part; the rest of the workspace would only take its time to be optimised.
const BINARIES: [&str; 4] = ["bench", "myriarch-updater", "stand-in-collector", "stand-in-supervisor"];

pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result<ExitCode> {
    let mut build = command::cargo(&workspace.root);
    // The whole workspace is selected, so that features resolve as they do everywhere else.
    build.args(["build", "--locked", "--release", "--workspace"]);
    build.args(BINARIES.iter().flat_map(|name| ["--bin", name]));
    command::stream(&mut build)?;
    let directory = workspace.target.join("bench");
    let (inputs, machines) = (directory.join("inputs"), directory.join("machines"));
    std::fs::create_dir_all(&machines)
        .map_err(|error| Failure::new(format!("{} cannot be made: {error}", machines.display())))?;
    let mut bench = std::process::Command::new(workspace.target.join("release").join("bench"));
    bench.args(words).current_dir(&workspace.root).env("BENCH_DIRECTORY", inputs).env("TMPDIR", machines);
    let line = command::shown(&bench);
    let status =
        bench.status().map_err(|error| Failure::new(format!("`{line}` could not be started: {error}")))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
