//! What a signing certificate says about the build, by name.
//!
//! Fulcio copies these claims from the workload's token into extensions below
//! `1.3.6.1.4.1.57264.1` (<https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md>). The identity
//! names the workflow that signed; a claim can say more, such as which distribution's workflow called
//! it (`build_config_uri`). Only the provider-neutral ones are known here: the deprecated ones, `.2` to
//! `.6`, say nothing that these do not.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

macro_rules! claims {
    ($($(#[$doc:meta])* $variant:ident $name:literal $number:literal)*) => {
        /// A claim of the signing certificate, named as Fulcio names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Claim {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Claim {
            /// All of them, by number.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name, as configuration and evidence spell it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The last arc of its object identifier, after `1.3.6.1.4.1.57264.1`.
            pub fn number(self) -> u8 {
                match self { $(Self::$variant => $number,)* }
            }
        }
    };
}

claims! {
    /// The workflow that signed, with its ref; what the identity is derived from.
    BuildSignerUri "build_signer_uri" 9
    /// The commit of that workflow.
    BuildSignerDigest "build_signer_digest" 10
    /// `github-hosted` or `self-hosted`.
    RunnerEnvironment "runner_environment" 11
    /// The repository that was built.
    SourceRepositoryUri "source_repository_uri" 12
    /// The commit that was built.
    SourceRepositoryDigest "source_repository_digest" 13
    /// The ref that was built, such as `refs/tags/v{version}`.
    SourceRepositoryRef "source_repository_ref" 14
    /// The repository's number, which survives a renaming.
    SourceRepositoryIdentifier "source_repository_identifier" 15
    /// The repository's owner.
    SourceRepositoryOwnerUri "source_repository_owner_uri" 16
    /// The owner's number.
    SourceRepositoryOwnerIdentifier "source_repository_owner_identifier" 17
    /// The workflow that was started, which may have called the one that signed.
    BuildConfigUri "build_config_uri" 18
    /// The commit of that workflow.
    BuildConfigDigest "build_config_digest" 19
    /// The event that started it, such as `push`.
    BuildTrigger "build_trigger" 20
    /// The very run.
    RunInvocationUri "run_invocation_uri" 21
    /// `public`, `private` or `internal`, when it was signed.
    SourceRepositoryVisibilityAtSigning "source_repository_visibility_at_signing" 22
    /// The deployment environment, whose protection rules the run has passed.
    DeploymentEnvironment "deployment_environment" 23
    /// The token's own subject.
    TokenSubject "token_subject" 24
}

/// A claim that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no claim is called {found:?}: expected one of {}", names())]
pub struct ParseClaimError {
    found: String,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Claim {
    type Err = ParseClaimError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let claim = Self::ALL.iter().find(|claim| claim.name() == text);
        claim.copied().ok_or_else(|| ParseClaimError { found: text.chars().take(80).collect() })
    }
}

fn names() -> String {
    Claim::ALL.iter().map(|claim| claim.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_is_read_back_from_its_name() {
        for (index, &claim) in Claim::ALL.iter().enumerate() {
            assert_eq!(claim.name().parse(), Ok(claim));
            assert_eq!(serde_json::to_value(claim).unwrap(), claim.name());
            assert_eq!(usize::from(claim.number()), index + 9);
        }
    }

    #[test]
    fn an_unknown_claim_is_told_what_there_is() {
        let error = "buildConfigUri".parse::<Claim>().expect_err("not a name").to_string();
        assert!(error.contains("buildConfigUri") && error.contains("build_config_uri"), "{error}");
    }
}
