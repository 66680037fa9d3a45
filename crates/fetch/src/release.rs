//! A release on offer, and what was brought of it.

use std::{fmt, path::PathBuf};

use myriarch_verify::Digest;
use reqwest::Url;

use crate::error::{FetchError, shown};

/// A release that a source says it has. Nothing in it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The version, bare.
    pub version: String,
    /// Where its archive is, for people: a URL without secrets, or a path.
    pub location: String,
    /// The archive's SHA-256 as the source claims it, if it does.
    pub sha256: Option<Digest>,
    /// The archive's size in bytes as the source claims it, if it does.
    pub size: Option<u64>,
    /// The archive's file name as published.
    pub file_name: String,
    pub(crate) archive: Location,
    /// A checksum file that is named has to be there: without it a check would be left out.
    pub(crate) checksum: Option<Location>,
    /// A bundle may be missing: nothing is trusted without one but what a rule trusts that needs none.
    pub(crate) bundle: Option<Location>,
}

/// How much of an archive is still to be brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outstanding {
    /// Bytes of the whole archive, where the source says.
    pub archive: Option<u64>,
    /// Bytes on disk from an earlier download of it; they are used or given back, never needed a second time.
    pub here: u64,
    /// Where those are; files whose names begin with this one's belong to it.
    pub file: PathBuf,
}

impl Release {
    /// The checksum file's name and place. Its name matters: it can tell which line of it counts.
    pub(crate) fn named_checksum(&self) -> Result<Option<(String, &Location)>, FetchError> {
        let Some(location) = &self.checksum else { return Ok(None) };
        let error =
            |reason| FetchError::Entry { location: location.shown(), version: self.version.clone(), reason };
        Ok(Some((location.file_name().map_err(error)?, location)))
    }
}

/// What a source brought.
#[derive(Debug)]
pub struct Download {
    /// The archive, complete as far as the source goes, in the directory for partial downloads.
    pub archive: PathBuf,
    /// The archive's file name as published.
    pub file_name: String,
    /// The checksum file's name and content; `None` if the source has none.
    pub checksum: Option<(String, Vec<u8>)>,
    /// The Sigstore bundle; `None` if the source has none.
    pub bundle: Option<Vec<u8>>,
    /// Bytes of the archive that were there from an earlier run. If such an archive proves wrong, the earlier
    /// part may be to blame: [`discard`](crate::discard) it, and the next download begins anew.
    pub resumed_from: u64,
}

/// Where one file is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Location {
    Url(Url),
    File(PathBuf),
}

/// A URL's parts, derived, would show its password.
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Location {
    /// As it may be shown.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Url(url) => shown(url),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// The name by which a checksum file's lines call it.
    ///
    /// # Errors
    /// In words, when it has none, or one that is no plain file name.
    pub(crate) fn file_name(&self) -> Result<String, String> {
        let name = match self {
            Self::Url(url) => {
                let last =
                    url.path_segments().and_then(|mut segments| segments.next_back()).unwrap_or_default();
                percent_encoding::percent_decode_str(last)
                    .decode_utf8()
                    .map(std::borrow::Cow::into_owned)
                    .ok()
            }
            Self::File(path) => path.file_name().and_then(|name| name.to_str()).map(str::to_owned),
        };
        let plain = |name: &String| {
            (1..=255).contains(&name.len())
                && name != "."
                && name != ".."
                && !name.contains(['/', '\\'])
                && !name.chars().any(char::is_control)
        };
        name.filter(plain).ok_or_else(|| format!("expected a plain file name at the end of {}", self.shown()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_is_the_last_part_of_the_path_and_nothing_else() {
        for (url, expected) in [
            ("http://h/a/otelcol_0.1.0.tar.gz", Some("otelcol_0.1.0.tar.gz")),
            ("http://h/a/x%2B1.tar.gz?name=/etc/passwd#y", Some("x+1.tar.gz")),
            ("http://h/a/", None),
            ("http://h", None),
            ("http://h/a/%2Fetc%2Fpasswd", None),
            ("http://h/a/..%2Fx", None),
            ("http://h/a/x%00y", None),
            ("http://h/a/%0Ax", None),
            ("http://h/a/%FF", None),
        ] {
            let found = Location::Url(url.parse().unwrap()).file_name();
            assert_eq!(found.as_deref().ok(), expected, "{url}: {found:?}");
        }
    }
}
