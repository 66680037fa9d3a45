//! `demo`: builds what the demonstration needs, then lets it speak for itself.
//!
//! The demonstration is a program of the test package. It is given the real programs where Go can build them and says
//! in its first line what it runs with. Its exit code is passed on.

use std::process::ExitCode;

use crate::{
    command,
    failure::{Failure, Result},
    real,
    workspace::Workspace,
};

/// The real programs that play in it.
const CAST: [&str; 5] = [
    "opampsupervisor-0.149.0",
    "collector-0.149.0",
    "collector-0.158.0",
    "collector-0.158.2-crashing",
    "collector-0.158.3-picky",
];

pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result<ExitCode> {
    let mut cast = Cast::Real;
    for word in words {
        match word.as_str() {
            "--stand-ins" => cast = Cast::StandIns,
            other => return Err(Failure::usage(format!("demo takes --stand-ins, not `{other}`"))),
        }
    }
    let programs = match cast {
        Cast::StandIns => None,
        Cast::Real => match real::go() {
            Ok(_) => Some(real::build_some(workspace, |name| CAST.contains(&name))?),
            Err(missing) => {
                println!("no real programs: {missing}");
                None
            }
        },
    };
    let mut demo = command(workspace)?;
    demo.env_remove("REAL_PROGRAMS");
    if let Some(programs) = programs {
        demo.env("REAL_PROGRAMS", programs);
    }
    let line = command::shown(&demo);
    let status =
        demo.status().map_err(|error| Failure::new(format!("`{line}` could not be started: {error}")))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Who plays the collector and the supervisor.
enum Cast {
    Real,
    StandIns,
}

/// The demonstration, freshly built with every binary of the workspace beside it.
pub(crate) fn command(workspace: &Workspace) -> Result<std::process::Command> {
    if workspace.target("bin", "demo").is_none() {
        return Err(Failure::new("the test package has no binary named `demo`"));
    }
    let mut build = command::cargo(&workspace.root);
    build.args(["build", "--locked", "--workspace", "--bins"]);
    command::stream(&mut build)?;
    let mut demo = std::process::Command::new(workspace.target.join("debug").join("demo"));
    demo.current_dir(&workspace.root);
    Ok(demo)
}
