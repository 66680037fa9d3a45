//! Whether a store can take a build in: it can be written, what is in it can be executed, and nobody else decides
//! what that is.
//!
//! Whoever can write to the store, or rename a directory above it, chooses the program that is started next, often
//! as root. A digest does not help there: the slot that says it lies in the same place. So the store's directories
//! and all above them must belong to root or to us, and be writable by nobody else. Three cases are as they should
//! be: a directory with the sticky bit above the store, where others can add names but not move ours; root's own
//! group, since who is in it is as good as root to the files of a system; and any group of ours where we are not
//! root, as volumes of containers have it, mostly as a supplementary one.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, StatVfsMountFlags},
    io::Errno,
};

use crate::Store;

const BY_GROUP: u32 = 0o020;
const BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Why a store can take no build in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Its file system is mounted for reading only.
    #[error("store {}: expected to be writable, found a file system that is mounted read-only", path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// We may not write to it.
    #[error("store {}: expected to be writable for user {user}, who runs this, found it is not", path.display())]
    NotWritable {
        /// A directory of the store.
        path: PathBuf,
        /// Who we are.
        user: u32,
    },
    /// Its file system is mounted so that nothing on it can be executed.
    #[error("store {}: expected programs on it to be executable, found a file system that is mounted noexec", path.display())]
    NoExec {
        /// The store.
        path: PathBuf,
    },
    /// A directory belongs to somebody who could put another program in its place.
    #[error("{}: expected to belong to root or to user {user}, who runs this, found user {owner}", path.display())]
    Owner {
        /// A directory of the store or above it.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        user: u32,
    },
    /// A directory can be written by others, who could put another program in its place.
    #[error("{}: expected to be writable by its owner alone, found mode {mode:04o}", path.display())]
    Mode {
        /// A directory of the store or above it.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It could not be looked at.
    #[error("{} could not be looked at: {reason}", path.display())]
    Unknown {
        /// A directory of the store or above it.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
}

impl Unfit {
    /// What an operator can do about it.
    pub fn hint(&self) -> String {
        const DECIDES: &str = "whoever can write there decides which program runs";
        match self {
            Self::ReadOnly { .. } => {
                "mount it writable again; after a disk's error the kernel's log says what happened".to_owned()
            }
            Self::NotWritable { path, user } => {
                format!("chown {user} {}, or run this as its owner", path.display())
            }
            Self::NoExec { .. } => {
                "mount it without noexec, or set store.path to a file system where programs may be run"
                    .to_owned()
            }
            Self::Owner { path, user, .. } => format!("{DECIDES}: chown {user} {}", path.display()),
            Self::Mode { path, .. } => format!("{DECIDES}: chmod go-w {}", path.display()),
            Self::Unknown { .. } => "look at the disk and the permissions on the way there".to_owned(),
        }
    }
}

impl Store {
    /// Whether a build can be taken in. Changes nothing.
    ///
    /// # Errors
    /// The first thing that stands against it.
    pub fn fit(&self) -> Result<(), Unfit> {
        let root = self.root();
        let versions = self.versions_dir();
        let unknown = |path: &Path, reason: &dyn std::fmt::Display| Unfit::Unknown {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let user = rustix::process::geteuid().as_raw();
        for path in [root, &versions] {
            match rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => {}
                Err(Errno::ROFS) => return Err(Unfit::ReadOnly { path: path.to_owned() }),
                Err(Errno::ACCESS | Errno::PERM) => {
                    return Err(Unfit::NotWritable { path: path.to_owned(), user });
                }
                Err(error) => return Err(unknown(path, &error)),
            }
        }
        let mounted = rustix::fs::statvfs(&versions).map_err(|error| unknown(&versions, &error))?.f_flag;
        if mounted.contains(StatVfsMountFlags::NOEXEC) {
            return Err(Unfit::NoExec { path: root.to_owned() });
        }
        let us = Us { user, groups: groups().map_err(|error| unknown(root, &error))? };
        let ours = [(&*versions, Place::Within), (root, Place::Within)];
        // Both the way that is named and the way that links lead to.
        let real = root.canonicalize().map_err(|error| unknown(root, &error))?;
        let above = root.ancestors().skip(1).chain(real.ancestors().skip(1)).map(|path| (path, Place::Above));
        for (path, place) in ours.into_iter().chain(above) {
            let metadata = std::fs::metadata(path).map_err(|error| unknown(path, &error))?;
            let seen = Seen { owner: metadata.uid(), group: metadata.gid(), mode: metadata.mode() & 0o7777 };
            match seen.objection(place, &us) {
                None => {}
                Some(Objection::Owner) => {
                    return Err(Unfit::Owner { path: path.to_owned(), owner: seen.owner, user });
                }
                Some(Objection::Mode) => return Err(Unfit::Mode { path: path.to_owned(), mode: seen.mode }),
            }
        }
        Ok(())
    }
}

/// Where a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The store, or in it: a name that is added is already a slot or a journal.
    Within,
    /// On the way to the store.
    Above,
}

