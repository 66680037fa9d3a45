//! Whether a program can be loaded on this machine, read from its ELF file before it is run.
//!
//! The kernel and the loader say it too, but obscurely: a missing loader is told as "no such file" about a program
//! that is there. Only what is certain is an objection here; whatever cannot be told is left to the program's own
//! `--version`. Parts of the file are read as they are needed, so that a large program costs no memory.

use std::{
    cmp::Ordering,
    fmt,
    fs::File,
    os::unix::{ffi::OsStrExt as _, fs::FileExt as _},
    path::{Path, PathBuf},
};

use object::{
    Endianness,
    elf::{self, FileHeader32, FileHeader64, Machine},
    read::{
        ReadCache, StringTable,
        elf::{FileHeader, ProgramHeader as _, SectionHeader as _},
    },
};

use crate::regular;

/// Why a program cannot be loaded here.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ElfProblem {
    /// It is no program at all.
    #[error("expected an ELF program, found a file that begins with {found:?}")]
    NotElf {
        /// Its first bytes.
        found: String,
    },
    /// It is ELF, and contradicts itself.
    #[error("expected an ELF program, found one that is damaged: {reason}")]
    Malformed {
        /// What does not hold.
        reason: String,
    },
    /// It is for another machine.
    #[error("built for {}, this machine is {this}", Named(*.built))]
    Machine {
        /// What it is for.
        built: u16,
        /// What this is.
        this: &'static str,
    },
    /// The interpreter that it names, which loads it, is not there.
    #[error("its loader {} is not on this machine", path.display())]
    Loader {
        /// What it names.
        path: PathBuf,
    },
    /// A version of the C library's symbols is not there.
    #[error("needs {needs} of {library}, this machine has at most {found}")]
    SymbolVersion {
        /// What it needs.
        needs: String,
        /// Of which library.
        library: String,
        /// The newest there is.
        found: String,
    },
    /// The file could not be read.
    #[error("it could not be read: {reason}")]
    Unreadable {
        /// What came of it.
        reason: String,
    },
}

impl ElfProblem {
    /// What an operator can do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::NotElf { .. } | Self::Malformed { .. } => {
                "it was published like this: tell its publisher, or mend program.binary"
            }
            Self::Machine { .. } => {
                "offer the archive for this machine: the source lists another under its name, or its template lacks {arch}"
            }
            Self::Loader { .. } => {
                "it was built for another C library: take a static build, or install the package that has its loader"
            }
            Self::SymbolVersion { .. } => {
                "it was built on a newer system: take a build for older ones or a static one, or upgrade this system"
            }
            Self::Unreadable { .. } => "look at the store's disk",
        }
    }
}

/// The longest interpreter, in bytes, with its end: the kernel takes no longer one (`PATH_MAX`).
const LONGEST_LOADER: u64 = 4096;
/// All program headers together, in bytes: the kernel takes no more.
const SEGMENTS_LIMIT: usize = 64 * 1024;
/// The largest section that is read, in bytes. Those of the C library itself have some KiB.
const SECTION_LIMIT: u64 = 1024 * 1024;
/// The most versions that are looked at, as entries may overlap without end. The C library has some dozens.
const VERSIONS_LIMIT: usize = 1024;

/// The symbols of this library are asked for: it comes with its loader, so that where it is found is certain.
const PREFIX: &str = "GLIBC_";

/// Whether `program` can be loaded here, as far as its file tells. A script is left to the kernel.
///
/// # Errors
/// What stands against it.
pub(crate) fn preflight(program: &File) -> Result<(), ElfProblem> {
    let mut head = [0; 20];
    let length = head_of(program, &mut head)?;
    let head = &head[..length];
    if head.starts_with(b"#!") {
        return Ok(());
    }
    if !head.starts_with(&elf::ELFMAG) {
        return Err(ElfProblem::NotElf { found: head.iter().take(8).copied().map(char::from).collect() });
    }
    let data = ReadCache::new(program);
    match head.get(4).copied().map(elf::FileClass) {
        Some(elf::ELFCLASS64) => loads::<FileHeader64<Endianness>>(&data),
        Some(elf::ELFCLASS32) => loads::<FileHeader32<Endianness>>(&data),
        _ => Err(malformed(&"neither of 32 nor of 64 bits")),
    }
}

fn head_of(program: &File, head: &mut [u8]) -> Result<usize, ElfProblem> {
    let mut length = 0;
    loop {
        match program.read_at(&mut head[length..], length as u64) {
            Ok(0) => return Ok(length),
            Ok(n) => length += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ElfProblem::Unreadable { reason: error.to_string() }),
        }
    }
}

