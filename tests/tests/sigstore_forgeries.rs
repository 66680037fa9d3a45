//! A bundle that is wrong in one way is refused for that reason.
//!
//! Some of the conformance suite's bad cases fail by a malformed document before they reach what they
//! are about; these are minted good in everything else.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};

use myriarch_tests::sigstore::{Forgery, Identity, Part, Sigstore as Minted};
use myriarch_verify::{
    Artifact, Attestation, Claim, Digest, Distrust, Doubt, Evidence, Fault, KeylessRule, KeylessSpec,
    Requirement, Rule, Signer, Sigstore, Subject, TrustPolicy, TrustPolicyError, TrustedRoot,
};

const ARCHIVE: &[u8] = b"an archive";
const FILE: &str = "otelcol-contrib_0.158.0_linux_amd64.tar.gz";

fn spec(root: String) -> KeylessSpec {
    let official = Identity::opentelemetry("contrib", "{version}");
    KeylessSpec {
        issuer: official.issuer,
        identity: official.san,
        claims: BTreeMap::from([(Claim::BuildConfigUri, official.claims[&Claim::BuildConfigUri].clone())]),
        root: TrustedRoot::Json(root),
        require: BTreeSet::new(),
    }
}

fn policy(spec: KeylessSpec) -> TrustPolicy {
    TrustPolicy::new(vec![Rule::Keyless(KeylessRule::new(spec).unwrap())]).unwrap()
}

fn judge(policy: &TrustPolicy, bundle: &[u8]) -> Result<Evidence, Doubt> {
    judge_as(policy, bundle, "0.158.0", FILE)
}

fn judge_as(policy: &TrustPolicy, bundle: &[u8], version: &str, file_name: &str) -> Result<Evidence, Doubt> {
    let subject = Subject { version, archive: Digest::of(ARCHIVE), file_name, bundle: Some(bundle) };
    policy.judge(&subject).map_err(|distrust| {
        assert!(!distrust.hint().is_empty());
        match distrust {
            Distrust::NoRule { objections, .. } => objections[0].doubt.clone(),
            other => panic!("{other}"),
        }
    })
}

fn official() -> Identity {
    Identity::opentelemetry("contrib", "0.158.0")
}

#[test]
fn what_the_right_signer_signed_is_trusted() {
    let minted = Minted::mint();
    let root = minted.trusted_root_json();
    let demanding = KeylessSpec {
        require: BTreeSet::from([Requirement::InclusionProof, Requirement::Timestamp, Requirement::Sct]),
        ..spec(root.clone())
    };
    let evidence = judge(&policy(demanding), &minted.sign(Digest::of(ARCHIVE), &official())).unwrap();
    let Evidence::Keyless { issuer, identity, claims, integrated_time, log_index, stamps, root: of, .. } =
        evidence
    else {
        panic!("a keyless rule has accepted")
    };
    assert_eq!(issuer, official().issuer);
    assert_eq!(identity, official().san);
    assert_eq!(claims["source_repository_ref"], "refs/tags/v0.158.0");
    assert!(integrated_time.is_some());
    assert_eq!((log_index, stamps), (7, 1));
    assert_eq!(of, Digest::of(root.as_bytes()));
}

