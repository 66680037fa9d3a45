//! What an import changed, written down before it is changed, and the way back from it.
//!
//! `import.json` in the store names every file with the digest of what it was and of what it becomes; what it was
//! is kept beside it. So an import that was killed is undone from the record alone, and a file that somebody
//! changed since is seen and never overwritten blindly. Where the edit was one scalar of somebody's own file, it
//! alone is put back, and what else was changed since stays.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use myriarch_store::durable::{self, Owner};
use myriarch_verify::Digest;
use serde::{Deserialize, Serialize};

use super::{
    content::{Content, named},
    supervisor_file,
};

const SCHEMA: u32 = 1;
const FILE: &str = "import.json";
const MODE: u32 = 0o644;
/// A copy of somebody's configuration may hold secrets.
const BACKUP_MODE: u32 = 0o600;

/// A file as it is going to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: PathBuf,
    pub(crate) after: String,
    pub(crate) kind: Kind,
}

/// What a change does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It makes a file that was not there.
    New,
    /// As [`Kind::New`], and other imports may need it as well.
    Shared,
    /// It replaces one scalar, and nothing else.
    Scalar {
        /// As it was written.
        before: String,
        /// As it is written then.
        after: String,
        /// The whole file from which that was worked out.
        of: Digest,
    },
}

/// The record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    schema: u32,
    pub(crate) state: State,
    pub(crate) unit: String,
    /// The program that was taken over.
    pub(crate) program: PathBuf,
    /// Whether the unit ran when the import began.
    pub(crate) was_active: bool,
    pub(crate) files: Vec<FileRecord>,
    /// Directories that were made for them, the inner ones last.
    directories: Vec<PathBuf>,
}

/// How far an import came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// Files are being written.
    Writing,
    /// All is written and, where the unit ran, it was seen to be well.
    Done,
    /// Files are being put back.
    Undoing,
}

/// One file of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    pub(crate) path: PathBuf,
    before: Option<Before>,
    after: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scalar: Option<Scalar>,
    /// Whether other imports may need it.
    #[serde(default)]
    shared: bool,
}

/// A file as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Before {
    sha256: Digest,
    mode: u32,
    uid: u32,
    gid: u32,
    backup: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Scalar {
    before: String,
    after: String,
}

/// A file that cannot be put back.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// What was expected and what was found.
    pub(crate) reason: String,
    /// What puts it back by hand.
    pub(crate) remedy: String,
}

/// What has to be done to a file to put it back.
enum Back {
    Nothing,
    Remove,
    Write(Content),
}

/// Every file as an import left it, so that an undo that fails can be taken back.
#[derive(Debug)]
pub(crate) struct AsLeft(Vec<Option<Content>>);

