//! Reads the configuration only if nobody but its owner can have written it.
//!
//! The file says whom to trust and which command to run as root, so whoever can write it owns the machine.
//! Everything is asked of the opened file, not of its path, which could be another file a moment later.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use super::problem::ConfigError;

/// Far more than any configuration needs; a device or a log named by mistake is not read to its end.
const MAX_LENGTH: u64 = 1 << 20;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The file's text.
pub(crate) fn read_trusted(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let untrusted =
        |found: String, hint: String| ConfigError::Untrusted { path: path.to_owned(), found, hint };
    // Opening a FIFO would otherwise wait for a writer.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        let found = if metadata.is_dir() { "a directory" } else { "something else" };
        return Err(unreadable(io::Error::other(format!("expected a regular file, found {found}"))));
    }
    if metadata.len() > MAX_LENGTH {
        let reason = format!("expected at most {MAX_LENGTH} bytes, found {}", metadata.len());
        return Err(unreadable(io::Error::other(reason)));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(untrusted(format!("has mode {mode:04o}"), format!("chmod go-w {}", path.display())));
    }
    let (owner, we) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != 0 && owner != we {
        return Err(untrusted(
            format!("belongs to user {owner}, neither root nor user {we}, who runs this"),
            format!("chown root {}", path.display()),
        ));
    }
    let mut text = String::new();
    file.by_ref().take(MAX_LENGTH).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}
