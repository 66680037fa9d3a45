//! A file whole: what it holds, its mode and whose it is, read and replaced as one, no link followed.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use myriarch_store::durable::{self, Owner};
use myriarch_verify::Digest;

/// A file whole: what it holds, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
    pub(super) owner: Owner,
}

impl Content {
    /// The file at `path`, no link followed; none where there is none.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        // Opening a FIFO would otherwise wait for a writer.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(named(path, &error)),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| named(path, &error))?;
        let metadata = file.metadata().map_err(|error| named(path, &error))?;
        let owner = Owner { uid: metadata.uid(), gid: metadata.gid() };
        Ok(Some(Self { bytes, mode: metadata.mode() & 0o7777, owner }))
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        durable::replace_for(path, &self.bytes, self.mode, self.owner)
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(&self.bytes)
    }
}

pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
