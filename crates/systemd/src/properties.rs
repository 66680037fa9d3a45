//! What `systemctl show` prints: one `Name=value` per line, a name once per entry where it is a list of commands
//! or files. Words of a list are quoted as for a shell, so that no value breaks its line.

use std::collections::BTreeMap;

/// Names with all their values, in the order printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Properties(BTreeMap<String, Vec<String>>);

impl Properties {
    pub(crate) fn parse(text: &str) -> Self {
        let mut properties = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            properties.entry(name.to_owned()).or_default().push(value.to_owned());
        }
        Self(properties)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Every value; none where systemd did not print the name, as it does for empty lists.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).into_iter().flatten().map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The one value; empty where there is none.
    pub(crate) fn one(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// The one value, unless it is one of systemd's words for none.
    pub(crate) fn some(&self, name: &str) -> Option<String> {
        let value = self.one(name);
        (!matches!(value, "" | "[not set]" | "n/a")).then(|| value.to_owned())
    }

    pub(crate) fn yes(&self, name: &str) -> bool {
        self.one(name) == "yes"
    }

    pub(crate) fn words(&self, name: &str) -> Vec<String> {
        self.all(name).flat_map(words).collect()
    }
}

/// Words of a list, quotes and backslashes taken away.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut found = vec![];
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\\', _) if quote != Some('\'') => {
                let word = word.get_or_insert_default();
                match rest.next() {
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some('r') => word.push('\r'),
                    Some(other) => word.push(other),
                    None => word.push('\\'),
                }
            }
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_ascii_whitespace() => found.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_before_they_were_printed() {
        // Printed by systemd 252 for Environment=, one entry for each case of quoting.
        let printed = r#"A=1 "B=two words" "C=it's \"q\"" "D=\$HOME" "E=back\\slash" "F=line\nbreak" "G=a;b" H= "I= lead""#;
        assert_eq!(
            words(printed),
            [
                "A=1",
                "B=two words",
                "C=it's \"q\"",
                "D=$HOME",
                r"E=back\slash",
                "F=line\nbreak",
                "G=a;b",
                "H=",
                "I= lead"
            ]
        );
        assert_eq!(words(""), [""; 0]);
        assert_eq!(words(" \"\" a "), ["", "a"]);
    }

    #[test]
    fn a_name_may_come_more_than_once_or_not_at_all() {
        let properties = Properties::parse("A=1\nA=2\nB=\nC=x=y\n");
        assert_eq!(properties.all("A").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((properties.one("B"), properties.one("D"), properties.one("C")), ("", "", "x=y"));
        assert!(properties.has("B") && !properties.has("D"));
    }
}