/// Who we are.
#[derive(Debug, Clone)]
struct Us {
    user: u32,
    /// The effective and the supplementary ones.
    groups: Vec<u32>,
}

/// Our groups. POSIX leaves open whether the effective one is among the supplementary ones.
fn groups() -> Result<Vec<u32>, Errno> {
    let supplementary = rustix::process::getgroups()?;
    let all = supplementary.into_iter().chain([rustix::process::getegid()]);
    Ok(all.map(rustix::process::Gid::as_raw).collect())
}

/// What was seen of a directory.
#[derive(Debug, Clone, Copy)]
struct Seen {
    owner: u32,
    group: u32,
    mode: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Objection {
    Owner,
    Mode,
}

impl Seen {
    fn objection(self, place: Place, us: &Us) -> Option<Objection> {
        if self.owner != 0 && self.owner != us.user {
            return Some(Objection::Owner);
        }
        if place == Place::Above && self.mode & STICKY != 0 {
            return None;
        }
        let our_group = self.group == 0 || (us.user != 0 && us.groups.contains(&self.group));
        let by_others = self.mode & BY_ALL != 0 || (self.mode & BY_GROUP != 0 && !our_group);
        by_others.then_some(Objection::Mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_may_decide_what_runs() {
        let root = &Us { user: 0, groups: vec![0, 50] };
        let user = &Us { user: 1000, groups: vec![2000, 2001, 1000] };
        let seen = |owner, group, mode| Seen { owner, group, mode };
        let (owner, mode) = (Some(Objection::Owner), Some(Objection::Mode));
        for (expected, dir, place, us) in [
            (None, seen(0, 0, 0o755), Place::Within, root),
            (None, seen(0, 0, 0o755), Place::Above, user),
            (None, seen(1000, 1000, 0o755), Place::Within, user),
            (owner, seen(1000, 1000, 0o755), Place::Within, root),
            (owner, seen(1000, 1000, 0o755), Place::Above, root),
            (owner, seen(1001, 1000, 0o755), Place::Within, user),
            (mode, seen(0, 0, 0o777), Place::Within, root),
            (mode, seen(0, 0, 0o777), Place::Above, root),
            // Root's own group may write, as directories of some images have it.
            (None, seen(0, 0, 0o775), Place::Within, root),
            (None, seen(0, 0, 0o775), Place::Above, user),
            // A group that root happens to be in is of others, too.
            (mode, seen(0, 50, 0o2775), Place::Above, root),
            // `/tmp`: others may add, and may not move what is ours. In the store a name that is added is a slot.
            (None, seen(0, 0, 0o1777), Place::Above, root),
            (mode, seen(0, 0, 0o1777), Place::Within, root),
            // A volume of a pod: root's, and writable by a group that the pod's processes are in.
            (None, seen(0, 1000, 0o2775), Place::Within, user),
            (None, seen(0, 2001, 0o2775), Place::Within, user),
            (mode, seen(0, 1001, 0o2775), Place::Within, user),
            (mode, seen(1000, 1000, 0o777), Place::Within, user),
        ] {
            assert_eq!(dir.objection(place, us), expected, "{dir:?} {place:?} {us:?}");
        }
    }
}
