//! The effective configuration: which file it is, whether it is the real one, and the copy kept of it.
//!
//! A supervisor overwrites the file with a configuration that does nothing while it bootstraps. Such a moment
//! must not become what a candidate is validated against, so a copy is taken while all is well, and a file in
//! which no pipeline does anything is never taken for the real one.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use myriarch_probe::exec::Credentials;
use myriarch_store::durable;

use crate::regular;

/// A `--config` argument in one of its forms.
pub(crate) enum Flag<'a> {
    /// `--config FILE`: the value is the next argument.
    Separate,
    /// `--config=FILE`.
    Joined(&'a OsStr),
}

pub(crate) fn flag(argument: &OsStr) -> Option<Flag<'_>> {
    flag_named("config", argument)
}

/// Go's flag package takes one dash or two.
fn flag_named<'a>(name: &str, argument: &'a OsStr) -> Option<Flag<'a>> {
    let bytes = argument.as_bytes();
    let bytes = bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-"))?;
    match bytes.strip_prefix(name.as_bytes())? {
        [] => Some(Flag::Separate),
        [b'=', value @ ..] => Some(Flag::Joined(OsStr::from_bytes(value))),
        _ => None,
    }
}

/// Every value of the flag `name`, in order.
pub(crate) fn values_of<'a>(name: &str, arguments: &'a [OsString]) -> Vec<&'a OsStr> {
    let mut found = vec![];
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match flag_named(name, argument) {
            Some(Flag::Separate) => found.extend(rest.next().map(OsString::as_os_str)),
            Some(Flag::Joined(value)) => found.push(value),
            None => {}
        }
    }
    found
}

