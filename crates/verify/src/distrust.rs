//! Why an archive is not trusted, rule by rule.

use crate::{AttestationError, Digest};

/// A refusal. Nothing was done to the archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Distrust {
    /// What was asked for is no version.
    #[error(
        "{found:?} cannot be looked for in a signature: expected a bare version of letters, digits and \".-+_\""
    )]
    Version {
        /// What was asked for.
        found: String,
    },
    /// The archive's name contradicts the version asked for.
    #[error("expected an archive of version {expected}, found one that is called {found:?}")]
    FileName {
        /// The version asked for.
        expected: String,
        /// The archive's name.
        found: String,
    },
    /// No rule accepts it.
    #[error(
        "no rule trusts {file_name:?} ({archive:?}) as version {version}: {}",
        .objections.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    NoRule {
        /// The version asked for.
        version: String,
        /// The archive's digest.
        archive: Digest,
        /// The archive's name.
        file_name: String,
        /// What each rule says against it, in the policy's order.
        objections: Vec<Objection>,
    },
}

/// What one rule says against an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {number}: {doubt}")]
pub struct Objection {
    /// Which rule, from 1.
    pub number: usize,
    /// The rule, in words.
    pub rule: String,
    /// What it says.
    pub doubt: Doubt,
}

/// Why a single rule does not accept an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// Nothing to check.
    #[error("expected a Sigstore bundle, found none")]
    NoBundle,
    /// The bundle proves nothing.
    #[error(transparent)]
    Bundle(#[from] AttestationError),
    /// It was signed by a bare key.
    #[error("expected a signing certificate, found a key without an identity")]
    NoCertificate,
    /// It was signed, but by somebody else, or for another version, or out of another build.
    #[error("{what}: expected {expected}, found {}", .found.as_deref().unwrap_or("none"))]
    Signer {
        /// `issuer`, `identity` or the claim's name.
        what: &'static str,
        /// What the rule demands, the version filled in.
        expected: String,
        /// What the certificate says.
        found: Option<String>,
    },
    /// No timestamp authority has seen the signature.
    #[error("expected a timestamp authority's stamp, found none")]
    NoStamp,
    /// It is a statement about the archive, of a kind that is no reason to trust it.
    #[error("expected a signature of the archive or its provenance, found a statement of type {found:?}")]
    Statement {
        /// The predicate type.
        found: String,
    },
    /// The version is not among the pins.
    #[error("expected a pinned version ({}), found another", .pinned.join(", "))]
    NotPinned {
        /// Those that are.
        pinned: Vec<String>,
    },
    /// The version is pinned to other bytes.
    #[error("expected the pinned archive {expected:?}, found {found:?}")]
    PinnedOther {
        /// The digest in the policy.
        expected: Digest,
        /// The archive's.
        found: Digest,
    },
}

impl Distrust {
    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Version { .. } => "ask for the version without its `v`, as in 0.158.0",
            Self::FileName { .. } => "check the feed or the inbox: the file belongs to another release",
            Self::NoRule { objections, .. } => {
                // The rule that came furthest knows best what is missing.
                let closest =
                    objections.iter().map(|objection| &objection.doubt).max_by_key(|doubt| doubt.rank());
                closest.map_or("add a rule to the trust policy", Doubt::hint)
            }
        }
    }
}

impl Doubt {
    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoBundle => {
                "deliver the publisher's <archive>.sigstore.json, or pin the version to its SHA-256 in the \
                 trust policy"
            }
            Self::Bundle(error) => error.fault.hint(),
            Self::NoCertificate => "only signatures with an identity can be trusted, or a pinned digest",
            Self::Signer { .. } => {
                "if the publisher has moved, change the rule's issuer, identity or claims by hand"
            }
            Self::NoStamp => "ask the publisher for a stamped bundle, or take `timestamp` out of the rule",
            Self::Statement { .. } => "deliver the bundle of the signature, not of another statement",
            Self::NotPinned { .. } => "pin the version to its SHA-256 in the trust policy",
            Self::PinnedOther { .. } => {
                "fetch the archive again; if the publisher has re-released the version, pin it anew"
            }
        }
    }

    /// How far the rule came before it objected.
    fn rank(&self) -> u8 {
        match self {
            Self::NotPinned { .. } => 0,
            Self::NoBundle => 1,
            Self::NoCertificate => 2,
            Self::Bundle(_) => 3,
            Self::Signer { .. } => 4,
            Self::NoStamp | Self::Statement { .. } => 5,
            Self::PinnedOther { .. } => 6,
        }
    }
}
