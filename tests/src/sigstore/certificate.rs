//! Certificates: an authority, and what it issues.

use jiff::Timestamp;
use sigstore_verify::crypto::KeyPair;

use super::{
    Identity,
    der::{bits, der, integer, octets, oid, sequence, tag, utf8},
    digest_bytes, log_id,
};

pub(super) const ECDSA_WITH_SHA256: &str = "1.2.840.10045.4.3.2";
const COMMON_NAME: &str = "2.5.4.3";
const BASIC_CONSTRAINTS: &str = "2.5.29.19";
const KEY_USAGE: &str = "2.5.29.15";
const EXTENDED_KEY_USAGE: &str = "2.5.29.37";
const SUBJECT_ALT_NAME: &str = "2.5.29.17";
const SIGNED_TIMESTAMPS: &str = "1.3.6.1.4.1.11129.2.4.2";
const FULCIO: &str = "1.3.6.1.4.1.57264.1";

/// What a certificate may be used for.
#[derive(Clone, Copy)]
pub(super) enum Usage {
    CodeSigning,
    TimeStamping,
}

impl Usage {
    fn oid(self) -> Vec<u8> {
        oid(match self {
            Self::CodeSigning => "1.3.6.1.5.5.7.3.3",
            Self::TimeStamping => "1.3.6.1.5.5.7.3.8",
        })
    }
}

/// From when to when a certificate is valid.
#[derive(Clone, Copy)]
pub(super) struct Validity {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

impl Validity {
    fn der(self) -> Vec<u8> {
        let time = |time: Timestamp| der(tag::UTC_TIME, &[time.strftime("%y%m%d%H%M%SZ").to_string()]);
        sequence(&[&time(self.from), &time(self.to)])
    }
}

/// A self-signed root.
pub(super) struct Authority {
    pub(super) key: KeyPair,
    pub(super) name: Vec<u8>,
    pub(super) certificate: Vec<u8>,
}

impl Authority {
    pub(super) fn new(name: &str, validity: Validity) -> Self {
        let key = KeyPair::generate_ecdsa_p256().unwrap();
        let name = common_name(name);
        let extensions = [
            extension(BASIC_CONSTRAINTS, true, &sequence(&[&der(tag::BOOLEAN, &[[0xff]])])),
            // keyCertSign and cRLSign.
            extension(KEY_USAGE, true, &der(tag::BIT_STRING, &[[1, 0b0000_0110]])),
        ];
        let body = to_be_signed(1, &name, validity, &name, &key, &extensions);
        let certificate = signed(&body, &key);
        Self { key, name, certificate }
    }

    /// A certificate without an identity, such as a timestamp authority's.
    pub(super) fn issue_service(
        &self,
        name: &str,
        key: &KeyPair,
        usage: Usage,
        validity: Validity,
    ) -> Vec<u8> {
        let extensions = [extension(EXTENDED_KEY_USAGE, true, &sequence(&[&usage.oid()]))];
        let body = to_be_signed(2, &self.name, validity, &common_name(name), key, &extensions);
        signed(&body, &self.key)
    }

    /// A signer's short-lived certificate as Fulcio would issue it, with the stamp of a certificate log
    /// over the certificate without that stamp, if there is one.
    pub(super) fn issue_signer(
        &self,
        identity: &Identity,
        key: &KeyPair,
        usage: Usage,
        validity: Validity,
        stamp: Option<&CertificateStamp<'_>>,
    ) -> Vec<u8> {
        let kind = if identity.san.contains("://") { 0x86 } else { 0x81 };
        let mut extensions = vec![
            extension(KEY_USAGE, true, &der(tag::BIT_STRING, &[[7, 0b1000_0000]])),
            extension(EXTENDED_KEY_USAGE, false, &sequence(&[&usage.oid()])),
            extension(SUBJECT_ALT_NAME, true, &sequence(&[&der(kind, &[&identity.san])])),
            // The first generation of the issuer is bare text, the second is DER.
            extension(&format!("{FULCIO}.1"), false, identity.issuer.as_bytes()),
            extension(&format!("{FULCIO}.8"), false, &utf8(&identity.issuer)),
        ];
        for (claim, value) in &identity.claims {
            extensions.push(extension(&format!("{FULCIO}.{}", claim.number()), false, &utf8(value)));
        }
        let body =
            |extensions: &[Vec<u8>]| to_be_signed(3, &self.name, validity, &sequence(&[]), key, extensions);
        if let Some(stamp) = stamp {
            let issuer = self.key.public_key_der().unwrap();
            let list = stamp.list(issuer.as_bytes(), &body(&extensions));
            extensions.push(extension(SIGNED_TIMESTAMPS, false, &octets(&list)));
        }
        signed(&body(&extensions), &self.key)
    }
}

/// A certificate log's stamp, RFC 6962.
pub(super) struct CertificateStamp<'a> {
    /// Whose name is on it.
    pub(super) log: &'a KeyPair,
    /// Who really signs it.
    pub(super) key: &'a KeyPair,
    pub(super) at: Timestamp,
}

impl CertificateStamp<'_> {
    fn list(&self, issuer_key: &[u8], body: &[u8]) -> Vec<u8> {
        let at = u64::try_from(self.at.as_millisecond()).unwrap().to_be_bytes();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        // Version 1, certificate timestamp, time; pre-certificate entry; no extensions.
        let message =
            [&[0, 0], &at[..], &[0, 1], &digest_bytes(issuer_key), &length[1..], body, &[0, 0]].concat();
        let signature = self.key.sign(&message).unwrap();
        // SHA-256 with ECDSA.
        let stamp =
            [&[0], &log_id(self.log)[..], &at, &[0, 0], &[4, 3], &prefixed(signature.as_bytes())].concat();
        prefixed(&prefixed(&stamp))
    }
}

/// A TLS vector with two bytes of length.
fn prefixed(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

pub(super) fn pem(certificate: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use std::fmt::Write as _;
    let text = STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in text.as_bytes().chunks(64) {
        writeln!(pem, "{}", std::str::from_utf8(line).unwrap()).unwrap();
    }
    pem + "-----END CERTIFICATE-----\n"
}

fn common_name(name: &str) -> Vec<u8> {
    sequence(&[&der(tag::SET, &[sequence(&[&oid(COMMON_NAME), &utf8(name)])])])
}

fn extension(id: &str, critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if critical { der(tag::BOOLEAN, &[[0xff]]) } else { Vec::new() };
    sequence(&[&oid(id), &critical, &octets(value)])
}

fn to_be_signed(
    serial: u8,
    issuer: &[u8],
    validity: Validity,
    subject: &[u8],
    key: &KeyPair,
    extensions: &[Vec<u8>],
) -> Vec<u8> {
    let version = der(tag::context(0), &[integer(2)]);
    let algorithm = sequence(&[&oid(ECDSA_WITH_SHA256)]);
    let key = key.public_key_der().unwrap();
    let extensions = der(tag::context(3), &[der(tag::SEQUENCE, extensions)]);
    sequence(&[
        &version,
        &integer(serial),
        &algorithm,
        issuer,
        &validity.der(),
        subject,
        key.as_bytes(),
        &extensions,
    ])
}

fn signed(body: &[u8], key: &KeyPair) -> Vec<u8> {
    let algorithm = sequence(&[&oid(ECDSA_WITH_SHA256)]);
    sequence(&[body, &algorithm, &bits(key.sign(body).unwrap().as_bytes())])
}