#[test]
fn every_forgery_is_refused_for_its_own_reason() {
    let minted = Minted::mint();
    let policy = policy(spec(minted.trusted_root_json()));
    for forgery in Forgery::ALL {
        let (fault, words) = match forgery {
            Forgery::EntryOfOtherArtifact => (Fault::OtherArtifact, "hash mismatch for hashedrekord"),
            Forgery::EntryOfOtherSignature => (Fault::Log, "signature in bundle does not match"),
            Forgery::EntryOfOtherCertificate => (Fault::Log, "certificate in bundle does not match"),
            Forgery::SignatureOfOtherArtifact | Forgery::WrongKey => (Fault::Signature, "invalid signature"),
            Forgery::NoLogEntry => (Fault::Unproven, "expected a log entry, found none"),
            Forgery::NoInclusionProof | Forgery::RelabelledAsV01 => (Fault::Unproven, "entry 1 of 1"),
            Forgery::UnprovenSecondEntry => (Fault::Unproven, "entry 2 of 2"),
            Forgery::StrangerLog => (Fault::Log, "No log key"),
            Forgery::BrokenPromise | Forgery::ChangedLogTime => (Fault::Log, "SET verification failed"),
            Forgery::BrokenCheckpoint => (Fault::Log, "No valid Rekor signature"),
            Forgery::CheckpointOfOtherTree => (Fault::Log, "inclusion proof verification"),
            Forgery::LoggedTooLate | Forgery::StampTooLate => (Fault::Time, "CertExpired"),
            Forgery::FromTheFuture => (Fault::Future, "in the future"),
            Forgery::StrangerAuthority | Forgery::NotForSigning => (Fault::Certificate, "certificate chain"),
            Forgery::NoCertificateStamp | Forgery::BrokenCertificateStamp => {
                (Fault::Certificate, "signed certificate timestamp")
            }
            Forgery::StampOfOtherSignature | Forgery::StrangerStamp => (Fault::Time, "timestamp"),
            // Complete, as long as no stamp is required: the next test.
            Forgery::NoStamp => continue,
        };
        let bundle = minted.forge(Digest::of(ARCHIVE), &official(), forgery);
        let Err(Doubt::Bundle(error)) = judge(&policy, &bundle) else {
            panic!("{forgery:?} is not refused for its bundle")
        };
        assert_eq!(error.fault, fault, "{forgery:?}: {error}");
        assert!(error.detail.contains(words), "{forgery:?}: {error}");

        // By file as by digest.
        let sigstore = Sigstore::new(&TrustedRoot::Json(minted.trusted_root_json())).unwrap();
        let by_file = sigstore.attest(&bundle, Artifact::Reader(&mut &ARCHIVE[..]), Signer::Certificate);
        assert_eq!(by_file.map_err(|error| error.fault), Err(fault), "{forgery:?}");
    }
}

#[test]
fn a_stamp_is_missed_only_where_it_is_required() {
    let minted = Minted::mint();
    let spec = spec(minted.trusted_root_json());
    let unstamped = minted.forge(Digest::of(ARCHIVE), &official(), Forgery::NoStamp);
    assert!(judge(&policy(spec.clone()), &unstamped).is_ok());
    let demanding = KeylessSpec { require: BTreeSet::from([Requirement::Timestamp]), ..spec };
    assert_eq!(judge(&policy(demanding), &unstamped), Err(Doubt::NoStamp));
}

#[test]
fn a_bundle_of_other_bytes_is_refused() {
    let minted = Minted::mint();
    let policy = policy(spec(minted.trusted_root_json()));
    let other = minted.sign(Digest::of(b"other bytes"), &official());
    let Err(Doubt::Bundle(error)) = judge(&policy, &other) else { panic!("accepted") };
    assert_eq!(error.fault, Fault::OtherArtifact, "{error}");
}

#[test]
fn a_signer_who_is_not_the_one_named_is_refused_with_both_names() {
    let minted = Minted::mint();
    let policy = policy(spec(minted.trusted_root_json()));
    let branch =
        Identity { san: official().san.replace("refs/tags/v0.158.0", "refs/heads/main"), ..official() };
    let fork =
        Identity { san: official().san.replace("open-telemetry", "open-telemetry-fork"), ..official() };
    let table = [
        ("identity", branch),
        ("identity", fork),
        ("identity", Identity { san: "release@opentelemetry.io".to_owned(), ..official() }),
        ("identity", Identity::opentelemetry("contrib", "0.157.0")),
        ("identity", Identity::opentelemetry("contrib", "0.158.0-rc.1")),
        ("issuer", Identity { issuer: "https://accounts.google.com".to_owned(), ..official() }),
        ("build_config_uri", Identity::opentelemetry("core", "0.158.0")),
        ("build_config_uri", Identity { claims: BTreeMap::new(), ..official() }),
    ];
    for (what, identity) in table {
        let doubt = judge(&policy, &minted.sign(Digest::of(ARCHIVE), &identity)).expect_err("another signer");
        assert!(
            matches!(&doubt, Doubt::Signer { what: found, .. } if *found == what),
            "{identity:?}: {doubt}"
        );
        let words = doubt.to_string();
        assert!(words.contains("expected https://") && words.contains("found"), "{words}");
    }
}

#[test]
fn a_signed_older_version_offered_as_new_is_refused() {
    let minted = Minted::mint();
    let policy = policy(spec(minted.trusted_root_json()));
    let old = minted.sign(Digest::of(ARCHIVE), &Identity::opentelemetry("contrib", "0.158.0"));
    assert!(judge_as(&policy, &old, "0.158.0", "c.tar.gz").is_ok());
    let doubt = judge_as(&policy, &old, "0.159.0", "c.tar.gz").expect_err("older");
    assert!(matches!(doubt, Doubt::Signer { what: "identity", .. }), "{doubt}");
}

