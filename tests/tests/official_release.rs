//! The real bundle and checksum of a real collector release, by digest: its archive is 100 MB and need
//! not be here.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use myriarch_tests::{shared, sigstore::Identity};
use myriarch_verify::{
    Claim, Digest, Distrust, Doubt, Evidence, Fault, KeylessRule, KeylessSpec, Requirement, Rule, Subject,
    TrustPolicy, TrustedRoot, checksum,
};

const VERSION: &str = "0.158.0";
const ASSET: &str = "otelcol-contrib_0.158.0_linux_amd64.tar.gz";

fn release(test: &str) -> Option<PathBuf> {
    shared::folder(test, "OTEL_RELEASE", "otel-release")
}

fn policy(distribution: &str) -> TrustPolicy {
    let official = Identity::opentelemetry(distribution, "{version}");
    let rule = KeylessRule::new(KeylessSpec {
        issuer: official.issuer.clone(),
        identity: official.san.clone(),
        claims: BTreeMap::from([(Claim::BuildConfigUri, official.claims[&Claim::BuildConfigUri].clone())]),
        root: TrustedRoot::BuiltIn,
        require: BTreeSet::from([Requirement::Timestamp, Requirement::Sct]),
    });
    TrustPolicy::new(vec![Rule::Keyless(rule.unwrap())]).unwrap()
}

fn archive(folder: &std::path::Path) -> Digest {
    let name = format!("{ASSET}.sha256");
    checksum::digest_for(&name, ASSET, &fs::read(folder.join(&name)).unwrap()).unwrap()
}

#[test]
fn an_official_release_is_trusted_by_its_checksum_and_its_signer() {
    let Some(folder) = release("the official release") else { return };
    let bundle = fs::read(folder.join(format!("{ASSET}.sigstore.json"))).unwrap();
    let archive = archive(&folder);
    let subject = Subject { version: VERSION, archive, file_name: ASSET, bundle: Some(&bundle) };
    let evidence = policy("contrib").judge(&subject).unwrap();
    println!("{evidence}");
    let Evidence::Keyless { identity, integrated_time, log_index, stamps, .. } = evidence else {
        panic!("a keyless rule has accepted")
    };
    assert_eq!(identity, Identity::opentelemetry("contrib", VERSION).san);
    assert_eq!(integrated_time.as_deref(), Some("2026-08-04T19:30:26Z"));
    assert_eq!((log_index, stamps), (2_341_260_493, 1));
}

#[test]
fn an_official_release_of_another_distribution_is_not_trusted() {
    let Some(folder) = release("the official release as another distribution") else { return };
    let bundle = fs::read(folder.join(format!("{ASSET}.sigstore.json"))).unwrap();
    let archive = archive(&folder);
    let subject = Subject { version: VERSION, archive, file_name: ASSET, bundle: Some(&bundle) };
    let distrust = policy("k8s").judge(&subject).expect_err("another distribution");
    assert!(distrust.to_string().contains("build_config_uri: expected"), "{distrust}");
}

#[test]
fn an_official_release_relabelled_as_version_0_1_is_not_trusted_on_a_promise() {
    let Some(folder) = release("the official release, relabelled") else { return };
    let bundle = fs::read(folder.join(format!("{ASSET}.sigstore.json"))).unwrap();
    let mut document: serde_json::Value = serde_json::from_slice(&bundle).unwrap();
    document["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1".into();
    let entry = &mut document["verificationMaterial"]["tlogEntries"][0];
    entry.as_object_mut().unwrap().remove("inclusionProof").unwrap();
    let relabelled = document.to_string();

    let archive = archive(&folder);
    let bundle = Some(relabelled.as_bytes());
    let subject = Subject { version: VERSION, archive, file_name: ASSET, bundle };
    let Err(Distrust::NoRule { objections, .. }) = policy("contrib").judge(&subject) else {
        panic!("accepted on the log's promise alone")
    };
    let Doubt::Bundle(error) = &objections[0].doubt else { panic!("{}", objections[0]) };
    assert_eq!(error.fault, Fault::Unproven, "{error}");
}
