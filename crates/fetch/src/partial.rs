//! A download on disk that may not be complete yet.
//!
//! The file's name is made here, from a digest of version and URL, so no server chooses a path and no two
//! sources share a file. Beside it lies its origin: the strong entity tag and the length that the server gave.
//! Only with that can the rest be asked for safely; without it a download begins anew. Neither file is trusted:
//! what the parts add up to is judged by its digest like any other download.
//!
//! The file is locked while it is written. A download that was dropped in the middle of a write may go on writing
//! in the background for a moment, so a newcomer waits a little for the lock.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use myriarch_verify::Digest;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;

use crate::error::FetchError;

/// Ends the name of the file that keeps a download's origin.
const ORIGIN: &str = ".origin";
/// More than any origin has.
const ORIGIN_LIMIT: u64 = 64 * 1024;
/// How long another writer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most that is left to others by a download of unknown size.
const RESERVE: u64 = 64 << 20;
/// On small disks less is left: one part of so many.
const RESERVED_PART: u64 = 20;

/// A file system, in bytes.
#[derive(Debug, Clone, Copy)]
struct Disk {
    size: u64,
    /// For ordinary users.
    free: u64,
}

impl Disk {
    fn reserve(self) -> u64 {
        (self.size / RESERVED_PART).min(RESERVE)
    }
}

/// What the bytes so far belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    schema: u32,
    /// Of version and URL: a file that was renamed by hand is no part of another download.
    resource: Digest,
    /// A strong entity tag, quotes included.
    pub(crate) etag: String,
    /// The whole length, where the server told.
    pub(crate) total: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    resource: Digest,
    file: tokio::fs::File,
    received: u64,
    origin: Option<Origin>,
}

impl Partial {
    /// Opens what there is of `url`, or begins with nothing.
    pub(crate) async fn open(
        directory: &Path,
        version: &str,
        url: &str,
        file_name: &str,
    ) -> Result<Self, FetchError> {
        let resource = resource(version, url);
        let path = directory.join(name(&resource, file_name));
        let file = blocking(&path, "open it", open).await?;
        lock(&file, &path).await?;
        let (file, received, origin) = blocking(&path, "read it", move |path| {
            let received = file.metadata()?.len();
            Ok((file, received, read_origin(path)))
        })
        .await?;
        let origin = origin.filter(|origin| origin.resource == resource);
        Ok(Self { path, resource, file: tokio::fs::File::from_std(file), received, origin })
    }

    /// Where it lies and how many bytes there are of it, without opening it; none if that cannot be told.
    pub(crate) fn look(directory: &Path, version: &str, url: &str, file_name: &str) -> (PathBuf, u64) {
        let path = directory.join(name(&resource(version, url), file_name));
        let found = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file);
        (path, found.map_or(0, |found| found.len()))
    }

    /// Whether `bytes` more fit on the disk. Asked before the first is written, since a full disk harms more than
    /// this download.
    pub(crate) async fn has_room_for(&self, bytes: u64) -> Result<(), FetchError> {
        match self.disk().await? {
            Some(Disk { free: found, .. }) if found < bytes => {
                Err(FetchError::NoRoom { path: self.path.clone(), expected: bytes, found })
            }
            _ => Ok(()),
        }
    }

    /// Whether the disk still has what a download leaves to others that does not say how large it will be.
    pub(crate) async fn leaves_others_room(&self) -> Result<(), FetchError> {
        match self.disk().await? {
            Some(disk) if disk.free < disk.reserve() => {
                let (expected, found) = (disk.reserve(), disk.free);
                Err(FetchError::Reserve { path: self.path.clone(), expected, found })
            }
            _ => Ok(()),
        }
    }

    /// The disk it lies on; none where the file system does not tell its size: such a one is not full.
    async fn disk(&self) -> Result<Option<Disk>, FetchError> {
        let look = |path: &Path| {
            let found = rustix::fs::statvfs(path)?;
            let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
            let disk = Disk { size: bytes(found.f_blocks), free: bytes(found.f_bavail) };
            Ok((found.f_blocks > 0).then_some(disk))
        };
        blocking(&self.path, "learn the space around it", look).await
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// From where on the rest can be asked for, and with what condition. Of a download that seems complete the
    /// last byte is asked for again: the answer tells whether the server still has it, of that length.
    pub(crate) fn resume(&self) -> Option<(u64, &Origin)> {
        let origin = self.origin.as_ref()?;
        let offset = match origin.total {
            Some(total) if self.received > total => return None,
            Some(total) => self.received.min(total.checked_sub(1)?),
            None => self.received,
        };
        (offset > 0).then_some((offset, origin))
    }

    /// Begins anew, with what the server says about the whole.
    pub(crate) async fn begin(&mut self, etag: Option<String>, total: Option<u64>) -> Result<(), FetchError> {
        self.truncate(0).await?;
        let origin = etag.map(|etag| Origin { schema: 1, resource: self.resource, etag, total });
        self.origin.clone_from(&origin);
        blocking(&self.path, "note its origin", move |path| write_origin(path, origin.as_ref())).await
    }

    /// Goes back to `offset`.
    pub(crate) async fn truncate(&mut self, offset: u64) -> Result<(), FetchError> {
        use tokio::io::AsyncSeekExt as _;
        let done = async {
            self.file.flush().await?;
            self.file.set_len(offset).await?;
            self.file.seek(SeekFrom::Start(offset)).await
        };
        done.await.map_err(|source| self.error("truncate it", source))?;
        self.received = offset;
        Ok(())
    }

    /// Adds `bytes`.
    pub(crate) async fn append(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        self.file.write_all(bytes).await.map_err(|source| self.error("write it", source))?;
        self.received += bytes.len() as u64;
        Ok(())
    }

    /// Waits until all that was added is written, and answers the length that the file really has.
    pub(crate) async fn settle(&mut self) -> Result<u64, FetchError> {
        let flushed = self.file.flush().await;
        let length = self.file.metadata().await.map_err(|source| self.error("read it", source))?.len();
        self.received = length;
        flushed.map_err(|source| self.error("write it", source))?;
        Ok(length)
    }

    /// Removes it, origin and all.
    pub(crate) async fn discard(mut self) -> Result<(), FetchError> {
        let _ = self.file.flush().await;
        blocking(&self.path, "remove it", discard).await
    }

    fn error(&self, doing: &'static str, source: io::Error) -> FetchError {
        FetchError::File { doing, path: self.path.clone(), source }
    }
}

