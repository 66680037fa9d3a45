//! What can go wrong in a store, each with the path it went wrong at.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{Damage, ParseSlotNameError, SlotName};

/// A store that could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system said no.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What came of it.
        source: io::Error,
    },
    /// Something else is where a directory of the store belongs.
    #[error("expected a directory at {}, found {found}", path.display())]
    NotADirectory {
        /// Where.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// A version that cannot name a slot.
    #[error(transparent)]
    SlotName(#[from] ParseSlotNameError),
    /// A program's name that is no plain file name.
    #[error("expected a plain file name for the program, found {found:?}")]
    BinaryName {
        /// What was given.
        found: String,
    },
    /// There is no such slot.
    #[error("expected a slot at {}, found nothing", path.display())]
    Absent {
        /// Where it would be.
        path: PathBuf,
    },
    /// A slot's manifest is no manifest.
    #[error("expected a slot's manifest in {}", path.display())]
    Manifest {
        /// The manifest's path.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A slot's manifest has a schema that this program does not know; it is not guessed.
    #[error("expected schema {} in {}, found {found}", crate::Manifest::SCHEMA, path.display())]
    Schema {
        /// The manifest's path.
        path: PathBuf,
        /// The number found.
        found: u32,
    },
    /// A manifest and the slot it lies in contradict each other.
    #[error("{}: expected the manifest to say {expected}, found {found}", path.display())]
    Mismatch {
        /// The manifest's path.
        path: PathBuf,
        /// What the slot says.
        expected: String,
        /// What the manifest says.
        found: String,
    },
    /// The build to publish has a damaged slot that `current` names: nothing is repaired in place.
    #[error(
        "slot {slot} is damaged and current names it, so that it cannot be replaced: point current at another slot first"
    )]
    DamagedInUse {
        /// The slot.
        slot: SlotName,
        /// What is wrong with it.
        source: Box<Damage>,
    },
    /// A slot given to a writer belongs to another store.
    #[error("expected a slot below {}, found {}", expected.display(), found.display())]
    Elsewhere {
        /// The directory of this store's slots.
        expected: PathBuf,
        /// The slot's directory.
        found: PathBuf,
    },
}

/// Says what was being done to which path when the operating system said no.
pub(crate) trait At<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::Io { action, path: path.to_owned(), source: error.into() })
    }
}
