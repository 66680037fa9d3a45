//! Documents are found from the summary, their links lead somewhere, and each promise names the tests that prove it.

use super::{Fault, files::normal, tree::Tree};

const SUMMARY: &str = "docs/SUMMARY.md";
const PROMISES: &str = "docs/promises.md";
/// How many promises the design makes.
const NUMBER_OF_PROMISES: usize = 7;

pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = check_summary(tree);
    faults.extend(check_links(tree));
    faults.extend(check_promises(tree));
    faults
}

fn check_summary(tree: &Tree) -> Vec<Fault> {
    let summary = tree.text(SUMMARY).unwrap_or_default();
    let listed: Vec<&str> = links(summary).collect();
    tree.ending(".md")
        .map(|(path, _)| path)
        .filter(|path| path.starts_with("docs/") && *path != SUMMARY)
        .filter(|path| !listed.contains(&&path["docs/".len()..]))
        .map(|path| Fault::new(path, format!("is not in {SUMMARY}")))
        .collect()
}

/// Links between documents lead to files that are there.
fn check_links(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.ending(".md") {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        for link in links(text).filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap_or(link);
            let place = normal(&format!("{directory}/{file}"));
            let is_directory = tree.paths().any(|known| known.starts_with(&format!("{place}/")));
            if !tree.has(&place) && !is_directory {
                faults.push(Fault::new(path, format!("links to {link}, which is not there")));
            }
        }
    }
    faults
}

/// A promise is a heading with a number. Below `Tests:` it lists `path.rs::test`, below `Not proven yet:` what is open.
fn check_promises(tree: &Tree) -> Vec<Fault> {
    let text = tree.text(PROMISES).unwrap_or_default();
    let mut faults = Vec::new();
    let promises: Vec<&str> =
        text.split("\n## ").skip(1).filter(|part| part.starts_with(char::is_numeric)).collect();
    if promises.len() != NUMBER_OF_PROMISES {
        let found = promises.len();
        faults.push(Fault::new(
            PROMISES,
            format!("{NUMBER_OF_PROMISES} numbered headings are expected, found {found}"),
        ));
    }
    for promise in promises {
        let name = promise.lines().next().unwrap_or_default();
        let tests = items_below(promise, "Tests:");
        if tests.is_empty() && items_below(promise, "Not proven yet:").is_empty() {
            faults.push(Fault::new(
                PROMISES,
                format!("`{name}` names neither tests nor what is not proven yet"),
            ));
        }
        for test in tests {
            if !exists(tree, test) {
                faults.push(Fault::new(
                    PROMISES,
                    format!("`{name}` names the test {test}, which is not there"),
                ));
            }
        }
    }
    faults
}

/// The list that follows the line `label`; of each item what stands in its first backticks, or all of it.
fn items_below<'a>(text: &'a str, label: &str) -> Vec<&'a str> {
    text.lines()
        .skip_while(|line| line.trim() != label)
        .skip(1)
        .skip_while(|line| line.trim().is_empty())
        .take_while(|line| line.starts_with("- ") || line.starts_with("  "))
        .filter_map(|line| line.strip_prefix("- "))
        .map(|item| item.split('`').nth(1).unwrap_or(item))
        .collect()
}

fn exists(tree: &Tree, test: &str) -> bool {
    test.split_once("::").is_some_and(|(file, name)| {
        tree.text(file).is_some_and(|text| text.lines().any(|line| declares(line, name)))
    })
}

/// Also inside of macros such as proptest's, where `fn name(` stands as well.
fn declares(line: &str, name: &str) -> bool {
    line.split_once("fn ")
        .is_some_and(|(_, rest)| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')))
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_in_the_summary() {
        let summary = (SUMMARY, "- [Architecture](architecture.md)\n- [One](adr/0001-one.md)\n");
        let tree = [summary, ("docs/architecture.md", ""), ("docs/adr/0001-one.md", "")];
        assert_eq!(check_summary(&Tree::of(&tree)), []);
        let more = [tree[0], tree[1], tree[2], ("docs/adr/0002-two.md", "")];
        assert_eq!(
            check_summary(&Tree::of(&more)),
            [Fault::new("docs/adr/0002-two.md", "is not in docs/SUMMARY.md")]
        );
    }

    #[test]
    fn links_lead_somewhere() {
        let there =
            ("docs/a.md", "[b](b.md#part) [top](../README.md) [out](https://example.org/x) [c](adr/)");
        let others = [there, ("docs/b.md", ""), ("README.md", ""), ("docs/adr/1.md", "")];
        assert_eq!(check_links(&Tree::of(&others)), []);
        let gone = ("docs/a.md", "[b](gone.md)");
        assert_eq!(check_links(&Tree::of(&[gone])).len(), 1);
    }

    fn promises(below: &str) -> Vec<String> {
        let chapters: Vec<String> =
            (1..=NUMBER_OF_PROMISES).map(|number| format!("\n## {number}. Promise\n\n{below}\n")).collect();
        let text = format!("# Promises\n{}", chapters.concat());
        let file = ("tests/tests/a.rs", "#[test]\nfn it_holds() {}\nasync fn it_waits() {}");
        check_promises(&Tree::of(&[(PROMISES, &text), file])).into_iter().map(|fault| fault.what).collect()
    }

    #[test]
    fn a_promise_names_tests_that_are_there() {
        assert_eq!(
            promises("Tests:\n- `tests/tests/a.rs::it_holds`: words\n- `tests/tests/a.rs::it_waits`"),
            [""; 0]
        );
        let gone = promises("Tests:\n\n- `tests/tests/a.rs::it_hold`");
        assert_eq!(gone.len(), NUMBER_OF_PROMISES);
        assert!(gone[0].contains("it_hold, which is not there"), "{}", gone[0]);
        assert_eq!(promises("Tests:\n- `tests/tests/b.rs::it_holds`").len(), NUMBER_OF_PROMISES);
    }

    #[test]
    fn a_promise_without_tests_says_so() {
        assert_eq!(promises("Words.").len(), NUMBER_OF_PROMISES);
        assert_eq!(promises("Not proven yet:\n- power cuts"), [""; 0]);
    }

    #[test]
    fn no_promise_is_lost() {
        let tree = Tree::of(&[(PROMISES, "# Promises\n\n## 1. Promise\n\nNot proven yet:\n- all\n")]);
        assert_eq!(check_promises(&tree).len(), 1);
    }
}
