//! The seam to whoever checks Sigstore bundles.
//!
//! The libraries that do it change their interfaces monthly, and no type of theirs leaves this crate.
//! What comes through the seam is proven, but it is not yet allowed: an [`Attested`] says who signed
//! these very bytes, and comparing that with what the operator wants is the rule's part alone.

use std::{collections::BTreeMap, fmt, io};

use crate::{Claim, Digest};

/// Checks a Sigstore bundle against one trusted root.
///
/// An implementation answers `Ok` only if the signature is over the artifact, by a certificate of a
/// trusted authority (or the key given), and every entry of the transparency log that the bundle
/// carries describes that signature and is *proven* to be in a trusted log: at least one entry, and
/// none on a promise alone.
pub trait Attestation: fmt::Debug + Send + Sync {
    /// Checks `bundle`, the JSON document, for `artifact`.
    ///
    /// # Errors
    /// [`AttestationError`], for whatever is missing, malformed or does not agree.
    fn attest(
        &self,
        bundle: &[u8],
        artifact: Artifact<'_>,
        signer: Signer<'_>,
    ) -> Result<Attested, AttestationError>;
}

/// What was signed.
pub enum Artifact<'a> {
    /// The digest of bytes that are hashed already.
    Digest(Digest),
    /// The bytes themselves, read once, to the end, in constant memory.
    Reader(&'a mut dyn io::Read),
}

impl fmt::Debug for Artifact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest(digest) => digest.fmt(f),
            Self::Reader(_) => f.write_str("reader"),
        }
    }
}

/// What kind of signer is expected.
#[derive(Debug, Clone, Copy)]
pub enum Signer<'a> {
    /// Anybody with a certificate of a trusted authority. The caller decides whether it is the right
    /// one, by [`Attested::certificate`].
    Certificate,
    /// The holder of this public key: PEM, `SubjectPublicKeyInfo`.
    Key(&'a str),
}

/// What a bundle proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attested {
    /// Who signed; `None` if it was a bare key.
    pub certificate: Option<CertifiedSigner>,
    /// When a log took the signature in, RFC 3339, if the log's own signature says so. Rekor 2 does not.
    pub integrated_time: Option<String>,
    /// Position of the first entry in its log.
    pub log_index: u64,
    /// How many stamps of trusted timestamp authorities cover the signature.
    pub stamps: usize,
    /// The predicate type, if it is a statement about the artifact that was signed and not the
    /// artifact itself.
    pub statement: Option<String>,
}

/// What the signing certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertifiedSigner {
    /// Who vouched for the identity.
    pub issuer: Option<String>,
    /// The identity: the certificate's subject alternative name.
    pub identity: Option<String>,
    /// Whatever else it claims.
    pub claims: BTreeMap<Claim, String>,
}

/// Why a bundle proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}: {detail}")]
pub struct AttestationError {
    /// What kind of fault it is.
    pub fault: Fault,
    /// The particulars, for people.
    pub detail: String,
}

/// The kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No bundle, or none of a kind that is understood.
    #[error("the bundle cannot be read")]
    Unreadable,
    /// No log entry, or one without a proof of inclusion.
    #[error("the bundle does not prove that the signature was logged")]
    Unproven,
    /// It was made for other bytes.
    #[error("the bundle is for another artifact")]
    OtherArtifact,
    /// The signature is not by the certificate's key.
    #[error("the signature is not valid")]
    Signature,
    /// The certificate is not by a trusted authority, not for signing, not of that time.
    #[error("the signing certificate is not trusted")]
    Certificate,
    /// The log's part is not authentic or describes another signature.
    #[error("the log entry is not trusted")]
    Log,
    /// A stamp is not authentic, or there is no trusted time at all.
    #[error("the time of signing is not trusted")]
    Time,
    /// It was logged later than this machine's clock says it is.
    #[error("the signature is from the future")]
    Future,
    /// The artifact could not be read.
    #[error("the artifact cannot be read")]
    Artifact,
}

impl Fault {
    /// What the operator can do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Unreadable => "deliver the publisher's own <archive>.sigstore.json, unchanged",
            Self::Unproven => {
                "ask the publisher for a bundle with an inclusion proof; a promise is not enough"
            }
            Self::OtherArtifact => {
                "archive and bundle do not belong together: fetch both again from one release"
            }
            Self::Signature | Self::Log | Self::Time => {
                "treat the archive as forged until the publisher explains it"
            }
            Self::Certificate => {
                "is it the right trusted root? a private Sigstore needs its own trusted_root.json"
            }
            Self::Future => "set this machine's clock",
            Self::Artifact => "look at the disk",
        }
    }
}
