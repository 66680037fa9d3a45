//! `verify`: what the trust policy says of an archive at hand. Nothing is unpacked, executed or kept.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use myriarch_cli::{Config, Ending, ExitCode};
use myriarch_verify::{Digest, Subject, checksum};

use crate::{
    compose::{self, ComposeError},
    verbs::Verify,
    words::with_causes,
};

/// Judges, and says why.
pub(crate) fn ending(config: &Config, asked: &Verify) -> Ending {
    match judge(config, asked) {
        Ok(words) => Ending::done(words),
        Err((code, reason, hint)) => Ending::failed(code, &io::Error::other(reason), Some(hint)),
    }
}

type Failed = (ExitCode, String, String);

fn judge(config: &Config, asked: &Verify) -> Result<String, Failed> {
    let trust = compose::trust(config).map_err(|error| {
        let hint = match &error {
            ComposeError::Unusable { hint, .. } => hint.clone(),
            _ => "mend the configuration".to_owned(),
        };
        (ExitCode::Usage, with_causes(&error), hint)
    })?;
    let unreadable = |path: &Path, error: &io::Error| {
        (ExitCode::Failed, format!("{}: {error}", path.display()), "name a readable file".to_owned())
    };
    let archive = fs::File::open(&asked.archive)
        .and_then(Digest::of_reader)
        .map_err(|error| unreadable(&asked.archive, &error))?
        .0;
    let file_name = asked.archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = |given: &Option<PathBuf>, suffix: &str| {
        given.clone().or_else(|| {
            let path = PathBuf::from(format!("{}.{suffix}", asked.archive.display()));
            path.exists().then_some(path)
        })
    };
    if let Some(path) = beside(&asked.checksum, "sha256") {
        let content = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let expected = checksum::digest_for(&name, &file_name, &content)
            .map_err(|error| (ExitCode::Refused, error.to_string(), error.hint().to_owned()))?;
        if expected != archive {
            let reason = format!("{file_name}: expected sha256 {expected} as {name} says, found {archive}");
            return Err((
                ExitCode::Refused,
                reason,
                "the archive was altered or damaged on its way".to_owned(),
            ));
        }
    }
    let bundle = beside(&asked.bundle, "sigstore.json")
        .map(|path| fs::read(&path).map_err(|error| unreadable(&path, &error)))
        .transpose()?;
    let subject =
        Subject { version: asked.version.bare(), archive, file_name: &file_name, bundle: bundle.as_deref() };
    let evidence = trust
        .judge(&subject)
        .map_err(|error| (ExitCode::Refused, error.to_string(), error.hint().to_owned()))?;
    Ok(format!("trusted: {file_name} (sha256 {archive})\n{evidence}"))
}
