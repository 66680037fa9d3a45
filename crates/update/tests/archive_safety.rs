//! One regular file with exactly the wanted name comes out of an archive, or nothing does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};

use flate2::{Compression, write::GzEncoder};
use myriarch_update::{UnpackError, unpack_one_if};
use tar::{Builder, EntryType, Header};

const BINARY: &str = "otelcol-contrib";
const LIMIT: u64 = 1 << 20;

/// An archive under construction.
struct Tar(Builder<Vec<u8>>);

impl Tar {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn file(self, name: &str, content: &[u8]) -> Self {
        self.entry(EntryType::Regular, name, content)
    }

    /// The name is written as it is, whatever it is.
    fn entry(mut self, entry_type: EntryType, name: &str, content: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(entry_type);
        header.set_size(content.len() as u64);
        header.set_mode(0o6777);
        if matches!(entry_type, EntryType::Symlink | EntryType::Link) {
            header.set_link_name("/bin/sh").unwrap();
        }
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    /// An extension of the kind that POSIX knows, `key=value`.
    fn pax(self, entry_type: EntryType, key: &str, value: &str) -> Self {
        let rest = format!(" {key}={value}\n");
        let length = (1..1000).find(|n: &usize| n.to_string().len() + rest.len() == *n).unwrap();
        self.entry(entry_type, "PaxHeaders/x", format!("{length}{rest}").as_bytes())
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }

    fn gzip(self) -> Vec<u8> {
        gzip(&self.bytes())
    }

    fn unpack(self) -> Result<Vec<u8>, UnpackError> {
        unpack(&self.gzip())
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn unpack(archive: &[u8]) -> Result<Vec<u8>, UnpackError> {
    let mut out = Vec::new();
    let length = unpack_one_if(archive, BINARY, LIMIT, |_| true, &mut out)?;
    assert_eq!(length, out.len() as u64);
    Ok(out)
}

/// Bytes that do not compress away.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn a_file_that_does_not_fit_is_not_begun_and_its_exact_length_is_asked_by() {
    let archive = Tar::new().file("README.md", b"text").file(BINARY, &noise(5000)).gzip();
    let mut out = Vec::new();
    let mut asked = vec![];
    let mut unpack_where = |room: u64, out: &mut Vec<u8>| {
        let fits = |length| {
            asked.push(length);
            length <= room
        };
        unpack_one_if(archive.as_slice(), BINARY, LIMIT, fits, out)
    };
    let error = unpack_where(4999, &mut out).unwrap_err();
    assert!(matches!(error, UnpackError::NoRoom { length: 5000 }), "{error:?}");
    assert!(out.is_empty());
    assert_eq!(unpack_where(5000, &mut out).unwrap(), 5000);
    assert_eq!((asked, out.len()), (vec![5000, 5000], 5000));
}

#[test]
fn the_wanted_file_comes_out_whatever_lies_beside_it() {
    for name in [BINARY, "./otelcol-contrib"] {
        let tar = Tar::new()
            .entry(EntryType::Directory, "./", b"")
            .file("README.md", b"read me")
            .entry(EntryType::Symlink, "link", b"")
            .file("../../etc/passwd", b"root")
            .file(name, b"program")
            .file("LICENSE", b"license");
        assert_eq!(tar.unpack().unwrap(), b"program");
    }
}

#[test]
fn a_large_file_comes_out_whole() {
    let content = noise(700_001);
    assert_eq!(Tar::new().file(BINARY, &content).unpack().unwrap(), content);
}

#[test]
fn a_name_in_an_extension_is_the_name() {
    let tar = Tar::new().pax(EntryType::XHeader, "path", BINARY).file("short", b"program");
    assert_eq!(tar.unpack().unwrap(), b"program");
    let long = |name: &[u8]| Tar::new().entry(EntryType::GNULongName, "././@LongLink", name);
    let tar = long(b"otelcol-contrib\0").file("x", b"program");
    assert_eq!(tar.unpack().unwrap(), b"program");
    let tar = Tar::new().pax(EntryType::XHeader, "path", "other").file(BINARY, b"not this");
    assert!(matches!(tar.unpack(), Err(UnpackError::Absent { .. })));
    let tar = Tar::new().pax(EntryType::XHeader, "mtime", "1.5").file(BINARY, b"program");
    assert_eq!(tar.unpack().unwrap(), b"program");
}

#[test]
fn an_absent_file_is_told_with_what_there_is() {
    let error = Tar::new().file("README.md", b"").file("otelcol\x1b[31m", b"").unpack().unwrap_err();
    let words = error.to_string();
    assert!(words.contains(r#""otelcol-contrib""#) && words.contains(r#""README.md""#), "{words}");
    assert!(!words.contains('\x1b'), "{words}");

    let many = (0..1000).fold(Tar::new(), |tar, n| tar.file(&format!("{n}-{}", "x".repeat(90)), b""));
    let words = many.unpack().unwrap_err().to_string();
    assert!(words.contains("and 980 more") && words.len() < 4000, "{words}");

    assert!(Tar::new().unpack().unwrap_err().to_string().contains("found nothing"));
}

#[test]
fn a_name_in_another_case_or_directory_is_named_and_not_taken() {
    for name in [
        "Otelcol-Contrib",
        "bin/otelcol-contrib",
        "/otelcol-contrib",
        "../otelcol-contrib",
        "././otelcol-contrib",
        ".//otelcol-contrib",
    ] {
        let error = Tar::new().file("LICENSE", b"").file(name, b"program").unpack().unwrap_err();
        assert!(matches!(error, UnpackError::Absent { .. }), "{name}: {error}");
        assert!(
            error.to_string().contains(&format!("; {name:?} differs in case or directory only")),
            "{error}"
        );
    }
}

#[test]
fn a_second_one_is_refused_whatever_it_is() {
    for second in [EntryType::Regular, EntryType::Symlink, EntryType::Directory] {
        for name in [BINARY, "./otelcol-contrib", "otelcol-contrib/"] {
            let tar = Tar::new().file(BINARY, b"one").file("LICENSE", b"").entry(second, name, b"");
            assert!(matches!(tar.unpack(), Err(UnpackError::Several { .. })), "{name} {second:?}");
        }
    }
}

#[test]
fn what_is_no_regular_file_is_refused() {
    for (entry_type, expected) in [
        (EntryType::Symlink, "a symbolic link"),
        (EntryType::Link, "a hard link"),
        (EntryType::Fifo, "a FIFO"),
        (EntryType::Char, "a device"),
        (EntryType::Block, "a device"),
        (EntryType::Directory, "a directory"),
        (EntryType::Continuous, "an entry of an unknown kind"),
        (EntryType::new(b'Z'), "an entry of an unknown kind"),
    ] {
        let error = Tar::new().entry(entry_type, BINARY, b"").unpack().unwrap_err();
        assert!(error.to_string().ends_with(&format!("found {expected}")), "{error}");
    }
    let error = Tar::new().file("otelcol-contrib/", b"program").unpack().unwrap_err();
    assert!(matches!(error, UnpackError::NotAFile { found: "a directory", .. }), "{error}");
}

#[test]
fn every_truncation_is_refused() {
    let content = noise(3000);
    let whole = Tar::new().file("LICENSE", b"license").file(BINARY, &content).gzip();
    assert_eq!(unpack(&whole).unwrap(), content);
    for length in 0..whole.len() {
        let error = unpack(&whole[..length]).unwrap_err();
        assert!(matches!(error, UnpackError::Truncated { .. }), "{length}: {error:?}");
    }
}

#[test]
fn a_tar_cut_short_before_it_was_compressed_is_refused() {
    let content = noise(600);
    let whole = Tar::new().file("LICENSE", b"license").file(BINARY, &content).file("x", &content).bytes();
    for length in 0..=whole.len() - 1024 {
        let error = unpack(&gzip(&whole[..length])).unwrap_err();
        // Cut before the wanted file, there is nothing wrong but that it is not there.
        let absent = length <= 1024 && matches!(error, UnpackError::Absent { .. });
        assert!(absent || matches!(error, UnpackError::Truncated { .. }), "{length}: {error:?}");
    }
}

#[test]
fn every_flipped_bit_is_refused_or_harmless() {
    let whole = Tar::new().file(BINARY, b"program").gzip();
    for index in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[index] ^= 1 << bit;
            // The gzip header's time and flags may change; the content may not.
            if let Ok(content) = unpack(&flipped) {
                assert_eq!(content, b"program", "byte {index}, bit {bit}");
            }
        }
    }
}

#[test]
fn anything_after_the_end_is_refused() {
    let whole = Tar::new().file(BINARY, b"program").gzip();
    for tail in [&b"\0"[..], b"x", b"\x1f\x8b\x08", &whole] {
        assert!(matches!(unpack(&[&whole, tail].concat()), Err(UnpackError::TrailingData)));
    }
    let mut tar = Tar::new().file(BINARY, b"program").bytes();
    tar.extend(Tar::new().file(BINARY, b"hidden").bytes());
    assert!(matches!(unpack(&gzip(&tar)), Err(UnpackError::TrailingData)));
    let mut padded = Tar::new().file(BINARY, b"program").bytes();
    padded.resize(20 * 512, 0);
    assert_eq!(unpack(&gzip(&padded)).unwrap(), b"program");
}

#[test]
fn what_is_not_gzip_is_said_to_be_not_gzip() {
    for bytes in [&b"<!DOCTYPE html><title>404</title>"[..], b"PK\x03\x04 and so on", &[0; 1000]] {
        let error = unpack(bytes).unwrap_err();
        assert!(matches!(error, UnpackError::NotGzip), "{error}");
    }
    let error = unpack(&gzip(&[b'x'; 2000])).unwrap_err();
    assert!(matches!(error, UnpackError::Malformed(_)), "{error}");
}

#[test]
fn a_bomb_is_defused_wherever_it_lies() {
    let bomb = vec![0; 2 << 20];
    for tar in [
        Tar::new().file(BINARY, &bomb),
        Tar::new().file("LICENSE", &bomb).file(BINARY, b"program"),
        Tar::new().file(BINARY, b"program").file("LICENSE", &bomb),
    ] {
        let error = tar.unpack().unwrap_err();
        assert!(matches!(error, UnpackError::TooLarge { limit: LIMIT }), "{error}");
    }
    let mut tail = Tar::new().file(BINARY, b"program").bytes();
    tail.resize(3 << 20, 0);
    assert!(matches!(unpack(&gzip(&tail)), Err(UnpackError::TooLarge { .. })));
    let long = vec![b'x'; 100_000];
    let tar = Tar::new().entry(EntryType::GNULongName, "././@LongLink", &long).file("x", b"program");
    assert!(matches!(tar.unpack(), Err(UnpackError::Malformed(_))));
}

#[test]
fn an_extension_that_contradicts_its_entry_is_refused() {
    for (entry_type, key, value) in [
        (EntryType::XHeader, "size", "3"),
        (EntryType::XHeader, "size", "many"),
        (EntryType::XHeader, "GNU.sparse.major", "1"),
        (EntryType::XGlobalHeader, "path", BINARY),
        (EntryType::XGlobalHeader, "size", "7"),
    ] {
        let error = Tar::new().pax(entry_type, key, value).file(BINARY, b"program").unpack().unwrap_err();
        assert!(matches!(error, UnpackError::Malformed(_)), "{key}: {error}");
    }
    let tar = Tar::new().pax(EntryType::XHeader, "size", "7").file(BINARY, b"program");
    assert_eq!(tar.unpack().unwrap(), b"program");
}

/// Fails after some bytes, as a disk or a mount does.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::Error::from(io::ErrorKind::StaleNetworkFileHandle));
        }
        self.0.read(buffer)
    }
}

struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failing_disk_is_not_called_a_bad_archive() {
    let whole = Tar::new().file(BINARY, b"program").gzip();
    let error = unpack_one_if(Failing(&whole[..20]), BINARY, LIMIT, |_| true, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, UnpackError::Read(_)), "{error}");
    let error = unpack_one_if(&whole[..], BINARY, LIMIT, |_| true, &mut Full).unwrap_err();
    let UnpackError::Write(cause) = &error else { panic!("{error}") };
    assert_eq!(cause.kind(), io::ErrorKind::StorageFull);
}
