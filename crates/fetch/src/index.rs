//! The list of releases that a mirror publishes.
//!
//! ```json
//! {"schema": 1, "releases": [
//!   {"version": "0.158.0", "assets": [
//!     {"os": "linux", "arch": "amd64", "archive": "otelcol_0.158.0_linux_amd64.tar.gz",
//!      "sha256": "64 hex digits, optional", "size": 93012345,
//!      "checksum": "optional", "bundle": "optional"}]}]}
//! ```
//!
//! `size` is the archive's in bytes, optional: with it is known without a question whether there is room.
//! A checksum file that an entry names has to be there.
//! References are URLs, or relative to the index. Unknown keys are ignored, so that a newer publisher can add
//! some; an unknown schema is refused. One bad entry must not hide the others, nor be lost without a word: it is
//! set aside with its reason, and whoever asks for exactly that version gets the reason as the error.

use std::collections::BTreeSet;

use myriarch_verify::Digest;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    error::{FetchError, quoted},
    release::{Location, Release},
    template::{Platform, is_nameable},
};

/// Everything a source has for this platform, and what of it cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The releases, in the source's order.
    pub releases: Vec<Release>,
    /// The entries that were passed over.
    pub skipped: Vec<Skipped>,
}

/// An entry that was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The version, as far as one can be read.
    pub version: Option<String>,
    /// What is wrong with the entry.
    pub reason: String,
}

impl Listing {
    /// The release of exactly `version`.
    ///
    /// # Errors
    /// With the reason, when its entry is among the skipped.
    pub(crate) fn find(self, version: &str, location: &str) -> Result<Option<Release>, FetchError> {
        if let Some(release) = self.releases.into_iter().find(|release| release.version == version) {
            return Ok(Some(release));
        }
        match self.skipped.into_iter().find(|skipped| skipped.version.as_deref() == Some(version)) {
            Some(Skipped { reason, .. }) => {
                Err(FetchError::Entry { location: location.to_owned(), version: version.to_owned(), reason })
            }
            None => Ok(None),
        }
    }
}

/// References of one asset, not yet resolved.
#[derive(Debug, Deserialize)]
pub(crate) struct Asset {
    pub(crate) archive: String,
    sha256: Option<Digest>,
    size: Option<u64>,
    checksum: Option<String>,
    bundle: Option<String>,
}

/// Where an asset's files are.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) archive: Location,
    pub(crate) checksum: Option<Location>,
    pub(crate) bundle: Option<Location>,
}

impl Resolved {
    /// What `asset` names itself comes before what templates make of it.
    pub(crate) fn of(
        asset: &Asset,
        archive: Location,
        (checksum, bundle): (Option<String>, Option<String>),
        place: impl Fn(&str) -> Result<Location, String>,
    ) -> Result<Self, String> {
        let checksum = asset.checksum.as_ref().or(checksum.as_ref());
        let bundle = asset.bundle.as_ref().or(bundle.as_ref());
        Ok(Self {
            archive,
            checksum: checksum.map(|text| place(text)).transpose()?,
            bundle: bundle.map(|text| place(text)).transpose()?,
        })
    }
}

/// Reads an index. `resolve` turns references into places, or says what is wrong with them.
pub(crate) fn read(
    content: &[u8],
    location: &str,
    platform: Platform<'_>,
    resolve: impl Fn(&str, &Asset) -> Result<Resolved, String>,
) -> Result<Listing, FetchError> {
    let error = |found: String| FetchError::Index { location: location.to_owned(), found };
    let document: Value =
        serde_json::from_slice(content).map_err(|fault| error(format!("no JSON: {fault}")))?;
    match document.get("schema") {
        Some(schema) if *schema == 1 => {}
        Some(schema) => return Err(error(format!("schema {}", quoted(&schema.to_string())))),
        None => return Err(error("no schema number".to_owned())),
    }
    let Some(Value::Array(entries)) = document.get("releases") else {
        return Err(error("no list of releases".to_owned()));
    };
    let mut listing = Listing::default();
    let mut seen = BTreeSet::new();
    for (number, entry) in entries.iter().enumerate() {
        match read_entry(entry, platform, &resolve) {
            Ok(release) if !seen.insert(release.version.clone()) => listing.skipped.push(Skipped {
                reason: "the version is listed before".to_owned(),
                version: Some(release.version),
            }),
            Ok(release) => listing.releases.push(release),
            Err(reason) => {
                let version = entry.get("version").and_then(Value::as_str).filter(|text| is_nameable(text));
                let reason = format!("entry {}: {reason}", number + 1);
                listing.skipped.push(Skipped { version: version.map(str::to_owned), reason });
            }
        }
    }
    Ok(listing)
}

fn read_entry(
    entry: &Value,
    platform: Platform<'_>,
    resolve: impl Fn(&str, &Asset) -> Result<Resolved, String>,
) -> Result<Release, String> {
    let version = match entry.get("version") {
        Some(Value::String(version)) if is_nameable(version) => version,
        Some(other) => return Err(format!("expected a version, found {}", quoted(&other.to_string()))),
        None => return Err("expected a version, found none".to_owned()),
    };
    let Some(Value::Array(assets)) = entry.get("assets") else {
        return Err("expected a list of assets, found none".to_owned());
    };
    let asset = pick(assets, platform)?;
    let Resolved { archive, checksum, bundle } = resolve(version, &asset)?;
    Ok(Release {
        version: version.clone(),
        location: archive.shown(),
        sha256: asset.sha256,
        size: asset.size,
        file_name: archive.file_name()?,
        archive,
        checksum,
        bundle,
    })
}

/// The one asset for this platform. Other platforms' assets may be broken: they are not ours to judge.
fn pick(assets: &[Value], platform: Platform<'_>) -> Result<Asset, String> {
    let text = |asset: &Value, key| asset.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
    let ours: Vec<&Value> = assets
        .iter()
        .filter(|asset| text(asset, "os") == platform.os && text(asset, "arch") == platform.arch)
        .collect();
    match ours[..] {
        [asset] => Asset::deserialize(asset).map_err(|fault| quoted(&fault.to_string())),
        [] => {
            let found: Vec<String> = assets
                .iter()
                .take(20)
                .map(|asset| format!("{}/{}", text(asset, "os"), text(asset, "arch")))
                .collect();
            let Platform { os, arch } = platform;
            Err(format!("expected an asset for {os}/{arch}, found {}", quoted(&found.join(", "))))
        }
        _ => Err(format!("expected one asset for {}/{}, found {}", platform.os, platform.arch, ours.len())),
    }
}
