//! Which processes run a file: by the device and inode of `/proc/<pid>/exe`, never by name or PID file.
//!
//! A file that was renamed or removed under a running process keeps its inode, so that the answer stays right
//! through a switch and a pruning. What this user may not see is not taken for absent: such a process is known
//! by the first 15 bytes of its program's name, which the kernel tells everyone, or not at all.

use std::{collections::HashMap, ffi::OsStr, fs, io, os::unix::ffi::OsStrExt as _, path::Path};

use crate::FileId;

const PROC: &str = "/proc";
/// The kernel keeps this much of a program's name.
const NAME_LENGTH: usize = 15;

/// The PIDs, in order, of the processes that run `file` and that this user may see. Zombies run nothing.
///
/// # Errors
/// When `/proc` is not there or cannot be read.
pub fn processes_running(file: FileId) -> io::Result<Vec<u32>> {
    let mut pids = Survey::take()?.seen.remove(&file).unwrap_or_default();
    pids.sort_unstable();
    Ok(pids)
}

/// The PIDs, in order, of everything that this user may see running, by the file that it runs: one look for
/// any number of files.
///
/// # Errors
/// When `/proc` is not there or cannot be read.
pub fn processes_by_file() -> io::Result<HashMap<FileId, Vec<u32>>> {
    let mut seen = Survey::take()?.seen;
    for pids in seen.values_mut() {
        pids.sort_unstable();
    }
    Ok(seen)
}

/// Every process at one time.
#[derive(Debug)]
pub(crate) struct Survey {
    seen: HashMap<FileId, Vec<u32>>,
    /// The names of processes whose program may not be seen; `None` where not even the name may.
    hidden: Vec<Option<Vec<u8>>>,
}

impl Survey {
    pub(crate) fn take() -> io::Result<Self> {
        Self::of(Path::new(PROC))
    }

    /// Surveys the processes told below `proc`.
    pub(crate) fn of(proc: &Path) -> io::Result<Self> {
        // An empty /proc says that nothing runs. Something does: this process.
        fs::metadata(proc.join("self/exe"))?;
        let mut survey = Self { seen: HashMap::new(), hidden: Vec::new() };
        for entry in fs::read_dir(proc)? {
            let entry = entry?;
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            match fs::metadata(entry.path().join("exe")) {
                Ok(metadata) => survey.seen.entry(FileId::from(&metadata)).or_default().push(pid),
                // A zombie, a kernel thread, or gone by now.
                Err(error) if gone(&error) => {}
                Err(_) => survey.hide(&entry.path()),
            }
        }
        Ok(survey)
    }

    fn hide(&mut self, process: &Path) {
        match fs::read(process.join("comm")) {
            Ok(name) => self.hidden.push(Some(name.trim_ascii_end().to_vec())),
            Err(error) if gone(&error) => {}
            Err(_) => self.hidden.push(None),
        }
    }

    /// Whether a process runs `file`, whose name is `name`, or cannot be seen not to.
    pub(crate) fn may_run(&self, file: FileId, name: &OsStr) -> bool {
        let name = &name.as_bytes()[..name.len().min(NAME_LENGTH)];
        self.seen.contains_key(&file)
            || self.hidden.iter().any(|hidden| hidden.as_deref().is_none_or(|hidden| hidden == name))
    }
}

fn gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}
