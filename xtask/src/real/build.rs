//! Building one program so that it is there in whole or not at all.
//!
//! A program is built in a directory of its own, renamed into place, and only then stamped. The stamp is the recipe
//! itself, every file and version of it: whatever changes in it makes the program be built again, and nothing else does.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use super::recipe::{Program, Recipe};
use crate::{
    command,
    failure::{Failure, Result},
    workspace::Workspace,
};

/// Alike for all programs, so that Go compiles what they share once.
const BUILD: [&str; 3] = ["build", "-trimpath", "-ldflags=-s -w"];
/// What the builder files call the collector.
const COLLECTOR: &str = "otelcol-testbed";

/// Where the programs stand when they are done.
pub(crate) struct Shelf<'a> {
    workspace: &'a Workspace,
    dir: PathBuf,
}

impl<'a> Shelf<'a> {
    pub(crate) fn new(workspace: &'a Workspace) -> Self {
        Self { workspace, dir: workspace.target.join("real") }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the program is there, made by this very recipe.
    pub(crate) fn has(&self, program: &Program) -> Result<bool> {
        let recipe = self.written_out(program)?;
        let stamped = fs::read_to_string(self.stamp(program.name)).is_ok_and(|stamp| stamp == recipe);
        Ok(stamped && self.dir.join(program.name).is_file())
    }

    pub(crate) fn build(&self, program: &Program) -> Result<()> {
        let recipe = self.written_out(program)?;
        let works = self.dir.join(".work");
        make(&works)?;
        sweep(&works)?;
        let work = works.join(format!("{}.{}", program.name, std::process::id()));
        make(&work)?;
        let built = self.cook(program, &work)?;
        let stamp = self.stamp(program.name);
        make(&self.dir.join(".stamps"))?;
        fs::remove_file(&stamp)
            .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
            .map_err(|error| Failure::at(&stamp, &error))?;
        let place = self.dir.join(program.name);
        fs::rename(&built, &place).map_err(|error| Failure::at(&place, &error))?;
        fs::write(&stamp, recipe).map_err(|error| Failure::at(&stamp, &error))?;
        clear(&work)
    }

    /// Makes the program somewhere in `work` and tells where.
    fn cook(&self, program: &Program, work: &Path) -> Result<PathBuf> {
        let sources = self.sources();
        match &program.recipe {
            Recipe::Collector { builder, modules } => {
                let builder = self.builder(builder)?;
                let file = format!("{}.yaml", program.name);
                copy(&sources.join(&file), &work.join(&file))?;
                for module in *modules {
                    copy_module(&sources.join(module), &work.join(module))?;
                }
                // The builder leaves an empty directory behind where temporary ones are made.
                let mut build = in_dir(Command::new(&builder), work);
                build.env("TMPDIR", work);
                command::output(build.args(["--config", &file]))?;
                Ok(work.join("out").join(COLLECTOR))
            }
            Recipe::Command { module, version } => {
                let manifest = work.join("go.mod");
                fs::write(&manifest, "module myriarch.invalid/build\n\ngo 1.25.0\n")
                    .map_err(|error| Failure::at(&manifest, &error))?;
                command::output(go(work).args(["get", &format!("{module}@v{version}")]))?;
                command::output(go(work).args(BUILD).args(["-o", "program", module]))?;
                Ok(work.join("program"))
            }
            Recipe::Ours => {
                let module = work.join(program.name);
                copy_module(&sources.join(program.name), &module)?;
                command::output(go(&module).args(["mod", "tidy"]))?;
                command::output(go(&module).args(BUILD).args(["-o", "program", "."]))?;
                Ok(module.join("program"))
            }
        }
    }

    /// The collector builder of that version, kept among the programs.
    fn builder(&self, version: &str) -> Result<PathBuf> {
        let tools = self.dir.join(".builders").join(version);
        let place = tools.join("builder");
        if !place.is_file() {
            make(&tools)?;
            let package = format!("go.opentelemetry.io/collector/cmd/builder@v{version}");
            // `go install` writes beside and renames by itself.
            command::output(go(&tools).env("GOBIN", &tools).args([
                "install",
                "-trimpath",
                "-ldflags=-s -w",
                &package,
            ]))?;
        }
        Ok(place)
    }

    /// Everything that decides what the program becomes, as one text.
    fn written_out(&self, program: &Program) -> Result<String> {
        let mut text = format!("{:?}\n{BUILD:?}\n", program.recipe);
        let mut files = Vec::new();
        match &program.recipe {
            Recipe::Collector { modules, .. } => {
                files.push(self.sources().join(format!("{}.yaml", program.name)));
                for module in *modules {
                    files.extend(list(&self.sources().join(module))?);
                }
            }
            Recipe::Command { .. } => {}
            Recipe::Ours => files.extend(list(&self.sources().join(program.name))?),
        }
        for file in files {
            let content = fs::read_to_string(&file).map_err(|error| Failure::at(&file, &error))?;
            let name = file.strip_prefix(&self.workspace.root).unwrap_or(&file).display().to_string();
            let _ = writeln!(text, "--- {name}\n{content}");
        }
        Ok(text)
    }

    fn sources(&self) -> PathBuf {
        self.workspace.root.join("tests").join("real")
    }

    fn stamp(&self, name: &str) -> PathBuf {
        self.dir.join(".stamps").join(name)
    }
}

/// Removes what builds left that were killed: theirs is the directory whose process is no more, or is this one.
fn sweep(works: &Path) -> Result<()> {
    let entries = fs::read_dir(works).map_err(|error| Failure::at(works, &error))?;
    for work in entries.flatten().map(|entry| entry.path()) {
        let builder = work.extension().and_then(|pid| pid.to_str()).and_then(|pid| pid.parse::<u32>().ok());
        let in_use = builder.is_some_and(|pid| {
            pid != std::process::id() && Path::new("/proc").join(pid.to_string()).exists()
        });
        if !in_use {
            clear(&work)?;
        }
    }
    Ok(())
}

fn go(dir: &Path) -> Command {
    in_dir(Command::new("go"), dir)
}

/// Go as these recipes mean it: no workspace file from above, no questions to git, no local flags.
fn in_dir(mut command: Command, dir: &Path) -> Command {
    command.current_dir(dir).env("GOWORK", "off").env("GOFLAGS", "-buildvcs=false").env("CGO_ENABLED", "0");
    command
}

fn copy_module(from: &Path, to: &Path) -> Result<()> {
    make(to)?;
    for file in list(from)? {
        if let Some(name) = file.file_name() {
            copy(&file, &to.join(name))?;
        }
    }
    Ok(())
}

/// A copy that can be written, whatever the original's mode.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).map_err(|error| Failure::at(from, &error))?;
    fs::write(to, bytes).map_err(|error| Failure::at(to, &error))
}

fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(|error| Failure::at(dir, &error))?;
    let mut files: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

fn make(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| Failure::at(dir, &error))
}

fn clear(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::at(dir, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Program = Program { name: "server", what: "a test", recipe: Recipe::Ours };

    fn workspace(root: &Path) -> Workspace {
        let module = root.join("tests/real/server");
        fs::create_dir_all(&module).unwrap();
        fs::write(module.join("main.go"), "package main").unwrap();
        Workspace { root: root.to_path_buf(), target: root.join("target"), packages: Vec::new() }
    }

    #[test]
    fn a_program_is_there_only_with_its_own_recipes_stamp() {
        let temp = tempfile::tempdir().unwrap();
        let workspace = workspace(temp.path());
        let shelf = Shelf::new(&workspace);
        assert!(!shelf.has(&SERVER).unwrap());

        make(&shelf.dir.join(".stamps")).unwrap();
        fs::write(shelf.stamp("server"), shelf.written_out(&SERVER).unwrap()).unwrap();
        assert!(!shelf.has(&SERVER).unwrap(), "a stamp without a program");
        fs::write(shelf.dir.join("server"), "program").unwrap();
        assert!(shelf.has(&SERVER).unwrap());

        fs::write(temp.path().join("tests/real/server/main.go"), "package main // changed").unwrap();
        assert!(!shelf.has(&SERVER).unwrap(), "a changed source");
    }

    #[test]
    fn a_failed_build_leaves_no_half_program() {
        let temp = tempfile::tempdir().unwrap();
        let workspace = workspace(temp.path());
        fs::remove_file(temp.path().join("tests/real/server/main.go")).unwrap();
        let shelf = Shelf::new(&workspace);
        assert!(shelf.build(&SERVER).is_err(), "there is no module to build");
        assert!(!shelf.dir.join("server").exists() && !shelf.has(&SERVER).unwrap());
    }

    #[test]
    fn what_killed_builds_left_is_swept_and_what_runs_is_not() {
        let temp = tempfile::tempdir().unwrap();
        // Process 1 runs; no process has a number beyond the kernel's greatest.
        for name in ["collector-0.1.1", "collector-0.1.4194305", "odd"] {
            make(&temp.path().join(name)).unwrap();
        }
        sweep(temp.path()).unwrap();
        let left = fs::read_dir(temp.path()).unwrap().flatten().map(|entry| entry.file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["collector-0.1.1"]);
    }
}
