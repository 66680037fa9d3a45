//! What is updated to: programs as large as real collectors, which compress as badly as those do, and which run.
//!
//! A program is the kit's stand-in with a filling. The filling imitates machine code: most of it is drawn from a
//! list of short phrases, some much more frequent than others, the rest is noise; gzip takes as long for a byte of
//! it as for one of a real collector. It is the same on every machine. Archives are kept below the target
//! directory and made anew when the stand-in changed.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use myriarch_tests::{collector::StandIn, machine::DISTRIBUTION};
use myriarch_verify::Digest;

/// The version that every input is.
pub(crate) const VERSION: &str = "0.2.0";

/// One input by size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// What it is called: about the archive's size.
    pub(crate) name: &'static str,
    /// The filling's length in bytes.
    filling: u64,
    /// How many in 256 pieces are noise.
    noise: u8,
}

pub(crate) const SMALL: Size = Size { name: "10MB", filling: 35_000_000, noise: 12 };
pub(crate) const MIDDLE: Size = Size { name: "100MB", filling: 350_000_000, noise: 12 };
/// Almost nothing but noise: an archive of that size does not need a program of three gigabytes.
pub(crate) const LARGE: Size = Size { name: "1GB", filling: 1_010_000_000, noise: 250 };

/// An archive on disk.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    /// Its name in the directory of inputs.
    pub(crate) file_name: String,
    pub(crate) digest: Digest,
}

/// The directory of inputs.
#[derive(Debug)]
pub(crate) struct Inputs {
    directory: PathBuf,
    executable: Vec<u8>,
    script: Vec<u8>,
}

impl Inputs {
    pub(crate) fn open() -> Self {
        // The task that builds us says where; whoever starts us by hand gets a directory beside the program.
        let directory = std::env::var_os("BENCH_DIRECTORY").map_or_else(
            || std::env::current_exe().expect("own executable").with_file_name("bench-inputs"),
            PathBuf::from,
        );
        fs::create_dir_all(&directory).expect("a directory for the inputs");
        let (executable, script) = StandIn::version(VERSION).parts();
        Self { directory, executable, script }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The archive of that size, made if it is not there.
    pub(crate) fn archive(&self, size: Size) -> Input {
        let beginning = format!("{}-", size.name);
        let file_name = format!("{beginning}{}.tar.gz", Digest::of(&self.executable).short());
        let path = self.directory.join(&file_name);
        if !path.is_file() {
            println!("making the {} archive, once", size.name);
            self.forget(&beginning);
            let draft = path.with_extension("draft");
            self.pack(size, &draft).expect("an archive below the target directory");
            fs::rename(&draft, &path).expect("an archive in its place");
        }
        let (digest, _) = File::open(&path).and_then(Digest::of_reader).expect("a readable archive");
        Input { path, file_name, digest }
    }

    /// Removes what was made for an older stand-in.
    fn forget(&self, beginning: &str) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(beginning) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn pack(&self, size: Size, path: &Path) -> io::Result<()> {
        let filling = Filling::new(size.noise).take(size.filling);
        let program = self.executable.chain(filling).chain(&*self.script);
        let out = BufWriter::new(File::create(path)?);
        let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::default()));
        let mut header = tar::Header::new_gnu();
        header.set_size((self.executable.len() + self.script.len()) as u64 + size.filling);
        header.set_mode(0o755);
        archive.append_data(&mut header, DISTRIBUTION, program)?;
        archive.into_inner()?.finish()?.into_inner()?.sync_all()
    }
}

/// Phrases to draw from.
const PHRASES: u64 = 800;

/// Bytes without end that look like machine code to a compressor.
#[derive(Debug)]
struct Filling {
    random: Random,
    phrases: Vec<Vec<u8>>,
    noise: u8,
    piece: Vec<u8>,
    taken: usize,
}

impl Filling {
    fn new(noise: u8) -> Self {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut phrase = || {
            let length = 3 + random.below(14);
            (0..length)
                .map(|_| {
                    let byte = random.byte() & 0x3f;
                    if random.below(2) == 0 { byte } else { byte.wrapping_mul(5) }
                })
                .collect()
        };
        let phrases = (0..PHRASES).map(|_| phrase()).collect();
        Self { random, phrases, noise, piece: vec![], taken: 0 }
    }

    fn next_piece(&mut self) {
        self.piece.clear();
        self.taken = 0;
        while self.piece.len() < 4096 {
            if self.random.byte() < self.noise {
                let length = 1 + self.random.below(4);
                self.piece.extend((0..length).map(|_| self.random.byte()));
            } else {
                // The square makes the first phrases the frequent ones.
                let at = self.random.below(1 << 16);
                let at = (at * at * PHRASES) >> 32;
                self.piece.extend(&self.phrases[usize::try_from(at).unwrap_or_default()]);
            }
        }
    }
}

impl Read for Filling {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() {
            self.next_piece();
        }
        let length = (&self.piece[self.taken..]).read(buffer)?;
        self.taken += length;
        Ok(length)
    }
}

/// xorshift64*: the same numbers everywhere, for no other purpose than that.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    /// A number below `limit`, which is small.
    fn below(&mut self, limit: u64) -> u64 {
        ((self.next() >> 32) * limit) >> 32
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn filling(noise: u8, length: u64) -> Vec<u8> {
        let mut bytes = vec![];
        Filling::new(noise).take(length).read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn packed(bytes: &[u8]) -> usize {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().len()
    }

    #[test]
    fn the_filling_is_the_same_everywhere() {
        let digest = Digest::of(&filling(MIDDLE.noise, 1_000_000));
        assert_eq!(digest.short(), "18332bf54fa4");
        assert_ne!(digest, Digest::of(&filling(LARGE.noise, 1_000_000)));
    }

    #[test]
    fn it_compresses_as_a_collector_does() {
        let length = 2_000_000;
        let share = |noise| packed(&filling(noise, length)) * 100 / usize::try_from(length).unwrap();
        assert!((26..=32).contains(&share(MIDDLE.noise)), "{}", share(MIDDLE.noise));
        assert!(share(LARGE.noise) > 95, "{}", share(LARGE.noise));
    }
}
