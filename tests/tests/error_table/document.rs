//! `docs/errors.md`: what people read is what the programs said.

use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use crate::row::{After, Done, Group, Row};

const PREAMBLE: &str = "\
# Errors

What is said to a bad input, word by word, and what runs afterwards. This page is written by the tests: each entry was
brought about on a machine with a running collector, by the real program, in `tests/tests/error_table`. Where it says
that nothing was touched, the same processes ran before and after, and `current` and the journal were the same.
`--json` says the same words as a document. Behind every group a good update succeeded by itself.

`<store>` is the store, `<machine>` the directory that the configuration and all else of the test lies in, `<server>` the
source's address. Digests, ports, process numbers, times and durations are named in the same way.
";

/// Sections are written one at a time, by tests that run side by side.
static WRITING: Mutex<()> = Mutex::new(());

/// The section of one group.
#[derive(Debug)]
pub(crate) struct Section {
    title: &'static str,
    text: String,
}

impl Section {
    pub(crate) fn of(group: &Group) -> Self {
        Self { title: group.title, text: format!("## {}\n\n{}\n", group.title, group.about) }
    }

    pub(crate) fn add(&mut self, row: &Row, said: &str) {
        let Row { name, input, exit, .. } = row;
        let done = match row.done {
            Done::Verb(verb) => format!("`{}` · exit code {exit}", verb.join(" ")),
            Done::Message(_) | Done::LastMessage(_) => "on the control socket".to_owned(),
            Done::Start => "`run`, which goes on".to_owned(),
        };
        let after = match row.after {
            After::Untouched => "nothing was touched",
            After::RolledBack => "the previous build runs again and is healthy",
            After::Started(_) => "the same build runs and is healthy",
            After::Rescued(_) => "the latest confirmed build that is intact runs and is healthy",
        };
        let written =
            write!(self.text, "\n### `{name}`\n\n{input}\n\n{done} · {after}\n\n```text\n{said}```\n");
        written.expect("writing to memory");
    }

    /// Against the document; with `UPDATE_GOLDEN=1` the document is made to agree.
    ///
    /// # Panics
    ///
    /// With the rows that differ.
    pub(crate) fn compare(&self) {
        let _one_at_a_time = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let text = fs::read_to_string(path()).unwrap_or_default();
        let written = section(&text, self.title);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let mut document = PREAMBLE.to_owned();
            for group in crate::GROUPS {
                let ours = group.title == self.title;
                let section = if ours { &*self.text } else { section(&text, group.title) };
                if !section.is_empty() {
                    document.extend(["\n", section.trim_end(), "\n"]);
                }
            }
            fs::write(path(), document).expect("the document can be written");
        } else if let Some(difference) = difference(written, &self.text) {
            panic!("docs/errors.md, {}: UPDATE_GOLDEN=1 takes it over\n{difference}", self.title);
        }
    }
}

/// The document is its preamble and the sections of these groups, and they name these rows in this order.
pub(crate) fn is_whole(groups: &[&Group]) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return;
    }
    let text = fs::read_to_string(path()).expect("docs/errors.md");
    assert!(text.starts_with(PREAMBLE), "docs/errors.md begins otherwise");
    let headings: Vec<_> =
        text.lines().filter(|line| line.starts_with("## ") || line.starts_with("### ")).collect();
    let expected: Vec<_> = groups
        .iter()
        .flat_map(|group| {
            let rows = group.rows.iter().map(|row| format!("### `{}`", row.name));
            std::iter::once(format!("## {}", group.title)).chain(rows)
        })
        .collect();
    assert_eq!(headings, expected);
}

/// The rows in which two texts of a section differ, line by line.
pub(crate) fn difference(written: &str, said: &str) -> Option<String> {
    let (written, said) = (rows(written), rows(said));
    let mut told = String::new();
    let names = written.iter().chain(&said).map(|(name, _)| *name);
    let mut seen = vec![];
    for name in names {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let of = |rows: &[(&str, &str)]| {
            let found = rows.iter().find(|(its, _)| *its == name);
            found.map_or(String::new(), |(_, text)| text.trim_end().to_owned())
        };
        let (before, now) = (of(&written), of(&said));
        if before == now {
            continue;
        }
        let _ = writeln!(told, "--- row {name}");
        for line in before.lines().filter(|line| !now.lines().any(|other| other == *line)) {
            let _ = writeln!(told, "- {line}");
        }
        for line in now.lines().filter(|line| !before.lines().any(|other| other == *line)) {
            let _ = writeln!(told, "+ {line}");
        }
    }
    let order = |rows: &[(&str, &str)]| rows.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
    if told.is_empty() && order(&written) != order(&said) {
        told = format!("the rows stand in another order: {:?}", order(&said));
    }
    (!told.is_empty()).then_some(told)
}

/// Name and text of each row of a section; what stands before the first has none.
fn rows(section: &str) -> Vec<(&str, &str)> {
    pieces(section, "### ")
}

/// The section of this title.
fn section<'t>(text: &'t str, title: &str) -> &'t str {
    pieces(text, "## ").into_iter().find(|(heading, _)| *heading == title).map_or("", |(_, text)| text)
}

/// The text cut before each line that begins with `mark`: what follows the mark, and the piece.
fn pieces<'t>(text: &'t str, mark: &str) -> Vec<(&'t str, &'t str)> {
    let mut cuts = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with(mark) && at > 0 {
            cuts.push(at);
        }
        at += line.len();
    }
    cuts.push(text.len());
    let pieces = cuts.windows(2).map(|ends| &text[ends[0]..ends[1]]);
    pieces
        .map(|piece| {
            let heading = piece.lines().next().and_then(|line| line.strip_prefix(mark));
            (heading.unwrap_or_default(), piece)
        })
        .collect()
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md")
}
