//! A transparency log of the first generation, one leaf long.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use myriarch_verify::Digest;
use serde_json::{Value, json};
use sigstore_verify::crypto::KeyPair;

use super::{digest_bytes, key, log_id};

const ORIGIN: &str = "log.invalid";
/// The entry's number in the whole log; its tree is a shard of its own.
const INDEX: u32 = 7;

pub(super) struct Log {
    pub(super) key: KeyPair,
}

/// How an entry is logged. All that a log signs can be signed by another key.
pub(super) struct Logging {
    /// The time that the entry states.
    pub(super) at: Timestamp,
    /// The time that the log's promise covers.
    pub(super) promised_at: Timestamp,
    pub(super) promised_by: Option<KeyPair>,
    pub(super) checked_by: Option<KeyPair>,
    /// The only leaf of the tree, if not the entry itself.
    pub(super) tree_of: Option<Vec<u8>>,
}

impl Logging {
    pub(super) fn at(at: Timestamp) -> Self {
        Self { at, promised_at: at, promised_by: None, checked_by: None, tree_of: None }
    }
}

impl Log {
    pub(super) fn new() -> Self {
        Self { key: key() }
    }

    /// The entry of `body`, with promise and proof.
    pub(super) fn entry(&self, kind: &str, body: &[u8], logging: &Logging) -> Value {
        let id = log_id(&self.key);
        // Keys in order and no blanks: what the promise is signed over.
        let promise = format!(
            r#"{{"body":"{}","integratedTime":{},"logID":"{}","logIndex":{INDEX}}}"#,
            STANDARD.encode(body),
            logging.promised_at.as_second(),
            Digest::from(id),
        );
        let promised_by = logging.promised_by.as_ref().unwrap_or(&self.key);
        let promise = promised_by.sign(promise.as_bytes()).unwrap();

        let leaf = logging.tree_of.as_deref().unwrap_or(body);
        let root = STANDARD.encode(digest_bytes(&[&[0], leaf].concat()));
        let tree = format!("{ORIGIN}\n1\n{root}\n");
        let checked_by = logging.checked_by.as_ref().unwrap_or(&self.key);
        let signature = checked_by.sign(tree.as_bytes()).unwrap();
        let signature = STANDARD.encode([&id[..4], signature.as_bytes()].concat());

        json!({
            "logIndex": INDEX.to_string(),
            "logId": { "keyId": STANDARD.encode(id) },
            "kindVersion": { "kind": kind, "version": "0.0.1" },
            "integratedTime": logging.at.as_second().to_string(),
            "inclusionPromise": { "signedEntryTimestamp": STANDARD.encode(promise.as_bytes()) },
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": root,
                "treeSize": "1",
                "hashes": [],
                "checkpoint": { "envelope": format!("{tree}\n\u{2014} {ORIGIN} {signature}\n") },
            },
            "canonicalizedBody": STANDARD.encode(body),
        })
    }
}

/// The entry for a signature of an artifact.
pub(super) fn hashedrekord(artifact: &Digest, signature: &[u8], certificate: &str) -> Vec<u8> {
    json!({
        "apiVersion": "0.0.1",
        "kind": "hashedrekord",
        "spec": {
            "data": { "hash": { "algorithm": "sha256", "value": artifact.to_string() } },
            "signature": {
                "content": STANDARD.encode(signature),
                "publicKey": { "content": STANDARD.encode(certificate) },
            },
        },
    })
    .to_string()
    .into_bytes()
}

/// The entry for a signed statement.
pub(super) fn dsse(payload: &Digest, signature: &[u8], certificate: &str) -> Vec<u8> {
    json!({
        "apiVersion": "0.0.1",
        "kind": "dsse",
        "spec": {
            "envelopeHash": { "algorithm": "sha256", "value": payload.to_string() },
            "payloadHash": { "algorithm": "sha256", "value": payload.to_string() },
            "signatures": [{
                "signature": STANDARD.encode(signature),
                "verifier": STANDARD.encode(certificate),
            }],
        },
    })
    .to_string()
    .into_bytes()
}