fn loads<Elf: FileHeader<Endian = Endianness>>(data: &ReadCache<&File>) -> Result<(), ElfProblem> {
    let header = Elf::parse(data).map_err(|error| malformed(&error))?;
    let endian = header.endian().map_err(|error| malformed(&error))?;
    fits(header.e_machine(endian), std::env::consts::ARCH)?;
    let kind = header.e_type(endian);
    if !matches!(kind, elf::ET_EXEC | elf::ET_DYN) {
        return Err(malformed(&format!("type {}, which nobody can execute", kind.0)));
    }
    if usize::from(header.e_phnum(endian)) * usize::from(header.e_phentsize(endian)) > SEGMENTS_LIMIT {
        return Err(malformed(&format!("program headers of more than {SEGMENTS_LIMIT} bytes")));
    }
    let segments = header.program_headers(endian, data).map_err(|error| malformed(&error))?;
    for segment in segments {
        if segment.p_type(endian) == elf::PT_INTERP && segment.p_filesz(endian).into() > LONGEST_LOADER {
            return Err(malformed(&format!("a loader's name of more than {LONGEST_LOADER} bytes")));
        }
        let loader = segment.interpreter(endian, data).map_err(|error| malformed(&error))?;
        let Some(loader) = loader else { continue };
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(loader));
        if !path.is_file() {
            return Err(ElfProblem::Loader { path });
        }
        return symbols::<Elf>(data, &path);
    }
    Ok(())
}

/// A machine runs the 32-bit programs of its own kind as well, so far as its kernel was built to.
fn fits(built: Machine, this: &'static str) -> Result<(), ElfProblem> {
    let own: &[Machine] = match this {
        "x86_64" => &[elf::EM_X86_64, elf::EM_386],
        "x86" => &[elf::EM_386],
        "aarch64" => &[elf::EM_AARCH64, elf::EM_ARM],
        "arm" => &[elf::EM_ARM],
        "riscv64" => &[elf::EM_RISCV],
        "powerpc64" => &[elf::EM_PPC64],
        "s390x" => &[elf::EM_S390],
        "loongarch64" => &[elf::EM_LOONGARCH],
        _ => return Ok(()),
    };
    if own.contains(&built) { Ok(()) } else { Err(ElfProblem::Machine { built: built.0, this }) }
}

/// Whether the C library beside `loader` has every version of its symbols that is needed.
fn symbols<Elf: FileHeader<Endian = Endianness>>(
    data: &ReadCache<&File>,
    loader: &Path,
) -> Result<(), ElfProblem> {
    let wanted = needed::<Elf>(data).unwrap_or_default();
    let Some(home) = loader.canonicalize().ok().and_then(|loader| loader.parent().map(Path::to_owned)) else {
        return Ok(());
    };
    for (library, versions) in wanted {
        let Ok(file) = regular::open(&home.join(&library)) else { continue };
        let Some(has) = defined::<Elf>(&ReadCache::new(&file)).filter(|has| !has.is_empty()) else {
            continue;
        };
        if let Some(needs) = versions.into_iter().find(|version| !has.contains(version)) {
            let found = has.into_iter().max_by(|one, other| by_number(one, other)).unwrap_or_default();
            return Err(ElfProblem::SymbolVersion { needs, library, found });
        }
    }
    Ok(())
}

/// The versions needed of each library, those aside that it can do without; nothing where it cannot be told. They are
/// found by the sections, which the kernel never looks at: whatever is wrong with those, the program may run.
fn needed<Elf: FileHeader<Endian = Endianness>>(
    data: &ReadCache<&File>,
) -> Option<Vec<(String, Vec<String>)>> {
    let versions = Versions::<Elf>::of(data, elf::SHT_GNU_VERNEED)?;
    let (endian, strings) = (versions.endian, versions.strings);
    let (mut files, _) = versions.section.gnu_verneed(endian, data).ok()??;
    let mut wanted = vec![];
    let mut left = VERSIONS_LIMIT;
    while let Some((file, mut versions)) = files.next().ok()? {
        left = left.checked_sub(1)?;
        let library = text(file.file(endian, strings).ok()?);
        let mut of_library = vec![];
        while let Some(version) = versions.next().ok()? {
            left = left.checked_sub(1)?;
            let name = text(version.name(endian, strings).ok()?);
            let weak = version.vna_flags.get(endian).0 & elf::VER_FLG_WEAK.0 != 0;
            if !weak && name.starts_with(PREFIX) {
                of_library.push(name);
            }
        }
        wanted.push((library, of_library));
    }
    Some(wanted)
}

