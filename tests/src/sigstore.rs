//! A private Sigstore, minted in memory: authority, logs, timestamp authority, and every way to forge.
//!
//! Tests and the demo need archives signed by identities of their choice and bundles that are wrong in
//! exactly one way, without a network and without fixtures that expire. Nothing here imitates a
//! service; only what a verifier looks at is made. Every bundle is signed two hours ago by a
//! certificate that was valid for ten minutes, as real ones are by the time somebody verifies them.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a kit for tests: a panic here is a failed test"
)]

mod certificate;
mod der;
mod log;
mod timestamp;

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use myriarch_verify::{Claim, Digest};
use serde_json::{Value, json};
use sigstore_verify::{crypto::KeyPair, types::Sha256Hash};

use certificate::{Authority, CertificateStamp, Usage, Validity, pem};
use log::{Log, Logging};
use timestamp::TimestampAuthority;

const V0_3: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const V0_1: &str = "application/vnd.dev.sigstore.bundle+json;version=0.1";
const STATEMENT: &str = "application/vnd.in-toto+json";
const TEN_MINUTES: SignedDuration = SignedDuration::from_mins(10);

/// Whom a certificate names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Who vouches for it.
    pub issuer: String,
    /// The identity itself: the certificate's subject alternative name, a URI or an e-mail address.
    pub san: String,
    /// Further claims.
    pub claims: BTreeMap<Claim, String>,
}

impl Identity {
    /// An identity without further claims.
    pub fn new(issuer: &str, san: &str) -> Self {
        Self { issuer: issuer.to_owned(), san: san.to_owned(), claims: BTreeMap::new() }
    }

    /// Adds a claim.
    #[must_use]
    pub fn with(mut self, claim: Claim, value: &str) -> Self {
        self.claims.insert(claim, value.to_owned());
        self
    }

    /// The identity that signs the official OpenTelemetry Collector of this version, `distribution`
    /// being `contrib`, `core` or the like.
    pub fn opentelemetry(distribution: &str, version: &str) -> Self {
        let workflow = |name: &str| {
            format!(
                "https://github.com/open-telemetry/opentelemetry-collector-releases/.github/workflows/\
                 {name}.yaml@refs/tags/v{version}"
            )
        };
        Self::new("https://token.actions.githubusercontent.com", &workflow("base-release"))
            .with(Claim::BuildConfigUri, &workflow(&format!("release-{distribution}")))
            .with(Claim::SourceRepositoryRef, &format!("refs/tags/v{version}"))
    }
}

/// What is wrong with a bundle. That somebody else signed it is no forgery but another [`Identity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forgery {
    /// The log entry is of another artifact, signed by the same signer.
    EntryOfOtherArtifact,
    /// The log entry is of another signature of the same artifact.
    EntryOfOtherSignature,
    /// The log entry names another certificate.
    EntryOfOtherCertificate,
    /// The signature is of another artifact; digest and log entry say ours.
    SignatureOfOtherArtifact,
    /// The signature is not by the certificate's key.
    WrongKey,
    /// Nothing was logged.
    NoLogEntry,
    /// There is the log's promise, but no proof of inclusion.
    NoInclusionProof,
    /// The same, and the bundle calls itself version 0.1, which knew no proofs.
    RelabelledAsV01,
    /// A second log entry, with a promise only, beside a good one.
    UnprovenSecondEntry,
    /// Logged by somebody who is not in the trusted root.
    StrangerLog,
    /// The log's promise (SET) is signed by another key.
    BrokenPromise,
    /// The log's checkpoint is signed by another key.
    BrokenCheckpoint,
    /// The proof leads to the checkpoint of another tree.
    CheckpointOfOtherTree,
    /// The time of logging was changed after the log had promised it.
    ChangedLogTime,
    /// Logged after the certificate had expired.
    LoggedTooLate,
    /// Logged tomorrow.
    FromTheFuture,
    /// The certificate's issuer has the right name and another key.
    StrangerAuthority,
    /// The certificate is one for timestamps.
    NotForSigning,
    /// The certificate has no certificate log's stamp.
    NoCertificateStamp,
    /// The certificate log's stamp is signed by another key.
    BrokenCertificateStamp,
    /// No timestamp authority's stamp: complete, unless one is required.
    NoStamp,
    /// The timestamp authority has stamped another signature.
    StampOfOtherSignature,
    /// The timestamp authority's stamp is of a time when the certificate had expired.
    StampTooLate,
    /// Stamped by somebody who is not in the trusted root.
    StrangerStamp,
}

