//! A running process, named so that it cannot be mistaken for another.
//!
//! Process ids are used again; a process id and the tick at which the process started are not, within one boot.
//! What a process was given at its start is read from `/proc` (see proc(5)): a candidate is asked in the same
//! surroundings as the one that runs.

use std::{
    ffi::OsString,
    fmt, fs, io,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::PathBuf,
};

use crate::exec::Credentials;

/// A process that was alive when it was looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Process {
    pid: u32,
    start_time: u64,
}

impl Process {
    /// The process that has `pid` now.
    ///
    /// # Errors
    ///
    /// When there is none, or `/proc` cannot be read.
    pub fn with_pid(pid: u32) -> io::Result<Self> {
        let stat = Stat::read(pid)?;
        Ok(Self { pid, start_time: stat.start_time })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When it started, in clock ticks since boot.
    pub fn start_time(&self) -> u64 {
        self.start_time
    }

    /// Whether it still runs. One that has ended and is not collected yet does not.
    pub fn is_alive(&self) -> bool {
        Stat::read(self.pid).is_ok_and(|stat| stat.start_time == self.start_time && !stat.is_over())
    }

    /// Its arguments, its own name first.
    ///
    /// # Errors
    ///
    /// When it is gone or may not be read.
    pub fn args(&self) -> io::Result<Vec<OsString>> {
        self.read("cmdline").map(|bytes| split(&bytes))
    }

    /// The environment that it was started with.
    ///
    /// # Errors
    ///
    /// When it is gone or may not be read: another user's takes `CAP_SYS_PTRACE`.
    pub fn environment(&self) -> io::Result<Vec<(OsString, OsString)>> {
        let pair = |entry: OsString| {
            let mut name = entry.into_vec();
            // A name may begin with `=`, as in the leftovers of some shells.
            let at = name.iter().skip(1).position(|byte| *byte == b'=')? + 1;
            let value = name.split_off(at).split_off(1);
            Some((OsString::from_vec(name), OsString::from_vec(value)))
        };
        self.read("environ").map(|bytes| split(&bytes).into_iter().filter_map(pair).collect())
    }

    /// Its working directory.
    ///
    /// # Errors
    ///
    /// When it is gone or may not be read: another user's takes `CAP_SYS_PTRACE`.
    pub fn cwd(&self) -> io::Result<PathBuf> {
        self.while_the_same(|| fs::read_link(self.path("cwd")))
    }

    /// Its executable file's device and inode, which say what runs even after the file was renamed or removed.
    ///
    /// # Errors
    ///
    /// When it is gone or may not be read: another user's takes `CAP_SYS_PTRACE`.
    pub fn exe_id(&self) -> io::Result<(u64, u64)> {
        let metadata = self.while_the_same(|| fs::metadata(self.path("exe")))?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// Its executable file's path, for people: the kernel marks a removed one with ` (deleted)`.
    ///
    /// # Errors
    ///
    /// When it is gone or may not be read: another user's takes `CAP_SYS_PTRACE`.
    pub fn exe(&self) -> io::Result<PathBuf> {
        self.while_the_same(|| fs::read_link(self.path("exe")))
    }

    /// Whom it runs as.
    ///
    /// # Errors
    ///
    /// When it is gone or `/proc` cannot be read.
    pub fn credentials(&self) -> io::Result<Credentials> {
        let status = self.read("status")?;
        parse_credentials(&String::from_utf8_lossy(&status))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no Uid, Gid and Groups in its status"))
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.while_the_same(|| fs::read(self.path(name)))
    }

    /// What `look` finds counts only if the process was still the same one afterwards.
    fn while_the_same<T>(&self, look: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let found = look()?;
        if self.is_alive() {
            return Ok(found);
        }
        Err(io::Error::new(io::ErrorKind::NotFound, format!("{self} has ended")))
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)
    }
}

/// Of `/proc/<pid>/stat`, what is needed here.
struct Stat {
    state: char,
    start_time: u64,
}

impl Stat {
    fn read(pid: u32) -> io::Result<Self> {
        let text = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has an unknown form"))
        })
    }

    /// The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let state = fields.next()?.chars().next()?;
        // State is field 3, the start time field 22.
        let start_time = fields.nth(18)?.parse().ok()?;
        Some(Self { state, start_time })
    }

    fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

fn split(bytes: &[u8]) -> Vec<OsString> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(|part| OsString::from_vec(part.to_vec())).collect()
}

/// Reads the effective ids, the second of each line.
fn parse_credentials(status: &str) -> Option<Credentials> {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let effective = |name: &str| line(name)?.split_whitespace().nth(1)?.parse().ok();
    Some(Credentials {
        uid: effective("Uid:")?,
        gid: effective("Gid:")?,
        groups: line("Groups:")?.split_whitespace().map(|id| id.parse().ok()).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let rest = (4..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        for name in ["a", "a b", ") Z 1 (", "((", "))"] {
            let stat = Stat::parse(&format!("17 ({name}) S {rest}\n")).unwrap();
            assert_eq!((stat.state, stat.start_time), ('S', 22), "{name}");
        }
        assert!(Stat::parse("17 (a) S 1 2").is_none());
        assert!(Stat::parse("").is_none());
    }

    #[test]
    fn empty_arguments_are_kept() {
        assert_eq!(split(b"a\0\0b\0"), ["a", "", "b"]);
        assert_eq!(split(b""), Vec::<OsString>::new());
    }

    #[test]
    fn effective_ids_are_read() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n";
        assert_eq!(parse_credentials(status), Some(Credentials { uid: 2, gid: 6, groups: vec![9, 10] }));
        assert_eq!(parse_credentials("Uid:\t1\t2\nGid:\t1\t2\nGroups:\t\n").unwrap().groups, []);
        assert_eq!(parse_credentials("Uid:\t1\t2\n"), None);
    }

    #[test]
    fn our_own_process_is_described_as_we_know_it() {
        let own = Process::with_pid(std::process::id()).unwrap();
        assert!(own.is_alive());
        assert_eq!(own.args().unwrap(), std::env::args_os().collect::<Vec<_>>());
        assert_eq!(own.cwd().unwrap(), std::env::current_dir().unwrap());
        let exe = fs::metadata(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(own.exe_id().unwrap(), (exe.dev(), exe.ino()));
        assert_eq!(own.credentials().unwrap().uid, Credentials::own().unwrap().uid);
    }

    #[test]
    fn a_recycled_pid_is_another_process() {
        let own = Process::with_pid(std::process::id()).unwrap();
        let earlier = Process { start_time: own.start_time - 1, ..own };
        assert!(!earlier.is_alive());
        assert!(earlier.args().is_err());
        assert!(earlier.exe_id().is_err());
    }
}
