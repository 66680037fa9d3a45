//! The store as everyone may see it: where things are, and what is there.
//!
//! Nothing here changes anything but [`Store::create`], which makes the empty layout. Everything that changes
//! a store is [`Writer`](crate::Writer)'s, and a writer is had by taking the lock.

use std::{
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::{
    Current, Slot, SlotName, StoreError,
    checks::Checks,
    current::{LINK, VERSIONS},
    durable::sync_dir,
    error::At as _,
    slot::{BIN, kind},
};

/// A directory of slots, a link to the current one, and what belongs to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    root: PathBuf,
    checks: Checks,
}

/// A slot's name as found on disk, and what it says it is.
pub type Listed = (SlotName, Result<Slot, StoreError>);

impl Store {
    /// Opens the store at `root`, making what is missing of its layout, readable by everyone. A relative
    /// path is taken from the working directory as it is now.
    ///
    /// # Errors
    /// When a directory cannot be made, or something else is in its place.
    pub fn create(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let store = Self::at(&root.into())?;
        if store.root.is_dir() {
            // Perhaps made by a run that died before this; what may not be synced was not made by us.
            let _ = store.root.parent().map(sync_dir);
        }
        make_path(&store.root)?;
        for dir in store.layout() {
            make_dir(&dir)?;
        }
        sync_dir(&store.root).at("sync", &store.root)?;
        Ok(store)
    }

    /// Opens the store at `root`, which must be there.
    ///
    /// # Errors
    /// When it is not there, or is not a store.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let store = Self::at(&root.into())?;
        require_dir(&store.versions_dir())?;
        Ok(store)
    }

    /// The store's directory, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the slots are.
    pub fn versions_dir(&self) -> PathBuf {
        self.root.join(VERSIONS)
    }

    /// Where downloads are that can be resumed.
    pub fn partial_dir(&self) -> PathBuf {
        self.root.join("partial")
    }

    /// Where deliveries arrive that need no network.
    pub fn inbox_dir(&self) -> PathBuf {
        self.root.join("inbox")
    }

    /// Where the journal is.
    pub fn journal_path(&self) -> PathBuf {
        self.root.join("journal.jsonl")
    }

    /// Where the status document is.
    pub fn status_path(&self) -> PathBuf {
        self.root.join("status.json")
    }

    /// Where the last words of programs are kept whose trials failed.
    pub fn logs_dir(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Where the last look at what is on offer is.
    pub fn look_path(&self) -> PathBuf {
        self.root.join("look.json")
    }

    /// Where the lock is.
    pub fn lock_path(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// The path, through `current`, that a unit or a supervisor starts.
    pub fn program(&self, binary_name: &str) -> PathBuf {
        self.root.join(LINK).join(BIN).join(binary_name)
    }

    /// What `current` names.
    ///
    /// # Errors
    /// When the link cannot be read; that there is none is no error.
    pub fn current(&self) -> Result<Current, StoreError> {
        Current::read(&self.root)
    }

    /// The slot that `current` names, if it is there and says what it is. Says nothing of its bytes.
    ///
    /// # Errors
    /// When the link cannot be read.
    pub fn current_slot(&self) -> Result<Option<Slot>, StoreError> {
        Ok(match self.current()? {
            Current::Slot(name) => self.slot(&name).ok(),
            Current::Absent | Current::Foreign { .. } => None,
        })
    }

    /// The slot `name`, if its manifest is there and belongs to it.
    ///
    /// # Errors
    /// [`StoreError::Absent`] when there is no such slot, another when it does not say what it is.
    pub fn slot(&self, name: &SlotName) -> Result<Slot, StoreError> {
        Slot::read(&self.versions_dir(), name, &self.checks)
    }

    /// What is known of the slots' integrity from earlier checks.
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Every slot, sorted by name; those that do not say what they are, too. What has no slot's name is not
    /// ours and not told.
    ///
    /// # Errors
    /// When the directory of the slots cannot be read.
    pub fn slots(&self) -> Result<Vec<Listed>, StoreError> {
        let slots = self.slot_names()?.into_iter().map(|name| {
            let slot = self.slot(&name);
            (name, slot)
        });
        Ok(slots.collect())
    }

    /// As [`available`], on the store's file system.
    ///
    /// # Errors
    /// When the file system cannot be asked.
    pub fn available(&self) -> io::Result<Option<u64>> {
        available(&self.root)
    }

    /// How many files and directories can still be made on the store's file system; `None` where it has no limit.
    ///
    /// # Errors
    /// When the file system cannot be asked.
    pub fn available_files(&self) -> io::Result<Option<u64>> {
        let stat = rustix::fs::statvfs(&self.root)?;
        Ok((stat.f_files > 0).then_some(stat.f_favail))
    }

    pub(crate) fn slot_names(&self) -> Result<Vec<SlotName>, StoreError> {
        let dir = self.versions_dir();
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&dir).at("list", &dir)? {
            let entry = entry.at("list", &dir)?;
            names.extend(entry.file_name().to_str().and_then(|name| name.parse::<SlotName>().ok()));
        }
        names.sort();
        Ok(names)
    }

    fn at(root: &Path) -> Result<Self, StoreError> {
        let root = std::path::absolute(root).at("make absolute", root)?;
        Ok(Self { root, checks: Checks::default() })
    }

    fn layout(&self) -> [PathBuf; 3] {
        [self.versions_dir(), self.partial_dir(), self.inbox_dir()]
    }
}

/// How many bytes an ordinary user can still write to the file system of `path`; `None` where it does not tell its
/// size, as network and overlay file systems may: such a one is not full.
///
/// # Errors
/// When the file system cannot be asked.
pub fn available(path: &Path) -> io::Result<Option<u64>> {
    let stat = rustix::fs::statvfs(path)?;
    Ok((stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// Makes a directory that everyone can enter, whatever the umask; one that is there is left as it is.
pub(crate) fn make_dir(path: &Path) -> Result<(), StoreError> {
    match std::fs::create_dir(path) {
        Ok(()) => {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).at("set the mode of", path)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => require_dir(path),
        Err(source) => Err(StoreError::Io { action: "make the directory", path: path.to_owned(), source }),
    }
}

/// Makes `path` and what is missing above it, each durable before the next.
fn make_path(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_path(parent)?;
        make_dir(path)?;
        return sync_dir(parent).at("sync", parent);
    }
    make_dir(path)
}

/// A link in a directory's place would lead the store's renames to another file system.
fn require_dir(path: &Path) -> Result<(), StoreError> {
    let metadata = std::fs::symlink_metadata(path).at("look at", path)?;
    if metadata.is_dir() {
        return Ok(());
    }
    Err(StoreError::NotADirectory { path: path.to_owned(), found: kind(metadata.file_type()) })
}