impl Forgery {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::EntryOfOtherArtifact,
        Self::EntryOfOtherSignature,
        Self::EntryOfOtherCertificate,
        Self::SignatureOfOtherArtifact,
        Self::WrongKey,
        Self::NoLogEntry,
        Self::NoInclusionProof,
        Self::RelabelledAsV01,
        Self::UnprovenSecondEntry,
        Self::StrangerLog,
        Self::BrokenPromise,
        Self::BrokenCheckpoint,
        Self::CheckpointOfOtherTree,
        Self::ChangedLogTime,
        Self::LoggedTooLate,
        Self::FromTheFuture,
        Self::StrangerAuthority,
        Self::NotForSigning,
        Self::NoCertificateStamp,
        Self::BrokenCertificateStamp,
        Self::NoStamp,
        Self::StampOfOtherSignature,
        Self::StampTooLate,
        Self::StrangerStamp,
    ];
}

/// Whom a trusted root may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The authorities that issue signing certificates.
    CertificateAuthorities,
    /// The log of signatures.
    Logs,
    /// The log of certificates.
    CertificateLogs,
    /// The timestamp authorities.
    TimestampAuthorities,
}

/// The minted instance.
pub struct Sigstore {
    authority: Authority,
    log: Log,
    certificate_log: KeyPair,
    timestamps: TimestampAuthority,
    /// When everything is signed.
    at: Timestamp,
    lasting: Validity,
}

