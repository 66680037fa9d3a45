//! What nothing needs any more is removed; everything that is doubtful stays.
//!
//! What is needed is told by the caller, by `current` and by the processes that run, each asked now: a journal
//! may lie about what runs, an inode does not. A slot leaves `versions` by one rename before anything in it is
//! removed, so that a half-removed one is never taken for a slot.

use std::{collections::BTreeSet, fs, io, path::Path};

use crate::{
    SlotName, StoreError, Writer,
    current::NEXT,
    durable::{STAGING, sync_dir},
    error::At as _,
    running::Survey,
    slot::BIN,
    staging::Scratch,
    writer::remove_if_there,
};

impl Writer {
    /// Removes every slot but those in `keep`, the one that `current` names and those whose program a process
    /// runs; answers which it removed. What has no slot's name is left alone.
    ///
    /// # Errors
    /// When it cannot be told what `current` names or what runs: then nothing is removed. When the disk says
    /// no on the way, what was not removed is still a slot.
    pub fn prune(&self, keep: &BTreeSet<SlotName>) -> Result<Vec<SlotName>, StoreError> {
        self.prune_by(keep, Survey::take())
    }

    /// Removes what was being staged or switched when an earlier writer ended; answers how many things it
    /// removed. For the start of a run: what this writer itself is staging is removed too.
    ///
    /// # Errors
    /// When the disk says no.
    pub fn sweep(&self) -> Result<usize, StoreError> {
        let root = self.root();
        let mut removed = 0;
        for entry in fs::read_dir(root).at("list", root)? {
            let entry = entry.at("list", root)?;
            let name = entry.file_name();
            let left_over = name.to_str().is_some_and(|name| {
                name == NEXT || name.starts_with(STAGING) || name.contains(&format!(".{STAGING}"))
            });
            if !left_over {
                continue;
            }
            let path = entry.path();
            if entry.file_type().at("look at", &path)?.is_dir() {
                fs::remove_dir_all(&path).at("remove", &path)?;
            } else {
                remove_if_there(&path)?;
            }
            removed += 1;
        }
        Ok(removed)
    }

    fn prune_by(
        &self,
        keep: &BTreeSet<SlotName>,
        survey: io::Result<Survey>,
    ) -> Result<Vec<SlotName>, StoreError> {
        let survey = survey.at("learn what runs from", Path::new("/proc"))?;
        let versions = self.versions_dir();
        let mut doomed = Vec::new();
        for name in self.slot_names()?.into_iter().filter(|name| !keep.contains(name)) {
            if !self.is_current(&name)? && !runs(&versions.join(name.as_str()), &survey)? {
                doomed.push(name);
            }
        }
        for name in &doomed {
            let moved = Scratch::from_rename(self.root(), &versions.join(name.as_str()))?;
            sync_dir(&versions).at("sync", &versions)?;
            drop(moved);
        }
        Ok(doomed)
    }
}

/// Whether any program in the slot runs, or cannot be seen not to. The manifest is not asked for its name: it
/// may be what is damaged.
fn runs(slot: &Path, survey: &Survey) -> Result<bool, StoreError> {
    let bin = slot.join(BIN);
    let entries = match fs::read_dir(&bin) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        Err(source) => return Err(StoreError::Io { action: "list", path: bin, source }),
    };
    for entry in entries {
        let entry = entry.at("list", &bin)?;
        let metadata = entry.metadata().at("look at", &entry.path())?;
        if survey.may_run((&metadata).into(), &entry.file_name()) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use myriarch_verify::Digest;

    use super::*;
    use crate::{Manifest, Store};

    /// A store with one slot that nothing needs.
    fn writer_with_one_slot(root: &Path) -> Writer {
        let writer = Store::create(root).unwrap().lock("test").unwrap();
        let mut staging = writer.staging("otelcol-contrib").unwrap();
        staging.write_all(b"program").unwrap();
        let manifest = |binary| Manifest {
            schema: Manifest::SCHEMA,
            name: "otelcol-contrib".to_owned(),
            version: "1.2.3".to_owned(),
            binary,
            archive: Digest::of(b"archive"),
            evidence: serde_json::Value::Null,
            source: String::new(),
            staged_at: String::new(),
        };
        writer.publish(staging, manifest).unwrap();
        writer
    }

    /// A `/proc` in which this process may be seen and `name` may not: what an ordinary user sees.
    fn proc_with_hidden(dir: &Path, name: Option<&str>) {
        fs::create_dir_all(dir.join("self")).unwrap();
        fs::write(dir.join("self/exe"), "").unwrap();
        fs::create_dir_all(dir.join("7")).unwrap();
        // A link to itself: looking through it fails, and not because it is not there.
        std::os::unix::fs::symlink("exe", dir.join("7/exe")).unwrap();
        match name {
            Some(name) => fs::write(dir.join("7/comm"), format!("{name}\n")).unwrap(),
            None => std::os::unix::fs::symlink("comm", dir.join("7/comm")).unwrap(),
        }
    }

    #[test]
    fn nothing_is_removed_when_it_cannot_be_told_what_runs() {
        let dir = tempfile::tempdir().unwrap();
        let writer = writer_with_one_slot(&dir.path().join("store"));
        for proc in [dir.path().join("missing"), dir.path().to_owned()] {
            writer.prune_by(&BTreeSet::new(), Survey::of(&proc)).unwrap_err();
            assert_eq!(writer.slots().unwrap().len(), 1);
        }
    }

    #[test]
    fn a_process_that_may_not_be_seen_keeps_what_bears_its_name() {
        for (name, removed) in
            [(Some("otelcol-contrib"), 0), (Some("systemd"), 1), (Some("otelcol"), 1), (None, 0)]
        {
            let dir = tempfile::tempdir().unwrap();
            let writer = writer_with_one_slot(&dir.path().join("store"));
            proc_with_hidden(&dir.path().join("proc"), name);
            let survey = Survey::of(&dir.path().join("proc"));
            assert_eq!(writer.prune_by(&BTreeSet::new(), survey).unwrap().len(), removed, "{name:?}");
        }
    }
}
