//! Regular files of this machine, read within a bound.
//!
//! What is named in a configuration or lies in a directory of deliveries can be anything by the time it is
//! opened: a pipe that nobody writes to, a device that never ends. Only the opened file is judged, never its path.

use std::{io, path::Path};

use rustix::fs::OFlags;
use tokio::{fs, io::AsyncReadExt as _};

use crate::error::FetchError;

/// A regular file and its metadata; `None` if there is none. Never waits for a pipe, never reads a device.
pub(crate) async fn open(path: &Path) -> Result<Option<(fs::File, std::fs::Metadata)>, FetchError> {
    let error = |source| FetchError::File { doing: "read it", path: path.to_owned(), source };
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags).open(path).await {
        Ok(file) => file,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(fault) => return Err(error(fault)),
    };
    let found = file.metadata().await.map_err(error)?;
    if !found.is_file() {
        return Err(error(io::Error::new(
            io::ErrorKind::InvalidInput,
            "expected a regular file, found another kind",
        )));
    }
    Ok(Some((file, found)))
}

/// The whole of it, at most `limit` bytes; `None` if there is none.
pub(crate) async fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FetchError> {
    match open(path).await? {
        Some((file, found)) => read_opened(path, file, found.len(), limit).await.map(Some),
        None => Ok(None),
    }
}

/// The whole of an opened file of `length` bytes, at most `limit`.
pub(crate) async fn read_opened(
    path: &Path,
    file: fs::File,
    length: u64,
    limit: u64,
) -> Result<Vec<u8>, FetchError> {
    let too_large = |found| FetchError::TooLarge { location: path.display().to_string(), limit, found };
    if length > limit {
        return Err(too_large(Some(length)));
    }
    let mut content = Vec::new();
    let done = file.take(limit + 1).read_to_end(&mut content).await;
    done.map_err(|source| FetchError::File { doing: "read it", path: path.to_owned(), source })?;
    if content.len() as u64 > limit { Err(too_large(None)) } else { Ok(content) }
}