/// Removes every download in `partial`, complete or not, and answers how many files that were. Nothing else may
/// be using the directory: call it under the store's lock.
///
/// # Errors
/// Whatever the file system answers. Directories are left alone.
pub fn clean(partial: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(partial)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes the download at `path`, an [archive](crate::Download::archive), with all that is kept beside it, so that the
/// next download does not go on from it. To be called when the archive proved wrong; also once it is no longer
/// needed. The origin goes last: without its bytes it says nothing.
///
/// # Errors
/// Whatever the file system answers; that it is gone already is no error.
pub fn discard(path: &Path) -> io::Result<()> {
    for path in [path.to_owned(), origin_path(path)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn resource(version: &str, url: &str) -> Digest {
    Digest::of(format!("{version}\n{url}").as_bytes())
}

fn name(resource: &Digest, file_name: &str) -> String {
    let plain = |found: char| {
        if found.is_ascii_alphanumeric() || "._-".contains(found) { found } else { '_' }
    };
    let shown: String = file_name.chars().take(100).map(plain).collect();
    format!("{}-{shown}", &resource.to_string()[..16])
}

fn open(path: &Path) -> io::Result<fs::File> {
    // What is no file of ours alone is unlinked, never written through. Anything but a directory can be.
    if let Ok(found) = fs::symlink_metadata(path)
        && (!found.is_file() || found.nlink() != 1)
    {
        fs::remove_file(path)?;
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

async fn lock(file: &fs::File, path: &Path) -> Result<(), FetchError> {
    let begin = tokio::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::WouldBlock) if begin.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(fs::TryLockError::WouldBlock) => return Err(FetchError::Busy { path: path.to_owned() }),
            Err(fs::TryLockError::Error(source)) => {
                return Err(FetchError::File { doing: "lock it", path: path.to_owned(), source });
            }
        }
    }
}

fn origin_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ORIGIN);
    name.into()
}

/// An origin that cannot be read is none: the download begins anew.
fn read_origin(path: &Path) -> Option<Origin> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(origin_path(path))
        .ok()
        .filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let mut text = Vec::new();
    file.take(ORIGIN_LIMIT).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok().filter(|origin: &Origin| origin.schema == 1)
}

fn write_origin(path: &Path, origin: Option<&Origin>) -> io::Result<()> {
    let place = origin_path(path);
    let gone = |path: &Path| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    let Some(origin) = origin else { return gone(&place) };
    let mut draft = place.clone().into_os_string();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    gone(&draft)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    serde_json::to_writer(file, origin)?;
    fs::rename(draft, place)
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    doing: &'static str,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, FetchError> {
    let owned = path.to_owned();
    let done = tokio::task::spawn_blocking(move || work(&owned)).await;
    done.unwrap_or_else(|failed| Err(io::Error::other(failed))).map_err(|source| FetchError::File {
        doing,
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_of_a_disk_is_left_to_others_and_never_more_than_is_useful() {
        let reserve = |size| Disk { size, free: 0 }.reserve();
        assert_eq!([reserve(0), reserve(100 << 20), reserve(1 << 40)], [0, 5 << 20, 64 << 20]);
    }
}