/// The configuration file that `arguments` name, where it is exactly one and a file: several merge, and other
/// schemes (`env:`, `yaml:`, `http:`) have no file to copy.
pub(crate) fn named_by(arguments: &[OsString]) -> Option<PathBuf> {
    let values = values_of("config", arguments);
    let [value] = values.as_slice() else { return None };
    let bytes = value.as_bytes();
    let path = bytes.strip_prefix(b"file:").unwrap_or(bytes);
    let scheme = path.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    if scheme > 1 && path.get(scheme) == Some(&b':') {
        return None;
    }
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Whether a collector configured by `text` does nothing: no pipeline, or none with a component other than `nop`, as
/// a supervisor configures it while it bootstraps. What is no YAML is not known to.
pub fn does_nothing(text: &str) -> bool {
    let Ok(document) = serde_saphyr::from_str::<serde_json::Value>(text) else { return false };
    let Some(pipelines) = document.pointer("/service/pipelines").and_then(serde_json::Value::as_object)
    else {
        return true;
    };
    let parts =
        pipelines.values().filter_map(serde_json::Value::as_object).flat_map(|pipeline| pipeline.values());
    let mut components = parts.filter_map(serde_json::Value::as_array).flatten();
    components
        .all(|component| component.as_str().is_some_and(|name| name == "nop" || name.starts_with("nop/")))
}

/// The copy, `effective.yaml` in the store.
#[derive(Debug)]
pub(crate) struct Copy {
    path: PathBuf,
}

impl Copy {
    pub(crate) fn in_store(root: &Path) -> Self {
        Self { path: root.join("effective.yaml") }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.exists().then_some(&*self.path)
    }

    /// Copies `from`, unless it does nothing. The copy may hold secrets: only `reader`, as whom the program
    /// runs, may read it, and only what it may read already is copied.
    ///
    /// # Errors
    /// Where the file could not be read, by us or by `reader`, or the copy not written.
    pub(crate) fn take(&self, from: &Path, reader: Option<&Credentials>) -> io::Result<Taken> {
        let file = regular::open(from)?;
        let metadata = file.metadata()?;
        if let Some(reader) = reader.filter(|reader| !may_read(reader, &metadata)) {
            let reason = format!(
                "expected a file that user {} may read, found mode {:o}",
                reader.uid,
                metadata.mode()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let text = regular::text_of(&file)?;
        if does_nothing(&text) {
            return Ok(Taken::DoesNothing);
        }
        durable::replace(&self.path, text.as_bytes(), 0o400)?;
        if let Some(reader) = reader.filter(|_| rustix::process::geteuid().is_root()) {
            std::os::unix::fs::chown(&self.path, Some(reader.uid), Some(reader.gid))?;
        }
        Ok(Taken::Copied)
    }
}

/// As the kernel decides for an ordinary user.
fn may_read(reader: &Credentials, file: &fs::Metadata) -> bool {
    let in_group = reader.gid == file.gid() || reader.groups.contains(&file.gid());
    match () {
        () if reader.uid == 0 => true,
        () if reader.uid == file.uid() => file.mode() & 0o400 != 0,
        () if in_group => file.mode() & 0o040 != 0,
        () => file.mode() & 0o004 != 0,
    }
}

/// What came of taking a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Copied,
    /// The file is a bootstrap's: the older copy, if any, stands.
    DoesNothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn exactly_one_configuration_file_is_found_in_every_form() {
        let found = |words: &[&str]| named_by(&args(words));
        assert_eq!(found(&["--config", "/a.yaml", "--feature-gates", "x"]), Some("/a.yaml".into()));
        assert_eq!(found(&["-config=/a.yaml"]), Some("/a.yaml".into()));
        assert_eq!(found(&["--config", "file:/a.yaml"]), Some("/a.yaml".into()));
        assert_eq!(found(&["--config", "relative.yaml"]), Some("relative.yaml".into()));
        assert_eq!(found(&["--config", "env:CONFIG"]), None);
        assert_eq!(found(&["--config", "a", "--config", "b"]), None);
        assert_eq!(found(&["--config-dir", "a"]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn a_bootstrap_configuration_is_known_with_and_without_nop_pipelines() {
        assert!(does_nothing("extensions: {opamp: {}}\nservice:\n  extensions: [opamp]\n"));
        assert!(does_nothing(
            "service:\n    pipelines:\n        traces:\n            exporters:\n                - nop\n            receivers:\n                - nop\n"
        ));
        assert!(!does_nothing("service: {pipelines: {traces: {receivers: [otlp], exporters: [nop]}}}"));
        assert!(!does_nothing("not: [closed"), "what cannot be read is the candidate's to judge");
    }

    #[test]
    fn nobody_gets_to_read_through_us_what_he_may_not_read_himself() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        fs::write(&secret, "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}")
            .unwrap();
        fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let copy = Copy::in_store(dir.path());
        let stranger = Credentials { uid: 12345, gid: 12345, groups: vec![] };
        let error = copy.take(&secret, Some(&stranger)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(copy.path(), None);
    }

    #[test]
    fn a_bootstrap_configuration_never_replaces_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (copy, live) = (Copy::in_store(dir.path()), dir.path().join("live.yaml"));
        fs::write(&live, "service: {pipelines: {traces: {receivers: [otlp], exporters: [debug]}}}").unwrap();
        assert_eq!(copy.take(&live, None).unwrap(), Taken::Copied);
        let kept = fs::read_to_string(copy.path().unwrap()).unwrap();
        fs::write(&live, "service: {extensions: [opamp]}").unwrap();
        assert_eq!(copy.take(&live, None).unwrap(), Taken::DoesNothing);
        assert_eq!(fs::read_to_string(copy.path().unwrap()).unwrap(), kept);
    }

    #[test]
    fn no_path_that_the_programs_user_prepared_holds_us_up() {
        let dir = tempfile::tempdir().unwrap();
        for trap in crate::regular::tests::traps(dir.path()) {
            let root = dir.path().to_owned();
            let taken = crate::regular::tests::in_time(move || Copy::in_store(&root).take(&trap, None));
            assert!(taken.is_err());
        }
        assert_eq!(Copy::in_store(dir.path()).path(), None);
    }
}
