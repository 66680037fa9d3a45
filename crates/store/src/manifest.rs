//! `slot.json`: what a slot holds and why it is trusted.
//!
//! It is the last file written into a slot, so that its presence says that everything before it is complete.
//! The evidence is kept as the document that the verifier made: the store carries it, and does not judge it.

use std::{io::Read as _, path::Path};

use myriarch_verify::Digest;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::{SlotName, StoreError, error::At as _};

/// The file's name in the slot.
pub(crate) const FILE: &str = "slot.json";
/// The most that is read of it, in bytes.
const MAX_LENGTH: u64 = 1024 * 1024;

/// What a slot holds, where it came from and why it is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The document's schema, [`Manifest::SCHEMA`].
    pub schema: u32,
    /// The program's file name below `bin/`.
    pub name: String,
    /// The version, exactly as offered.
    pub version: String,
    /// SHA-256 of the program's file.
    pub binary: Digest,
    /// SHA-256 of the archive it came in.
    pub archive: Digest,
    /// Why it is trusted, as the verifier's own document.
    pub evidence: serde_json::Value,
    /// Where it came from: a URL or a path.
    pub source: String,
    /// When it was staged, RFC 3339. For people only.
    pub staged_at: String,
}

impl Manifest {
    /// The schema this program reads and writes.
    pub const SCHEMA: u32 = 1;

    /// The name of the slot that this manifest belongs in.
    ///
    /// # Errors
    /// When the version could not stand in a file name.
    pub fn slot_name(&self) -> Result<SlotName, crate::ParseSlotNameError> {
        SlotName::new(&self.version, &self.binary)
    }

    /// Reads and judges the manifest of the slot `name` at `path`. The schema comes first: a document of
    /// another one may differ in anything else.
    pub(crate) fn read(path: &Path, name: &SlotName) -> Result<Self, StoreError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty()).at("open", path)?;
        let mut bytes = Vec::new();
        std::fs::File::from(file).take(MAX_LENGTH).read_to_end(&mut bytes).at("read", path)?;
        let malformed = |source| StoreError::Manifest { path: path.to_owned(), source };
        let Schema { schema } = serde_json::from_slice(&bytes).map_err(malformed)?;
        if schema != Self::SCHEMA {
            return Err(StoreError::Schema { path: path.to_owned(), found: schema });
        }
        let manifest: Self = serde_json::from_slice(&bytes).map_err(malformed)?;
        check_binary_name(&manifest.name)?;
        let said = manifest.slot_name()?;
        if said != *name {
            return Err(mismatch(path, name, &said));
        }
        Ok(manifest)
    }

    /// The document as it is written: for people too, one key a line.
    pub(crate) fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

#[derive(Deserialize)]
struct Schema {
    schema: u32,
}

/// A contradiction between a manifest and what it lies beside.
pub(crate) fn mismatch(path: &Path, expected: &impl ToString, found: &impl ToString) -> StoreError {
    StoreError::Mismatch { path: path.to_owned(), expected: expected.to_string(), found: found.to_string() }
}

/// A program's name is one component of a path, and printable: it comes from files and configurations.
pub(crate) fn check_binary_name(name: &str) -> Result<(), StoreError> {
    let plain = !name.is_empty()
        && name.len() <= 255
        && !matches!(name, "." | "..")
        && !name.contains(|c: char| c == '/' || c.is_control());
    plain.then_some(()).ok_or_else(|| StoreError::BinaryName { found: name.chars().take(255).collect() })
}
