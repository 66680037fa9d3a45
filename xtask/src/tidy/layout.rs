//! The top level is a table of contents: it holds what the design says and nothing else.

use std::collections::BTreeSet;

use super::{Fault, tree::Tree};

const TOP_LEVEL: &[&str] = &[
    ".cargo",
    ".ci",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "bins",
    "clippy.toml",
    "crates",
    "deny.toml",
    "docs",
    "rustfmt.toml",
    "tests",
    "xtask",
];

pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let top: BTreeSet<&str> = tree.paths().filter_map(|path| path.split('/').next()).collect();
    let stray = top.iter().filter(|name| !TOP_LEVEL.contains(name));
    let lost = TOP_LEVEL.iter().filter(|name| !top.contains(*name));
    stray
        .map(|name| Fault::new(*name, "has no place at the top level"))
        .chain(lost.map(|name| Fault::new(*name, "is missing at the top level")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_level_holds_what_the_design_says() {
        let all: Vec<(String, &str)> = TOP_LEVEL.iter().map(|name| ((*name).to_owned(), "")).collect();
        let mut files: Vec<(&str, &str)> = all.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        assert_eq!(check(&Tree::of(&files)), []);
        files.push(("scripts/build.sh", ""));
        assert_eq!(check(&Tree::of(&files)).len(), 1);
        files.retain(|(name, _)| *name != "scripts/build.sh" && *name != "LICENSE");
        assert_eq!(check(&Tree::of(&files)), [Fault::new("LICENSE", "is missing at the top level")]);
    }
}
