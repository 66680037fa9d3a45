//! The name of a service, which becomes part of paths and of a socket's address.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest service name, in characters.
const MAX_LENGTH: usize = 64;

/// A service's name: 1 to 64 characters of `[a-z0-9-]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(String);

/// Text that cannot be a service's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a service name of 1 to {MAX_LENGTH} characters of [a-z0-9-], found {found:?}")]
pub struct ParseServiceNameError {
    found: String,
}

impl ServiceName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ServiceName {
    /// `otelcol`, the service that a command line without a name means.
    fn default() -> Self {
        Self("otelcol".to_owned())
    }
}

impl FromStr for ServiceName {
    type Err = ParseServiceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || text.len() > MAX_LENGTH || !text.chars().all(allowed) {
            return Err(ParseServiceNameError { found: text.chars().take(MAX_LENGTH + 1).collect() });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for ServiceName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ServiceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
