//! The trusted root: whom to believe about identities, logs and times.
//!
//! It comes with the program or from a file of the operator's, never from the network: an updater that
//! fetched its anchors would trust whoever answers. What a rule demands must be possible with its root,
//! so a root without logs, or a demand for stamps without an authority that could give them, is an
//! error when the policy is read and not a refusal of every release later.

use std::fmt;

use sigstore_verify::trust_root::SIGSTORE_PRODUCTION_TRUSTED_ROOT;

use crate::Digest;

/// Where trust begins.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum TrustedRoot {
    /// The public Sigstore instance, as it was when this program was built.
    #[default]
    BuiltIn,
    /// The text of a `trusted_root.json`.
    Json(String),
}

impl TrustedRoot {
    /// The document's text.
    pub fn json(&self) -> &str {
        match self {
            Self::BuiltIn => SIGSTORE_PRODUCTION_TRUSTED_ROOT,
            Self::Json(json) => json,
        }
    }

    /// Digest of the document, so that evidence can name the root it rests on.
    pub fn digest(&self) -> Digest {
        Digest::of(self.json().as_bytes())
    }
}

impl fmt::Debug for TrustedRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("BuiltIn"),
            Self::Json(_) => write!(f, "Json({:?})", self.digest()),
        }
    }
}
