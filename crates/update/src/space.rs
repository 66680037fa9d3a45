//! Space: what an update will write is known, and found to fit, before its first byte.
//!
//! A disk that fills up in the middle takes more with it than an update: the journal's lines, what the program
//! itself wants to write. So the rest of the download and the program are added up and held against what is free.
//! While the archive is not here its program can only be estimated; once it is, its own entry says exactly. Where it
//! does not fit, what nothing needs any more goes first, and only then is the update refused. A guess refuses little:
//! a program is taken for as large as the current one, and what that leaves out is found at the exact check, which
//! keeps the download. A file system that does not tell what is free, or a quota behind its back, refuses later, in
//! the middle; what was downloaded stays, unless it is of unknown size and stands in its own way.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::{
    chain::Updater,
    outcome::{Refusal, RefusalKind, Stage},
    ports::{Offer, Outstanding, SourceError},
};

/// For what is written besides: journal, `slot.json`, `status.json`, directories. All of it is some KiB.
const BESIDES: u64 = 1 << 20;
/// Files and directories that an update makes, with some to spare.
const FILES: u64 = 16;

/// What is still to be written, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Need {
    /// The rest of the archive; `None` where nobody says how large it is.
    download: Option<u64>,
    program: Program,
}

/// The unpacked program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Exactly(u64),
    About(u64),
    /// The archive is here: it says itself, when it may be opened.
    ToBeSeen,
}

impl Need {
    /// Before a download of an archive of which so much is outstanding, where the current program, if there is one,
    /// is so large. Without one, the program is at least as large as what it is packed in.
    fn before_download(outstanding: Option<&Outstanding>, current: Option<u64>) -> Self {
        let known = outstanding.and_then(|known| Some((known.archive?, known.here)));
        let Some((archive, here)) = known else {
            return Self { download: None, program: Program::About(current.unwrap_or(0)) };
        };
        let download = archive.saturating_sub(here);
        let program =
            if download == 0 { Program::ToBeSeen } else { Program::About(current.unwrap_or(archive)) };
        Self { download: Some(download), program }
    }

    fn bytes(self) -> u64 {
        let program = match self.program {
            Program::Exactly(bytes) | Program::About(bytes) => bytes,
            Program::ToBeSeen => 0,
        };
        self.download.unwrap_or(0).saturating_add(program).saturating_add(BESIDES)
    }

    fn parts(self) -> String {
        let download = match self.download {
            None => Some("the download (of a size that is not told)".to_owned()),
            Some(0) => None,
            Some(bytes) => Some(format!("the download ({})", at_least(bytes))),
        };
        let program = match self.program {
            Program::Exactly(bytes) => Some(format!("the unpacked program ({})", at_least(bytes))),
            Program::About(bytes) => Some(format!("the unpacked program (about {})", at_least(bytes))),
            Program::ToBeSeen => None,
        };
        let parts: Vec<_> = download.into_iter().chain(program).collect();
        let besides = at_least(BESIDES);
        if parts.is_empty() { besides } else { format!("{} and {besides} besides", parts.join(", ")) }
    }
}

/// What a disk has left.
#[derive(Debug, Clone, Copy)]
struct Free {
    bytes: Option<u64>,
    files: Option<u64>,
}

impl Updater {
    /// Whether all that `offer` will have written fits.
    ///
    /// # Errors
    /// With the refusal where it does not; with the source's error where that cannot be asked.
    pub(crate) async fn has_room_for(&self, offer: &Offer) -> Result<(), RoomError> {
        let partial = self.store.partial_dir();
        let outstanding = self.ports.source.outstanding(offer, &partial).await.map_err(RoomError::Source)?;
        let current = self.store.current_slot().ok().flatten();
        let current = current.and_then(|slot| fs::metadata(slot.program()).ok()).map(|file| file.len());
        let need = Need::before_download(outstanding.as_ref(), current);
        let keep = outstanding.map(|outstanding| outstanding.file);
        self.require(Stage::Obtain, need, keep.as_deref()).map_err(RoomError::Refused)
    }

    /// Whether a program of `length` bytes fits, out of the archive at `archive`.
    pub(crate) fn has_room_for_program(&self, length: u64, archive: &Path) -> Result<(), Refusal> {
        let need = Need { download: Some(0), program: Program::Exactly(length) };
        self.require(Stage::Stage, need, Some(archive))
    }

    /// Makes room where there is too little by removing what nothing needs: slots, and the downloads beside `keep`,
    /// where that is known. Where an archive of unknown size left no room for its program, what there is of it goes
    /// as well: kept, it would stand in its own way for ever.
    fn require(&self, stage: Stage, need: Need, keep: Option<&Path>) -> Result<(), Refusal> {
        if self.shortage(need, self.free()).is_none() {
            return Ok(());
        }
        self.prune();
        if let Some(keep) = keep {
            remove_all_but(keep, &self.store.partial_dir());
            if need.download.is_none() && self.shortage(need, self.free()).is_some() {
                remove_download(keep);
            }
        }
        match self.shortage(need, self.free()) {
            None => Ok(()),
            Some(reason) => {
                Err(Refusal { stage, kind: RefusalKind::Environment, reason, hint: self.room_hint() })
            }
        }
    }

    fn free(&self) -> Free {
        Free {
            bytes: self.store.available().ok().flatten(),
            files: self.store.available_files().ok().flatten(),
        }
    }

    fn shortage(&self, need: Need, free: Free) -> Option<String> {
        let store = self.store.root().display();
        if let Some(found) = free.bytes.filter(|found| *found < need.bytes()) {
            let (expected, parts, found) = (at_least(need.bytes()), need.parts(), at_most(found));
            return Some(format!("expected {expected} free at {store} for {parts}, found {found}"));
        }
        let found = free.files.filter(|found| *found < FILES)?;
        Some(format!("expected room for {FILES} more files at {store}, found room for {found} (inodes)"))
    }

