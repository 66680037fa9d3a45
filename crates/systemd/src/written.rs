//! A command's words as they stand in the unit's own files.
//!
//! What systemd shows of a command does not tell one argument with a blank from two arguments. The files do. So the
//! words of a line `ExecStart=` are taken where, joined by blanks, they are exactly what is shown; a specifier or a
//! prefix of another kind in it, and they are not.

use std::fs;

use crate::{command::Command, properties::words, unit::Unit};

/// Signs that can stand before a command and are no part of it (systemd.service(5)).
const PREFIXES: &[char] = &['@', '-', ':', '+', '!'];

/// The words of `command`, if a file of `unit` has a line for it.
pub(crate) fn written(unit: &Unit, command: &Command) -> Option<Vec<String>> {
    let files = unit.drop_in_paths.iter().rev().chain(&unit.fragment_path);
    files.filter_map(|path| fs::read_to_string(path).ok()).find_map(|text| words_of(&text, &command.shown))
}

fn words_of(text: &str, shown: &str) -> Option<Vec<String>> {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let lines = joined.lines().filter_map(|line| line.trim_start().strip_prefix("ExecStart"));
    let values = lines.filter_map(|rest| rest.trim_start().strip_prefix('='));
    values
        .map(|value| words(value.trim().trim_start_matches(PREFIXES)))
        .find(|words| !words.is_empty() && words.join(" ") == shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_with_a_blank_stays_one() {
        let text = "[Service]\nExecStart=\nExecStart=-/bin/c --config \\\n  'a b' \"c\\\"d\"\n";
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
