//! [`Attestation`] by the `sigstore-verify` crate, with the gaps closed that it leaves to its callers.
//!
//! Three things are demanded here that the library accepts otherwise:
//! - a proof of inclusion in *every* log entry. A bundle relabelled as version 0.1, its proofs removed,
//!   passes the library on the log's promise alone, and so does a second entry beside a proven one;
//! - at least one log entry for a signature by key;
//! - the certificate's own log stamp (SCT) as soon as the root names a log that could have given one.

use sigstore_verify::{
    CertificateError, Error, PublicKeyVerificationPolicy, TransparencyLogError, VerificationPolicy,
    VerificationResult, Verifier,
    crypto::CertificateInfo,
    trust_root,
    types::{Bundle, DerPublicKey, Sha256Hash, SignatureContent},
};

use crate::{
    Artifact, Attestation, AttestationError, Attested, CertifiedSigner, Claim, Fault, Signer, TrustedRoot,
};

/// Checks Sigstore bundles, offline, against one trusted root.
pub struct Sigstore {
    verifier: Verifier,
    has: Has,
}

/// What a root can vouch for.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "a row of independent facts, not a state")]
struct Has {
    authorities: bool,
    logs: bool,
    certificate_logs: bool,
    timestamp_authorities: bool,
}

/// A trusted root that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustedRootError {
    /// Not a document of that kind.
    #[error("the trusted root cannot be read: expected a trusted_root.json, found something else: {0}")]
    Unreadable(String),
    /// Keys or certificates in it are broken or contradict each other.
    #[error("the trusted root cannot be used: {0}")]
    Unusable(String),
    /// Nobody in it can vouch for what is demanded.
    #[error("the trusted root names no {what}, and without one no bundle can be accepted")]
    Lacks {
        /// Whom it lacks.
        what: &'static str,
    },
}

impl Sigstore {
    /// Reads and checks `root`.
    ///
    /// # Errors
    /// [`TrustedRootError`], if it is malformed.
    pub fn new(root: &TrustedRoot) -> Result<Self, TrustedRootError> {
        let parsed = trust_root::TrustedRoot::from_json(root.json())
            .map_err(|error| TrustedRootError::Unreadable(error.to_string()))?;
        let verifier =
            Verifier::new(&parsed).map_err(|error| TrustedRootError::Unusable(error.to_string()))?;
        let has = Has {
            authorities: !parsed.certificate_authorities.is_empty(),
            logs: !parsed.tlogs.is_empty(),
            certificate_logs: !parsed.ctlogs.is_empty(),
            timestamp_authorities: !parsed.timestamp_authorities.is_empty(),
        };
        Ok(Self { verifier, has })
    }

    /// Refuses a root by which no keyless signature could ever pass.
    pub(crate) fn check_keyless(&self) -> Result<(), TrustedRootError> {
        Self::demand(self.has.authorities, "certificate authority")?;
        Self::demand(self.has.logs, "transparency log")
    }

    pub(crate) fn check_stamps(&self) -> Result<(), TrustedRootError> {
        Self::demand(self.has.timestamp_authorities, "timestamp authority")
    }

    pub(crate) fn check_certificate_logs(&self) -> Result<(), TrustedRootError> {
        Self::demand(self.has.certificate_logs, "certificate transparency log")
    }

    fn demand(has: bool, what: &'static str) -> Result<(), TrustedRootError> {
        if has { Ok(()) } else { Err(TrustedRootError::Lacks { what }) }
    }

    fn verify(
        &self,
        bundle: &Bundle,
        artifact: Artifact<'_>,
        policy: &dyn sigstore_verify::Policy,
    ) -> Result<VerificationResult, AttestationError> {
        match artifact {
            Artifact::Digest(digest) => {
                self.verifier.verify(Sha256Hash::new(*digest.as_bytes()), bundle, policy)
            }
            Artifact::Reader(reader) => self.verifier.verify_reader(reader, bundle, policy),
        }
        .map_err(|error| refusal(&error))
    }
}

