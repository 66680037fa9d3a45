//! `real`: the real programs, built from their Go modules once and kept in `<target>/real`.
//!
//! Stand-ins prove what we believe of the collector and its supervisor; only the real ones prove that we believe
//! rightly. None of their binaries is ever committed: the recipes are, under `tests/real`.

mod build;
mod recipe;

use std::{path::PathBuf, process::Command, process::ExitCode, time::Instant};

use recipe::{PROGRAMS, Program};

use crate::{
    command,
    failure::{Failure, Result},
    workspace::Workspace,
};

/// Go before this one cannot fetch the toolchain that the modules ask for.
const OLDEST_GO: (u32, u32) = (1, 21);

pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result<ExitCode> {
    let shelf = build::Shelf::new(workspace);
    if words.iter().any(|word| word == "--list") {
        for program in PROGRAMS {
            let state = if shelf.has(program)? { "built" } else { "not built" };
            println!("{:28} {state:10} {}", program.name, program.what);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = if words.is_empty() { PROGRAMS.iter().collect() } else { named(words)? };
    go().map_err(Failure::new)?;
    build_each(&shelf, &wanted)?;
    println!("{}", shelf.dir().display());
    Ok(ExitCode::SUCCESS)
}

/// Builds whatever is missing and tells the directory that all are in.
pub(crate) fn build_all(workspace: &Workspace) -> Result<PathBuf> {
    build_some(workspace, |_| true)
}

/// Builds whatever is missing of the programs named, and tells the directory that they are in.
pub(crate) fn build_some(workspace: &Workspace, is_wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let shelf = build::Shelf::new(workspace);
    let wanted: Vec<_> = PROGRAMS.iter().filter(|program| is_wanted(program.name)).collect();
    build_each(&shelf, &wanted)?;
    Ok(shelf.dir().to_path_buf())
}

/// The Go toolchain's version, or what is wrong with it.
pub(crate) fn go() -> std::result::Result<String, String> {
    let words = command::output(Command::new("go").arg("version")).map_err(|failure| failure.to_string())?;
    match version_of(&words) {
        Some(version) if version >= OLDEST_GO => Ok(words.trim().to_owned()),
        _ => Err(format!("Go {}.{} or newer is needed, found: {}", OLDEST_GO.0, OLDEST_GO.1, words.trim())),
    }
}

fn version_of(words: &str) -> Option<(u32, u32)> {
    let number = words.split_whitespace().find_map(|word| word.strip_prefix("go1."))?;
    Some((1, number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?))
}

fn named(words: &[String]) -> Result<Vec<&'static Program>> {
    let find = |word: &String| {
        PROGRAMS.iter().find(|program| program.name == *word).ok_or_else(|| {
            let known: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
            Failure::usage(format!("no real program `{word}`; there are: {}", known.join(", ")))
        })
    };
    words.iter().map(find).collect()
}

fn build_each(shelf: &build::Shelf<'_>, programs: &[&Program]) -> Result<()> {
    for program in programs {
        if shelf.has(program)? {
            continue;
        }
        let start = Instant::now();
        println!("building {} ({})", program.name, program.what);
        shelf.build(program)?;
        println!("built {} in {:.1} s", program.name, start.elapsed().as_secs_f64());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_tells_its_version() {
        assert_eq!(version_of("go version go1.26.8 linux/amd64\n"), Some((1, 26)));
        assert_eq!(version_of("go version go1.19 linux/amd64"), Some((1, 19)));
        assert_eq!(version_of("go version go1.27rc1 linux/arm64"), Some((1, 27)));
        assert_eq!(version_of("something else"), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_answered_with_those_that_are() {
        let failure = named(&["collector-9".to_owned()]).unwrap_err().to_string();
        assert!(failure.contains("collector-9") && failure.contains("opampsupervisor-0.158.0"), "{failure}");
    }
}
