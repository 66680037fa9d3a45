//! Versions whose archive the operator has named by its digest.
//!
//! The only way for releases that come without a bundle. A pin says more than any signature could:
//! these very bytes, whoever made them.

use std::collections::BTreeMap;

use crate::{Digest, Doubt, Evidence, Subject, TrustPolicyError, subject};

/// Version → SHA-256 of its archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pins(BTreeMap<String, Digest>);

impl Pins {
    /// Reads the pins of a policy.
    ///
    /// # Errors
    /// [`TrustPolicyError`], if there are none, or one is for something that is no version.
    pub fn new(pins: impl IntoIterator<Item = (String, Digest)>) -> Result<Self, TrustPolicyError> {
        let mut read = BTreeMap::new();
        for (version, archive) in pins {
            if !subject::is_version(&version) {
                return Err(TrustPolicyError::PinnedVersion { found: version });
            }
            match read.insert(version.clone(), archive) {
                Some(first) if first != archive => {
                    return Err(TrustPolicyError::PinnedTwice { version, first, second: archive });
                }
                _ => {}
            }
        }
        if read.is_empty() {
            return Err(TrustPolicyError::NoPins);
        }
        Ok(Self(read))
    }

    pub(crate) fn judge(&self, subject: &Subject<'_>) -> Result<Evidence, Doubt> {
        match self.0.get(subject.version) {
            Some(&archive) if archive == subject.archive => {
                Ok(Evidence::Pin { version: subject.version.to_owned(), archive })
            }
            Some(&expected) => Err(Doubt::PinnedOther { expected, found: subject.archive }),
            None => Err(Doubt::NotPinned { pinned: self.0.keys().cloned().collect() }),
        }
    }

    pub(crate) fn describe(&self) -> String {
        let pins: Vec<String> =
            self.0.iter().map(|(version, archive)| format!("{version} = {archive:?}")).collect();
        format!("pins: {}", pins.join(", "))
    }
}
