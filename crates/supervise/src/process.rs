//! Processes as `/proc` shows them, each named so that it cannot be mistaken for a later one.

use std::{fmt, fs, io, os::unix::fs::MetadataExt, path::PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// A process: its id, and the tick since boot at which it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    pid: u32,
    start_time: u64,
}

impl Process {
    /// The process that had `pid` and started at `start_time` (clock ticks since boot), whether it still runs or
    /// not.
    pub fn new(pid: u32, start_time: u64) -> Self {
        Self { pid, start_time }
    }

    /// The process that has `pid` now.
    ///
    /// # Errors
    ///
    /// When there is none, or `/proc` cannot be read.
    pub fn with_pid(pid: u32) -> io::Result<Self> {
        Ok(Self { pid, start_time: Stat::read(pid)?.start_time })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// When it started, in clock ticks since boot.
    pub fn start_time(&self) -> u64 {
        self.start_time
    }

    /// Whether it still runs. One that has ended and is not collected yet holds nothing any more and does not.
    pub fn is_alive(&self) -> bool {
        self.stat().is_some_and(|stat| !stat.is_over())
    }

    /// The path of its executable file, without the kernel's mark of a removed one.
    pub(crate) fn exe(&self) -> io::Result<PathBuf> {
        let path = fs::read_link(format!("/proc/{}/exe", self.pid))?;
        if !self.is_alive() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{self} has ended")));
        }
        let text = path.to_str().and_then(|text| text.strip_suffix(" (deleted)"));
        Ok(text.map_or_else(|| path.clone(), PathBuf::from))
    }

    /// What `/proc` says of it, if it is there at all.
    pub(crate) fn stat(&self) -> Option<Stat> {
        Stat::read(self.pid).ok().filter(|stat| stat.start_time == self.start_time)
    }

    /// Sends `signal` to this process and no other: the id is tied to the process before it is checked.
    ///
    /// Says whether there was one to send it to.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return false };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => self.is_alive() && pidfd_send_signal(fd, signal).is_ok(),
            // A kernel before 5.3 or a sandbox without pidfds: as close together as can be.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
                self.is_alive() && kill_process(pid, signal).is_ok()
            }
            Err(_) => false,
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)
    }
}

/// Of `/proc/<pid>/stat` (see proc(5)), what is needed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) start_time: u64,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> io::Result<Self> {
        let text = fs::read(format!("/proc/{pid}/stat"))?;
        Self::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has an unknown form"))
        })
    }

    /// The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        Some(Self {
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            // The state is field 3, the group 5, the start time 22.
            start_time: fields.nth(16)?.parse().ok()?,
        })
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Every process there is, with what `/proc` says of it; one that ends meanwhile is left out.
pub(crate) fn all() -> io::Result<Vec<(Process, Stat)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Ok(stat) = Stat::read(pid) {
            found.push((Process { pid, start_time: stat.start_time }, stat));
        }
    }
    Ok(found)
}

/// An id of this boot and this set of process ids: neither means anything in another.
pub(crate) fn epoch() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino());
    format!("{}/{namespace}", boot.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let rest = (4..=52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        for name in ["a", "a b", ") Z 1 (", "((", "))"] {
            let stat = Stat::parse(&format!("17 ({name}) S {rest}\n"));
            let expected = Stat { state: 'S', parent: 4, group: 5, start_time: 22 };
            assert_eq!(stat, Some(expected), "{name}");
        }
        assert_eq!(Stat::parse("17 (a) S 1 2"), None);
    }

    #[test]
    fn a_recycled_pid_is_another_process_and_gets_no_signal() {
        let own = Process::with_pid(std::process::id()).unwrap();
        assert!(own.is_alive());
        let earlier = Process::new(own.pid(), own.start_time() - 1);
        assert!(!earlier.is_alive());
        assert!(!earlier.signal(Signal::KILL));
    }
}