impl std::fmt::Debug for Sigstore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sigstore").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Sigstore {
    /// A new instance, with new keys: no two trust each other's bundles.
    pub fn mint() -> Self {
        let now = Timestamp::now();
        let at = Timestamp::from_second(now.as_second()).unwrap() - SignedDuration::from_hours(2);
        let lasting = Validity {
            from: at - SignedDuration::from_hours(24),
            to: at + SignedDuration::from_hours(24 * 3650),
        };
        Self {
            authority: Authority::new("minted authority", lasting),
            log: Log::new(),
            certificate_log: key(),
            timestamps: TimestampAuthority::new(lasting),
            at,
            lasting,
        }
    }

    /// The `trusted_root.json` of this instance.
    pub fn trusted_root_json(&self) -> String {
        self.trusted_root().to_string()
    }

    /// The same without one of its parts.
    pub fn trusted_root_json_without(&self, part: Part) -> String {
        let mut root = self.trusted_root();
        root[match part {
            Part::CertificateAuthorities => "certificateAuthorities",
            Part::Logs => "tlogs",
            Part::CertificateLogs => "ctlogs",
            Part::TimestampAuthorities => "timestampAuthorities",
        }] = json!([]);
        root.to_string()
    }

    /// A good bundle for the archive of this digest: the JSON document.
    pub fn sign(&self, artifact: Digest, identity: &Identity) -> Vec<u8> {
        self.bundle(artifact, identity, None)
    }

    /// A bundle that is wrong in one way.
    pub fn forge(&self, artifact: Digest, identity: &Identity, forgery: Forgery) -> Vec<u8> {
        self.bundle(artifact, identity, Some(forgery))
    }

    /// A good bundle of a signed statement about the archive, in-toto in a DSSE envelope.
    pub fn attest(&self, artifact: Digest, identity: &Identity, predicate_type: &str) -> Vec<u8> {
        let payload = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{ "name": "archive", "digest": { "sha256": artifact.to_string() } }],
            "predicateType": predicate_type,
            "predicate": {},
        })
        .to_string();
        let message = format!("DSSEv1 {} {STATEMENT} {} {payload}", STATEMENT.len(), payload.len());
        let signer = key();
        let certificate = self.certificate(identity, &signer, None);
        let signature = signer.sign(message.as_bytes()).unwrap();
        let body = log::dsse(&Digest::of(payload.as_bytes()), signature.as_bytes(), &pem(&certificate));
        let entry = self.log.entry("dsse", &body, &Logging::at(self.at));
        let stamp = self.timestamps.stamp(signature.as_bytes(), self.at);
        let content = json!({
            "payload": STANDARD.encode(&payload),
            "payloadType": STATEMENT,
            "signatures": [{ "sig": STANDARD.encode(signature.as_bytes()) }],
        });
        let mut bundle = assembled(V0_3, &certificate, &[entry], &[stamp]);
        bundle["dsseEnvelope"] = content;
        bundle.to_string().into_bytes()
    }

    /// A good bundle by a bare key, without an identity; and the public key, in PEM.
    pub fn sign_by_key(&self, artifact: Digest) -> (Vec<u8>, String) {
        let signer = key();
        let public = signer.public_key_der().unwrap().to_pem();
        let signature = sign(&signer, artifact);
        let entry = self.log.entry(
            "hashedrekord",
            &log::hashedrekord(&artifact, &signature, &public),
            &Logging::at(self.at),
        );
        let bundle = json!({
            "mediaType": V0_3,
            "verificationMaterial": { "publicKey": { "hint": "minted" }, "tlogEntries": [entry] },
            "messageSignature": message_signature(artifact, &signature),
        });
        (bundle.to_string().into_bytes(), public)
    }

    fn bundle(&self, artifact: Digest, identity: &Identity, forgery: Option<Forgery>) -> Vec<u8> {
        let is = |wanted: Forgery| forgery == Some(wanted);
        let other = Digest::of(b"another artifact");
        let signer = key();
        let certificate = self.certificate(identity, &signer, forgery);

        let subject = if is(Forgery::SignatureOfOtherArtifact) { other } else { artifact };
        let signature = if is(Forgery::WrongKey) { sign(&key(), subject) } else { sign(&signer, subject) };

        let body = match forgery {
            Some(Forgery::EntryOfOtherArtifact) => {
                log::hashedrekord(&other, &sign(&signer, other), &pem(&certificate))
            }
            Some(Forgery::EntryOfOtherSignature) => {
                log::hashedrekord(&artifact, &sign(&signer, artifact), &pem(&certificate))
            }
            Some(Forgery::EntryOfOtherCertificate) => {
                let certificate = self.certificate(identity, &signer, None);
                log::hashedrekord(&artifact, &signature, &pem(&certificate))
            }
            _ => log::hashedrekord(&artifact, &signature, &pem(&certificate)),
        };
        let entries = self.entries(&body, forgery);

        let late = self.at + SignedDuration::from_hours(1);
        let stamps = match forgery {
            Some(Forgery::NoStamp | Forgery::FromTheFuture | Forgery::LoggedTooLate) => Vec::new(),
            Some(Forgery::StampOfOtherSignature) => {
                vec![self.timestamps.stamp(b"another signature", self.at)]
            }
            Some(Forgery::StampTooLate) => vec![self.timestamps.stamp(&signature, late)],
            Some(Forgery::StrangerStamp) => {
                vec![TimestampAuthority::new(self.lasting).stamp(&signature, self.at)]
            }
            _ => vec![self.timestamps.stamp(&signature, self.at)],
        };

        let media_type = if is(Forgery::RelabelledAsV01) { V0_1 } else { V0_3 };
        let mut bundle = assembled(media_type, &certificate, &entries, &stamps);
        bundle["messageSignature"] = message_signature(artifact, &signature);
        bundle.to_string().into_bytes()
    }

    fn certificate(&self, identity: &Identity, signer: &KeyPair, forgery: Option<Forgery>) -> Vec<u8> {
        let is = |wanted: Forgery| forgery == Some(wanted);
        let begin = self.at - SignedDuration::from_mins(1);
        let end = if is(Forgery::FromTheFuture) { self.lasting.to } else { begin + TEN_MINUTES };
        let usage = if is(Forgery::NotForSigning) { Usage::TimeStamping } else { Usage::CodeSigning };
        let stranger_log = key();
        let stamp = CertificateStamp {
            log: &self.certificate_log,
            key: if is(Forgery::BrokenCertificateStamp) { &stranger_log } else { &self.certificate_log },
            at: begin,
        };
        let stamp = (!is(Forgery::NoCertificateStamp)).then_some(&stamp);
        let validity = Validity { from: begin, to: end };
        if is(Forgery::StrangerAuthority) {
            let stranger = Authority::new("minted authority", self.lasting);
            stranger.issue_signer(identity, signer, usage, validity, stamp)
        } else {
            self.authority.issue_signer(identity, signer, usage, validity, stamp)
        }
    }

    fn entries(&self, body: &[u8], forgery: Option<Forgery>) -> Vec<Value> {
        let day = SignedDuration::from_hours(24);
        let good = Logging::at(self.at);
        let entry = |logging: &Logging| self.log.entry("hashedrekord", body, logging);
        let unproven = || {
            let mut entry = entry(&good);
            entry.as_object_mut().unwrap().remove("inclusionProof");
            entry
        };
        vec![match forgery {
            Some(Forgery::NoLogEntry) => return Vec::new(),
            Some(Forgery::UnprovenSecondEntry) => return vec![entry(&good), unproven()],
            Some(Forgery::NoInclusionProof | Forgery::RelabelledAsV01) => unproven(),
            Some(Forgery::StrangerLog) => Log::new().entry("hashedrekord", body, &good),
            Some(Forgery::BrokenPromise) => entry(&Logging { promised_by: Some(key()), ..good }),
            Some(Forgery::BrokenCheckpoint) => entry(&Logging { checked_by: Some(key()), ..good }),
            Some(Forgery::CheckpointOfOtherTree) => {
                entry(&Logging { tree_of: Some(b"another leaf".to_vec()), ..good })
            }
            Some(Forgery::ChangedLogTime) => {
                let promised = self.at + SignedDuration::from_mins(2);
                entry(&Logging { promised_at: promised, ..good })
            }
            Some(Forgery::LoggedTooLate) => entry(&Logging::at(self.at + SignedDuration::from_hours(1))),
            Some(Forgery::FromTheFuture) => entry(&Logging::at(self.at + day)),
            _ => entry(&good),
        }]
    }

    fn trusted_root(&self) -> Value {
        let start = self.lasting.from.to_string();
        let log = |name: &str, key: &KeyPair| {
            json!({
                "baseUrl": format!("https://{name}.invalid"),
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": STANDARD.encode(key.public_key_der().unwrap().as_bytes()),
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": { "start": start },
                },
                "logId": { "keyId": STANDARD.encode(log_id(key)) },
            })
        };
        let authority = |name: &str, chain: &[&[u8]]| {
            let certificates: Vec<Value> =
                chain.iter().map(|certificate| json!({ "rawBytes": STANDARD.encode(certificate) })).collect();
            json!({
                "subject": { "organization": "minted", "commonName": name },
                "uri": format!("https://{name}.invalid"),
                "certChain": { "certificates": certificates },
                "validFor": { "start": start },
            })
        };
        let stamper: [&[u8]; 2] = [&self.timestamps.certificate, &self.timestamps.root.certificate];
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log("log", &self.log.key)],
            "certificateAuthorities": [authority("authority", &[&self.authority.certificate])],
            "ctlogs": [log("certificate-log", &self.certificate_log)],
            "timestampAuthorities": [authority("timestamps", &stamper)],
        })
    }
}

