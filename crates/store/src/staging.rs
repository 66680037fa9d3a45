//! A build that is being written, and is no slot yet.
//!
//! It lies inside the store, so that publishing is one rename on one file system, under a random name that no
//! one looks at. Until it is published its program is for its owner alone and not executable.

use std::{
    fs::File,
    io::{self, Write},
    num::NonZeroU64,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use myriarch_verify::Hasher;
use rustix::fs::{Advice, fadvise};

use crate::{
    StoreError,
    durable::{create_new, fresh_name},
    error::At as _,
    slot::BIN,
    store::make_dir,
};

/// A program that is being written into the store. Dropped without being published, it is removed.
#[derive(Debug)]
pub struct Staging {
    pub(crate) scratch: Scratch,
    pub(crate) file: File,
    pub(crate) hasher: Hasher,
    pub(crate) binary_name: String,
    length: u64,
    /// Up to where the disk was told to begin writing.
    begun: u64,
}

/// How many bytes come together before the disk is told to begin with them.
const STRIDE: u64 = 8 * 1024 * 1024;

impl Staging {
    pub(crate) fn create(root: &Path, binary_name: &str) -> Result<Self, StoreError> {
        crate::manifest::check_binary_name(binary_name)?;
        let scratch = Scratch::create(root)?;
        let bin = scratch.path().join(BIN);
        make_dir(&bin)?;
        let program = bin.join(binary_name);
        let file = create_new(&program).at("make", &program)?;
        let binary_name = binary_name.to_owned();
        Ok(Self { scratch, file, hasher: Hasher::new(), binary_name, length: 0, begun: 0 })
    }

    /// How many bytes of the program were written.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Lets the disk begin while more is still to come, so that the sync at the end finds little left to do. Linux
    /// starts to write pages that this advice names and are dirty, and keeps them; where it is not taken, the
    /// sync does it all.
    fn begin_writing_back(&mut self) {
        let length = self.length - self.begun;
        if length >= STRIDE {
            let _ = fadvise(&self.file, self.begun, NonZeroU64::new(length), Advice::DontNeed);
            self.begun = self.length;
        }
    }

    /// The directory that becomes the slot.
    pub fn dir(&self) -> &Path {
        self.scratch.path()
    }
}

impl Write for Staging {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.length += written as u64;
        self.begin_writing_back();
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A directory that is removed with everything in it, unless it was renamed away.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    there: bool,
}

impl Scratch {
    fn create(root: &Path) -> Result<Self, StoreError> {
        let path = Self::free(root)?;
        // The name is new: a directory that is there already is not ours to fill.
        std::fs::create_dir(&path).at("make the directory", &path)?;
        let scratch = Self { path, there: true };
        let everyone = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scratch.path(), everyone).at("set the mode of", scratch.path())?;
        Ok(scratch)
    }

    /// Moves `dir` out of the way; it is removed when the answer is dropped.
    pub(crate) fn from_rename(root: &Path, dir: &Path) -> Result<Self, StoreError> {
        let path = Self::free(root)?;
        std::fs::rename(dir, &path).at("move away", dir)?;
        Ok(Self { path, there: true })
    }

    /// Renames the directory to `target`, which is what publishing is.
    pub(crate) fn rename_to(mut self, target: &Path) -> Result<(), StoreError> {
        std::fs::rename(&self.path, target).at("rename a staged build to", target)?;
        self.there = false;
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn free(root: &Path) -> Result<PathBuf, StoreError> {
        Ok(root.join(fresh_name().at("name a staging directory in", root)?))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.there {
            // What stays is swept at the next start.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
