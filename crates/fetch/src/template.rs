//! Where a release is when its version is all that is known.
//!
//! A template is a URL or file name with holes for the version and the platform; those of the companions may
//! also be made from the archive's own. A hole nobody fills is refused when the template is read, not when an
//! update is due. In a directory a template also works backwards, from a file's name to the version in it.

use std::fmt::Write as _;

use crate::error::{FetchError, without_secrets};

/// Where the archive of a version and its companions are.
///
/// `{version}`, `{os}` and `{arch}` are filled in everywhere; `{archive}`, the archive's whole URL or file name,
/// in the companions only. A version's `+` is percent-encoded in URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Templates {
    /// The archive. Must have `{version}`.
    pub archive: String,
    /// The checksum file, if releases have one.
    pub checksum: Option<String>,
    /// The Sigstore bundle, if releases have one.
    pub bundle: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct TemplateSet {
    archive: Template,
    checksum: Option<Template>,
    bundle: Option<Template>,
}

/// An archive's place and those of its companions, as text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) archive: String,
    pub(crate) checksum: Option<String>,
    pub(crate) bundle: Option<String>,
}

/// What a template is filled with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Platform<'a> {
    pub(crate) os: &'a str,
    pub(crate) arch: &'a str,
}

/// What the text made from a template is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Url,
    FileName,
}

impl TemplateSet {
    pub(crate) fn parse(templates: &Templates) -> Result<Self, FetchError> {
        let companion = |setting, text: &Option<String>| {
            text.as_deref().map(|text| Template::parse(setting, text, Companion::Yes)).transpose()
        };
        Ok(Self {
            archive: Template::parse("archive template", &templates.archive, Companion::No)?,
            checksum: companion("checksum template", &templates.checksum)?,
            bundle: companion("bundle template", &templates.bundle)?,
        })
    }

    /// Where `version` is.
    pub(crate) fn places(&self, version: &str, platform: Platform<'_>, kind: Kind) -> Places {
        let version = kind.written(version);
        let archive = self.archive.fill(&version, platform, "");
        let (checksum, bundle) = self.companions(&version, platform, &archive);
        Places { archive, checksum, bundle }
    }

    /// Where the companions of an archive are whose place is known.
    pub(crate) fn companions_of(
        &self,
        version: &str,
        platform: Platform<'_>,
        archive: &str,
        kind: Kind,
    ) -> (Option<String>, Option<String>) {
        self.companions(&kind.written(version), platform, archive)
    }

    /// The version in an archive's file name, if the template could have made that name.
    pub(crate) fn version_in(&self, file_name: &str, platform: Platform<'_>) -> Option<String> {
        self.archive.version_in(file_name, platform)
    }

    fn companions(
        &self,
        version: &str,
        platform: Platform<'_>,
        archive: &str,
    ) -> (Option<String>, Option<String>) {
        let fill =
            |template: &Option<Template>| template.as_ref().map(|it| it.fill(version, platform, archive));
        (fill(&self.checksum), fill(&self.bundle))
    }
}

/// Whether a version can be a part of a file name and of a URL without changing its meaning.
pub(crate) fn is_nameable(version: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    (1..=128).contains(&version.len())
        && version.bytes().all(plain)
        && version.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
}

impl Kind {
    fn written(self, version: &str) -> String {
        match self {
            // Some servers take a plus for a space.
            Self::Url => version.replace('+', "%2B"),
            Self::FileName => version.to_owned(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Companion {
    Yes,
    No,
}

#[derive(Debug, Clone)]
struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Version,
    Os,
    Arch,
    Archive,
}

impl Template {
    fn parse(setting: &'static str, text: &str, companion: Companion) -> Result<Self, FetchError> {
        let known = match companion {
            Companion::Yes => "{version}, {os}, {arch} and {archive}",
            Companion::No => "{version}, {os} and {arch}",
        };
        let error =
            |expected: String| FetchError::Setting { setting, expected, found: without_secrets(text) };
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let brace = rest.find(['{', '}']).unwrap_or(rest.len());
            if brace > 0 {
                parts.push(Part::Text(rest[..brace].to_owned()));
            }
            rest = &rest[brace..];
            let Some(hole) = rest.strip_prefix('{') else {
                if rest.is_empty() {
                    break;
                }
                return Err(error("every } to close a {".to_owned()));
            };
            let Some((name, after)) = hole.split_once('}') else {
                return Err(error("every { to be closed".to_owned()));
            };
            parts.push(match name {
                "version" => Part::Version,
                "os" => Part::Os,
                "arch" => Part::Arch,
                "archive" if companion == Companion::Yes => Part::Archive,
                _ => return Err(error(format!("only {known} in braces"))),
            });
            rest = after;
        }
        let needed = match companion {
            Companion::Yes => parts.iter().any(|part| matches!(part, Part::Version | Part::Archive)),
            Companion::No => parts.contains(&Part::Version),
        };
        if !needed {
            // Without it every version would have the same file.
            let name = if companion == Companion::Yes { "{version} or {archive}" } else { "{version}" };
            return Err(error(format!("{name} in it")));
        }
        Ok(Self(parts))
    }

    fn fill(&self, version: &str, platform: Platform<'_>, archive: &str) -> String {
        let mut filled = String::new();
        for part in &self.0 {
            let _ = filled.write_str(match part {
                Part::Text(text) => text,
                Part::Version => version,
                Part::Os => platform.os,
                Part::Arch => platform.arch,
                Part::Archive => archive,
            });
        }
        filled
    }

    fn version_in(&self, name: &str, platform: Platform<'_>) -> Option<String> {
        let holes = self.0.iter().filter(|part| **part == Part::Version).count();
        // What remains of the name when the fixed text is gone is the version, as often as there are holes.
        let free = name.len().checked_sub(self.fill("", platform, "").len())?;
        let length = free.checked_div(holes)?;
        let first = self.0.iter().take_while(|part| **part != Part::Version).cloned().collect();
        let start = Self(first).fill("", platform, "").len();
        let version = name.get(start..start.checked_add(length)?)?;
        (is_nameable(version) && self.fill(version, platform, "") == name).then(|| version.to_owned())
    }
}