fn assembled(media_type: &str, certificate: &[u8], entries: &[Value], stamps: &[Vec<u8>]) -> Value {
    let stamps: Vec<Value> =
        stamps.iter().map(|stamp| json!({ "signedTimestamp": STANDARD.encode(stamp) })).collect();
    json!({
        "mediaType": media_type,
        "verificationMaterial": {
            "certificate": { "rawBytes": STANDARD.encode(certificate) },
            "tlogEntries": entries,
            "timestampVerificationData": { "rfc3161Timestamps": stamps },
        },
    })
}

fn message_signature(artifact: Digest, signature: &[u8]) -> Value {
    json!({
        "messageDigest": { "algorithm": "SHA2_256", "digest": STANDARD.encode(artifact.as_bytes()) },
        "signature": STANDARD.encode(signature),
    })
}

fn key() -> KeyPair {
    KeyPair::generate_ecdsa_p256().unwrap()
}

fn sign(key: &KeyPair, artifact: Digest) -> Vec<u8> {
    key.sign_digest(&Sha256Hash::new(*artifact.as_bytes())).unwrap().as_bytes().to_vec()
}

fn digest_bytes(bytes: &[u8]) -> [u8; 32] {
    *Digest::of(bytes).as_bytes()
}

/// A log's name: the digest of its public key.
fn log_id(key: &KeyPair) -> [u8; 32] {
    digest_bytes(key.public_key_der().unwrap().as_bytes())
}