impl Attestation for Sigstore {
    fn attest(
        &self,
        bundle: &[u8],
        artifact: Artifact<'_>,
        signer: Signer<'_>,
    ) -> Result<Attested, AttestationError> {
        let bundle = parse(bundle)?;
        demand_proofs(&bundle)?;
        let stamps = bundle.verification_material.timestamp_verification_data.rfc3161_timestamps.len();
        let result = match signer {
            Signer::Key(pem) => {
                let key = DerPublicKey::from_pem(pem)
                    .map_err(|error| fault(Fault::Certificate, format!("the public key: {error}")))?;
                self.verify(&bundle, artifact, &PublicKeyVerificationPolicy::new(key))?
            }
            Signer::Certificate => {
                let policy = VerificationPolicy::any_identity();
                let policy = if self.has.certificate_logs { policy } else { policy.skip_sct() };
                let result = self.verify(&bundle, artifact, &policy)?;
                // The library says what it has done; that it was asked to is not enough.
                if !result.certificate_verified() || (self.has.certificate_logs && !result.sct_verified()) {
                    return Err(fault(Fault::Certificate, "it was not checked".to_owned()));
                }
                result
            }
        };
        if !result.tlog_verified() {
            return Err(fault(Fault::Unproven, "the log was not checked".to_owned()));
        }
        let log_index = bundle.verification_material.tlog_entries.first().map(|entry| entry.log_index.get());
        Ok(Attested {
            certificate: result.certificate().map(certified),
            integrated_time: result.integrated_time().map(|time| time.to_string()),
            log_index: log_index.unwrap_or_default(),
            stamps,
            statement: predicate_type(&bundle)?,
        })
    }
}

impl std::fmt::Debug for Sigstore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sigstore").field("has", &self.has).finish_non_exhaustive()
    }
}

fn parse(bundle: &[u8]) -> Result<Bundle, AttestationError> {
    let text = std::str::from_utf8(bundle)
        .map_err(|error| fault(Fault::Unreadable, format!("expected JSON, found no text: {error}")))?;
    if text.trim_start().starts_with('<') {
        let detail = "expected a Sigstore bundle in JSON, found a web page";
        return Err(fault(Fault::Unreadable, detail.to_owned()));
    }
    Bundle::from_json(text).map_err(|error| {
        fault(Fault::Unreadable, format!("expected a Sigstore bundle in JSON, found otherwise: {error}"))
    })
}

fn demand_proofs(bundle: &Bundle) -> Result<(), AttestationError> {
    let entries = &bundle.verification_material.tlog_entries;
    if entries.is_empty() {
        return Err(fault(Fault::Unproven, "expected a log entry, found none".to_owned()));
    }
    match entries.iter().position(|entry| entry.inclusion_proof.is_none()) {
        Some(index) => Err(fault(
            Fault::Unproven,
            format!(
                "expected an inclusion proof in every log entry, found none in entry {} of {}",
                index + 1,
                entries.len()
            ),
        )),
        None => Ok(()),
    }
}

fn predicate_type(bundle: &Bundle) -> Result<Option<String>, AttestationError> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Statement {
        predicate_type: String,
    }
    let SignatureContent::DsseEnvelope(envelope) = &bundle.content else { return Ok(None) };
    let statement: Statement = serde_json::from_slice(envelope.payload.as_bytes())
        .map_err(|error| fault(Fault::Unreadable, format!("the signed statement: {error}")))?;
    Ok(Some(statement.predicate_type))
}

