//! The last look at what is on offer: what it found, and when the next one comes.
//!
//! Whoever looks leaves it in the store for the screens. It is derived and never decided by: a look that cannot be
//! read is no look.

use myriarch_policy::Version;
use myriarch_update::Stage;
use serde::{Deserialize, Serialize};

/// The schema of [`LookDocument`].
pub const LOOK_SCHEMA: u32 = 1;

/// The last look and the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookDocument {
    /// The schema of this document.
    pub schema: u32,
    /// The last look.
    pub last: Option<Look>,
    /// When `run` looks again by itself, as RFC 3339.
    pub next: Option<String>,
}

/// One look at what is on offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// When, as RFC 3339.
    pub time: String,
    /// What came of it.
    pub found: Found,
}

/// What came of a look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Found {
    /// An update that the policy agrees to; it was not taken yet.
    Available {
        /// Its version.
        version: Version,
    },
    /// An update, and it was taken.
    Taken {
        /// Its version.
        version: Version,
    },
    /// An update, and it was left after a failed trial.
    Left {
        /// Its version.
        version: Version,
    },
    /// Nothing that would change anything.
    Nothing {
        /// Why, in words.
        reason: String,
    },
    /// What is on offer was refused, or could not be learned.
    Refused {
        /// Where in the chain.
        stage: Stage,
        /// Why.
        reason: String,
        /// What an operator can do about it.
        hint: String,
    },
    /// Journal or store failed.
    Failed {
        /// Why.
        reason: String,
    },
}

impl LookDocument {
    /// Nobody has looked, and nobody will.
    pub fn none() -> Self {
        Self { schema: LOOK_SCHEMA, last: None, next: None }
    }

    /// Reads the file's text; what is no such document, or of another schema, is no look.
    pub fn read(text: &[u8]) -> Self {
        let read = serde_json::from_slice::<Self>(text).ok();
        read.filter(|document| document.schema == LOOK_SCHEMA).unwrap_or_else(Self::none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_cannot_be_read_is_no_look() {
        let look = Look {
            time: "2026-11-30T08:00:00Z".to_owned(),
            found: Found::Available { version: "1.2.3".parse().unwrap() },
        };
        let document = LookDocument { last: Some(look), ..LookDocument::none() };
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(LookDocument::read(text.as_bytes()), document);
        for odd in
            ["", "{}", "\0", "[]", &text.replace("\"schema\":1", "\"schema\":2"), &text[..text.len() - 1]]
        {
            assert_eq!(LookDocument::read(odd.as_bytes()), LookDocument::none(), "{odd}");
        }
    }
}
