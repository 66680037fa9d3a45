//! The one who may change the store.
//!
//! Every change is made beside what is there and then put in its place by one rename; before the rename
//! everything it names is on the disk, and after it the directory that it happened in. A step that was made
//! but not acknowledged, because the process died or the disk failed between the two, is made again by asking
//! again.

use std::{io, ops::Deref, os::unix::fs::symlink, path::Path};

use myriarch_verify::Digest;
use rustix::{fs::Mode, io::Errno};

use crate::{
    Current, Damage, Manifest, Slot, SlotName, Staging, Store, StoreError,
    current::{self, LINK, NEXT},
    durable::{sync_dir, write_new},
    error::At as _,
    lock::Lock,
    manifest::{self, mismatch},
    slot::BIN,
    staging::Scratch,
};

/// The store's one writer; there is none other while this lives.
#[derive(Debug)]
pub struct Writer {
    store: Store,
    _lock: Lock,
}

impl Deref for Writer {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Writer {
    pub(crate) fn new(store: Store, lock: Lock) -> Self {
        Self { store, _lock: lock }
    }

    /// Begins a build whose program will be called `binary_name`.
    ///
    /// # Errors
    /// When the name is no plain file name, or the disk says no.
    pub fn staging(&self, binary_name: &str) -> Result<Staging, StoreError> {
        Staging::create(self.root(), binary_name)
    }

    /// Publishes what was staged as a slot and returns once it is on the disk. `manifest` is given the digest
    /// of the bytes that were written.
    ///
    /// A slot of the same build that is intact is left as it is and answered, and the staged bytes are
    /// dropped. A damaged one is moved away and the staged bytes take its place: no slot is ever written to.
    ///
    /// # Errors
    /// [`StoreError::DamagedInUse`] when `current` names the damaged slot, [`StoreError::Mismatch`] when the
    /// manifest contradicts what was staged or what is published already, or what the disk said.
    pub fn publish(
        &self,
        staging: Staging,
        manifest: impl FnOnce(Digest) -> Manifest,
    ) -> Result<Slot, StoreError> {
        let Staging { scratch, file, hasher, binary_name, .. } = staging;
        let binary = hasher.finish();
        let manifest = manifest(binary);
        let document = scratch.path().join(manifest::FILE);
        agree(&document, &manifest, &binary_name, binary)?;
        let name = manifest.slot_name()?;
        let versions = self.versions_dir();

        if let Some(slot) = self.published(&name, &manifest)? {
            sync_dir(&versions).at("sync", &versions)?;
            return Ok(slot);
        }

        let bin = scratch.path().join(BIN);
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o555)).at("set the mode of the program in", &bin)?;
        file.sync_all().at("sync the program in", &bin)?;
        drop(file);
        let bytes =
            manifest.to_bytes().map_err(|source| StoreError::Manifest { path: document.clone(), source })?;
        write_new(&document, &bytes, 0o444, None).at("write", &document)?;
        sync_dir(&bin).at("sync", &bin)?;
        sync_dir(scratch.path()).at("sync", scratch.path())?;

