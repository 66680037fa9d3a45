//! Files that belong to somebody else, read within a bound.
//!
//! The program's user writes the effective configuration, and may make anything else of its path: a FIFO that
//! nobody writes to, a link to a device that never ends. An updater that waits for one or takes in the other leaves a
//! trial hanging. So only what is a regular file once it is opened is read, and of that no more than [`LIMIT`].
//! Links are followed: a configuration may be one.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::fs::OFlags;

/// The most that is read of such a file, in bytes: far more than any configuration has.
pub const LIMIT: u64 = 16 * 1024 * 1024;

/// Opens the regular file that `path` leads to. Waits for nobody.
///
/// # Errors
/// Where it cannot be opened, or is of another kind.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file, found another kind"))
}

/// All of the file at `path`.
///
/// # Errors
/// As [`open`]; where it cannot be read, or has more than [`LIMIT`] bytes.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    rest_of(&open(path)?)
}

/// As [`bytes`], as text.
///
/// # Errors
/// As [`bytes`], and where it is no UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    text_of(&open(path)?)
}

/// All that follows in an opened `file`, as text.
///
/// # Errors
/// As [`text`].
pub(crate) fn text_of(file: &File) -> io::Result<String> {
    String::from_utf8(rest_of(file)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// As much of the file at `path` as there is within [`LIMIT`], bytes that are no UTF-8 replaced. For those who would
/// rather know a part than nothing.
///
/// # Errors
/// As [`open`], and where it cannot be read.
pub(crate) fn beginning(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open(path)?.take(LIMIT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn rest_of(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        let reason = format!("expected at most {} MiB, found more", LIMIT / 1024 / 1024);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{path::PathBuf, sync::mpsc, time::Duration};

    use super::*;

    /// What a program's user can make of a path so that a careless reader never comes back.
    pub(crate) fn traps(directory: &Path) -> [PathBuf; 2] {
        let [fifo, endless] = ["fifo.yaml", "endless.yaml"].map(|name| directory.join(name));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
        [fifo, endless]
    }

    /// What `work` answers; a panic where it never comes back.
    pub(crate) fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(work()));
        told.recv_timeout(Duration::from_mins(1)).unwrap()
    }

    #[test]
    fn nothing_but_a_regular_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        for trap in traps(dir.path()) {
            let error = in_time(move || text(&trap).unwrap_err());
            assert_eq!(error.to_string(), "expected a regular file, found another kind");
        }
        assert!(text(dir.path()).is_err());
        assert_eq!(text(&dir.path().join("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_link_to_a_regular_file_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        std::fs::write(&file, "a: b").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(text(&link).unwrap(), "a: b");
    }

    #[test]
    fn a_file_over_the_limit_is_refused_or_known_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        let file = File::create(&path).unwrap();
        file.set_len(LIMIT + 1).unwrap();
        assert_eq!(bytes(&path).unwrap_err().to_string(), "expected at most 16 MiB, found more");
        assert_eq!(beginning(&path).unwrap().len() as u64, LIMIT);
        file.set_len(LIMIT).unwrap();
        assert_eq!(bytes(&path).unwrap().len() as u64, LIMIT);
        std::fs::write(&path, b"a: \xff b").unwrap();
        assert!(text(&path).is_err());
        assert_eq!(beginning(&path).unwrap(), "a: \u{fffd} b");
    }
}