    fn room_hint(&self) -> String {
        let store = self.store.root().display();
        let current = self.store.current_slot().ok().flatten();
        let current = current.as_ref().map(myriarch_store::Slot::name);
        let kept = self.store.slots().unwrap_or_default().into_iter().filter_map(|(name, slot)| {
            let length = fs::metadata(slot.ok()?.program()).ok()?.len();
            (Some(&name) != current).then(|| format!("{name} ({})", at_most(length)))
        });
        let kept: Vec<_> = kept.collect();
        match kept.len() {
            0 => format!("free space at {store}"),
            _ => format!(
                "free space at {store}, or lower store.keep from {}: kept as ways back are {}",
                self.settings.keep,
                kept.join(", ")
            ),
        }
    }
}

/// No room, or nobody to ask for how much is needed.
#[derive(Debug)]
pub(crate) enum RoomError {
    Refused(Refusal),
    Source(SourceError),
}

/// Removes the files in `directory` but `keep` and what lies beside it under its name.
fn remove_all_but(keep: &Path, directory: &Path) {
    remove(directory, |name| keep.file_name().is_some_and(|kept| !is_under(name, kept)));
}

/// Removes the download at `path` and what lies beside it under its name.
fn remove_download(path: &Path) {
    if let (Some(directory), Some(gone)) = (path.parent(), path.file_name()) {
        remove(directory, |name| is_under(name, gone));
    }
}

fn is_under(name: &OsStr, download: &OsStr) -> bool {
    name.as_bytes().starts_with(download.as_bytes())
}

fn remove(directory: &Path, which: impl Fn(&OsStr) -> bool) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let gone: Vec<PathBuf> =
        entries.filter(|entry| which(&entry.file_name())).map(|entry| entry.path()).collect();
    for path in gone {
        // What cannot be removed gives no room, which is then said.
        let _ = fs::remove_file(path);
    }
}

/// Bytes in tenths of a MiB, rounded up, as what is needed is told.
fn at_least(bytes: u64) -> String {
    mebibytes((u128::from(bytes) * 10).div_ceil(1 << 20))
}

/// Bytes in tenths of a MiB, rounded down, as what is there is told.
fn at_most(bytes: u64) -> String {
    mebibytes(u128::from(bytes) * 10 / (1 << 20))
}

fn mebibytes(tenths: u128) -> String {
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn outstanding(archive: u64, here: u64) -> Outstanding {
        Outstanding { archive: Some(archive), here, file: PathBuf::from("/s/partial/x") }
    }

    #[test]
    fn the_rest_of_the_download_the_program_and_some_besides_are_needed() {
        for (archive, here, current, expected, parts) in [
            // Nothing is installed: a program is not smaller than what it is packed in.
            (
                100,
                0,
                None,
                201,
                "the download (100.0 MiB), the unpacked program (about 100.0 MiB) and 1.0 MiB besides",
            ),
            (
                100,
                40,
                Some(350),
                411,
                "the download (60.0 MiB), the unpacked program (about 350.0 MiB) and 1.0 MiB besides",
            ),
            // Badly compressed or not: no guess refuses what would fit.
            (
                100,
                0,
                Some(110),
                211,
                "the download (100.0 MiB), the unpacked program (about 110.0 MiB) and 1.0 MiB besides",
            ),
            (100, 100, Some(350), 1, "1.0 MiB"),
            (100, 120, None, 1, "1.0 MiB"),
        ] {
            let known = outstanding(archive * MIB, here * MIB);
            let need = Need::before_download(Some(&known), current.map(|current| current * MIB));
            assert_eq!((need.bytes(), &*need.parts()), (expected * MIB, parts));
        }
    }

    #[test]
    fn no_length_overflows() {
        let need = Need::before_download(Some(&outstanding(u64::MAX, 0)), None);
        assert_eq!(need.bytes(), u64::MAX);
    }

    #[test]
    fn where_nobody_says_how_large_the_archive_is_the_current_program_counts() {
        let need = Need::before_download(None, Some(350 * MIB));
        let silent = Outstanding { archive: None, ..outstanding(0, 40 * MIB) };
        assert_eq!(Need::before_download(Some(&silent), Some(350 * MIB)), need);
        let parts = "the download (of a size that is not told), the unpacked program (about 350.0 MiB) and 1.0 MiB besides";
        assert_eq!((need.bytes(), &*need.parts()), (351 * MIB, parts));
    }

    #[test]
    fn what_is_needed_is_rounded_up_and_what_is_there_down() {
        assert_eq!(
            (at_least(5 * MIB + 1), at_most(5 * MIB - 1)),
            ("5.1 MiB".to_owned(), "4.9 MiB".to_owned())
        );
        assert_eq!((at_least(5 * MIB), at_most(5 * MIB)), ("5.0 MiB".to_owned(), "5.0 MiB".to_owned()));
        assert_eq!((at_least(1), at_most(1)), ("0.1 MiB".to_owned(), "0.0 MiB".to_owned()));
        assert_eq!(at_least(u64::MAX), "17592186044416.0 MiB");
    }

    #[test]
    fn only_other_downloads_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let names = ["a-new.tar.gz", "a-new.tar.gz.origin", "b-old.tar.gz", "b-old.tar.gz.origin"];
        for name in names {
            fs::write(directory.path().join(name), "x").unwrap();
        }
        fs::create_dir(directory.path().join("directory")).unwrap();
        remove_all_but(&directory.path().join(names[0]), directory.path());
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a-new.tar.gz", "a-new.tar.gz.origin", "directory"]);
        remove_download(&directory.path().join(names[0]));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "the directory alone is left");
    }
}