/// The versions that a library of this machine defines; nothing where it cannot be told.
fn defined<Elf: FileHeader<Endian = Endianness>>(data: &ReadCache<&File>) -> Option<Vec<String>> {
    let versions = Versions::<Elf>::of(data, elf::SHT_GNU_VERDEF)?;
    let (endian, strings) = (versions.endian, versions.strings);
    let (mut definitions, _) = versions.section.gnu_verdef(endian, data).ok()??;
    let mut names = vec![];
    let mut left = VERSIONS_LIMIT;
    while let Some((_, mut parts)) = definitions.next().ok()? {
        left = left.checked_sub(1)?;
        // The first part is the name, the others are what it builds on.
        if let Some(part) = parts.next().ok()? {
            names.push(text(part.name(endian, strings).ok()?));
        }
    }
    names.retain(|name| name.starts_with(PREFIX));
    Some(names)
}

/// A section of versions with its strings.
struct Versions<'data, 'file, Elf: FileHeader<Endian = Endianness>> {
    endian: Endianness,
    section: &'data Elf::SectionHeader,
    strings: StringTable<'data, &'data ReadCache<&'file File>>,
}

impl<'data, 'file, Elf: FileHeader<Endian = Endianness>> Versions<'data, 'file, Elf> {
    /// The first of this kind, where it is not larger than anybody needs.
    fn of(data: &'data ReadCache<&'file File>, kind: elf::SectionType) -> Option<Self> {
        let header = Elf::parse(data).ok()?;
        let endian = header.endian().ok()?;
        // None means that a section tells how many there are, which may be as many as the file has room for.
        if header.e_shnum(endian) == 0 {
            return None;
        }
        let sections = header.sections(endian, data).ok()?;
        let section = sections.iter().find(|section| section.sh_type(endian) == kind)?;
        if section.sh_size(endian).into() > SECTION_LIMIT {
            return None;
        }
        let strings = sections.strings(endian, data, section.link(endian)).ok()?;
        Some(Self { endian, section, strings })
    }
}

