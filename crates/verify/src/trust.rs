//! The trust policy: deny, unless a rule accepts.
//!
//! The policy is local. Nothing that is downloaded takes part in it, no rule can be switched off, and
//! one that would accept everybody is an error when the policy is read. Rules are alternatives: the
//! first that accepts gives the evidence; if none does, every one of them has said why.

use crate::{
    Digest, Distrust, Evidence, KeylessRule, Objection, Pins, Subject, TrustedRootError,
    subject::{is_version, names_other_version},
};

/// What is accepted. Cheap to share, immutable.
#[derive(Debug, Clone)]
pub struct TrustPolicy {
    rules: Vec<Rule>,
}

/// One reason to trust.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Rule {
    /// By identity.
    Keyless(KeylessRule),
    /// By digest.
    Pins(Pins),
}

/// A policy that would be none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustPolicyError {
    /// No rule at all.
    #[error("the trust policy is empty: expected at least one rule, and without one nothing is trusted")]
    NoRules,
    /// A rule of pins without a pin.
    #[error("the pins are empty: expected at least one version and its SHA-256")]
    NoPins,
    /// A pin for something else.
    #[error("a pin is for {found:?}: expected a bare version of letters, digits and \".-+_\"")]
    PinnedVersion {
        /// What it is for.
        found: String,
    },
    /// Two pins at odds.
    #[error("version {version} is pinned twice: to {first:?} and to {second:?}")]
    PinnedTwice {
        /// The version.
        version: String,
        /// One digest.
        first: Digest,
        /// The other.
        second: Digest,
    },
    /// An empty text would accept everybody.
    #[error("{what} is empty: expected the whole text that a certificate must hold")]
    Empty {
        /// The setting.
        what: String,
    },
    /// A text that no certificate holds.
    #[error("{what} begins or ends with blanks or holds control characters: found {value:?}")]
    Blank {
        /// The setting.
        what: String,
        /// Its value.
        value: String,
    },
    /// Braces that are not understood, or `{{version}}` where none may be.
    #[error(
        "{what} has a placeholder that is not understood, {{version}} is the only placeholder and \
             an issuer has none: found {value:?}"
    )]
    Placeholder {
        /// The setting.
        what: String,
        /// Its value.
        value: String,
    },
    /// A pattern, where texts are compared whole.
    #[error("{what} looks like a pattern, but is compared whole: found {value:?}")]
    Pattern {
        /// The setting.
        what: String,
        /// Its value.
        value: String,
    },
    /// `{version}` alone names nobody.
    #[error("{what} is nothing but the version: found {value:?}, which names nobody")]
    OnlyVersion {
        /// The setting.
        what: String,
        /// Its value.
        value: String,
    },
    /// An identity that would sign for every version.
    #[error(
        "identity does not name {{version}}: found {identity:?}, by which any release could stand \
             in for any other"
    )]
    Unanchored {
        /// The identity.
        identity: String,
    },
    /// The root cannot carry the rule.
    #[error(transparent)]
    Root(#[from] TrustedRootError),
}

impl TrustPolicyError {
    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoRules => "add a keyless rule for the publisher, or pin versions to their SHA-256",
            Self::NoPins | Self::PinnedVersion { .. } => {
                "write pins as \"0.158.0\" = \"<64 hexadecimal digits>\""
            }
            Self::PinnedTwice { .. } => "remove the wrong one",
            Self::Unanchored { .. } => {
                "put {version} where the tag stands, as in …/release.yaml@refs/tags/v{version}"
            }
            Self::Root(_) => {
                "take trusted_root.json from your Sigstore instance, or leave it out for the public one"
            }
            Self::Empty { .. }
            | Self::Blank { .. }
            | Self::Placeholder { .. }
            | Self::Pattern { .. }
            | Self::OnlyVersion { .. } => {
                "write the text out in full, with {version} where the version stands"
            }
        }
    }
}

impl TrustPolicy {
    /// A policy of these rules.
    ///
    /// # Errors
    /// [`TrustPolicyError::NoRules`], if there is none.
    pub fn new(rules: Vec<Rule>) -> Result<Self, TrustPolicyError> {
        if rules.is_empty() { Err(TrustPolicyError::NoRules) } else { Ok(Self { rules }) }
    }

    /// Decides about one archive, by what is in `subject` alone: no network, no file.
    ///
    /// # Errors
    /// [`Distrust`], with every rule's objection.
    pub fn judge(&self, subject: &Subject<'_>) -> Result<Evidence, Distrust> {
        if !is_version(subject.version) {
            return Err(Distrust::Version { found: subject.version.chars().take(80).collect() });
        }
        if names_other_version(subject.file_name, subject.version) {
            return Err(Distrust::FileName {
                expected: subject.version.to_owned(),
                found: subject.file_name.to_owned(),
            });
        }
        let mut objections = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            match rule.judge(subject) {
                Ok(evidence) => return Ok(evidence),
                Err(doubt) => {
                    objections.push(Objection { number: index + 1, rule: rule.describe(), doubt });
                }
            }
        }
        Err(Distrust::NoRule {
            version: subject.version.to_owned(),
            archive: subject.archive,
            file_name: subject.file_name.to_owned(),
            objections,
        })
    }

    /// The rules in words, one each.
    pub fn describe(&self) -> Vec<String> {
        self.rules.iter().map(Rule::describe).collect()
    }
}

