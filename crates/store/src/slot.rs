//! A slot: one complete build, published by one rename and never written again.
//!
//! Whether it is intact is asked of its bytes, before every activation and at every start in a container: a
//! mode, a size or a time says nothing about a disk that lies. No link is followed on the way to the bytes,
//! so that what is hashed lies in the slot.

use std::{
    fs::File,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use myriarch_verify::Digest;
use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use crate::{
    Manifest, SlotName, StoreError,
    checks::{Checks, Stamp},
    manifest,
};

/// The directory of the program in its slot: security policies label what lies below a `bin` as executable.
pub(crate) const BIN: &str = "bin";

/// A published slot whose manifest was read and belongs to it. The program's bytes are not yet proven:
/// see [`Slot::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    dir: PathBuf,
    name: SlotName,
    manifest: Manifest,
    checks: Checks,
}

/// A file's identity as long as it exists: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The device's number.
    pub dev: u64,
    /// The inode's number on it.
    pub ino: u64,
}

/// What is wrong with a slot.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The program, or a directory on the way to it, is not there.
    #[error("expected a program at {}, found nothing", path.display())]
    Missing {
        /// The program's path.
        path: PathBuf,
    },
    /// Something that is no regular file is in the program's place, or a link on the way to it.
    #[error("expected a regular file at {}, found {found}", path.display())]
    NotAFile {
        /// The program's path.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The program could not be read. This may be the disk's or the machine's fault, not the bytes'.
    #[error("could not read {}", path.display())]
    Unreadable {
        /// The program's path.
        path: PathBuf,
        /// What came of it.
        source: io::Error,
    },
    /// The bytes are not those that were published.
    #[error("expected SHA-256 {expected} of {}, found {found} in {length} bytes", path.display())]
    Digest {
        /// The program's path.
        path: PathBuf,
        /// As published.
        expected: Digest,
        /// As it is.
        found: Digest,
        /// How many bytes there are.
        length: u64,
    },
    /// The slot cannot say what belongs in it.
    #[error("the slot's manifest is not usable")]
    Manifest(#[source] StoreError),
}

impl Slot {
    /// Reads the slot `name` in the directory `versions`.
    pub(crate) fn read(versions: &Path, name: &SlotName, checks: &Checks) -> Result<Self, StoreError> {
        let dir = versions.join(name.as_str());
        match std::fs::symlink_metadata(&dir) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) => {
                return Err(StoreError::NotADirectory { path: dir, found: kind(metadata.file_type()) });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::Absent { path: dir });
            }
            Err(source) => return Err(StoreError::Io { action: "look at", path: dir, source }),
        }
        let manifest = Manifest::read(&dir.join(manifest::FILE), name)?;
        Ok(Self { dir, name: name.clone(), manifest, checks: checks.clone() })
    }

    /// The slot's name.
    pub fn name(&self) -> &SlotName {
        &self.name
    }

    /// What the slot holds.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The slot's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The program's path in the slot itself, not through `current`.
    pub fn program(&self) -> PathBuf {
        self.dir.join(BIN).join(&self.manifest.name)
    }

    /// Whether the program's bytes are those that were published. Reads all of them, in constant memory.
    ///
    /// # Errors
    /// [`Damage`], naming what was expected and what was found.
    pub fn check(&self) -> Result<(), Damage> {
        let path = self.program();
        let file = match self.open() {
            Ok(file) => file,
            Err(error) => return Err(unopened(path, error)),
        };
        let unreadable = |source| Damage::Unreadable { path: path.clone(), source };
        let before = file.metadata().map_err(unreadable)?;
        if !before.is_file() {
            return Err(Damage::NotAFile { path, found: kind(before.file_type()) });
        }
        let (found, length) = Digest::of_reader(&file).map_err(unreadable)?;
        let expected = self.manifest.binary;
        let checked = if found == expected {
            Ok(())
        } else {
            Err(Damage::Digest { path: path.clone(), expected, found, length })
        };
        let stamp = Stamp::of(&before);
        if file.metadata().is_ok_and(|after| Stamp::of(&after) == stamp) {
            self.checks.note(&self.name, expected, stamp, checked.as_ref().err().map(ToString::to_string));
        }
        checked
    }

    /// What the last [`Slot::check`] found, if the file is still the very one that it read, and what is wrong
    /// where no program is there at all. Reads none of its bytes, so that it is for screens alone: a disk that
    /// lies is not seen, and nothing may be decided by it.
    pub fn last_check(&self) -> Option<Result<(), String>> {
        let path = self.program();
        let damage = match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() => {
                return self.checks.known(&self.name, self.manifest.binary, Stamp::of(&found));
            }
            Ok(found) => Damage::NotAFile { path, found: kind(found.file_type()) },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Damage::Missing { path },
            Err(_) => return None,
        };
        Some(Err(damage.to_string()))
    }

    /// The program's file, by which a process that runs it is found.
    ///
    /// # Errors
    /// When the program is not there or cannot be looked at.
    pub fn file_id(&self) -> io::Result<FileId> {
        std::fs::symlink_metadata(self.program()).map(|metadata| FileId::from(&metadata))
    }

    /// Opens the program step by step, following no link; a FIFO in its place does not block.
    fn open(&self) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let dir = rustix::fs::openat(CWD, &self.dir, flags | OFlags::DIRECTORY, Mode::empty())?;
        let bin = rustix::fs::openat(dir, BIN, flags | OFlags::DIRECTORY, Mode::empty())?;
        let program = self.manifest.name.as_str();
        Ok(rustix::fs::openat(bin, program, flags | OFlags::NONBLOCK, Mode::empty())?.into())
    }
}

impl From<&std::fs::Metadata> for FileId {
    fn from(metadata: &std::fs::Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }
}

fn unopened(path: PathBuf, error: Errno) -> Damage {
    match error {
        Errno::NOENT => Damage::Missing { path },
        Errno::LOOP => Damage::NotAFile { path, found: "a symbolic link" },
        Errno::NOTDIR => Damage::NotAFile { path, found: "no directory on the way to it" },
        // What a socket answers when it is opened.
        Errno::NXIO => Damage::NotAFile { path, found: "a socket or device" },
        _ => Damage::Unreadable { path, source: error.into() },
    }
}

/// What a thing on disk is, in words.
pub(crate) fn kind(file_type: std::fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    match file_type {
        t if t.is_file() => "a regular file",
        t if t.is_dir() => "a directory",
        t if t.is_symlink() => "a symbolic link",
        t if t.is_fifo() => "a FIFO",
        t if t.is_socket() => "a socket",
        _ => "a device",
    }
}
