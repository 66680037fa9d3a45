//! Small files that survive a power cut: replaced as a whole, or grown by whole lines.
//!
//! A write is acknowledged only when the bytes and the name they are found by are on the disk. Where an
//! earlier run may have died between the two, the next one makes up for it, so that what is acknowledged
//! never leans on what was not.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{Gid, Mode, OFlags, Uid};

/// What is not yet published bears this in its name; a sweep removes it.
pub(crate) const STAGING: &str = "staging-";

const FLAGS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW);

/// Puts `bytes` in the place of `path` as a whole, with exactly this mode. A reader sees the old content or
/// the new, after a power cut too; a link in the place is replaced, not followed.
///
/// # Errors
/// With the path; the old content is then still there, unless only the last sync failed.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace_with(path, |next| write_new(next, bytes, mode, None))
}

/// As [`replace`], and the file belongs to `owner` from the first moment on. Only root may give a file away.
///
/// # Errors
/// As for [`replace`].
pub fn replace_for(path: &Path, bytes: &[u8], mode: u32, owner: Owner) -> io::Result<()> {
    replace_with(path, |next| write_new(next, bytes, mode, Some(owner)))
}

/// User and group of a file, as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Owner {
    /// Who a new file of this process belongs to.
    pub fn ours() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

fn replace_with(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let dir = parent(path);
    let mut next = OsString::from(".");
    next.push(path.file_name().unwrap_or_default());
    next.push(".");
    next.push(fresh_name()?);
    let next = dir.join(next);
    let written = write(&next)
        .map_err(at("write", &next))
        .and_then(|()| fs::rename(&next, path).map_err(at("replace", path)));
    if written.is_err() {
        // What cannot be removed now, a sweep removes later; the first error is the one to tell.
        let _ = fs::remove_file(&next);
    }
    written.and_then(|()| sync_dir(dir).map_err(at("sync", dir)))
}

/// Appends one whole line, `line` without its line feed or with it, and returns once it is on the disk. The
/// file is made, for its owner to write and everyone to read, when it is not there.
///
/// A last line without its line feed was never acknowledged: it is moved to `<path>.torn` first, so that it
/// neither swallows this line nor is lost to whoever looks for it. Whole lines are never touched.
///
/// # Errors
/// With the path; the whole lines are then as they were. A line feed within `line` is refused.
pub fn append_line(path: &Path, line: &[u8]) -> io::Result<()> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    if line.contains(&b'\n') {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "expected one line, found several");
        return Err(at("append to", path)(error));
    }
    append_whole(path, line).map_err(at("append to", path))
}

fn append_whole(path: &Path, line: &[u8]) -> io::Result<()> {
    let flags = FLAGS | OFlags::RDWR | OFlags::CREATE;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?);
    let length = file.seek(SeekFrom::End(0))?;
    let whole = whole_lines(&mut file, length)?;
    if whole < length {
        let mut torn = Vec::new();
        file.seek(SeekFrom::Start(whole))?;
        file.read_to_end(&mut torn)?;
        // A torn line is what a full disk leaves: that there is no room for its copy must not stop the next.
        let _ = replace(&beside(path, ".torn"), &torn, 0o644);
        file.set_len(whole)?;
    }
    file.seek(SeekFrom::Start(whole))?;
    let written = file.write_all(&[line, b"\n"].concat()).and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Best effort: what cannot be cut now is cut as a torn line by the next append.
        let _ = file.set_len(whole);
        return Err(error);
    }
    // Until one line was acknowledged, the file's own name may not be on the disk, whoever made it.
    if whole == 0 { sync_dir(parent(path)) } else { Ok(()) }
}

/// How many bytes the whole lines take, looking backwards from the end.
fn whole_lines(file: &mut File, length: u64) -> io::Result<u64> {
    const STEP: u64 = 4096;
    let mut end = length;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        file.take(end - start).read_to_end(&mut block)?;
        if let Some(index) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + index as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Writes a file that was not there, with exactly this mode, and returns once its bytes are on the disk. Its
/// name is not, before its directory is synced.
pub(crate) fn write_new(path: &Path, bytes: &[u8], mode: u32, owner: Option<Owner>) -> io::Result<()> {
    let mut file = create_new(path)?;
    file.write_all(bytes)?;
    if let Some(Owner { uid, gid }) = owner {
        let is = file.metadata()?;
        if (is.uid(), is.gid()) != (uid, gid) {
            rustix::fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
    }
    // Last, for changing the owner may take bits of the mode away.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    file.sync_all()
}

/// Makes a file that was not there, for its owner alone.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    let flags = FLAGS | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?.into())
}

/// Returns once the names in `dir` are on the disk.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
    Ok(rustix::fs::fsync(rustix::fs::open(dir, flags, Mode::empty())?)?)
}

/// A name that nothing has yet, for something not yet published.
pub(crate) fn fresh_name() -> io::Result<String> {
    let mut random = [0; 8];
    let mut filled = 0;
    while filled < random.len() {
        filled += rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(format!("{STAGING}{:016x}", u64::from_ne_bytes(random)))
}

/// The directory of `path`; a bare name lies in the working directory.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// An [`io::Error`] that says where; its kind stays what it was and the cause is its source.
fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |source| io::Error::new(source.kind(), Failed { action, path: path.to_owned(), source })
}

#[derive(Debug, thiserror::Error)]
#[error("could not {action} {}", path.display())]
struct Failed {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}
