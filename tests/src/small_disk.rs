//! Small disks of a test's own, which vanish with it.
//!
//! A test that needs one runs again as a process of its own in a private mount namespace: what it mounts there
//! nobody else sees, and nothing is left of it when the last process in there has ended, however that happens.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::shared;

const INSIDE: &str = "MYRIARCH_SMALL_DISK";

/// Whether this is the process in which `test` can mount. If not, it has run there, or is skipped without root.
///
/// # Panics
///
/// When the test failed in there.
pub fn can_be_mounted_in(test: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let private = ["--mount", "--propagation", "private"];
    let probe = Command::new("unshare").args(private).args(["mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        shared::skip(test, "no disk can be mounted in a namespace of its own, which takes root");
        return false;
    }
    let exe = env::current_exe().expect("this program");
    // In there a directory with a disk on it cannot be removed; out here it can.
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new("unshare")
        .args(private)
        .arg(exe)
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .env("TMPDIR", temporary.path())
        .output()
        .expect("unshare runs");
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{words}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(words.contains("1 passed"), "{words}");
    false
}

/// An empty disk in memory.
#[derive(Debug)]
pub struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    /// Mounts one of `mib` mebibytes at `at`, which is made if it is not there.
    pub fn at(at: &Path, mib: u64) -> Self {
        Self::with_options(at, &format!("size={mib}m"))
    }

    /// As [`at`](Self::at), with these options of tmpfs (tmpfs(5)).
    pub fn with_options(at: &Path, options: &str) -> Self {
        fs::create_dir_all(at).expect("a directory");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("mode=755,{options}"), "none"])
            .arg(at)
            .status();
        assert!(mount.is_ok_and(|status| status.success()), "a disk can be mounted at {}", at.display());
        Self { at: at.to_owned() }
    }

    /// Bytes that are free.
    pub fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.at).expect("the disk says what is free");
        disk.f_bavail * disk.f_frsize
    }

    /// Takes room until `left` bytes are free; it is given back by [`give_back`](Self::give_back).
    pub fn fill(&self, left: u64) {
        let file = fs::File::options().create(true).append(true).open(self.filling()).expect("a file");
        let length = file.metadata().expect("its length").len();
        let more = self.free().saturating_sub(left);
        let plain = rustix::fs::FallocateFlags::empty();
        if more > 0 {
            rustix::fs::fallocate(&file, plain, length, more).expect("room that is free can be taken");
        }
    }

    /// Takes all the room there is while others take it, too.
    pub fn fill_greedily(&self) {
        let file = fs::File::options().create(true).append(true).open(self.filling()).expect("a file");
        let plain = rustix::fs::FallocateFlags::empty();
        let mut length = file.metadata().expect("its length").len();
        let mut piece = 16 << 20;
        while piece >= 4096 {
            match rustix::fs::fallocate(&file, plain, length, piece) {
                Ok(()) => length += piece,
                Err(_) => piece /= 2,
            }
        }
    }

    /// Gives back what was taken.
    pub fn give_back(&self) {
        let _ = fs::remove_file(self.filling());
    }

    fn filling(&self) -> PathBuf {
        self.at.join("somebody-elses")
    }
}
