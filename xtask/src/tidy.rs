//! `tidy`: the invariants of the design that a compiler does not keep, checked over the sources.
//!
//! Every check is a function over a [`Tree`], the text of the repository in memory, so that each can be shown a planted
//! fault. The repository itself is held to all of them by a test of this crate.

mod arrows;
mod code;
mod dependencies;
mod documents;
mod files;
mod layout;
mod manifests;
mod purity;
mod tree;

use std::{fmt, process::ExitCode};

use tree::Tree;

use crate::{
    failure::{Failure, Result},
    workspace::Workspace,
};

pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    check(workspace)?;
    println!("tidy");
    Ok(ExitCode::SUCCESS)
}

/// Fails with every fault found, one a line.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let faults = faults(workspace)?;
    if faults.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
    Err(Failure::new(format!("not tidy:\n{}", lines.join("\n"))))
}

fn faults(workspace: &Workspace) -> Result<Vec<Fault>> {
    let tree = Tree::read(&workspace.root)?;
    let packages = &workspace.packages;
    let mut faults = Vec::new();
    faults.extend(arrows::check(packages));
    faults.extend(arrows::check_digest_edges(&tree));
    faults.extend(purity::check(&tree));
    faults.extend(purity::check_current(&tree));
    faults.extend(manifests::check(&tree, packages));
    faults.extend(files::check(&tree));
    faults.extend(files::check_forgotten(&tree, packages));
    faults.extend(layout::check(&tree));
    faults.extend(documents::check(&tree));
    faults.extend(dependencies::check(&tree, packages));
    Ok(faults)
}

/// One breach of an invariant: where, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    place: String,
    what: String,
}

impl Fault {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}: {}", self.place, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let faults = faults(&Workspace::read().unwrap()).unwrap();
        let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
        assert!(faults.is_empty(), "\n{}", lines.join("\n"));
    }
}
