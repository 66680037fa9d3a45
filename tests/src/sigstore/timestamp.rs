//! A timestamp authority: RFC 3161 tokens, and nothing of its protocol.

use jiff::Timestamp;
use sigstore_verify::crypto::KeyPair;

use super::{
    certificate::{Authority, ECDSA_WITH_SHA256, Usage, Validity},
    der::{der, integer, octets, oid, sequence, tag},
    digest_bytes,
};

const SIGNED_DATA: &str = "1.2.840.113549.1.7.2";
const TIMESTAMP_INFO: &str = "1.2.840.113549.1.9.16.1.4";
const CONTENT_TYPE: &str = "1.2.840.113549.1.9.3";
const MESSAGE_DIGEST: &str = "1.2.840.113549.1.9.4";
const SHA256: &str = "2.16.840.1.101.3.4.2.1";
const POLICY: &str = "1.3.6.1.4.1.57264.2";

pub(super) struct TimestampAuthority {
    pub(super) root: Authority,
    pub(super) certificate: Vec<u8>,
    key: KeyPair,
}

impl TimestampAuthority {
    pub(super) fn new(validity: Validity) -> Self {
        let root = Authority::new("minted timestamp root", validity);
        let key = KeyPair::generate_ecdsa_p256().unwrap();
        let certificate = root.issue_service("minted timestamps", &key, Usage::TimeStamping, validity);
        Self { root, certificate, key }
    }

    /// A stamp that says that `signature` was there at `at`.
    pub(super) fn stamp(&self, signature: &[u8], at: Timestamp) -> Vec<u8> {
        let sha256 = sequence(&[&oid(SHA256)]);
        let info = sequence(&[
            &integer(1),
            &oid(POLICY),
            &sequence(&[&sha256, &octets(&digest_bytes(signature))]),
            &integer(1),
            &der(tag::GENERALIZED_TIME, &[at.strftime("%Y%m%d%H%M%SZ").to_string()]),
        ]);
        let attributes = [
            attribute(CONTENT_TYPE, &oid(TIMESTAMP_INFO)),
            attribute(MESSAGE_DIGEST, &octets(&digest_bytes(&info))),
        ];
        // Signed as a set, written under a context tag.
        let signature = self.key.sign(&der(tag::SET, &attributes)).unwrap();
        let signer = sequence(&[
            &integer(1),
            &sequence(&[&self.root.name, &integer(2)]),
            &sha256,
            &der(tag::context(0), &attributes),
            &sequence(&[&oid(ECDSA_WITH_SHA256)]),
            &octets(signature.as_bytes()),
        ]);
        let content = sequence(&[
            &integer(3),
            &der(tag::SET, &[&sha256]),
            &sequence(&[&oid(TIMESTAMP_INFO), &der(tag::context(0), &[octets(&info)])]),
            &der(tag::SET, &[signer]),
        ]);
        sequence(&[&oid(SIGNED_DATA), &der(tag::context(0), &[content])])
    }
}

fn attribute(id: &str, value: &[u8]) -> Vec<u8> {
    sequence(&[&oid(id), &der(tag::SET, &[value])])
}
