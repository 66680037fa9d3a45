//! Trust by identity: who signed, vouched for by whom, out of which build.
//!
//! The version asked for must stand in the signer's identity. That ties a signature to its release: a
//! signed but older archive offered as the new version fails, and so does one that the right repository
//! signed at a branch and not at the tag. Neither operating system nor architecture nor file name is
//! bound by a certificate; the digest and the chain's later stages see to those.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    Artifact, Attestation, Claim, Digest, Doubt, Evidence, Signer, Sigstore, Subject, TrustPolicyError,
    TrustedRoot, template::Template,
};

/// Statements that say "this came out of that build". Others, such as the result of a scan, may be
/// signed by the very same workflow and mean anything, even "do not use this".
const PROVENANCE: [&str; 2] = ["https://slsa.dev/provenance/v1", "https://slsa.dev/provenance/v0.2"];

/// What a keyless rule is made of, as the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KeylessSpec {
    /// Who vouches for the identity, compared exactly: `https://token.actions.githubusercontent.com`.
    pub issuer: String,
    /// Who signs, with `{version}` where the version stands; compared exactly after the substitution.
    pub identity: String,
    /// Further claims of the certificate; their values are templates as well.
    pub claims: BTreeMap<Claim, String>,
    /// Where trust begins. Default: the public Sigstore instance.
    pub root: TrustedRoot,
    /// What more is demanded of a bundle. [`Requirement::InclusionProof`] always is.
    pub require: BTreeSet<Requirement>,
}

/// What a bundle must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Requirement {
    /// A proof that the log holds the signature. Demanded always, whether it is listed or not.
    InclusionProof,
    /// A timestamp authority's stamp (RFC 3161), so that the time of signing does not rest on the log
    /// alone.
    Timestamp,
    /// The certificate's own log stamp. Demanded always if the root names a certificate log; listed, it
    /// is an error if the root names none.
    Sct,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InclusionProof => "inclusion-proof",
            Self::Timestamp => "timestamp",
            Self::Sct => "sct",
        })
    }
}

/// Trusts what one identity signed.
#[derive(Clone, Debug)]
pub struct KeylessRule {
    issuer: String,
    identity: Template,
    claims: BTreeMap<Claim, Template>,
    require: BTreeSet<Requirement>,
    root: Digest,
    attestation: Arc<dyn Attestation>,
}

impl KeylessRule {
    /// Reads and checks a rule.
    ///
    /// # Errors
    /// [`TrustPolicyError`], if it would accept everybody or any version, could never accept anything,
    /// or its root is malformed.
    pub fn new(spec: KeylessSpec) -> Result<Self, TrustPolicyError> {
        let sigstore = Sigstore::new(&spec.root)?;
        sigstore.check_keyless()?;
        if spec.require.contains(&Requirement::Timestamp) {
            sigstore.check_stamps()?;
        }
        if spec.require.contains(&Requirement::Sct) {
            sigstore.check_certificate_logs()?;
        }
        Self::with(spec, Arc::new(sigstore))
    }

    fn with(spec: KeylessSpec, attestation: Arc<dyn Attestation>) -> Result<Self, TrustPolicyError> {
        // An issuer has no version in it, else the same rules as for templates.
        if Template::new("issuer", &spec.issuer)?.names_version() {
            return Err(TrustPolicyError::Placeholder { what: "issuer".to_owned(), value: spec.issuer });
        }
        let identity = Template::new("identity", &spec.identity)?;
        if !identity.names_version() {
            return Err(TrustPolicyError::Unanchored { identity: spec.identity });
        }
        let claims = spec
            .claims
            .iter()
            .map(|(&claim, text)| Ok((claim, Template::new(&format!("claim {claim}"), text)?)))
            .collect::<Result<_, TrustPolicyError>>()?;
        let mut require = spec.require;
        require.insert(Requirement::InclusionProof);
        Ok(Self { issuer: spec.issuer, identity, claims, require, root: spec.root.digest(), attestation })
    }

    pub(crate) fn judge(&self, subject: &Subject<'_>) -> Result<Evidence, Doubt> {
        let bundle = subject.bundle.ok_or(Doubt::NoBundle)?;
        let attested =
            self.attestation.attest(bundle, Artifact::Digest(subject.archive), Signer::Certificate)?;
        let signer = attested.certificate.ok_or(Doubt::NoCertificate)?;
        let issuer = same("issuer", self.issuer.clone(), signer.issuer)?;
        let identity = same("identity", self.identity.with(subject.version), signer.identity)?;
        for (claim, template) in &self.claims {
            let found = signer.claims.get(claim).cloned();
            same(claim.name(), template.with(subject.version), found)?;
        }
        if self.require.contains(&Requirement::Timestamp) && attested.stamps == 0 {
            return Err(Doubt::NoStamp);
        }
        if let Some(statement) = &attested.statement
            && !PROVENANCE.contains(&statement.as_str())
        {
            return Err(Doubt::Statement { found: statement.clone() });
        }
        Ok(Evidence::Keyless {
            issuer,
            identity,
            claims: signer.claims.iter().map(|(claim, value)| (claim.to_string(), value.clone())).collect(),
            integrated_time: attested.integrated_time,
            log_index: attested.log_index,
            stamps: attested.stamps,
            statement: attested.statement,
            root: self.root,
        })
    }

