//! Reads one table of the file, key by key.
//!
//! Serde reads each single value, so that a wrong type is one problem and the next key is still read;
//! whatever key nobody asked for is unknown, and the nearest known one is named.

use serde::{Serialize, Serializer, de::DeserializeOwned};
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

use super::{
    file::KNOWN,
    problem::{Position, Problems},
};

/// A value as said in the file, with its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said<T> {
    pub(crate) value: T,
    pub(crate) at: Option<Position>,
}

impl<T> Said<T> {
    /// A value that was not read from a file.
    #[expect(clippy::unnecessary_wraps, reason = "every table's field is an option")]
    pub(crate) fn anew(value: T) -> Option<Self> {
        Some(Self { value, at: None })
    }
}

impl<T: Serialize> Serialize for Said<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

/// A table whose keys are being taken out.
#[derive(Debug)]
pub(crate) struct Section<'t> {
    /// As in the header: `restart`, `trust.keyless`; empty for the top of the file.
    name: String,
    header: Option<Position>,
    table: DeTable<'t>,
}

impl<'t> Section<'t> {
    pub(crate) fn top(table: DeTable<'t>) -> Self {
        Self { name: String::new(), header: None, table }
    }

    pub(crate) fn header(&self) -> Option<Position> {
        self.header
    }

    /// The integer at `key`, left in place.
    pub(crate) fn peek_integer(&self, key: &str) -> Option<i64> {
        let integer = self.table.get(key)?.get_ref().as_integer()?;
        i64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    /// Where the value of `key` is.
    pub(crate) fn position_of(&self, key: &str, problems: &Problems<'_>) -> Option<Position> {
        self.table.get(key).map(|value| problems.position(&value.span()))
    }

    /// The value of `key`; a wrong one is a problem and counts as absent.
    pub(crate) fn take<T: DeserializeOwned>(
        &mut self,
        key: &str,
        problems: &mut Problems<'_>,
    ) -> Option<Said<T>> {
        let value = self.table.remove(key)?;
        let span = value.span();
        let at = problems.position(&span);
        match T::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => Some(Said { value, at: Some(at) }),
            Err(error) => {
                let at = error.span().map_or(at, |span| problems.position(&span));
                problems.add(Some(at), format!("`{}`: {}", self.full(key), rephrased(error.message())));
                None
            }
        }
    }

    /// The table `key`, if it is there and is one.
    pub(crate) fn take_section(&mut self, key: &str, problems: &mut Problems<'_>) -> Option<Section<'t>> {
        let (name, value) = self.table.remove_entry(key)?;
        self.as_section(key, problems.position(&name.span()), value, problems)
    }

    /// The tables of the array `key`.
    pub(crate) fn take_sections(&mut self, key: &str, problems: &mut Problems<'_>) -> Vec<Section<'t>> {
        let Some((name, value)) = self.table.remove_entry(key) else { return Vec::new() };
        let at = problems.position(&name.span());
        match value.into_inner() {
            DeValue::Array(items) => items
                .into_iter()
                .filter_map(|item| {
                    let at = problems.position(&item.span());
                    self.as_section(key, at, item, problems)
                })
                .collect(),
            other => {
                let full = self.full(key);
                let message =
                    format!("`{full}`: expected an array of tables ([[{full}]]), found {}", other.type_str());
                problems.add(Some(at), message);
                Vec::new()
            }
        }
    }

    /// Everything that is left, for tables whose keys are data.
    pub(crate) fn take_rest<T: DeserializeOwned>(
        mut self,
        problems: &mut Problems<'_>,
    ) -> Vec<(Said<String>, Said<T>)> {
        let keys: Vec<_> = self
            .table
            .keys()
            .map(|key| (problems.position(&key.span()), key.get_ref().clone().into_owned()))
            .collect();
        keys.into_iter()
            .filter_map(|(at, key)| {
                let value = self.take(&key, problems)?;
                Some((Said { value: key, at: Some(at) }, value))
            })
            .collect()
    }

    /// Tells of every key that was not taken.
    pub(crate) fn finish(self, known: &[&str], problems: &mut Problems<'_>) {
        for (key, _) in &self.table {
            let at = problems.position(&key.span());
            let place = if self.name.is_empty() {
                "at the top of the file".to_owned()
            } else {
                format!("in [{}]", self.name)
            };
            problems.add_with_hint(
                Some(at),
                format!("unknown key `{}` {place}", key.get_ref()),
                suggestion(key.get_ref(), known),
            );
        }
    }

    fn as_section(
        &self,
        key: &str,
        at: Position,
        value: Spanned<DeValue<'t>>,
        problems: &mut Problems<'_>,
    ) -> Option<Section<'t>> {
        let name = self.full(key);
        match value.into_inner() {
            DeValue::Table(table) => {
                problems.begin(&name, at);
                Some(Section { name, header: Some(at), table })
            }
            other => {
                problems.add(
                    Some(at),
                    format!("`{name}`: expected a table ([{name}]), found {}", other.type_str()),
                );
                None
            }
        }
    }

    fn full(&self, key: &str) -> String {
        let bare = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let key = if bare { key.to_owned() } else { format!("{key:?}") };
        if self.name.is_empty() { key } else { format!("{}.{key}", self.name) }
    }
}

/// Serde says `invalid type: FOUND, expected EXPECTED` and names Rust's types; say it as all errors here do.
fn rephrased(message: &str) -> String {
    let found = ["invalid type: ", "invalid value: ", "unknown variant "];
    let found = found.iter().find_map(|prefix| message.strip_prefix(prefix));
    let Some((found, expected)) = found.and_then(|rest| rest.rsplit_once(", expected ")) else {
        return message.to_owned();
    };
    let expected = match expected {
        "u8" => "a number from 0 to 255",
        "u32" => "a number from 0 to 4294967295",
        "path string" => "a path",
        "a sequence" => "an array",
        "a map" => "a table",
        other => other,
    };
    format!("expected {expected}, found {found}")
}

/// What may have been meant by `key`, where `here` are the keys known in its place.
fn suggestion(key: &str, here: &[&str]) -> String {
    if let Some(nearest) = nearest(key, here) {
        return format!("did you mean `{nearest}`?");
    }
    if let Some((section, _)) = KNOWN.iter().find(|(_, keys)| keys.contains(&key)) {
        return match *section {
            "" => format!("`{key}` belongs to the top of the file, above the first section"),
            section => format!("`{key}` belongs to [{section}]"),
        };
    }
    format!("known here: {}", here.join(", "))
}

/// The known word nearest to `word`, if one is near enough to be a slip.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(word.len()) / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}
