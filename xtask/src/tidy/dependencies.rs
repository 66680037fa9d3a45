//! Every dependency is declared once, at the root, and has its line in `docs/dependencies.md`.

use std::collections::BTreeSet;

use super::{Fault, manifests::section, tree::Tree};
use crate::workspace::Package;

const DOCUMENT: &str = "docs/dependencies.md";

pub(crate) fn check(tree: &Tree, packages: &[Package]) -> Vec<Fault> {
    let root = section(tree.text("Cargo.toml").unwrap_or_default(), "workspace.dependencies");
    let is_ours = |line: &&&str| line.contains("path = ");
    let ours: BTreeSet<&str> = root.iter().filter(is_ours).filter_map(|line| key(line)).collect();
    let foreign: BTreeSet<&str> =
        root.iter().filter(|line| !is_ours(line)).filter_map(|line| key(line)).collect();
    let explained: BTreeSet<&str> = rows(tree.text(DOCUMENT).unwrap_or_default()).collect();

    let mut faults = Vec::new();
    for name in foreign.difference(&explained) {
        faults.push(Fault::new(DOCUMENT, format!("has no line for `{name}`")));
    }
    for name in explained.difference(&foreign) {
        faults.push(Fault::new(DOCUMENT, format!("explains `{name}`, which is no dependency")));
    }
    for package in packages {
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            if !ours.contains(name)
                && !foreign.contains(name)
                && !packages.iter().any(|other| other.name == name)
            {
                faults.push(Fault::new(
                    &*package.name,
                    format!("declares `{name}` by itself, not at the root"),
                ));
            }
        }
    }
    faults
}

fn key(line: &str) -> Option<&str> {
    Some(line.split_once('=')?.0.trim().trim_end_matches(".workspace"))
}

/// The names in the first column of the document's table.
fn rows(document: &str) -> impl Iterator<Item = &str> {
    document.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Purpose};

    const ROOT: &str = "[workspace.dependencies]\nours = { path = \"crates/ours\" }\nserde = \"1\"\n";

    fn faults(document: &str, uses: &str) -> usize {
        let dependency = Dependency { name: uses.to_owned(), purpose: Purpose::Tests };
        let package = Package {
            name: "ours".to_owned(),
            dir: "crates/ours".into(),
            dependencies: vec![dependency],
            targets: Vec::new(),
        };
        check(&Tree::of(&[("Cargo.toml", ROOT), (DOCUMENT, document)]), &[package]).len()
    }

    #[test]
    fn every_dependency_has_its_line() {
        assert_eq!(faults("| `serde` | for |\n", "serde"), 0);
        assert_eq!(faults("", "serde"), 1);
        assert_eq!(faults("| `serde` | for |\n| `gone` | for |\n", "serde"), 1);
    }

    #[test]
    fn every_dependency_is_declared_at_the_root() {
        assert_eq!(faults("| `serde` | for |\n", "other"), 1);
    }
}
