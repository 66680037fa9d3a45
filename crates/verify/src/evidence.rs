//! Why a program is trusted, kept beside it for as long as it is installed.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::Digest;

/// What a rule accepted, or what an operator answered for.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Evidence {
    /// A signature by an identity that the policy names.
    Keyless {
        /// Who vouched for the identity.
        issuer: String,
        /// Who signed.
        identity: String,
        /// Everything else that the certificate claims, by Fulcio's names, demanded or not.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        claims: BTreeMap<String, String>,
        /// When the log took it in, RFC 3339. Logs of the second generation do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        integrated_time: Option<String>,
        /// Where in the log it is.
        log_index: u64,
        /// How many timestamp authorities' stamps were verified.
        #[serde(default)]
        stamps: usize,
        /// The kind of statement that was signed; absent if it was the archive itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        statement: Option<String>,
        /// Digest of the trusted root document.
        root: Digest,
    },
    /// A digest that the policy names.
    Pin {
        /// For this version,
        version: String,
        /// this archive.
        archive: Digest,
    },
    /// Nothing but an operator's word: the program was installed before, and was taken over as it was.
    Imported {
        /// The file that was taken over, links followed.
        path: String,
        /// Who asked for it, as the machine names the user.
        operator: String,
    },
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyless { issuer, identity, integrated_time, log_index, .. } => {
                write!(f, "signed by {identity} (vouched for by {issuer}), entry {log_index} of the log")?;
                integrated_time.as_ref().map_or(Ok(()), |time| write!(f, " at {time}"))
            }
            Self::Pin { version, archive } => write!(f, "pinned: version {version} is {archive:?}"),
            Self::Imported { path, operator } => write!(
                f,
                "imported from {path} by {operator}; its bytes were not checked against any signature"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyless() -> Evidence {
        Evidence::Keyless {
            issuer: "https://issuer".to_owned(),
            identity: "https://signer@refs/tags/v1.2.3".to_owned(),
            claims: BTreeMap::from([("build_trigger".to_owned(), "push".to_owned())]),
            integrated_time: Some("2026-08-04T19:30:26Z".to_owned()),
            log_index: 7,
            stamps: 1,
            statement: None,
            root: Digest::of(b"root"),
        }
    }

    #[test]
    fn it_is_read_back_as_it_was_written() {
        let pin = Evidence::Pin { version: "1.2.3".to_owned(), archive: Digest::of(b"archive") };
        let imported =
            Evidence::Imported { path: "/usr/bin/otelcol".to_owned(), operator: "root".to_owned() };
        for evidence in [keyless(), pin, imported] {
            let json = serde_json::to_string(&evidence).unwrap();
            assert_eq!(serde_json::from_str::<Evidence>(&json).unwrap(), evidence, "{json}");
        }
    }

    #[test]
    fn it_says_by_what_it_was_trusted() {
        let json = serde_json::to_value(keyless()).unwrap();
        assert_eq!(json["by"], "keyless");
        assert_eq!(json["root"], Digest::of(b"root").to_string());
        assert_eq!(
            keyless().to_string(),
            "signed by https://signer@refs/tags/v1.2.3 (vouched for by https://issuer), entry 7 of the log \
             at 2026-08-04T19:30:26Z"
        );
    }
}
