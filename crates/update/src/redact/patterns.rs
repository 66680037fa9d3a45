//! What looks secret by what stands around it: a name and a sign before it, a scheme, a URL, a PEM block.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

use super::{REDACTED, known::looks_secret};

/// A pattern of this file's own.
macro_rules! pattern {
    ($name:ident, $pattern:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($pattern).ok());
    };
}

pattern!(BLOCK, r"(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\z)");
pattern!(END_OF_BLOCK, r"[A-Za-z0-9+/=\s\\]*-----END [A-Z0-9 ]+-----");
pattern!(URL, r#"([A-Za-z][A-Za-z0-9+.-]*://)(?:([^\s"'<>\\]*)(@))?([^\s?"'<>\\]*)(?:(\?)[^\s"'<>\\]+)?"#);
pattern!(SCHEME, r#"(?i)\b(bearer|basic)((?:\s*[:=]\s*|[ \t]+|%20|\+)["']?)[^\s"',;<>\\]+"#);
pattern!(NAMED, r#"([A-Za-z0-9_.\-]+)(\\*["'])?([ \t]*(?:=>|:=|:|=)[ \t]*)"#);
pattern!(OPTION, r"(--?[A-Za-z][A-Za-z0-9_.\-]*)([ \t]+)([^\s-]\S*)");

/// `text` with everything replaced that looks secret by its surroundings.
pub(super) fn redact(text: &str) -> String {
    let text = replace(&BLOCK, text, |_| REDACTED.to_owned());
    let text = replace(&END_OF_BLOCK, &text, |_| REDACTED.to_owned());
    let text = replace(&URL, &text, |found| {
        let part = |group| found.get(group).map_or("", |part| part.as_str());
        let hidden = |group| if part(group).is_empty() { "" } else { REDACTED };
        [part(1), hidden(3), part(3), part(4), part(5), hidden(5)].concat()
    });
    let text = named(&text);
    let text = replace(&OPTION, &text, |found| match &found[1] {
        name if looks_secret(name) => format!("{name}{}{REDACTED}", &found[2]),
        _ => found[0].to_owned(),
    });
    replace(&SCHEME, &text, |found| format!("{}{}{REDACTED}", &found[1], &found[2]))
}

/// What stands between `://name:` and the host, in every URL of `text`.
pub(super) fn passwords_of_urls(text: &str) -> Vec<String> {
    let Some(pattern) = &*URL else { return vec![] };
    let users = pattern.captures_iter(text).filter_map(|found| Some(found.get(2)?.as_str().to_owned()));
    users.filter_map(|user| user.split_once(':').map(|(_, password)| password.to_owned())).collect()
}

/// A pattern that cannot be read would let everything through: then nothing passes.
fn replace(pattern: &LazyLock<Option<Regex>>, text: &str, by: impl Fn(&Captures<'_>) -> String) -> String {
    match &**pattern {
        Some(pattern) => pattern.replace_all(text, by).into_owned(),
        None => REDACTED.to_owned(),
    }
}

/// Values after a name that looks secret.
fn named(text: &str) -> String {
    let Some(pattern) = &*NAMED else { return REDACTED.to_owned() };
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    while let Some(found) = pattern.captures_at(text, done) {
        let Some(whole) = found.get(0) else { break };
        let (name, quote, sign) = (&found[1], found.get(2), &found[3]);
        // `duplicate key: receivers` is no secret, `key=…` and `"key": …` are.
        let speech = name.eq_ignore_ascii_case("key") && quote.is_none() && sign.trim() == ":";
        out.push_str(&text[done..whole.end()]);
        done = whole.end();
        if looks_secret(name) && !speech {
            let line = text[..whole.start()].rfind('\n').map_or(0, |at| at + 1);
            let value = Value::of(&text[done..], name, indent(&text[line..]));
            out.push_str(value.opening);
            if !value.is_empty() {
                out.push_str(REDACTED);
            }
            done += value.end;
        }
    }
    out.push_str(&text[done..]);
    out
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Where a value ends in the text that begins with it.
struct Value<'a> {
    /// A quote, which stays.
    opening: &'a str,
    end: usize,
}

impl<'a> Value<'a> {
    fn of(text: &'a str, name: &str, indented: usize) -> Self {
        let backslashes = text.len() - text.trim_start_matches('\\').len();
        let line = text.find('\n').unwrap_or(text.len());
        match text[backslashes..].chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let opening = &text[..=backslashes];
                let end = closing(&text[opening.len()..], opening, quote)
                    .map_or(text.len(), |at| opening.len() + at);
                Self { opening, end }
            }
            Some('{' | '[' | '(') => Self { opening: "", end: bracketed(text).unwrap_or(line) },
            Some('\n') | None => Self { opening: "", end: below(text, indented) },
            Some('|' | '>') => Self { opening: "", end: below(text, indented).max(line) },
            _ if text.starts_with("map[") => Self { opening: "", end: bracketed(text).unwrap_or(line) },
            _ if whole_line(name) => Self { opening: "", end: line },
            _ => {
                let end = text.find(|c: char| {
                    c.is_whitespace() || matches!(c, ',' | ';' | '&' | '"' | '\'' | '\\' | '}' | ']' | ')')
                });
                Self { opening: "", end: end.unwrap_or(text.len()) }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.end <= self.opening.len()
    }
}

/// Names whose values have spaces in them.
fn whole_line(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["authorization", "headers", "cookie"].iter().any(|known| name.ends_with(known))
}

/// Where the quote that was opened by `opening` is closed. One that is escaped deeper does not close it.
fn closing(text: &str, opening: &str, quote: char) -> Option<usize> {
    let escapes = opening.len() - 1;
    let mut quotes = text.match_indices(quote).map(|(at, _)| at);
    while let Some(at) = quotes.next() {
        let before = &text[..at];
        let found = before.len() - before.trim_end_matches('\\').len();
        // YAML doubles a quote that is part of the value.
        let doubled = quote == '\'' && text[at + 1..].starts_with(quote);
        if found == escapes && !doubled {
            return Some(at - found);
        }
        if doubled {
            quotes.next();
        }
    }
    None
}

/// The end of a bracketed value, brackets within it counted.
fn bracketed(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The end of the lines below that are indented deeper than the name, as in YAML.
fn below(text: &str, indented: usize) -> usize {
    let mut end = text.find('\n').unwrap_or(text.len());
    while let Some(line) = text.get(end + 1..) {
        let length = line.find('\n').unwrap_or(line.len());
        if line[..length].trim().is_empty() || indent(&line[..length]) <= indented {
            break;
        }
        end += 1 + length;
    }
    end
}
