//! Words that look random: long, with letters and digits that alternate more often than words of people do.

use super::REDACTED;

/// Letters and digits that a word must have.
const LONG: usize = 24;

/// `text` with every word that looks random replaced.
pub(super) fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(is_part) {
        let (before, word) = rest.split_at(begin);
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        out.push_str(before);
        one(word, &mut out);
        rest = after;
    }
    out.push_str(rest);
    out
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_' | '-' | '.' | '~' | '%')
}

fn one(word: &str, out: &mut String) {
    // A path is judged name by name: a slot's is long, and no secret.
    if word.starts_with(['/', '.']) {
        let names: Vec<&str> =
            word.split('/').map(|name| if looks_random(name) { REDACTED } else { name }).collect();
        out.push_str(&names.join("/"));
    } else {
        out.push_str(if looks_random(word) { REDACTED } else { word });
    }
}

fn looks_random(word: &str) -> bool {
    let (mut count, mut digits, mut changes, mut before) = (0_usize, 0_usize, 0_usize, None);
    for c in word.chars() {
        if !c.is_ascii_alphanumeric() {
            before = None;
            continue;
        }
        let kind = Kind::of(c);
        count += 1;
        digits += usize::from(kind == Kind::Digit);
        // A capital begins a word in the speech of programmers: `AllowNoPipelines`.
        let is_another =
            before.is_some_and(|before| before != kind && (before, kind) != (Kind::Upper, Kind::Lower));
        changes += usize::from(is_another);
        before = Some(kind);
    }
    count >= LONG && digits > 0 && digits < count && changes * 5 >= count
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Digit,
    Upper,
    Lower,
}

impl Kind {
    fn of(c: char) -> Self {
        match c {
            '0'..='9' => Self::Digit,
            'A'..='Z' => Self::Upper,
            _ => Self::Lower,
        }
    }
}
