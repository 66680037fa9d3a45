//! A command's words as they stand in the unit's own files.
//!
//! What systemd shows of a command does not tell one argument with a blank from two arguments. The files do. So the
//! words of a line `ExecStart=` are taken where, joined by blanks, they are exactly what is shown; a specifier or a
//! prefix of another kind in it, and they are not.

use std::fs;

use crate::{command::Command, properties::words, unit::Unit};

/// Signs that can stand before a command, change how it is run, and are no part of it (systemd.service(5), "Command
/// lines").
pub const COMMAND_PREFIXES: &[char] = &['-', '@', ':', '+', '!', '|'];

/// The words of `command`, if a file of `unit` has a line for it.
pub(crate) fn written(unit: &Unit, command: &Command) -> Option<Vec<String>> {
    let files = unit.drop_in_paths.iter().rev().chain(&unit.fragment_path);
    files.filter_map(|path| fs::read_to_string(path).ok()).find_map(|text| words_of(&text, &command.shown))
}

fn words_of(text: &str, shown: &str) -> Option<Vec<String>> {
    let joined = logical_lines(text);
    let lines = joined.iter().filter_map(|line| line.strip_prefix("ExecStart"));
    let values = lines.filter_map(|rest| rest.trim_start().strip_prefix('='));
    values
        .map(|value| words(value.trim().trim_start_matches(COMMAND_PREFIXES)))
        .find(|words| !words.is_empty() && words.join(" ") == shown)
}

/// The lines of a unit's file without comments; one that ends in a backslash goes on in the next, comments between them aside.
pub fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut begun: Option<String> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) || (trimmed.is_empty() && begun.is_none()) {
            continue;
        }
        let (part, goes_on) = match trimmed.strip_suffix('\\') {
            Some(part) => (part.trim_end(), true),
            None => (trimmed, false),
        };
        let whole = match begun.take() {
            Some(begun) => format!("{begun} {part}"),
            None => part.to_owned(),
        };
        if goes_on { begun = Some(whole) } else { lines.push(whole) }
    }
    lines.extend(begun);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_with_a_blank_stays_one() {
        let text = "[Service]\nExecStart=\nExecStart=-/bin/c --config \\\n# between\n  'a b' \"c\\\"d\"\n";
        let shown = "/bin/c --config a b c\"d";
        assert_eq!(words_of(text, shown).unwrap(), ["/bin/c", "--config", "a b", "c\"d"]);
    }

    #[test]
    fn what_is_written_otherwise_than_it_is_shown_is_not_taken() {
        let text = "[Service]\nExecStart=/bin/c --config '/etc/%p/a b.yaml'\nExecStartPre=/bin/c x\n";
        assert_eq!(words_of(text, "/bin/c --config /etc/c/a b.yaml"), None);
        assert_eq!(words_of(text, "/bin/c x"), None);
    }
}
