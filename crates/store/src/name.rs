//! A slot's name: the version for people, the digest for certainty.
//!
//! `0.165.1-7623348c295e` is version `0.165.1` whose program's SHA-256 begins with `7623348c295e`. A release
//! that was published again under the same version has other bytes and so another slot: the bytes that were
//! confirmed stay what they were.

use std::{fmt, str::FromStr};

use myriarch_verify::Digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest version that fits into a slot's name, in bytes.
const MAX_VERSION: usize = 128;
/// How many hexadecimal digits of the program's digest a name carries.
const DIGITS: usize = 12;

/// The name of a slot, `<version>-<first 12 hexadecimal digits of the program's SHA-256>`. Safe as a file
/// name by construction: it is never `.`, `..`, hidden, or a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotName(String);

/// Text that is not a slot's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a slot name, a version of 1 to {MAX_VERSION} characters of [0-9A-Za-z.+_-] beginning with a letter or digit, then - and {DIGITS} lower-case hexadecimal digits, found {found:?}"
)]
pub struct ParseSlotNameError {
    found: String,
}

impl SlotName {
    /// The name of the slot for `version` whose program has the digest `binary`.
    ///
    /// # Errors
    /// When `version` could not stand in a file name.
    pub fn new(version: &str, binary: &Digest) -> Result<Self, ParseSlotNameError> {
        format!("{version}-{}", binary.short()).parse()
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The version part, exactly as published.
    pub fn version(&self) -> &str {
        &self.0[..self.0.len() - DIGITS - 1]
    }

    /// The digest part: the first 12 hexadecimal digits.
    pub fn digits(&self) -> &str {
        &self.0[self.0.len() - DIGITS..]
    }
}

impl FromStr for SlotName {
    type Err = ParseSlotNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '_' | '-');
        let version = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.len() <= MAX_VERSION
                && part.chars().all(allowed)
        };
        let digits =
            |part: &str| part.len() == DIGITS && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match text.rsplit_once('-') {
            Some((head, tail)) if version(head) && digits(tail) => Ok(Self(text.to_owned())),
            _ => Err(ParseSlotNameError { found: text.chars().take(MAX_VERSION + DIGITS + 1).collect() }),
        }
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for SlotName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SlotName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