#[test]
fn two_instances_do_not_trust_each_other() {
    let (ours, theirs) = (Minted::mint(), Minted::mint());
    let bundle = theirs.sign(Digest::of(ARCHIVE), &official());
    assert!(judge(&policy(spec(ours.trusted_root_json())), &bundle).is_err());
    let public = KeylessSpec { root: TrustedRoot::BuiltIn, ..spec(String::new()) };
    assert!(judge(&policy(public), &bundle).is_err());
}

#[test]
fn a_private_instance_without_certificate_logs_or_stamps_can_be_trusted() {
    let minted = Minted::mint();
    let spec = |part: Part| spec(minted.trusted_root_json_without(part));
    let unlogged = minted.forge(Digest::of(ARCHIVE), &official(), Forgery::NoCertificateStamp);
    assert!(judge(&policy(spec(Part::CertificateLogs)), &unlogged).is_ok());
    let unstamped = minted.forge(Digest::of(ARCHIVE), &official(), Forgery::NoStamp);
    assert!(judge(&policy(spec(Part::TimestampAuthorities)), &unstamped).is_ok());
}

#[test]
fn a_demand_that_the_root_can_never_meet_is_refused_when_the_policy_is_read() {
    let minted = Minted::mint();
    let table = [
        (Part::CertificateAuthorities, None, "certificate authority"),
        (Part::Logs, None, "transparency log"),
        (Part::CertificateLogs, Some(Requirement::Sct), "certificate transparency log"),
        (Part::TimestampAuthorities, Some(Requirement::Timestamp), "timestamp authority"),
    ];
    for (part, require, missing) in table {
        let root = minted.trusted_root_json_without(part);
        let spec = KeylessSpec { require: require.into_iter().collect(), ..spec(root) };
        let error = KeylessRule::new(spec).expect_err("impossible");
        assert!(matches!(error, TrustPolicyError::Root(_)), "{error}");
        assert!(error.to_string().contains(missing), "{error}");
    }
}

#[test]
fn provenance_is_trusted_and_another_statement_by_the_same_signer_is_not() {
    let minted = Minted::mint();
    let policy = policy(spec(minted.trusted_root_json()));
    let attest = |kind: &str| judge(&policy, &minted.attest(Digest::of(ARCHIVE), &official(), kind));
    let provenance = attest("https://slsa.dev/provenance/v1").unwrap();
    assert!(matches!(provenance, Evidence::Keyless { statement: Some(_), .. }));
    let scan = "https://in-toto.io/attestation/vulns/v0.1";
    assert_eq!(attest(scan), Err(Doubt::Statement { found: scan.to_owned() }));
    let other = minted.attest(Digest::of(b"other"), &official(), "https://slsa.dev/provenance/v1");
    let Err(Doubt::Bundle(error)) = judge(&policy, &other) else { panic!("accepted") };
    assert_eq!(error.fault, Fault::OtherArtifact, "{error}");
}

#[test]
fn a_signature_by_key_is_good_for_that_key_alone_and_for_no_rule() {
    let minted = Minted::mint();
    let sigstore = Sigstore::new(&TrustedRoot::Json(minted.trusted_root_json())).unwrap();
    let (bundle, key) = minted.sign_by_key(Digest::of(ARCHIVE));
    let (_, other) = minted.sign_by_key(Digest::of(ARCHIVE));
    let attest = |key, bytes| sigstore.attest(&bundle, Artifact::Digest(Digest::of(bytes)), Signer::Key(key));
    assert_eq!(attest(&key, ARCHIVE).unwrap().certificate, None);
    let wrong_key = attest(&other, ARCHIVE).expect_err("another key");
    assert_eq!(wrong_key.fault, Fault::Signature, "{wrong_key}");
    let wrong_bytes = attest(&key, b"other").expect_err("other bytes");
    assert_eq!(wrong_bytes.fault, Fault::OtherArtifact, "{wrong_bytes}");
    assert!(judge(&policy(spec(minted.trusted_root_json())), &bundle).is_err());
}

#[test]
fn a_bundle_that_is_cut_off_anywhere_is_refused() {
    let minted = Minted::mint();
    let policy = policy(spec(minted.trusted_root_json()));
    let bundle = minted.sign(Digest::of(ARCHIVE), &official());
    for end in (0..bundle.len()).step_by(97) {
        assert!(judge(&policy, &bundle[..end]).is_err(), "cut at {end}");
    }
}