fn certified(certificate: &CertificateInfo) -> CertifiedSigner {
    let said = &certificate.ci_claims;
    let claim = |claim: Claim| match claim {
        Claim::BuildSignerUri => said.build_signer_uri.clone(),
        Claim::BuildSignerDigest => said.build_signer_digest.clone(),
        Claim::RunnerEnvironment => said.runner_environment.clone(),
        Claim::SourceRepositoryUri => said.source_repository_uri.clone(),
        Claim::SourceRepositoryDigest => said.source_repository_digest.clone(),
        Claim::SourceRepositoryRef => said.source_repository_ref.clone(),
        Claim::SourceRepositoryIdentifier => said.source_repository_identifier.clone(),
        Claim::SourceRepositoryOwnerUri => said.source_repository_owner_uri.clone(),
        Claim::SourceRepositoryOwnerIdentifier => said.source_repository_owner_identifier.clone(),
        Claim::BuildConfigUri => said.build_config_uri.clone(),
        Claim::BuildConfigDigest => said.build_config_digest.clone(),
        Claim::BuildTrigger => said.build_trigger.clone(),
        Claim::RunInvocationUri => said.run_invocation_uri.clone(),
        Claim::SourceRepositoryVisibilityAtSigning => said.source_repository_visibility_at_signing.clone(),
        Claim::DeploymentEnvironment => said.deployment_environment.clone(),
        Claim::TokenSubject => said.token_subject.clone(),
    };
    CertifiedSigner {
        issuer: certificate.issuer.clone(),
        identity: certificate.identity.as_ref().map(|name| name.as_str().to_owned()),
        claims: Claim::ALL.iter().filter_map(|&name| Some((name, claim(name)?))).collect(),
    }
}

fn fault(fault: Fault, detail: String) -> AttestationError {
    AttestationError { fault, detail }
}

/// The chain is built for the time of signing; that the time was at fault it says in words only.
fn is_of_time(error: &CertificateError) -> bool {
    match error {
        CertificateError::NotYetValid { .. } | CertificateError::Expired { .. } => true,
        CertificateError::ChainInvalid(detail) => {
            detail.contains("CertExpired") || detail.contains("CertNotValidYet")
        }
        _ => false,
    }
}

fn refusal(error: &Error) -> AttestationError {
    let kind = match error {
        Error::SignatureInvalid(_) => Fault::Signature,
        Error::ArtifactMismatch(_) => Fault::OtherArtifact,
        Error::ArtifactRead(_) | Error::UnsupportedArtifact(_) => Fault::Artifact,
        // Of an entry's time the library tells the future from other faults in words only.
        Error::TransparencyLog(TransparencyLogError::IntegratedTime(detail))
            if detail.contains("in the future") =>
        {
            Fault::Future
        }
        Error::TransparencyLog(TransparencyLogError::IntegratedTime(_)) | Error::Timestamp(_) => Fault::Time,
        Error::TransparencyLog(_) => Fault::Log,
        Error::Certificate(error) => {
            if is_of_time(error) {
                Fault::Time
            } else {
                Fault::Certificate
            }
        }
        _ => Fault::Unreadable,
    };
    fault(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_that_is_built_in_can_vouch_for_everything() {
        let sigstore = Sigstore::new(&TrustedRoot::BuiltIn).unwrap();
        sigstore.check_keyless().unwrap();
        sigstore.check_stamps().unwrap();
        sigstore.check_certificate_logs().unwrap();
    }

    #[test]
    fn a_root_that_is_none_is_told_from_one_that_lacks_something() {
        let read = |json: &str| Sigstore::new(&TrustedRoot::Json(json.to_owned()));
        assert!(matches!(read("<html>"), Err(TrustedRootError::Unreadable(_))));
        assert!(matches!(read("{}"), Err(TrustedRootError::Unreadable(_))));
        let empty = read(r#"{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#);
        let error = empty.unwrap().check_keyless().expect_err("nobody vouches");
        assert_eq!(error, TrustedRootError::Lacks { what: "certificate authority" });
    }

    #[test]
    fn what_is_no_bundle_is_unreadable() {
        let sigstore = Sigstore::new(&TrustedRoot::BuiltIn).unwrap();
        for bundle in [b"".as_slice(), b"{}", b"<html>", b"\xff", b"[]"] {
            let artifact = Artifact::Digest(crate::Digest::of(b""));
            let error = sigstore.attest(bundle, artifact, Signer::Certificate).expect_err("no bundle");
            assert_eq!(error.fault, Fault::Unreadable, "{error}");
        }
    }
}
