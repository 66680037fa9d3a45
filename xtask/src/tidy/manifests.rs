//! Every crate takes the workspace's lints, `unsafe_code = "forbid"` among them. There are no exceptions so far.

use super::{Fault, tree::Tree};
use crate::workspace::Package;

pub(crate) fn check(tree: &Tree, packages: &[Package]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in packages {
        let path = format!("{}/Cargo.toml", package.dir.display());
        let manifest = tree.text(&path).unwrap_or_default();
        if !section(manifest, "lints").contains(&"workspace = true") {
            faults.push(Fault::new(path, "lacks `[lints] workspace = true`"));
        }
    }
    if !section(tree.text("Cargo.toml").unwrap_or_default(), "workspace.lints.rust")
        .contains(&"unsafe_code = \"forbid\"")
    {
        faults.push(Fault::new("Cargo.toml", "must forbid unsafe code"));
    }
    faults
}

/// The lines of a table of a manifest, without comments and blank ones.
pub(crate) fn section<'a>(manifest: &'a str, name: &str) -> Vec<&'a str> {
    let header = format!("[{name}]");
    manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(root: &str, manifest: &str) -> usize {
        let tree = Tree::of(&[("Cargo.toml", root), ("crates/x/Cargo.toml", manifest)]);
        let package = Package {
            name: "x".to_owned(),
            dir: "crates/x".into(),
            dependencies: Vec::new(),
            targets: Vec::new(),
        };
        check(&tree, &[package]).len()
    }

    #[test]
    fn every_crate_takes_the_workspaces_lints() {
        let root = "[workspace.lints.rust]\n# Why.\nunsafe_code = \"forbid\"\n";
        assert_eq!(faults(root, "[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n"), 0);
        assert_eq!(faults(root, "[package]\nworkspace = true\n"), 1);
        assert_eq!(faults("[workspace.lints.rust]\n", "[lints]\nworkspace = true\n"), 1);
    }
}