impl Record {
    /// The record in `store`, if there is one.
    pub(crate) fn read(store: &Path) -> io::Result<Option<Self>> {
        let path = store.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(named(&path, &error)),
        };
        let record: Self = serde_json::from_slice(&bytes).map_err(|error| named(&path, &error.into()))?;
        if record.schema != SCHEMA {
            let words = format!("{}: expected schema {SCHEMA}, found {}", path.display(), record.schema);
            return Err(io::Error::other(words));
        }
        Ok(Some(record))
    }

    /// Writes down what `changes` are going to do, keeping what is there now; changes nothing else.
    pub(crate) fn begin(
        store: &Path,
        unit: &str,
        program: &Path,
        was_active: bool,
        changes: &[Change],
    ) -> io::Result<Self> {
        let mut files = Vec::new();
        let mut directories: Vec<PathBuf> = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            let found = Content::read(&change.path)?;
            let planned = match &change.kind {
                Kind::Scalar { of, .. } => Some(*of),
                Kind::New | Kind::Shared => None,
            };
            if found.as_ref().map(Content::digest) != planned {
                return Err(changed_meanwhile(&change.path));
            }
            let before = match found {
                Some(Content { bytes, mode, owner: Owner { uid, gid } }) => {
                    let backup = store.join(format!("import.{index}.before"));
                    durable::replace(&backup, &bytes, BACKUP_MODE)?;
                    Some(Before { sha256: Digest::of(&bytes), mode, uid, gid, backup })
                }
                None => None,
            };
            let missing = change.path.ancestors().skip(1).take_while(|directory| !directory.exists());
            let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
            missing.retain(|directory| !directories.contains(directory));
            directories.extend(missing.into_iter().rev());
            let scalar = match &change.kind {
                Kind::Scalar { before, after, .. } => {
                    Some(Scalar { before: before.clone(), after: after.clone() })
                }
                Kind::New | Kind::Shared => None,
            };
            files.push(FileRecord {
                path: change.path.clone(),
                before,
                after: Digest::of(change.after.as_bytes()),
                scalar,
                shared: change.kind == Kind::Shared,
            });
        }
        let (unit, program) = (unit.to_owned(), program.to_owned());
        let record =
            Self { schema: SCHEMA, state: State::Writing, unit, program, was_active, files, directories };
        record.write(store)?;
        Ok(record)
    }

    /// Carries `changes`, of which this is the record, out. A file that is not as the record has it is left alone.
    pub(crate) fn apply(&self, changes: &[Change]) -> io::Result<()> {
        self.make_directories()?;
        for (file, change) in self.files.iter().zip(changes) {
            let found = Content::read(&file.path)?;
            if found.as_ref().map(Content::digest) != file.before.as_ref().map(|before| before.sha256) {
                return Err(changed_meanwhile(&file.path));
            }
            file.content(change.after.as_bytes().to_vec()).write(&file.path)?;
        }
        Ok(())
    }

    /// Whether every file still is as the import left it; an edit elsewhere in somebody's own file aside.
    pub(crate) fn is_applied(&self) -> io::Result<bool> {
        for file in &self.files {
            let Some(found) = Content::read(&file.path)? else { return Ok(false) };
            if found.digest() != file.after && !file.names_ours(&found.bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every file as it is now.
    pub(crate) fn as_left(&self) -> io::Result<AsLeft> {
        Ok(AsLeft(self.files.iter().map(|file| Content::read(&file.path)).collect::<io::Result<_>>()?))
    }

    /// Takes an undo back: every file is again as it was before it.
    pub(crate) fn apply_again(&mut self, store: &Path, left: AsLeft) -> io::Result<()> {
        self.make_directories()?;
        for (file, content) in self.files.iter().zip(left.0) {
            if let Some(content) = content {
                content.write(&file.path)?;
            }
        }
        self.set(store, State::Done)
    }

    pub(crate) fn set(&mut self, store: &Path, state: State) -> io::Result<()> {
        self.state = state;
        self.write(store)
    }

    /// Puts every file back, and says in the record that this has begun. Nothing is touched where one of them was
    /// changed since.
    pub(crate) fn put_back(
        &mut self,
        store: &Path,
        is_needed_elsewhere: bool,
    ) -> io::Result<Result<(), Vec<Conflict>>> {
        let (mut backs, mut conflicts) = (Vec::new(), Vec::new());
        for file in &self.files {
            match file.way_back(is_needed_elsewhere)? {
                Ok(back) => backs.push((file, back)),
                Err(conflict) => conflicts.push(conflict),
            }
        }
        if !conflicts.is_empty() {
            return Ok(Err(conflicts));
        }
        let backs: Vec<_> = backs.into_iter().map(|(file, back)| (file.path.clone(), back)).collect();
        self.set(store, State::Undoing)?;
        // The last change goes first.
        for (path, back) in backs.into_iter().rev() {
            match back {
                Back::Nothing => {}
                Back::Remove => fs::remove_file(&path).map_err(|error| named(&path, &error))?,
                Back::Write(content) => content.write(&path)?,
            }
        }
        for directory in self.directories.iter().rev() {
            // One that somebody else uses by now is not empty, and stays.
            let _ = fs::remove_dir(directory);
        }
        Ok(Ok(()))
    }

    /// Forgets the import, the copies with it.
    pub(crate) fn forget(&self, store: &Path) -> io::Result<()> {
        let path = store.join(FILE);
        fs::remove_file(&path).map_err(|error| named(&path, &error))?;
        for before in self.files.iter().filter_map(|file| file.before.as_ref()) {
            let _ = fs::remove_file(&before.backup);
        }
        Ok(())
    }

    fn make_directories(&self) -> io::Result<()> {
        for directory in &self.directories {
            match fs::create_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(named(directory, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn write(&self, store: &Path) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        durable::replace(&store.join(FILE), &bytes, MODE)
    }
}

impl FileRecord {
    /// `bytes` for the owner of before and with its mode.
    fn content(&self, bytes: Vec<u8>) -> Content {
        match &self.before {
            Some(before) => {
                Content { bytes, mode: before.mode, owner: Owner { uid: before.uid, gid: before.gid } }
            }
            None => Content { bytes, mode: MODE, owner: Owner::ours() },
        }
    }

    fn way_back(&self, is_needed_elsewhere: bool) -> io::Result<Result<Back, Conflict>> {
        let path = self.path.display();
        let changed = |remedy: String| {
            let reason = format!("{path}: expected it as the import left it, found it changed since");
            Ok(Err(Conflict { reason, remedy }))
        };
        // A link is nothing of ours, and what it leads to even less.
        if self.path.is_symlink() {
            return changed(format!("`rm {path}`"));
        }
        let now = Content::read(&self.path)?;
        let Some(before) = &self.before else {
            return match now {
                None => Ok(Ok(Back::Nothing)),
                Some(_) if self.shared && is_needed_elsewhere => Ok(Ok(Back::Nothing)),
                Some(now) if now.digest() == self.after => Ok(Ok(Back::Remove)),
                Some(_) => changed(format!("`rm {path}`")),
            };
        };
        let was = |bytes: Vec<u8>| {
            let content = self.content(bytes);
            if now.as_ref() == Some(&content) { Back::Nothing } else { Back::Write(content) }
        };
        let found = now.as_ref().map(Content::digest);
        if let Some(now) = now.as_ref().filter(|_| found == Some(before.sha256)) {
            return Ok(Ok(was(now.bytes.clone())));
        }
        // What is put back must be what was there, to the byte.
        let kept = fs::read(&before.backup).ok().filter(|bytes| Digest::of(bytes) == before.sha256);
        let alone = now.as_ref().and_then(|now| self.scalar_alone(now));
        match (kept, alone) {
            (Some(bytes), _) if found.is_none() || found == Some(self.after) => Ok(Ok(was(bytes))),
            // The copy is not needed where the one scalar is still ours.
            (_, Some(back)) => Ok(Ok(back)),
            (Some(_), None) => changed(format!("`cp {} {path}`", before.backup.display())),
            (None, None) => Ok(Err(Conflict {
                reason: format!(
                    "{path}: expected its copy {} as it was before the import, found it damaged",
                    before.backup.display()
                ),
                remedy: match &self.scalar {
                    Some(scalar) => {
                        format!("write {path} by hand, with agent.executable: {}", scalar.before)
                    }
                    None => format!("write {path} by hand"),
                },
            })),
        }
    }

    /// The file was changed since; if the scalar is still ours, it alone goes back.
    fn scalar_alone(&self, now: &Content) -> Option<Back> {
        let (scalar, text) = (self.scalar.as_ref()?, std::str::from_utf8(&now.bytes).ok()?);
        let found = supervisor_file::executable(text)?;
        match &text[found.range] {
            written if written == scalar.before => Some(Back::Nothing),
            written if written == scalar.after => {
                let bytes = supervisor_file::with_written(text, &scalar.before)?.into_bytes();
                Some(Back::Write(Content { bytes, ..now.clone() }))
            }
            _ => None,
        }
    }

    /// Whether the one scalar is as the import wrote it.
    fn names_ours(&self, now: &[u8]) -> bool {
        let written = std::str::from_utf8(now).ok().and_then(|text| {
            let found = supervisor_file::executable(text)?;
            Some(&text[found.range])
        });
        self.scalar.as_ref().is_some_and(|scalar| written == Some(&scalar.after))
    }
}

fn changed_meanwhile(path: &Path) -> io::Error {
    io::Error::other(format!(
        "{}: expected it as it was when the import was planned, found it changed since",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPERVISOR: &str = "# mine\nagent:\n  executable: \"/usr/bin/otelcol\" # here\n";

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            fs::create_dir(place.path("store")).unwrap();
            fs::write(place.path("supervisor.yaml"), SUPERVISOR).unwrap();
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn changes(&self) -> Vec<Change> {
            let after = supervisor_file::with_executable(SUPERVISOR, "/s/otelcol").unwrap();
            let (before, to) = ("\"/usr/bin/otelcol\"".into(), "/s/otelcol".into());
            let scalar = Kind::Scalar { before, after: to, of: Digest::of(SUPERVISOR.as_bytes()) };
            vec![
                Change { path: self.path("d/unit.d/50.conf"), after: "[Unit]\n".into(), kind: Kind::New },
                Change { path: self.path("supervisor.yaml"), after, kind: scalar },
            ]
        }

        fn imported(&self) -> Record {
            let changes = self.changes();
            let record = Record::begin(
                &self.path("store"),
                "a.service",
                Path::new("/usr/bin/otelcol"),
                true,
                &changes,
            )
            .unwrap();
            record.apply(&changes).unwrap();
            assert_eq!(Record::read(&self.path("store")).unwrap().as_ref(), Some(&record));
            record
        }

        fn put_back(&self, record: &mut Record) -> Result<(), Vec<Conflict>> {
            record.put_back(&self.path("store"), false).unwrap()
        }

        fn supervisor(&self) -> String {
            fs::read_to_string(self.path("supervisor.yaml")).unwrap()
        }
    }

    #[test]
    fn everything_is_put_back_to_the_byte_and_twice_is_once() {
        let place = Place::new();
        let mut record = place.imported();
        assert!(place.supervisor().contains("executable: /s/otelcol # here"));
        for _ in 0..2 {
            place.put_back(&mut record).unwrap();
            assert_eq!(place.supervisor(), SUPERVISOR);
            assert!(!place.path("d").exists());
        }
        record.forget(&place.path("store")).unwrap();
        assert_eq!(fs::read_dir(place.path("store")).unwrap().count(), 0);
    }

    #[test]
    fn what_was_written_only_in_part_is_put_back_as_well() {
        let place = Place::new();
        let changes = place.changes();
        let mut record =
            Record::begin(&place.path("store"), "a.service", Path::new("/x"), true, &changes).unwrap();
        place.put_back(&mut record).unwrap();
        assert_eq!(place.supervisor(), SUPERVISOR);
    }

    #[test]
    fn a_file_changed_since_is_never_overwritten_and_nothing_else_is_touched() {
        let place = Place::new();
        let mut record = place.imported();
        fs::write(place.path("d/unit.d/50.conf"), "[Service]\nNice=1\n").unwrap();
        let imported = place.supervisor();
        let conflicts = place.put_back(&mut record).unwrap_err();
        assert_eq!(conflicts.len(), 1);
        assert!(conflicts[0].reason.contains("d/unit.d/50.conf: expected it as"), "{conflicts:?}");
        assert!(conflicts[0].remedy.starts_with("`rm "));
        assert_eq!(place.supervisor(), imported);
    }

    #[test]
    fn of_a_configuration_edited_since_only_the_program_is_put_back() {
        let place = Place::new();
        let mut record = place.imported();
        let edited = place.supervisor().replace("# mine", "# mine, and more");
        fs::write(place.path("supervisor.yaml"), &edited).unwrap();
        place.put_back(&mut record).unwrap();
        assert_eq!(place.supervisor(), SUPERVISOR.replace("# mine", "# mine, and more"));
        let foreign = SUPERVISOR.replace("/usr/bin/otelcol", "/somewhere/else");
        fs::write(place.path("supervisor.yaml"), &foreign).unwrap();
        let conflicts = place.put_back(&mut record).unwrap_err();
        assert!(conflicts[0].remedy.starts_with("`cp "), "{conflicts:?}");
        assert_eq!(place.supervisor(), foreign);
    }

    #[test]
    fn a_damaged_copy_is_not_put_back_and_not_needed_where_the_one_scalar_is_ours() {
        let place = Place::new();
        let mut record = place.imported();
        fs::write(place.path("store/import.1.before"), "other").unwrap();
        let imported = place.supervisor();
        fs::remove_file(place.path("supervisor.yaml")).unwrap();
        let conflicts = place.put_back(&mut record).unwrap_err();
        assert!(conflicts[0].reason.contains("found it damaged"), "{conflicts:?}");
        assert!(!conflicts[0].remedy.contains("cp "), "the copy is damaged: {conflicts:?}");
        fs::write(place.path("supervisor.yaml"), imported).unwrap();
        place.put_back(&mut record).unwrap();
        assert_eq!(place.supervisor(), SUPERVISOR);
    }

    #[test]
    fn an_edit_made_since_the_plan_is_never_lost() {
        let place = Place::new();
        let edited = SUPERVISOR.replace("# mine", "# edited");
        let changes = place.changes();
        fs::write(place.path("supervisor.yaml"), &edited).unwrap();
        let begin = || Record::begin(&place.path("store"), "a.service", Path::new("/x"), true, &changes);
        assert!(begin().unwrap_err().to_string().contains("found it changed since"));
        assert_eq!(Record::read(&place.path("store")).unwrap(), None);

        fs::write(place.path("supervisor.yaml"), SUPERVISOR).unwrap();
        let mut record = begin().unwrap();
        fs::write(place.path("supervisor.yaml"), &edited).unwrap();
        assert!(record.apply(&changes).unwrap_err().to_string().contains("found it changed since"));
        assert_eq!(place.supervisor(), edited);
        place.put_back(&mut record).unwrap();
        assert_eq!(place.supervisor(), edited);
    }

    #[test]
    fn no_link_is_followed() {
        let place = Place::new();
        let mut record = place.imported();
        let (file, elsewhere) = (place.path("supervisor.yaml"), place.path("elsewhere"));
        fs::rename(&file, &elsewhere).unwrap();
        let held = fs::read(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert_eq!(place.put_back(&mut record).unwrap_err().len(), 1);
        assert_eq!(fs::read(&elsewhere).unwrap(), held);
        assert!(file.is_symlink());
    }

    #[test]
    fn an_undo_is_written_down_when_it_begins_and_can_be_taken_back() {
        let place = Place::new();
        let mut record = place.imported();
        record.set(&place.path("store"), State::Done).unwrap();
        let (imported, left) = (place.supervisor(), record.as_left().unwrap());
        assert!(record.is_applied().unwrap());
        place.put_back(&mut record).unwrap();
        let state = || Record::read(&place.path("store")).unwrap().unwrap().state;
        assert_eq!(state(), State::Undoing);
        assert!(!record.is_applied().unwrap());
        record.apply_again(&place.path("store"), left).unwrap();
        assert!(record.is_applied().unwrap());
        assert_eq!((state(), place.supervisor()), (State::Done, imported));
        assert!(place.path("d/unit.d/50.conf").exists());
    }

    #[test]
    fn mode_and_what_others_need_stay() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let place = Place::new();
        fs::set_permissions(place.path("supervisor.yaml"), fs::Permissions::from_mode(0o640)).unwrap();
        let mode = || fs::metadata(place.path("supervisor.yaml")).unwrap().mode() & 0o777;
        let mut changes = place.changes();
        changes[0].kind = Kind::Shared;
        let mut record =
            Record::begin(&place.path("store"), "a.service", Path::new("/x"), true, &changes).unwrap();
        record.apply(&changes).unwrap();
        assert_eq!(mode(), 0o640);
        // Torn off between file and owner, or changed since: as it was means that, too.
        fs::write(place.path("supervisor.yaml"), SUPERVISOR).unwrap();
        fs::set_permissions(place.path("supervisor.yaml"), fs::Permissions::from_mode(0o600)).unwrap();
        record.put_back(&place.path("store"), true).unwrap().unwrap();
        assert_eq!(mode(), 0o640);
        assert!(place.path("d/unit.d/50.conf").exists());
    }
}
