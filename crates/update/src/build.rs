//! One exact build: what is confirmed, put on trial and quarantined is never a mere version number.

use myriarch_policy::Version;
use myriarch_store::{Slot, SlotName, StoreError};
use myriarch_verify::Digest;
use serde::{Deserialize, Serialize};

/// A version together with the bytes that bear it. A release that was published again under the same
/// version is another build.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Build {
    /// The version, exactly as offered.
    pub version: Version,
    /// SHA-256 of the program's file.
    pub binary: Digest,
    /// SHA-256 of the archive it came in; of the file itself where it was imported and there was none.
    pub archive: Digest,
}

impl Build {
    /// What `slot` holds, as its manifest tells.
    ///
    /// # Errors
    /// Where the manifest's version is none.
    pub fn of(slot: &Slot) -> Result<Self, StoreError> {
        let manifest = slot.manifest();
        let version = manifest.version.parse().map_err(|_| StoreError::Mismatch {
            path: slot.dir().to_path_buf(),
            expected: "a version".to_owned(),
            found: manifest.version.clone(),
        })?;
        Ok(Self { version, binary: manifest.binary, archive: manifest.archive })
    }

    /// The name of the slot that holds it.
    ///
    /// # Errors
    /// Where the version cannot be part of a slot's name.
    pub fn slot(&self) -> Result<SlotName, StoreError> {
        Ok(SlotName::new(self.version.as_str(), &self.binary)?)
    }

    /// The slot's name for people.
    pub fn name(&self) -> String {
        format!("{}-{}", self.version, self.binary.short())
    }
}
