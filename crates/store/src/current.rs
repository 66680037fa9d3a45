//! What the link `current` says.
//!
//! Only the exact form this crate writes, `versions/<slot>`, counts as a slot. Anything else was put there by
//! someone else and is told as it is: a guess here would decide which program a machine runs.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{SlotName, StoreError};

/// The link's name in the store.
pub(crate) const LINK: &str = "current";
/// The link that is renamed over it. One that is left over blocks nothing: it is unlinked first.
pub(crate) const NEXT: &str = "current.next";
/// The directory of the slots, and so the beginning of every target.
pub(crate) const VERSIONS: &str = "versions";

/// What `current` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Current {
    /// There is no link.
    Absent,
    /// The link has the right form and names this slot; whether the slot is there and intact is
    /// [`Store::slot`](crate::Store::slot)'s and [`Slot::check`](crate::Slot::check)'s to say.
    Slot(SlotName),
    /// Not ours: a link elsewhere, or no link at all.
    Foreign {
        /// Where the link leads, or the path itself when it is no link.
        target: PathBuf,
    },
}

impl Current {
    pub(crate) fn read(root: &Path) -> Result<Self, StoreError> {
        let link = root.join(LINK);
        match std::fs::read_link(&link) {
            Ok(target) => Ok(ours(&target).map_or(Self::Foreign { target }, Self::Slot)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Absent),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(Self::Foreign { target: link }),
            Err(source) => Err(StoreError::Io { action: "read the link", path: link, source }),
        }
    }
}

/// The target of a link to `name`, relative so that the store can be moved or mounted elsewhere.
pub(crate) fn target(name: &SlotName) -> String {
    format!("{VERSIONS}/{name}")
}

fn ours(target: &Path) -> Option<SlotName> {
    target.to_str()?.strip_prefix(VERSIONS)?.strip_prefix('/')?.parse().ok()
}