    pub(crate) fn describe(&self) -> String {
        use std::fmt::Write as _;
        let mut words = format!("keyless: {} by {}", self.identity, self.issuer);
        for (claim, value) in &self.claims {
            // Writing to a String cannot fail.
            let _ = write!(words, ", {claim} = {value}");
        }
        let require: Vec<String> = self.require.iter().map(ToString::to_string).collect();
        let _ = write!(words, ", requires {}, trusted root {:?}", require.join(" and "), self.root);
        words
    }
}

fn same(what: &'static str, expected: String, found: Option<String>) -> Result<String, Doubt> {
    if found.as_ref() == Some(&expected) {
        Ok(expected)
    } else {
        Err(Doubt::Signer { what, expected, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttestationError, Attested, CertifiedSigner, Fault};

    const ISSUER: &str = "https://issuer.example";
    const IDENTITY: &str = "https://git.example/c/release.yaml@refs/tags/v1.2.3";

    #[derive(Debug)]
    struct Says(Result<Attested, AttestationError>);

    impl Attestation for Says {
        fn attest(
            &self,
            _: &[u8],
            _: Artifact<'_>,
            signer: Signer<'_>,
        ) -> Result<Attested, AttestationError> {
            assert!(matches!(signer, Signer::Certificate));
            self.0.clone()
        }
    }

    fn attested() -> Attested {
        Attested {
            certificate: Some(CertifiedSigner {
                issuer: Some(ISSUER.to_owned()),
                identity: Some(IDENTITY.to_owned()),
                claims: BTreeMap::from([(Claim::BuildTrigger, "push".to_owned())]),
            }),
            integrated_time: None,
            log_index: 3,
            stamps: 0,
            statement: None,
        }
    }

    fn spec() -> KeylessSpec {
        KeylessSpec {
            issuer: ISSUER.to_owned(),
            identity: IDENTITY.replace("1.2.3", "{version}"),
            ..KeylessSpec::default()
        }
    }

    fn judge(spec: KeylessSpec, attested: Attested) -> Result<Evidence, Doubt> {
        judge_version(spec, attested, "1.2.3")
    }

    fn judge_version(spec: KeylessSpec, attested: Attested, version: &str) -> Result<Evidence, Doubt> {
        let rule = KeylessRule::with(spec, Arc::new(Says(Ok(attested)))).unwrap();
        let archive = Digest::of(b"archive");
        rule.judge(&Subject { version, archive, file_name: "c.tar.gz", bundle: Some(b"{}") })
    }

    fn with_signer(change: impl FnOnce(&mut CertifiedSigner)) -> Attested {
        let mut attested = attested();
        change(attested.certificate.as_mut().unwrap());
        attested
    }

    #[test]
    fn the_identity_named_is_trusted() {
        let Ok(Evidence::Keyless { identity, claims, log_index, root, .. }) = judge(spec(), attested())
        else {
            panic!("not trusted")
        };
        assert_eq!(identity, IDENTITY);
        assert_eq!(claims["build_trigger"], "push");
        assert_eq!((log_index, root), (3, TrustedRoot::BuiltIn.digest()));
    }

    #[test]
    fn any_other_identity_is_not_however_alike() {
        let alike = [
            IDENTITY.replace("v1.2.3", "v1.2.2"),
            IDENTITY.replace("v1.2.3", "v1.2.3-rc.1"),
            IDENTITY.replace("refs/tags/v1.2.3", "refs/heads/main"),
            IDENTITY.replace("git.example", "git.example.evil"),
            IDENTITY.to_uppercase(),
            format!("{IDENTITY}/"),
            format!(" {IDENTITY}"),
            format!("https://evil/?{IDENTITY}"),
            String::new(),
        ];
        for other in alike {
            let doubt = judge(spec(), with_signer(|signer| signer.identity = Some(other.clone())));
            let expected =
                Doubt::Signer { what: "identity", expected: IDENTITY.to_owned(), found: Some(other) };
            assert_eq!(doubt, Err(expected));
        }
        let nobody = judge(spec(), with_signer(|signer| signer.identity = None));
        assert!(matches!(nobody, Err(Doubt::Signer { what: "identity", found: None, .. })));
    }

    #[test]
    fn a_signed_older_version_offered_as_new_is_not_trusted() {
        let doubt = judge_version(spec(), attested(), "1.3.0");
        assert!(matches!(doubt, Err(Doubt::Signer { what: "identity", .. })), "{doubt:?}");
    }

    #[test]
    fn another_issuer_is_not_trusted_with_the_same_identity() {
        for other in [Some("https://issuer.example/".to_owned()), None] {
            let doubt = judge(spec(), with_signer(|signer| signer.issuer.clone_from(&other)));
            assert!(matches!(doubt, Err(Doubt::Signer { what: "issuer", .. })), "{doubt:?}");
        }
    }

    #[test]
    fn every_claim_demanded_must_be_there_and_agree() {
        let demand = |claim: Claim, value: &str| KeylessSpec {
            claims: BTreeMap::from([(claim, value.to_owned())]),
            ..spec()
        };
        let of_build = |uri: &str| {
            with_signer(|signer| {
                signer.claims.insert(Claim::BuildConfigUri, uri.to_owned());
            })
        };
        let template = demand(Claim::BuildConfigUri, "https://e/contrib@v{version}");
        assert!(judge(template.clone(), of_build("https://e/contrib@v1.2.3")).is_ok());
        for other in [attested(), of_build("https://e/core@v1.2.3"), of_build("https://e/contrib@v1.2.2")] {
            let doubt = judge(template.clone(), other);
            assert!(matches!(doubt, Err(Doubt::Signer { what: "build_config_uri", .. })), "{doubt:?}");
        }
    }

    #[test]
    fn a_stamp_is_demanded_where_the_rule_says_so() {
        let demanding = KeylessSpec { require: BTreeSet::from([Requirement::Timestamp]), ..spec() };
        assert_eq!(judge(demanding.clone(), attested()), Err(Doubt::NoStamp));
        assert!(judge(demanding, Attested { stamps: 1, ..attested() }).is_ok());
    }

    #[test]
    fn a_statement_other_than_provenance_trusts_nothing() {
        let signed = |statement: &str| Attested { statement: Some(statement.to_owned()), ..attested() };
        assert!(judge(spec(), signed("https://slsa.dev/provenance/v1")).is_ok());
        let scan = judge(spec(), signed("https://in-toto.io/attestation/vulns/v0.1"));
        assert!(matches!(scan, Err(Doubt::Statement { .. })), "{scan:?}");
    }

    #[test]
    fn without_bundle_certificate_or_proof_nothing_is_trusted() {
        let subject = Subject { version: "1.2.3", archive: Digest::of(b""), file_name: "c", bundle: None };
        let rule = KeylessRule::with(spec(), Arc::new(Says(Ok(attested())))).unwrap();
        assert_eq!(rule.judge(&subject), Err(Doubt::NoBundle));
        let keyed = judge(spec(), Attested { certificate: None, ..attested() });
        assert_eq!(keyed, Err(Doubt::NoCertificate));
        let error = AttestationError { fault: Fault::Unproven, detail: "none".to_owned() };
        let rule = KeylessRule::with(spec(), Arc::new(Says(Err(error.clone())))).unwrap();
        let subject = Subject { bundle: Some(b"{}"), ..subject };
        assert_eq!(rule.judge(&subject), Err(Doubt::Bundle(error)));
    }

    #[test]
    fn a_rule_that_accepts_everybody_or_any_version_is_refused() {
        type Change = fn(&mut KeylessSpec);
        let refused = |change: Change| {
            let mut spec = spec();
            change(&mut spec);
            KeylessRule::new(spec).expect_err("refused").to_string()
        };
        let table: [(Change, &str); 8] = [
            (|spec| spec.issuer.clear(), "issuer is empty"),
            (|spec| spec.identity.clear(), "identity is empty"),
            (|spec| spec.identity = "{version}".to_owned(), "nothing but"),
            (|spec| spec.identity = ".*".to_owned(), "pattern"),
            (|spec| spec.identity = IDENTITY.to_owned(), "does not name {version}"),
            (|spec| spec.issuer = "https://{version}".to_owned(), "issuer"),
            (|spec| _ = spec.claims.insert(Claim::BuildTrigger, String::new()), "build_trigger is empty"),
            (|spec| spec.root = TrustedRoot::Json("{}".to_owned()), "trusted root"),
        ];
        for (change, expected) in table {
            let error = refused(change);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_proof_of_inclusion_is_demanded_unasked() {
        let rule = KeylessRule::new(spec()).unwrap();
        assert!(rule.describe().contains("requires inclusion-proof"), "{}", rule.describe());
    }
}
