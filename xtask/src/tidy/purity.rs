//! What some rooms of the house must not do: wait, read the clock, move `current`.

use super::{Fault, code, tree::Tree};

/// Decisions are values in, values out: nothing in these may wait or ask what time it is.
const STILL: &[&str] =
    &["crates/policy/src/", "crates/verify/src/", "crates/store/src/", "crates/update/src/recovery"];

const WAITING: &[&str] = &["async", ".await"];
const CLOCKS: &[&str] = &["SystemTime::now", "Instant::now", "Timestamp::now", "Zoned::now", "clock_gettime"];

/// Words that move a symbolic link into being.
const LINKING: &[&str] = &["symlink", "symlinkat"];

/// Words that put something in a file's place.
const REPLACING: &[&str] = &["rename", "remove_file", "unlink", "hard_link", "File::create", "fs::write"];

pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.product().filter(|(path, _)| STILL.iter().any(|room| path.starts_with(room))) {
        let code = code::shipped(text);
        for word in WAITING.iter().chain(CLOCKS) {
            for line in code::lines_with(&code, word) {
                faults.push(Fault::new(
                    format!("{path}:{line}"),
                    format!("`{word}` has no place in a pure room"),
                ));
            }
        }
    }
    faults
}

/// Nothing but one place of the store makes links, and nobody else spells out the path of `current` where files are replaced.
pub(crate) fn check_current(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut linking: Vec<&str> = Vec::new();
    for (path, text) in tree.product() {
        let code = code::shipped(text);
        let links = |line: &str| LINKING.iter().any(|word| code::has_word(line, word) && line.contains('('));
        if code.lines().filter(|line| !line.trim_start().starts_with("use ")).any(links) {
            if path.starts_with("crates/store/src/") {
                linking.push(path);
            } else {
                faults.push(Fault::new(path, "makes a symbolic link; only the store may"));
            }
        }
        let spells_it =
            text.lines().any(|line| line.contains("join(\"current\")") || line.contains("push(\"current\")"));
        let replaces = REPLACING.iter().any(|word| code::has_word(&code, word));
        if spells_it && replaces && !path.starts_with("crates/store/src/") {
            faults.push(Fault::new(
                path,
                "spells out the path of `current` and replaces files; only the store may",
            ));
        }
    }
    if linking.len() > 1 {
        faults.push(Fault::new(
            linking.join(", "),
            "more than one place makes links; `current` has one writer",
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pure_rooms_neither_wait_nor_read_the_clock() {
        let tree = Tree::of(&[
            ("crates/policy/src/select.rs", "// Instant::now\nfn a() { Instant::now() }"),
            ("crates/store/src/slot.rs", "pub async fn a() {}"),
            ("crates/store/src/writer.rs", "fn since() { SystemTime::now() }"),
            ("crates/update/src/recovery.rs", "fn a() { b.await }"),
            ("crates/update/src/chain.rs", "async fn a() { b.await; Instant::now() }"),
            (
                "crates/verify/src/digest.rs",
                "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { Instant::now() } }",
            ),
        ]);
        let places: Vec<String> = check(&tree).into_iter().map(|fault| fault.place).collect();
        let expected = [
            "crates/policy/src/select.rs:2",
            "crates/store/src/slot.rs:1",
            "crates/store/src/writer.rs:1",
            "crates/update/src/recovery.rs:1",
        ];
        assert_eq!(places, expected);
    }

    #[test]
    fn only_one_place_writes_current() {
        let point = ("crates/store/src/point.rs", "use rustix::fs::symlink;\nfn point() { symlink(a, b) }");
        assert_eq!(check_current(&Tree::of(&[point])), []);
        let second = ("crates/store/src/slot.rs", "fn link() { std::os::unix::fs::symlink(a, b) }");
        assert_eq!(check_current(&Tree::of(&[point, second])).len(), 1);
        let stranger = ("crates/update/src/chain.rs", "fn link() { symlinkat(a, b, c) }");
        assert_eq!(check_current(&Tree::of(&[point, stranger])).len(), 1);
        let spelling = ("bins/myriarch-updater/src/run.rs", "fs::rename(a, store.join(\"current\"))");
        assert_eq!(check_current(&Tree::of(&[point, spelling])).len(), 1);
        let reading = ("crates/cli/src/doctor.rs", "fn a() { symlink_metadata(store.join(\"current\")) }");
        assert_eq!(check_current(&Tree::of(&[point, reading])), []);
    }
}