        scratch.rename_to(&versions.join(name.as_str()))?;
        sync_dir(&versions).at("sync", &versions)?;
        self.slot(&name)
    }

    /// Makes `current` name `slot` by one rename and returns once that is on the disk.
    ///
    /// # Errors
    /// When `slot` is not, or no longer, a slot of this store, or the disk says no. Unless only the last sync
    /// failed, `current` is then what it was.
    pub fn point(&self, slot: &Slot) -> Result<(), StoreError> {
        let here = self.slot(slot.name())?;
        if here.dir() != slot.dir() {
            let (expected, found) = (self.versions_dir(), slot.dir().to_owned());
            return Err(StoreError::Elsewhere { expected, found });
        }
        let next = self.root().join(NEXT);
        remove_if_there(&next)?;
        symlink(current::target(slot.name()), &next).at("make the link", &next)?;
        let link = self.root().join(LINK);
        self.set_aside_what_is_no_link(&link)?;
        std::fs::rename(&next, &link).at("replace", &link)?;
        sync_dir(self.root()).at("sync", self.root())
    }

    /// Removes `current` and returns once that is on the disk. Only for a first installation that failed:
    /// everywhere else there is a slot to point at.
    ///
    /// # Errors
    /// When the disk says no; that there is no link is none.
    pub fn clear(&self) -> Result<(), StoreError> {
        self.set_aside_what_is_no_link(&self.root().join(LINK))?;
        remove_if_there(&self.root().join(LINK))?;
        sync_dir(self.root()).at("sync", self.root())
    }

    /// A directory cannot be replaced by a link, and a file would be lost by it: whatever stands where the link
    /// belongs keeps its bytes under another name.
    fn set_aside_what_is_no_link(&self, link: &Path) -> Result<(), StoreError> {
        let is_link = |found: std::fs::Metadata| found.file_type().is_symlink();
        if std::fs::symlink_metadata(link).map_or(true, is_link) {
            return Ok(());
        }
        let free = (0..u16::MAX).map(|n| self.root().join(format!("{LINK}.set-aside-{n}")));
        let free = free.into_iter().find(|path| std::fs::symlink_metadata(path).is_err());
        let aside = free.unwrap_or_else(|| self.root().join(format!("{LINK}.set-aside")));
        std::fs::rename(link, &aside).at("set aside", link)
    }

    /// The intact slot of exactly this build, if there is one; a damaged one is moved out of the way.
    fn published(&self, name: &SlotName, wanted: &Manifest) -> Result<Option<Slot>, StoreError> {
        let dir = self.versions_dir().join(name.as_str());
        let damage = match self.slot(name) {
            Ok(slot) => match slot.check() {
                Ok(()) => {
                    // Twelve digits are a name, not a proof.
                    let document = dir.join(manifest::FILE);
                    agree(&document, slot.manifest(), &wanted.name, wanted.binary)?;
                    return Ok(Some(slot));
                }
                Err(damage) => damage,
            },
            Err(StoreError::Absent { .. }) => return Ok(None),
            Err(error) => Damage::Manifest(error),
        };
        if self.is_current(name)? {
            return Err(StoreError::DamagedInUse { slot: name.clone(), source: Box::new(damage) });
        }
        let scratch = Scratch::from_rename(self.root(), &dir)?;
        sync_dir(&self.versions_dir()).at("sync", &self.versions_dir())?;
        drop(scratch);
        Ok(None)
    }

    /// Whether `current` names the slot, by its form or, whatever its form, by where it leads.
    pub(crate) fn is_current(&self, name: &SlotName) -> Result<bool, StoreError> {
        if self.current()? == Current::Slot(name.clone()) {
            return Ok(true);
        }
        let id = |path: &Path| match std::fs::metadata(path) {
            Ok(metadata) => Ok(Some(crate::FileId::from(&metadata))),
            Err(error) if leads_nowhere(&error) => Ok(None),
            Err(error) => Err(error),
        };
        let link = self.root().join(LINK);
        let led_to = id(&link).at("follow", &link)?;
        let dir = self.versions_dir().join(name.as_str());
        Ok(led_to.is_some() && led_to == id(&dir).at("look at", &dir)?)
    }
}

/// What a manifest says of the program and what the program is must be one.
fn agree(path: &Path, manifest: &Manifest, binary_name: &str, binary: Digest) -> Result<(), StoreError> {
    if manifest.schema != Manifest::SCHEMA {
        return Err(StoreError::Schema { path: path.to_owned(), found: manifest.schema });
    }
    if manifest.name != binary_name {
        return Err(mismatch(path, &binary_name, &manifest.name));
    }
    if manifest.binary != binary {
        return Err(mismatch(path, &binary, &manifest.binary));
    }
    Ok(())
}

pub(crate) fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.at("remove", path),
    }
}

fn leads_nowhere(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}
