//! What an import changed, written down before it is changed, and the way back from it.
//!
//! `import.json` in the store names every file with the digest of what it was and of what it becomes; what it was
//! is kept beside it. So an import that was killed is undone from the record alone, and a file that somebody
//! changed since is seen and never overwritten blindly. Where the edit was one scalar of somebody's own file, it
//! alone is put back, and what else was changed since stays.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
};

use myriarch_store::durable;
use myriarch_update::regular;
use myriarch_verify::Digest;
use serde::{Deserialize, Serialize};

use super::supervisor_file;

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

/// A file that somebody changed since, so that it cannot be put back.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub(crate) path: PathBuf,
    /// What puts it back by hand.
    pub(crate) command: String,
}

/// What has to be done to a file to put it back.
enum Back {
    Nothing,
    Remove,
    Write(Vec<u8>),
}

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
            let before = match regular::bytes(&change.path) {
                Ok(bytes) => {
                    let metadata = fs::metadata(&change.path)?;
                    let backup = store.join(format!("import.{index}.before"));
                    durable::replace(&backup, &bytes, BACKUP_MODE)?;
                    let (mode, uid, gid) = (metadata.mode() & 0o7777, metadata.uid(), metadata.gid());
                    Some(Before { sha256: Digest::of(&bytes), mode, uid, gid, backup })
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(named(&change.path, &error)),
            };
            let missing = change.path.ancestors().skip(1).take_while(|directory| !directory.exists());
            let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
            missing.retain(|directory| !directories.contains(directory));
            directories.extend(missing.into_iter().rev());
            let scalar = match &change.kind {
                Kind::Scalar { before, after } => {
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

    /// Carries `changes`, of which this is the record, out.
    pub(crate) fn apply(&self, changes: &[Change]) -> io::Result<()> {
        for directory in &self.directories {
            match fs::create_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(named(directory, &error));
                }
                _ => {}
            }
        }
        for (file, change) in self.files.iter().zip(changes) {
            let mode = file.before.as_ref().map_or(MODE, |before| before.mode);
            file.put(change.after.as_bytes(), mode)?;
        }
        Ok(())
    }

    pub(crate) fn set(&mut self, store: &Path, state: State) -> io::Result<()> {
        self.state = state;
        self.write(store)
    }

    /// Puts every file back. Nothing is touched where one of them was changed since.
    pub(crate) fn put_back(&self, is_needed_elsewhere: bool) -> io::Result<Result<(), Vec<Conflict>>> {
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
        // The last change goes first.
        for (file, back) in backs.into_iter().rev() {
            match back {
                Back::Nothing => {}
                Back::Remove => fs::remove_file(&file.path).map_err(|error| named(&file.path, &error))?,
                Back::Write(bytes) => file.put(&bytes, file.before.as_ref().map_or(MODE, |it| it.mode))?,
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

    fn write(&self, store: &Path) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        durable::replace(&store.join(FILE), &bytes, MODE)
    }
}

impl FileRecord {
    /// Writes `bytes` in the place of the file, for its owner of before.
    fn put(&self, bytes: &[u8], mode: u32) -> io::Result<()> {
        durable::replace(&self.path, bytes, mode)?;
        let Some(before) = &self.before else { return Ok(()) };
        let now = fs::metadata(&self.path)?;
        if (now.uid(), now.gid()) != (before.uid, before.gid) {
            chown(&self.path, Some(before.uid), Some(before.gid))
                .map_err(|error| named(&self.path, &error))?;
            // Changing the owner may take bits of the mode away.
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(&self.path, mode)?;
        }
        Ok(())
    }

    fn way_back(&self, is_needed_elsewhere: bool) -> io::Result<Result<Back, Conflict>> {
        let now = match regular::bytes(&self.path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(named(&self.path, &error)),
        };
        let found = now.as_deref().map(Digest::of);
        let path = self.path.display();
        let conflict = |command: String| Ok(Err(Conflict { path: self.path.clone(), command }));
        let Some(before) = &self.before else {
            return match found {
                None => Ok(Ok(Back::Nothing)),
                Some(_) if self.shared && is_needed_elsewhere => Ok(Ok(Back::Nothing)),
                Some(found) if found == self.after => Ok(Ok(Back::Remove)),
                Some(_) => conflict(format!("rm {path}")),
            };
        };
        if found == Some(before.sha256) {
            return Ok(Ok(Back::Nothing));
        }
        let kept = || format!("cp {} {path}", before.backup.display());
        if found.is_none() || found == Some(self.after) {
            let bytes = fs::read(&before.backup).map_err(|error| named(&before.backup, &error))?;
            // What is put back must be what was there, to the byte.
            return if Digest::of(&bytes) == before.sha256 {
                Ok(Ok(Back::Write(bytes)))
            } else {
                conflict(kept())
            };
        }
        match self.scalar_alone(now.as_deref().unwrap_or_default()) {
            Some(back) => Ok(Ok(back)),
            None => conflict(kept()),
        }
    }

    /// The file was changed since; if the scalar is still ours, it alone goes back.
    fn scalar_alone(&self, now: &[u8]) -> Option<Back> {
        let (scalar, text) = (self.scalar.as_ref()?, std::str::from_utf8(now).ok()?);
        let found = supervisor_file::executable(text)?;
        match &text[found.range] {
            written if written == scalar.before => Some(Back::Nothing),
            written if written == scalar.after => {
                Some(Back::Write(supervisor_file::with_written(text, &scalar.before)?.into_bytes()))
            }
            _ => None,
        }
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
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
            let scalar = Kind::Scalar { before: "\"/usr/bin/otelcol\"".into(), after: "/s/otelcol".into() };
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

        fn supervisor(&self) -> String {
            fs::read_to_string(self.path("supervisor.yaml")).unwrap()
        }
    }

    #[test]
    fn everything_is_put_back_to_the_byte_and_twice_is_once() {
        let place = Place::new();
        let record = place.imported();
        assert!(place.supervisor().contains("executable: /s/otelcol # here"));
        for _ in 0..2 {
            record.put_back(false).unwrap().unwrap();
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
        let record =
            Record::begin(&place.path("store"), "a.service", Path::new("/x"), true, &changes).unwrap();
        record.put_back(false).unwrap().unwrap();
        assert_eq!(place.supervisor(), SUPERVISOR);
    }

    #[test]
    fn a_file_changed_since_is_never_overwritten_and_nothing_else_is_touched() {
        let place = Place::new();
        let record = place.imported();
        fs::write(place.path("d/unit.d/50.conf"), "[Service]\nNice=1\n").unwrap();
        let imported = place.supervisor();
        let conflicts = record.put_back(false).unwrap().unwrap_err();
        assert_eq!(conflicts.len(), 1);
        assert_eq!(conflicts[0].path, place.path("d/unit.d/50.conf"));
        assert!(conflicts[0].command.starts_with("rm "));
        assert_eq!(place.supervisor(), imported);
    }

    #[test]
    fn of_a_configuration_edited_since_only_the_program_is_put_back() {
        let place = Place::new();
        let record = place.imported();
        let edited = place.supervisor().replace("# mine", "# mine, and more");
        fs::write(place.path("supervisor.yaml"), &edited).unwrap();
        record.put_back(false).unwrap().unwrap();
        assert_eq!(place.supervisor(), SUPERVISOR.replace("# mine", "# mine, and more"));
        let foreign = SUPERVISOR.replace("/usr/bin/otelcol", "/somewhere/else");
        fs::write(place.path("supervisor.yaml"), &foreign).unwrap();
        let conflicts = record.put_back(false).unwrap().unwrap_err();
        assert!(conflicts[0].command.starts_with("cp "), "{conflicts:?}");
        assert_eq!(place.supervisor(), foreign);
    }

    #[test]
    fn a_copy_that_is_damaged_is_not_put_back() {
        let place = Place::new();
        let record = place.imported();
        fs::write(place.path("store/import.1.before"), "other").unwrap();
        assert_eq!(record.put_back(false).unwrap().unwrap_err().len(), 1);
    }

    #[test]
    fn mode_and_what_others_need_stay() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = Place::new();
        fs::set_permissions(place.path("supervisor.yaml"), fs::Permissions::from_mode(0o640)).unwrap();
        let mode = || fs::metadata(place.path("supervisor.yaml")).unwrap().mode() & 0o777;
        let mut changes = place.changes();
        changes[0].kind = Kind::Shared;
        let record =
            Record::begin(&place.path("store"), "a.service", Path::new("/x"), true, &changes).unwrap();
        record.apply(&changes).unwrap();
        assert_eq!(mode(), 0o640);
        record.put_back(true).unwrap().unwrap();
        assert_eq!(mode(), 0o640);
        assert!(place.path("d/unit.d/50.conf").exists());
    }
}
