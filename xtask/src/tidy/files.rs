//! A file is one idea with a name of its own, is compiled, and leaves nothing for later.

use std::collections::BTreeSet;

use super::{Fault, code, tree::Tree};
use crate::workspace::Package;

const LONGEST: usize = 600;
/// Names that say nothing about what is in the file.
const SAY_NOTHING: &[&str] = &["utils", "util", "common", "helpers", "helper", "types", "misc", "manager"];
/// What must not be left in code, and what to do instead.
const LEFT_FOR_LATER: &[(&str, &str)] = &[
    ("#[ignore", "a test runs or does not exist"),
    ("todo!", "unfinished code is not landed"),
    ("unimplemented!", "unfinished code is not landed"),
    ("#[allow(", "say `#[expect(…, reason = \"…\")]`"),
    ("#![allow(", "say `#![expect(…, reason = \"…\")]`"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let length = text.lines().count();
        if length > LONGEST {
            faults.push(Fault::new(
                path,
                format!("has {length} lines, {LONGEST} are the most; it is two ideas"),
            ));
        }
        if let Some(name) = path.trim_end_matches(".rs").split('/').find(|name| SAY_NOTHING.contains(name)) {
            faults.push(Fault::new(path, format!("`{name}` names no idea")));
        }
        let code = code::code(text);
        for (word, instead) in LEFT_FOR_LATER {
            for line in code::lines_with(&code, word) {
                faults.push(Fault::new(format!("{path}:{line}"), format!("`{word}`: {instead}")));
            }
        }
    }
    faults
}

/// Every Rust file is reached from a target: a file that nobody names is not compiled, and its tests never run.
pub(crate) fn check_forgotten(tree: &Tree, packages: &[Package]) -> Vec<Fault> {
    let mut reached = BTreeSet::new();
    for target in packages.iter().flat_map(|package| &package.targets) {
        let file = target.file.display().to_string();
        let home = directory(&file).to_owned();
        reach(tree, &file, &home, &mut reached);
    }
    tree.ending(".rs")
        .filter(|(path, _)| !reached.contains(*path))
        .map(|(path, _)| Fault::new(path, "belongs to no target: it is never compiled"))
        .collect()
}

/// Follows the modules that `file` declares; those lie in `home`.
fn reach(tree: &Tree, file: &str, home: &str, reached: &mut BTreeSet<String>) {
    let Some(text) = tree.text(file) else { return };
    if !reached.insert(file.to_owned()) {
        return;
    }
    for path in quoted_behind(text, "#[path = ").chain(quoted_behind(text, "include!(")) {
        let place = normal(&format!("{}/{path}", directory(file)));
        let home = directory(&place).to_owned();
        reach(tree, &place, &home, reached);
    }
    for line in code::code(text).lines() {
        let Some(name) = declared_module(line) else { continue };
        let below = format!("{home}/{name}");
        reach(tree, &format!("{below}.rs"), &below, reached);
        reach(tree, &format!("{below}/mod.rs"), &below, reached);
    }
}

/// The name in `mod name;`, whatever its visibility.
fn declared_module(line: &str) -> Option<&str> {
    let (before, name) = line.trim().strip_suffix(';')?.rsplit_once(' ')?;
    (before == "mod" || before.ends_with(" mod")).then_some(name.trim_start_matches("r#"))
}

fn quoted_behind<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(mark).skip(1).filter_map(|rest| rest.strip_prefix('"')?.split('"').next())
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// The path without `..` and `.`.
pub(super) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Target;

    #[test]
    fn a_file_has_a_length_and_a_name() {
        let long = "\n".repeat(LONGEST + 1);
        let tree = Tree::of(&[
            ("crates/a/src/utils.rs", ""),
            ("crates/a/src/common/mod.rs", ""),
            ("crates/a/src/long.rs", &long),
            ("crates/a/src/manager_of_none.rs", ""),
        ]);
        let places: Vec<String> = check(&tree).into_iter().map(|fault| fault.place).collect();
        assert_eq!(places, ["crates/a/src/common/mod.rs", "crates/a/src/long.rs", "crates/a/src/utils.rs"]);
    }

    #[test]
    fn nothing_is_left_for_later() {
        for line in
            ["#[ignore]", "#[ignore = \"slow\"]", "todo!()", "#[allow(dead_code)]", "#![allow(dead_code)]"]
        {
            assert_eq!(check(&Tree::of(&[("a.rs", line)])).len(), 1, "{line}");
        }
        for line in ["// todo!()", "let a = \"#[ignore]\";", "#[expect(dead_code, reason = \"b\")]"] {
            assert_eq!(check(&Tree::of(&[("a.rs", line)])), [], "{line}");
        }
    }

    #[test]
    fn a_forgotten_file_is_found() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod b;\npub(crate) mod c;\n// mod e;\n#[path = \"../odd/d.rs\"]\nmod d;",
            ),
            ("crates/a/src/b.rs", "mod f;"),
            ("crates/a/src/b/f.rs", ""),
            ("crates/a/src/c/mod.rs", "mod g;"),
            ("crates/a/src/c/g.rs", ""),
            ("crates/a/odd/d.rs", ""),
            ("crates/a/src/e.rs", ""),
            ("crates/a/tests/one.rs", "mod kit;"),
            ("crates/a/tests/kit/mod.rs", ""),
            ("crates/a/tests/sub/two.rs", ""),
        ];
        let target = |name: &str, file: &str| Target {
            name: name.to_owned(),
            kind: "test".to_owned(),
            file: file.into(),
        };
        let package = Package {
            name: "a".to_owned(),
            dir: "crates/a".into(),
            dependencies: Vec::new(),
            targets: vec![target("a", "crates/a/src/lib.rs"), target("one", "crates/a/tests/one.rs")],
        };
        let places: Vec<String> =
            check_forgotten(&Tree::of(&files), &[package]).into_iter().map(|fault| fault.place).collect();
        assert_eq!(places, ["crates/a/src/e.rs", "crates/a/tests/sub/two.rs"]);
    }
}
