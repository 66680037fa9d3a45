//! The command of a unit as its files have it, with nothing but the program replaced.
//!
//! What `systemctl show` tells has specifiers replaced and quotes gone; a drop-in made of that could mean another
//! thing. So the text of the files is taken: the arguments, their quoting and their specifiers stay as they are.

use myriarch_systemd::{COMMAND_PREFIXES, logical_lines};

/// Every command of `key` in `[Service]` that counts, in the order of `texts`: the unit's file, then its drop-ins.
pub(crate) fn commands<'t>(texts: impl IntoIterator<Item = &'t str>, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    for text in texts {
        let mut in_service = false;
        for line in logical_lines(text) {
            if line.starts_with('[') {
                in_service = line == "[Service]";
                continue;
            }
            let Some((name, value)) = line.split_once('=').filter(|_| in_service) else { continue };
            if name.trim_end() != key {
                continue;
            }
            match value.trim() {
                "" => found.clear(),
                command => found.push(command.to_owned()),
            }
        }
    }
    found
}

/// `command` with its program replaced by `program`, and the program as it was written.
pub(crate) fn with_program(command: &str, program: &str) -> Option<(String, String)> {
    let rest = command.trim_start_matches(COMMAND_PREFIXES);
    let prefix = &command[..command.len() - rest.len()];
    let (word, after) = first_word(rest)?;
    Some((format!("{prefix}{}{after}", quoted(program)), word))
}

/// A text as one word of a unit's file.
pub(crate) fn quoted(text: &str) -> String {
    let text = text.replace('%', "%%");
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@,%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$"))
}

/// The first word without its quotes, and what follows it as it stands.
fn first_word(text: &str) -> Option<(String, &str)> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let (word, after) = text[1..].split_once(quote)?;
        // An escape, or a word that goes on behind its quotes, is nothing that a program's path needs.
        let ends = after.is_empty() || after.starts_with(char::is_whitespace);
        return (ends && !word.contains('\\')).then(|| (word.to_owned(), after));
    }
    let (word, after) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    (!word.is_empty() && !word.contains(['"', '\'', '\\'])).then(|| (word.to_owned(), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_program_is_replaced() {
        for (command, expected) in [
            ("/usr/bin/otelcol --config=/etc/a.yaml", "/s/otelcol --config=/etc/a.yaml"),
            ("/usr/bin/otelcol $OTELCOL_OPTIONS", "/s/otelcol $OTELCOL_OPTIONS"),
            ("-@/usr/bin/otelcol name \"a  b\" '%i' \\x20", "-@/s/otelcol name \"a  b\" '%i' \\x20"),
            ("!!/usr/bin/otelcol", "!!/s/otelcol"),
            ("\"/usr/bin/my otelcol\"  x", "/s/otelcol  x"),
            ("otelcol x", "/s/otelcol x"),
        ] {
            assert_eq!(with_program(command, "/s/otelcol").unwrap().0, expected);
        }
        assert_eq!(with_program("\"/usr/bin/my otelcol\" x", "/s").unwrap().1, "/usr/bin/my otelcol");
        for odd in ["", "-", "\"/usr/bin/x", "/usr/bin/a\\x20b", "/usr/\"bin\"/x"] {
            assert_eq!(with_program(odd, "/s"), None, "{odd:?}");
        }
    }

    #[test]
    fn a_program_with_a_percent_or_a_blank_stays_one_word() {
        assert_eq!(quoted("/opt/a b/c"), "\"/opt/a b/c\"");
        assert_eq!(quoted("/opt/100%/c"), "/opt/100%%/c");
    }

    #[test]
    fn what_counts_is_what_systemd_would_run() {
        let unit = "# ExecStart=/no\n[Unit]\nExecStart=/no\n[Service]\nExecStart=/usr/bin/a \\\n  # between\n  --config x \\\n  --more\nUser=me\n";
        assert_eq!(commands([unit], "ExecStart"), ["/usr/bin/a --config x --more"]);
        let drop_in = "[Service]\nExecStart=\nExecStart = /usr/bin/b\n";
        assert_eq!(commands([unit, drop_in], "ExecStart"), ["/usr/bin/b"]);
        assert_eq!(commands([unit, "[Service]\nExecStart=/usr/bin/b\n"], "ExecStart").len(), 2);
    }
}