impl Rule {
    fn judge(&self, subject: &Subject<'_>) -> Result<Evidence, crate::Doubt> {
        match self {
            Self::Keyless(rule) => rule.judge(subject),
            Self::Pins(pins) => pins.judge(subject),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Keyless(rule) => rule.describe(),
            Self::Pins(pins) => pins.describe(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Doubt, KeylessSpec};

    fn pins(pins: &[(&str, Digest)]) -> Rule {
        let pins = pins.iter().map(|(version, archive)| ((*version).to_owned(), *archive));
        Rule::Pins(Pins::new(pins).unwrap())
    }

    fn keyless() -> Rule {
        let spec = KeylessSpec {
            issuer: "https://issuer".to_owned(),
            identity: "https://signer@v{version}".to_owned(),
            ..KeylessSpec::default()
        };
        Rule::Keyless(KeylessRule::new(spec).unwrap())
    }

    fn subject(archive: &[u8]) -> Subject<'static> {
        Subject { version: "1.2.3", archive: Digest::of(archive), file_name: "c_1.2.3.tar.gz", bundle: None }
    }

    #[test]
    fn a_policy_without_rules_is_refused() {
        assert_eq!(TrustPolicy::new(Vec::new()).expect_err("empty"), TrustPolicyError::NoRules);
        assert_eq!(Pins::new([]).expect_err("empty"), TrustPolicyError::NoPins);
    }

    #[test]
    fn pins_are_for_versions_and_say_one_thing() {
        let pin = |version: &str, archive: &[u8]| (version.to_owned(), Digest::of(archive));
        assert!(matches!(Pins::new([pin("1/2", b"")]), Err(TrustPolicyError::PinnedVersion { .. })));
        let twice = Pins::new([pin("1", b"a"), pin("1", b"b")]);
        assert!(matches!(twice, Err(TrustPolicyError::PinnedTwice { .. })));
        assert!(Pins::new([pin("1", b"a"), pin("1", b"a")]).is_ok());
    }

    #[test]
    fn exactly_the_pinned_archive_is_trusted() {
        let policy = TrustPolicy::new(vec![pins(&[("1.2.3", Digest::of(b"good"))])]).unwrap();
        let expected = Evidence::Pin { version: "1.2.3".to_owned(), archive: Digest::of(b"good") };
        assert_eq!(policy.judge(&subject(b"good")), Ok(expected));
        assert!(policy.judge(&subject(b"other")).is_err());
        assert!(policy.judge(&Subject { version: "1.2.4", file_name: "c", ..subject(b"good") }).is_err());
    }

    #[test]
    fn one_rule_that_accepts_is_enough() {
        let policy = TrustPolicy::new(vec![keyless(), pins(&[("1.2.3", Digest::of(b"good"))])]).unwrap();
        assert!(policy.judge(&subject(b"good")).is_ok());
    }

    #[test]
    fn if_none_accepts_every_rule_says_why() {
        let pinned = pins(&[("1.2.3", Digest::of(b"good"))]);
        let policy = TrustPolicy::new(vec![keyless(), pinned]).unwrap();
        let distrust = policy.judge(&subject(b"other")).expect_err("neither signed nor pinned");
        let words = distrust.to_string();
        assert!(words.contains("rule 1: expected a Sigstore bundle, found none"), "{words}");
        assert!(words.contains("rule 2: expected the pinned archive"), "{words}");
        assert!(words.contains(&format!("{:?}", Digest::of(b"other"))), "{words}");
        assert!(distrust.hint().contains("pin it anew"), "{}", distrust.hint());
        let Distrust::NoRule { objections, .. } = distrust else { panic!("no rule") };
        assert_eq!(objections[0].doubt, Doubt::NoBundle);
        assert_eq!(objections.len(), policy.describe().len());
    }

    #[test]
    fn the_file_name_may_not_name_another_version() {
        let policy = TrustPolicy::new(vec![pins(&[("1.2.3", Digest::of(b"good"))])]).unwrap();
        let distrust = policy.judge(&Subject { file_name: "c_1.2.2.tar.gz", ..subject(b"good") });
        assert!(matches!(distrust, Err(Distrust::FileName { .. })), "{distrust:?}");
    }

    #[test]
    fn a_version_that_could_move_an_identity_is_refused_before_any_rule() {
        let policy = TrustPolicy::new(vec![keyless()]).unwrap();
        for version in ["", "1.2.3@evil", "../1", "1 2"] {
            let distrust = policy.judge(&Subject { version, file_name: "c", ..subject(b"good") });
            assert!(matches!(distrust, Err(Distrust::Version { .. })), "{version}");
        }
    }

    #[test]
    fn the_rules_are_told_in_words() {
        let policy = TrustPolicy::new(vec![keyless(), pins(&[("1.2.3", Digest::of(b"a"))])]).unwrap();
        let words = policy.describe();
        assert!(words[0].starts_with("keyless: https://signer@v{version} by https://issuer"), "{}", words[0]);
        assert!(words[1].starts_with("pins: 1.2.3 = sha256:"), "{}", words[1]);
    }
}
