//! The one file that is wanted, streamed out of a verified archive.
//!
//! The archive's digest and signature were checked in a pass of their own before the first byte is parsed
//! here. What is left to distrust is the archive's shape: nothing in it decides where anything is written, what
//! mode it gets, or whether a link is followed. There is one output, and the regular file with exactly the
//! wanted name goes there, once. An archive that is ambiguous about which file that is, or that does not end
//! properly, is refused as a whole; the output is then to be thrown away.
//!
//! Names come in three ways, in the header and in two kinds of extension. All are read here, with their length
//! bounded, for two reasons: memory stays flat whatever an extension claims, and where an extension contradicts
//! the header about a file's size, which tools resolve differently, the archive is refused.

use std::{
    fmt,
    io::{self, BufRead as _, BufReader, Read, Write},
};

use flate2::bufread::GzDecoder;
use tar::{Archive, Entry, EntryType, PaxExtensions};

/// The longest extension read, in bytes: room for the longest path and some more.
const MAX_EXTENSION: u64 = 64 * 1024;
/// How many names an error lists, and how much of each.
const MAX_NAMES: usize = 20;
const MAX_NAME: usize = 100;
/// A tar archive ends with two blocks of zeros; one is demanded.
const BLOCK: u64 = 512;

/// An archive that does not hold exactly one program, properly.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The archive does not begin as gzip does.
    #[error("expected a gzip archive, found something else")]
    NotGzip,
    /// The archive ends too early.
    #[error("the archive is truncated: {what}")]
    Truncated {
        /// Where the end came.
        what: &'static str,
    },
    /// Something follows the archive's end.
    #[error("expected nothing after the archive's end, found more data")]
    TrailingData,
    /// The archive contradicts itself or its format.
    #[error("the archive is malformed")]
    Malformed(#[source] io::Error),
    /// The archive cannot be read.
    #[error("could not read the archive")]
    Read(#[source] io::Error),
    /// No entry has the wanted name.
    #[error("expected a file {binary:?} at the top of the archive, found {found}")]
    Absent {
        /// The wanted name.
        binary: String,
        /// What there is.
        found: Names,
    },
    /// More than one entry has the wanted name, so that which one is meant depends on the tool.
    #[error("expected one file {binary:?} in the archive, found several")]
    Several {
        /// The wanted name.
        binary: String,
    },
    /// The entry with the wanted name is no regular file.
    #[error("expected {binary:?} in the archive to be a regular file, found {found}")]
    NotAFile {
        /// The wanted name.
        binary: String,
        /// What it is.
        found: &'static str,
    },
    /// The archive unpacks to more than is allowed.
    #[error("expected an archive of at most {limit} bytes when unpacked, found more")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Whoever wants the file has no room for it. Nothing was written.
    #[error("expected room for a file of {length} bytes, found too little")]
    NoRoom {
        /// The file's length.
        length: u64,
    },
    /// The file could not be written.
    #[error("could not write the unpacked file")]
    Write(#[source] io::Error),
}

/// Streams the one regular file whose name is exactly `binary`, `./` before it or not, out of a gzip tar into
/// `out`; answers its length. Everything that the archive unpacks to counts against `limit`, in bytes. Before the
/// first byte is written, `fits` is asked whether there is room for a file of so many.
///
/// # Errors
/// [`UnpackError`]; what was written to `out` is then worthless.
pub fn unpack_one_if(
    archive: impl Read,
    binary: &str,
    limit: u64,
    fits: impl FnMut(u64) -> bool,
    out: &mut impl Write,
) -> Result<u64, UnpackError> {
    let mut stream = Stream::new(archive, limit);
    let length =
        find(&mut Archive::new(&mut stream), binary, fits, out).map_err(|error| stream.explain(error))?;
    stream.finish()?;
    Ok(length)
}

/// The names of an archive's entries, as far as an error has room for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    shown: Vec<String>,
    more: usize,
    /// The entry that differs from the wanted one in case or directory only.
    near: Option<String>,
}

impl Names {
    fn add(&mut self, name: &[u8], binary: &str) {
        let shown = || String::from_utf8_lossy(&name[..name.len().min(MAX_NAME)]).into_owned();
        let last = name.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty()).unwrap_or_default();
        if self.near.is_none() && last.eq_ignore_ascii_case(binary.as_bytes()) {
            self.near = Some(shown());
        }
        if self.shown.len() < MAX_NAMES { self.shown.push(shown()) } else { self.more += 1 }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shown.is_empty() {
            return f.write_str("nothing");
        }
        for (index, name) in self.shown.iter().enumerate() {
            write!(f, "{}{name:?}", if index == 0 { "" } else { ", " })?;
        }
        if self.more > 0 {
            write!(f, " and {} more", self.more)?;
        }
        match &self.near {
            Some(near) => write!(f, "; {near:?} differs in case or directory only"),
            None => Ok(()),
        }
    }
}

