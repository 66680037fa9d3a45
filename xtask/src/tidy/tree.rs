//! The text of the repository, in memory: what git knows of, or where there is no git, what lies there.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use crate::{
    command,
    failure::{Failure, Result},
};

/// Files by their path from the root, written with slashes. Files that are no text are there with an empty one.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        for path in listing(root)? {
            let place = root.join(&path);
            // A file that git knows and somebody has just removed is no longer there.
            if let Ok(bytes) = fs::read(&place) {
                tree.files.insert(path, String::from_utf8(bytes).unwrap_or_default());
            }
        }
        if tree.files.is_empty() {
            return Err(Failure::new(format!("{}: no files found", root.display())));
        }
        Ok(tree)
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Path and text of every file with that ending.
    pub(crate) fn ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .map(|(path, text)| (&**path, &**text))
    }

    /// Rust sources that are shipped: the crates' and the binaries', without their tests' files.
    pub(crate) fn product(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ending(".rs").filter(|(path, _)| {
            (path.starts_with("crates/") || path.starts_with("bins/")) && path.contains("/src/")
        })
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }
}

fn listing(root: &Path) -> Result<Vec<String>> {
    if root.join(".git").exists() {
        let mut git = Command::new("git");
        git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        return Ok(command::output(&mut git)?.split_terminator('\0').map(str::to_owned).collect());
    }
    let mut found = Vec::new();
    walk(root, "", &mut found)?;
    Ok(found)
}

fn walk(dir: &Path, prefix: &str, found: &mut Vec<String>) -> Result<()> {
    let entries = fs::read_dir(dir).map_err(|error| Failure::at(dir, &error))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            if path != "target" {
                walk(&entry.path(), &format!("{path}/"), found)?;
            }
        } else {
            found.push(path);
        }
    }
    Ok(())
}
