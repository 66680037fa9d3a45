//! What can be trusted: digests, checksum files, Sigstore bundles, evidence. Sync, offline.
//!
//! No byte of an archive is unpacked or executed before two questions have an answer here: which bytes
//! are these ([`Digest`], [`checksum`]), and does the operator's own [`TrustPolicy`] accept them. The
//! policy denies unless a rule accepts, and what a rule accepts by is kept as [`Evidence`].
//!
//! ```
//! use myriarch_verify::{Digest, KeylessRule, KeylessSpec, Pins, Rule, Subject, TrustPolicy, checksum};
//!
//! // Which bytes: the archive was hashed while it was downloaded, and the publisher's file agrees.
//! let archive = Digest::of(b"the archive");
//! let name = "otelcol_0.158.0_linux_amd64.tar.gz";
//! let sums = format!("{archive}  {name}\n");
//! assert_eq!(checksum::digest_for("SHA256SUMS", name, sums.as_bytes())?, archive);
//!
//! // Whose: signed by the release workflow at that version's tag, or pinned by hand.
//! let official = KeylessRule::new(KeylessSpec {
//!     issuer: "https://token.actions.githubusercontent.com".to_owned(),
//!     identity: "https://github.com/example/collector/.github/workflows/release.yaml@refs/tags/v{version}"
//!         .to_owned(),
//!     ..KeylessSpec::default()
//! })?;
//! let pins = Pins::new([("0.158.0".to_owned(), archive)])?;
//! let policy = TrustPolicy::new(vec![Rule::Keyless(official), Rule::Pins(pins)])?;
//!
//! let evidence = policy.judge(&Subject { version: "0.158.0", archive, file_name: name, bundle: None })?;
//! println!("trusted: {evidence}");
//!
//! // Anything else is refused, and every rule has said why.
//! let other = Subject { version: "0.158.0", archive: Digest::of(b"?"), file_name: name, bundle: None };
//! let distrust = policy.judge(&other).unwrap_err();
//! println!("{distrust}\nhint: {}", distrust.hint());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attestation;
pub mod checksum;
mod claim;
mod digest;
mod distrust;
mod evidence;
mod keyless;
mod pins;
mod root;
mod sigstore;
mod subject;
mod template;
mod trust;

pub use attestation::{Artifact, Attestation, AttestationError, Attested, CertifiedSigner, Fault, Signer};
pub use checksum::ChecksumError;
pub use claim::{Claim, ParseClaimError};
pub use digest::{Digest, Hasher, ParseDigestError};
pub use distrust::{Distrust, Doubt, Objection};
pub use evidence::Evidence;
pub use keyless::{KeylessRule, KeylessSpec, Requirement};
pub use pins::Pins;
pub use root::TrustedRoot;
pub use sigstore::{Sigstore, TrustedRootError};
pub use subject::Subject;
pub use trust::{Rule, TrustPolicy, TrustPolicyError};