/// `GLIBC_2.9` before `GLIBC_2.36`, and what has no number before all.
fn by_number(one: &str, other: &str) -> Ordering {
    let numbers = |name: &str| -> Vec<u32> {
        name.trim_start_matches(PREFIX).split('.').map_while(|part| part.parse().ok()).collect()
    };
    numbers(one).cmp(&numbers(other))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn malformed(reason: &dyn fmt::Display) -> ElfProblem {
    ElfProblem::Malformed { reason: reason.to_string() }
}

/// A machine by the name that its system gives it.
struct Named(u16);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Machine(self.0) {
            elf::EM_X86_64 => f.write_str("x86_64"),
            elf::EM_386 => f.write_str("x86"),
            elf::EM_AARCH64 => f.write_str("aarch64"),
            elf::EM_ARM => f.write_str("arm"),
            elf::EM_RISCV => f.write_str("riscv"),
            elf::EM_PPC64 => f.write_str("powerpc64"),
            elf::EM_S390 => f.write_str("s390"),
            elf::EM_LOONGARCH => f.write_str("loongarch"),
            Machine(other) => write!(f, "machine {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn a_program_that_runs_here_and_a_script_are_let_through() {
        let ourselves = File::open("/proc/self/exe").unwrap();
        assert_eq!(preflight(&ourselves), Ok(()));
        assert_eq!(preflight(&file_of(b"#!/bin/sh\n")), Ok(()));
    }

    #[test]
    fn what_is_no_program_is_said_to_be_none() {
        for bytes in [&b""[..], b"\x7fEL", b"PK\x03\x04", b"\0\0\0\0"] {
            assert!(matches!(preflight(&file_of(bytes)), Err(ElfProblem::NotElf { .. })), "{bytes:?}");
        }
        assert!(matches!(preflight(&file_of(b"\x7fELF")), Err(ElfProblem::Malformed { .. })));
        assert!(matches!(preflight(&file_of(b"\x7fELF\x02\x01\x01")), Err(ElfProblem::Malformed { .. })));
    }

    #[test]
    fn a_head_that_was_changed_anywhere_is_an_answer_and_no_panic() {
        let ourselves = std::fs::read("/proc/self/exe").unwrap();
        let file = file_of(&ourselves);
        for at in 0..512 {
            file.write_at(&[!ourselves[at]], at as u64).unwrap();
            let _ = preflight(&file);
            file.write_at(&ourselves[at..=at], at as u64).unwrap();
        }
        assert_eq!(preflight(&file), Ok(()));
    }

    type Header = FileHeader64<Endianness>;

    /// A program like this one, and the numbers of its bytes.
    struct Patched {
        file: File,
        bytes: Vec<u8>,
    }

    impl Patched {
        fn ourselves() -> Self {
            let bytes = std::fs::read("/proc/self/exe").unwrap();
            Self { file: file_of(&bytes), bytes }
        }

        fn number(&self, at: usize, length: usize) -> usize {
            let bytes = self.bytes[at..at + length].iter().rev();
            bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
        }

        fn put(&self, at: usize, bytes: &[u8]) {
            self.file.write_at(bytes, at as u64).unwrap();
        }

        /// Where the header is of the segment or section of `kind`, whose number stands at `at` in it.
        fn header(&self, [offset, size, count]: [usize; 3], at: usize, kind: u32) -> usize {
            let (size, count) = (self.number(size, 2), self.number(count, 2));
            let mut headers = (0..count).map(|index| self.number(offset, 8) + index * size);
            headers.find(|header| self.number(header + at, 4) == kind as usize).unwrap()
        }

        fn loader(&self) -> usize {
            self.header([32, 54, 56], 0, elf::PT_INTERP.0)
        }

        fn verneed(&self) -> usize {
            self.header([40, 58, 60], 4, elf::SHT_GNU_VERNEED.0)
        }
    }

    #[test]
    fn a_loader_or_headers_that_the_kernel_takes_from_nobody_are_not_read() {
        let program = Patched::ourselves();
        program.put(program.loader() + 32, &4097_u64.to_le_bytes());
        let problem = preflight(&program.file).unwrap_err();
        assert!(problem.to_string().contains("a loader's name of more than 4096 bytes"), "{problem}");
        let program = Patched::ourselves();
        program.put(56, &u16::MAX.to_le_bytes());
        let problem = preflight(&program.file).unwrap_err();
        assert!(problem.to_string().contains("program headers of more than 65536 bytes"), "{problem}");
    }

    #[test]
    fn sections_that_are_broken_or_endless_are_no_objection() {
        let needs = |program: &Patched| {
            assert_eq!(preflight(&program.file), Ok(()));
            needed::<Header>(&ReadCache::new(&program.file))
        };
        let program = Patched::ourselves();
        assert!(needs(&program).is_some_and(|wanted| !wanted.is_empty()));
        // Where the sections are.
        program.put(40, &u64::MAX.to_le_bytes());
        assert_eq!(needs(&program), None);

        let program = Patched::ourselves();
        program.put(program.verneed() + 32, &(SECTION_LIMIT + 1).to_le_bytes());
        assert_eq!(needs(&program), None, "a section too large");

        let program = Patched::ourselves();
        let count = program.number(60, 2) as u64;
        program.put(60, &[0, 0]);
        program.put(program.number(40, 8) + 32, &count.to_le_bytes());
        assert_eq!(needs(&program), None, "as many sections as another one says");

        // One version, over and over.
        let program = Patched::ourselves();
        let first = program.number(program.verneed() + 24, 8);
        let version = first + program.number(first + 8, 4);
        program.put(first + 2, &u16::MAX.to_le_bytes());
        program.put(version + 12, &[0; 4]);
        assert_eq!(needs(&program), None, "versions without end");
    }

    #[test]
    fn a_machine_takes_its_own_programs_only() {
        assert_eq!(fits(elf::EM_X86_64, "x86_64"), Ok(()));
        assert_eq!(fits(elf::EM_386, "x86_64"), Ok(()));
        let problem = fits(elf::EM_AARCH64, "x86_64").unwrap_err();
        assert_eq!(problem.to_string(), "built for aarch64, this machine is x86_64");
        assert!(fits(elf::EM_X86_64, "aarch64").is_err());
        assert_eq!(fits(elf::EM_X86_64, "a machine of tomorrow"), Ok(()));
    }

    #[test]
    fn versions_of_symbols_go_by_their_numbers() {
        let mut names = ["GLIBC_2.36", "GLIBC_2.9", "GLIBC_PRIVATE", "GLIBC_2.2.5"];
        names.sort_by(|one, other| by_number(one, other));
        assert_eq!(names, ["GLIBC_PRIVATE", "GLIBC_2.2.5", "GLIBC_2.9", "GLIBC_2.36"]);
    }
}
