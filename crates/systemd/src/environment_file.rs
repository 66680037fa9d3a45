//! The file of an `EnvironmentFile=`, read as systemd reads it (systemd.exec(5), `src/basic/env-file.c`).
//!
//! It looks like a shell's assignments and is none: nothing is substituted, quotes can stand next to each other, a
//! backslash outside of quotes takes the next character as it is, and a backslash at the end of a line goes on.

/// The assignments of `text`, in their order; a name that comes twice is in it twice, and the later one counts. What
/// is no assignment, or has a name that the environment cannot hold, is left out, as systemd does.
///
/// ```
/// use myriarch_systemd::environment_file;
///
/// let text = "# options\nOTELCOL_OPTIONS=\"--config=/etc/otelcol/config.yaml\"\n";
/// assert_eq!(
///     environment_file(text),
///     [("OTELCOL_OPTIONS".to_owned(), "--config=/etc/otelcol/config.yaml".to_owned())]
/// );
/// ```
pub fn environment_file(text: &str) -> Vec<(String, String)> {
    let mut reader =
        Reader { state: State::BeforeName, name: String::new(), value: Value::default(), found: vec![] };
    for c in text.chars() {
        reader.take(c);
    }
    if !matches!(reader.state, State::BeforeName | State::Name | State::Comment | State::CommentEscape) {
        reader.push();
    }
    reader.found
}

/// Whether the environment can hold a variable of this name.
pub(crate) fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[derive(Debug, Clone, Copy)]
enum State {
    BeforeName,
    Name,
    BeforeValue,
    Value,
    ValueEscape,
    SingleQuoted,
    DoubleQuoted,
    DoubleQuotedEscape,
    Comment,
    CommentEscape,
}

/// A value whose blanks at the end count only where they were quoted or escaped.
#[derive(Debug, Default)]
struct Value {
    text: String,
    kept: usize,
}

impl Value {
    fn literal(&mut self, c: char) {
        self.text.push(c);
        self.kept = self.text.len();
    }

    fn plain(&mut self, c: char) {
        self.text.push(c);
        if !is_blank(c) {
            self.kept = self.text.len();
        }
    }
}

#[derive(Debug)]
struct Reader {
    state: State,
    name: String,
    value: Value,
    found: Vec<(String, String)>,
}

impl Reader {
    fn take(&mut self, c: char) {
        self.state = match self.state {
            State::BeforeName if matches!(c, '#' | ';') => State::Comment,
            State::BeforeName if is_blank(c) => State::BeforeName,
            State::BeforeName => {
                self.name = c.to_string();
                State::Name
            }
            // Until systemd 254 a backslash carried a comment on to the next line, which no one means: since then
            // the next line counts.
            State::Name | State::Comment | State::CommentEscape if is_newline(c) => State::BeforeName,
            State::Name if c == '=' => State::BeforeValue,
            State::Name => {
                self.name.push(c);
                State::Name
            }
            State::BeforeValue | State::Value if is_newline(c) => {
                self.push();
                State::BeforeName
            }
            State::BeforeValue if c == '\'' => State::SingleQuoted,
            State::BeforeValue if c == '"' => State::DoubleQuoted,
            State::BeforeValue | State::Value if c == '\\' => State::ValueEscape,
            State::BeforeValue if is_blank(c) => State::BeforeValue,
            State::BeforeValue | State::Value => {
                self.value.plain(c);
                State::Value
            }
            State::ValueEscape => {
                if !is_newline(c) {
                    self.value.literal(c);
                }
                State::Value
            }
            State::SingleQuoted if c == '\'' => State::BeforeValue,
            State::DoubleQuoted if c == '"' => State::BeforeValue,
            State::DoubleQuoted if c == '\\' => State::DoubleQuotedEscape,
            quoted @ (State::SingleQuoted | State::DoubleQuoted) => {
                self.value.literal(c);
                quoted
            }
            State::DoubleQuotedEscape => {
                // Of what needs no escaping the backslash stays, as in a shell.
                if !"\"\\`$\n".contains(c) {
                    self.value.literal('\\');
                }
                if c != '\n' {
                    self.value.literal(c);
                }
                State::DoubleQuoted
            }
            State::Comment if c == '\\' => State::CommentEscape,
            State::Comment | State::CommentEscape => State::Comment,
        };
    }

    fn push(&mut self) {
        let Value { mut text, kept } = std::mem::take(&mut self.value);
        text.truncate(kept);
        let name = std::mem::take(&mut self.name).trim_end().to_owned();
        if is_variable(&name) {
            self.found.push((name, text));
        }
    }
}

fn is_newline(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_systemd_reads_it() {
        for (text, expected) in [
            ("A=1\nB = two words \n", vec![("A", "1"), ("B", "two words")]),
            ("# no\n; no\n\n  A=1", vec![("A", "1")]),
            ("A='a \"b\" \\n'\n", vec![("A", "a \"b\" \\n")]),
            ("A=\"a 'b' \\\" \\$ \\n \"\n", vec![("A", "a 'b' \" $ \\n ")]),
            ("A=\"one\"'two'\n", vec![("A", "onetwo")]),
            ("A=one \\\n two\nB=x\n", vec![("A", "one  two"), ("B", "x")]),
            ("A=\"one \\\ntwo\"\n", vec![("A", "one two")]),
            ("A=\"one\ntwo\"\n", vec![("A", "one\ntwo")]),
            ("A=a\\ \\\\b\n", vec![("A", "a \\b")]),
            ("A=it's\n", vec![("A", "it's")]),
            ("A=\nB\nC=1\n", vec![("A", ""), ("C", "1")]),
            ("1A=x\nexport B=x\nC-D=x\n", vec![]),
            ("A=1\nA=2", vec![("A", "1"), ("A", "2")]),
            ("A=1\r\nB=2\r\n", vec![("A", "1"), ("B", "2")]),
            ("# c \\\nA=1\n", vec![("A", "1")]),
        ] {
            let found = environment_file(text);
            let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