/// Walks all of the archive, also past what was wanted: a second one may follow.
fn find<R: Read>(
    archive: &mut Archive<R>,
    binary: &str,
    mut fits: impl FnMut(u64) -> bool,
    out: &mut impl Write,
) -> Result<u64, UnpackError> {
    let mut names = Names::default();
    let mut extension = Extension::default();
    let mut length = None;
    for entry in archive.entries().map_err(UnpackError::Malformed)?.raw(true) {
        let mut entry = entry.map_err(UnpackError::Malformed)?;
        if extension.take(&mut entry)? {
            continue;
        }
        let Extension { name, size } = std::mem::take(&mut extension);
        if size.is_some_and(|size| size != entry.size()) {
            return Err(malformed("an entry has two sizes"));
        }
        let name = name.unwrap_or_else(|| entry.path_bytes().into_owned());
        names.add(&name, binary);
        let name = name.strip_prefix(b"./").unwrap_or(&name);
        if name.strip_suffix(b"/").unwrap_or(name) != binary.as_bytes() {
            continue;
        }
        if length.is_some() {
            return Err(UnpackError::Several { binary: binary.to_owned() });
        }
        let found = if name.ends_with(b"/") { "a directory" } else { kind(entry.header().entry_type()) };
        if found != REGULAR {
            return Err(UnpackError::NotAFile { binary: binary.to_owned(), found });
        }
        if !fits(entry.size()) {
            return Err(UnpackError::NoRoom { length: entry.size() });
        }
        length = Some(copy(&mut entry, out)?);
    }
    length.ok_or_else(|| UnpackError::Absent { binary: binary.to_owned(), found: names })
}

/// Copies an entry, telling whose fault an error is; a short one is an error.
fn copy<R: Read>(entry: &mut Entry<'_, R>, out: &mut impl Write) -> Result<u64, UnpackError> {
    let mut buffer = vec![0; 128 * 1024];
    let mut length = 0;
    loop {
        match entry.read(&mut buffer).map_err(UnpackError::Malformed)? {
            0 if length < entry.size() => return Err(truncated("within the wanted file")),
            0 => return Ok(length),
            n => {
                out.write_all(&buffer[..n]).map_err(UnpackError::Write)?;
                length += n as u64;
            }
        }
    }
}

