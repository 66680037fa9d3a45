//! Versions with their exact text kept.
//!
//! The text is what the publisher wrote and what every check compares; the semantic version read from it,
//! if there is one, serves precedence alone. `dev` is a version that can be pinned but never wins.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest version text accepted, in bytes: it becomes part of a directory's name.
pub const MAX_LENGTH: usize = 128;

/// A version as published: not empty, at most [`MAX_LENGTH`] bytes of `[0-9A-Za-z.+_-]`, beginning with a
/// letter or digit, so that it is safe in a file name, a URL and a terminal.
#[derive(Debug, Clone)]
pub struct Version {
    text: String,
    /// Boxed: versions stand in pairs in errors and events, which stay small so.
    semver: Option<Box<semver::Version>>,
}

/// How a candidate stands to what is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Higher precedence.
    Upgrade,
    /// Equal precedence; the text or the build metadata may differ.
    Same,
    /// Lower precedence.
    Downgrade,
    /// At least one of the two is no semantic version and the texts differ.
    Incomparable,
}

/// Text that cannot be a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a version of 1 to {MAX_LENGTH} characters of [0-9A-Za-z.+_-] beginning with a letter or digit, found {found:?}"
)]
pub struct ParseVersionError {
    found: String,
}

impl Version {
    /// The text exactly as published.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text without one leading `v`, as identities, file names and `--version` may or may not have it.
    pub fn bare(&self) -> &str {
        let digit = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_digit());
        self.text.strip_prefix('v').filter(digit).unwrap_or(&self.text)
    }

    /// Whether this is a semantic version, so that precedence means something.
    pub fn is_semver(&self) -> bool {
        self.semver.is_some()
    }

    /// Whether this is a semantic version before its release.
    pub fn is_prerelease(&self) -> bool {
        self.semver.as_ref().is_some_and(|semver| !semver.pre.is_empty())
    }

    /// Whether both name the same release: equal text, one leading `v` aside.
    pub fn names_same(&self, other: &Self) -> bool {
        self.bare() == other.bare()
    }

    /// Precedence per semver 2.0.0 section 11: build metadata does not count. `None` unless both are
    /// semantic versions or the texts are equal.
    pub fn precedence(&self, other: &Self) -> Option<Ordering> {
        match (&self.semver, &other.semver) {
            (Some(a), Some(b)) => Some(a.cmp_precedence(b)),
            _ => (self.text == other.text).then_some(Ordering::Equal),
        }
    }

    /// How `self`, a candidate, stands to `installed`.
    pub fn relation_to(&self, installed: &Self) -> Relation {
        match self.precedence(installed) {
            Some(Ordering::Greater) => Relation::Upgrade,
            Some(Ordering::Equal) => Relation::Same,
            Some(Ordering::Less) => Relation::Downgrade,
            None => Relation::Incomparable,
        }
    }
}

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '_' | '-');
        let first = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        if !first || text.len() > MAX_LENGTH || !text.chars().all(allowed) {
            return Err(ParseVersionError { found: text.chars().take(MAX_LENGTH).collect() });
        }
        let mut version = Self { text: text.to_owned(), semver: None };
        version.semver = semver::Version::parse(version.bare()).ok().map(Box::new);
        Ok(version)
    }
}

/// Equality is equality of the exact text.
impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Version {}

impl std::hash::Hash for Version {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