/// What the extensions before an entry say about it.
#[derive(Debug, Default)]
struct Extension {
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Extension {
    /// Takes an entry that says something about the next one; answers whether this was one.
    fn take<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<bool, UnpackError> {
        let entry_type = entry.header().entry_type();
        match entry_type {
            EntryType::GNULongName => {
                let mut name = read_extension(entry)?;
                name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
                self.rename(name)?;
            }
            EntryType::GNULongLink => drop(read_extension(entry)?),
            EntryType::XHeader | EntryType::XGlobalHeader => {
                let bytes = read_extension(entry)?;
                for record in PaxExtensions::new(&bytes) {
                    let record = record.map_err(UnpackError::Malformed)?;
                    self.record(record.key_bytes(), record.value_bytes(), entry_type)?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A record may name or size the next entry; one that would do so for all, or that says that an entry's
    /// bytes are not the file's, is refused.
    fn record(&mut self, key: &[u8], value: &[u8], entry_type: EntryType) -> Result<(), UnpackError> {
        let global = entry_type == EntryType::XGlobalHeader;
        match key {
            b"path" | b"size" if global => Err(malformed("a global extension names or sizes entries")),
            b"path" => self.rename(value.to_owned()),
            b"size" => {
                let size = std::str::from_utf8(value).ok().and_then(|size| size.parse().ok());
                self.size = Some(size.ok_or_else(|| malformed("an extension's size is no number"))?);
                Ok(())
            }
            _ if key.starts_with(b"GNU.sparse.") => Err(malformed("sparse files are not supported")),
            _ => Ok(()),
        }
    }

    fn rename(&mut self, name: Vec<u8>) -> Result<(), UnpackError> {
        match self.name.replace(name) {
            None => Ok(()),
            Some(_) => Err(malformed("an entry has two long names")),
        }
    }
}

fn read_extension<R: Read>(entry: &mut Entry<'_, R>) -> Result<Vec<u8>, UnpackError> {
    if entry.size() > MAX_EXTENSION {
        return Err(malformed("an extension is too long"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(UnpackError::Malformed)?;
    if (bytes.len() as u64) < entry.size() { Err(truncated("within an extension")) } else { Ok(bytes) }
}

/// The unpacked stream: counted against the limit, and remembering what it saw last, since the tar reader
/// tells neither whose fault an error is nor whether the archive ended as it should.
struct Stream<R: Read> {
    gzip: GzDecoder<BufReader<R>>,
    limit: u64,
    length: u64,
    /// How many zeros the stream ended with so far.
    zeros: u64,
    fault: Option<UnpackError>,
    ended: bool,
}

impl<R: Read> Stream<R> {
    fn new(archive: R, limit: u64) -> Self {
        let gzip = GzDecoder::new(BufReader::with_capacity(64 * 1024, archive));
        Self { gzip, limit, length: 0, zeros: 0, fault: None, ended: false }
    }

    /// The stream's own fault goes before what the tar reader made of it.
    fn explain(&mut self, error: UnpackError) -> UnpackError {
        match (self.fault.take(), error) {
            (Some(fault), UnpackError::Malformed(_) | UnpackError::Truncated { .. }) => fault,
            (_, UnpackError::Malformed(_)) if self.ended => truncated("within an entry"),
            (_, error) => error,
        }
    }

    /// Reads what follows the tar archive: zeros, the gzip checksum, and nothing more.
    fn finish(mut self) -> Result<(), UnpackError> {
        let mut buffer = [0; 4096];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) if buffer[..n].iter().all(|byte| *byte == 0) => {}
                Ok(_) => return Err(UnpackError::TrailingData),
                Err(error) => return Err(self.explain(UnpackError::Malformed(error))),
            }
        }
        if self.zeros < BLOCK {
            return Err(truncated("without the mark of its end"));
        }
        match self.gzip.into_inner().fill_buf() {
            Ok([]) => Ok(()),
            Ok(_) => Err(UnpackError::TrailingData),
            Err(error) => Err(UnpackError::Read(error)),
        }
    }

    fn judge(&self, error: io::Error) -> UnpackError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match error.kind() {
            UnexpectedEof => truncated("within the compressed data"),
            InvalidData | InvalidInput if self.length == 0 && self.gzip.header().is_none() => {
                UnpackError::NotGzip
            }
            InvalidData | InvalidInput => UnpackError::Malformed(error),
            _ => UnpackError::Read(error),
        }
    }
}

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = loop {
            match self.gzip.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let read = match read {
            Err(error) => Err(self.judge(error)),
            Ok(n) => {
                self.length += n as u64;
                self.ended |= n == 0 && !buffer.is_empty();
                let tail = buffer[..n].iter().rev().take_while(|byte| **byte == 0).count();
                self.zeros = tail as u64 + if tail == n { self.zeros } else { 0 };
                if self.length > self.limit {
                    Err(UnpackError::TooLarge { limit: self.limit })
                } else {
                    Ok(n)
                }
            }
        };
        read.map_err(|fault| {
            self.fault = Some(fault);
            io::Error::other("the stream failed")
        })
    }
}

const REGULAR: &str = "a regular file";

fn kind(entry_type: EntryType) -> &'static str {
    match entry_type {
        EntryType::Regular => REGULAR,
        EntryType::Link => "a hard link",
        EntryType::Symlink => "a symbolic link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Directory => "a directory",
        EntryType::Fifo => "a FIFO",
        EntryType::GNUSparse => "a sparse file",
        _ => "an entry of an unknown kind",
    }
}

fn malformed(what: &'static str) -> UnpackError {
    UnpackError::Malformed(io::Error::new(io::ErrorKind::InvalidData, what))
}

fn truncated(what: &'static str) -> UnpackError {
    UnpackError::Truncated { what }
}
