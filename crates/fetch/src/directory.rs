//! Releases in a directory: a share, a stick, an inbox.
//!
//! With an `index.json` the directory is a mirror on disk; without one its file names tell, by templates. The
//! bytes are copied into the store before anyone judges them, never linked: whoever can write the directory could
//! otherwise change them between the check and the use. What an entry names must lie below the directory.

use std::path::{Component, Path, PathBuf};

use tokio::{fs, io::AsyncReadExt as _};

use crate::{
    error::{FetchError, quoted},
    index::{self, Listing, Resolved},
    limits::Limits,
    partial::Partial,
    platform::{LINUX, host_arch},
    progress::Progress,
    regular::{open, read},
    release::{Download, Location, Outstanding, Release},
    template::{Kind, Platform, TemplateSet, Templates, is_nameable},
};

/// The index's name in a directory.
const INDEX: &str = "index.json";
/// The pieces in which an archive is copied.
const PIECE: usize = 128 * 1024;

/// Where a [`Directory`] source looks.
#[derive(Debug, Clone)]
pub struct DirectorySettings {
    /// The directory.
    pub path: PathBuf,
    /// File-name templates. Without an `index.json` they list what is there; with one they only name companions.
    pub templates: Option<Templates>,
    /// The operating system as releases name it. Default `linux`.
    pub os: String,
    /// The architecture as releases name it. Default this machine's.
    pub arch: String,
    /// The most bytes.
    pub limits: Limits,
}

impl DirectorySettings {
    /// The directory at `path`, with an index and every default.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            templates: None,
            os: LINUX.to_owned(),
            arch: host_arch().to_owned(),
            limits: Limits::default(),
        }
    }
}

/// A source that is a directory of this machine.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    templates: Option<TemplateSet>,
    os: String,
    arch: String,
    limits: Limits,
}

impl Directory {
    /// Reads the settings; looks at nothing yet.
    ///
    /// # Errors
    /// When a template is wrong or makes more than a file name.
    pub fn new(settings: DirectorySettings) -> Result<Self, FetchError> {
        let DirectorySettings { path, templates, os, arch, limits } = settings;
        let platform = Platform { os: &os, arch: &arch };
        let templates = templates.map(|templates| check(&templates, platform)).transpose()?;
        Ok(Self { path, templates, os, arch, limits })
    }

    /// Everything on offer for this platform.
    ///
    /// # Errors
    /// When the directory or its index cannot be read.
    pub async fn releases(&self) -> Result<Vec<Release>, FetchError> {
        Ok(self.listing().await?.releases)
    }

    /// As [`releases`](Self::releases), with the entries that were passed over and why.
    ///
    /// # Errors
    /// As there.
    pub async fn listing(&self) -> Result<Listing, FetchError> {
        let index = self.path.join(INDEX);
        if let Some(content) = read(&index, self.limits.index).await? {
            return self.listed_by_index(&content);
        }
        match &self.templates {
            Some(templates) => self.listed_by_names(templates).await,
            None => Err(FetchError::Missing { location: index.display().to_string() }),
        }
    }

    /// The release of exactly `version`, if there is one.
    ///
    /// # Errors
    /// When the directory cannot be read, or its entry for that version cannot be used.
    pub async fn release(&self, version: &str) -> Result<Option<Release>, FetchError> {
        if !is_nameable(version) {
            return Err(FetchError::Version { found: version.to_owned() });
        }
        self.listing().await?.find(version, &self.path.join(INDEX).display().to_string())
    }

    /// Copies `release` into the directory `partial`. `progress` is told the bytes so far and in all, at most
    /// ten times a second.
    ///
    /// # Errors
    /// When the archive is not there, is no regular file, is too large, does not fit on the disk or changes
    /// meanwhile; when its checksum file cannot be read, or its bundle neither can nor is plainly absent.
    pub async fn download(
        &self,
        release: &Release,
        partial: &Path,
        progress: &(dyn Fn(u64, Option<u64>) + Send + Sync),
    ) -> Result<Download, FetchError> {
        let Location::File(path) = &release.archive else {
            return Err(FetchError::Foreign { location: release.location.clone() });
        };
        let checksum = match release.named_checksum()? {
            Some((name, location)) => {
                let missing = || FetchError::NoChecksum { location: location.shown() };
                Some((name, self.companion(location).await?.ok_or_else(missing)?))
            }
            None => None,
        };
        let bundle = match &release.bundle {
            Some(location) => self.companion(location).await?,
            None => None,
        };
        let url = path.to_string_lossy();
        let mut file = Partial::open(partial, &release.version, &url, &release.file_name).await?;
        file.begin(None, None).await?;
        match copy(path, &mut file, self.limits.archive, &mut Progress::new(progress)).await {
            Ok(()) => Ok(Download {
                archive: file.path().to_owned(),
                file_name: release.file_name.clone(),
                checksum,
                bundle,
                resumed_from: 0,
            }),
            // A copy does not go on later: what it leaves only takes room.
            Err(error) => file.discard().await.and(Err(error)),
        }
    }

    /// How large `release` is, and how much of it `partial` has already.
    ///
    /// # Errors
    /// When the release is another source's.
    pub async fn outstanding(&self, release: &Release, partial: &Path) -> Result<Outstanding, FetchError> {
        let Location::File(path) = &release.archive else {
            return Err(FetchError::Foreign { location: release.location.clone() });
        };
        let url = path.to_string_lossy();
        let (file, here) = Partial::look(partial, &release.version, &url, &release.file_name);
        let found = fs::metadata(path).await.ok().filter(std::fs::Metadata::is_file);
        Ok(Outstanding { archive: found.map(|found| found.len()), here, file })
    }

    fn platform(&self) -> Platform<'_> {
        Platform { os: &self.os, arch: &self.arch }
    }

    async fn companion(&self, location: &Location) -> Result<Option<Vec<u8>>, FetchError> {
        match location {
            Location::File(path) => read(path, self.limits.companion).await,
            Location::Url(_) => Err(FetchError::Foreign { location: location.shown() }),
        }
    }

    fn listed_by_index(&self, content: &[u8]) -> Result<Listing, FetchError> {
        let index = self.path.join(INDEX).display().to_string();
        index::read(content, &index, self.platform(), |version, asset| {
            let archive = self.below(&asset.archive)?;
            let (checksum, bundle) = match &self.templates {
                Some(templates) => {
                    templates.companions_of(version, self.platform(), &asset.archive, Kind::FileName)
                }
                None => (None, None),
            };
            Resolved::of(asset, Location::File(archive), (checksum, bundle), |text| {
                self.below(text).map(Location::File)
            })
        })
    }

    async fn listed_by_names(&self, templates: &TemplateSet) -> Result<Listing, FetchError> {
        let error = |source| FetchError::File { doing: "list it", path: self.path.clone(), source };
        let mut entries = fs::read_dir(&self.path).await.map_err(error)?;
        let mut listing = Listing::default();
        while let Some(entry) = entries.next_entry().await.map_err(error)? {
            let name = entry.file_name();
            let Some(file_name) = name.to_str() else { continue };
            let Some(version) = templates.version_in(file_name, self.platform()) else { continue };
            let places = templates.places(&version, self.platform(), Kind::FileName);
            let at = |name: String| Location::File(self.path.join(name));
            let archive = at(places.archive);
            listing.releases.push(Release {
                version,
                location: archive.shown(),
                sha256: None,
                size: None,
                file_name: file_name.to_owned(),
                archive,
                checksum: places.checksum.map(at),
                bundle: places.bundle.map(at),
            });
        }
        // Directories have no order of their own.
        listing.releases.sort_by(|one, other| one.version.cmp(&other.version));
        Ok(listing)
    }

    fn below(&self, reference: &str) -> Result<PathBuf, String> {
        let path = Path::new(reference);
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if reference.contains("://") || !path.components().all(plain) || path.file_name().is_none() {
            return Err(format!("expected a path below the directory, found {}", quoted(reference)));
        }
        Ok(self.path.join(path))
    }
}

fn check(templates: &Templates, platform: Platform<'_>) -> Result<TemplateSet, FetchError> {
    let set = TemplateSet::parse(templates)?;
    let places = set.places("0.0.0", platform, Kind::FileName);
    for (setting, place) in [
        ("archive template", Some(places.archive)),
        ("checksum template", places.checksum),
        ("bundle template", places.bundle),
    ] {
        if let Some(found) = place.filter(|place| place.contains('/')) {
            return Err(FetchError::Setting { setting, expected: "a file name without /".to_owned(), found });
        }
    }
    Ok(set)
}

async fn copy(
    path: &Path,
    into: &mut Partial,
    limit: u64,
    progress: &mut Progress<'_>,
) -> Result<(), FetchError> {
    let location = || path.display().to_string();
    let error = |source| FetchError::File { doing: "read it", path: path.to_owned(), source };
    let Some((mut file, before)) = open(path).await? else {
        return Err(FetchError::Missing { location: location() });
    };
    if before.len() > limit {
        return Err(FetchError::TooLarge { location: location(), limit, found: Some(before.len()) });
    }
    into.has_room_for(before.len()).await?;
    let mut piece = vec![0; PIECE];
    loop {
        progress.at(into.received(), Some(before.len()));
        let length = file.read(&mut piece).await.map_err(error)?;
        if length == 0 {
            break;
        }
        if into.received() + length as u64 > limit {
            return Err(FetchError::TooLarge { location: location(), limit, found: None });
        }
        into.append(&piece[..length]).await?;
    }
    let received = into.settle().await?;
    let after = file.metadata().await.map_err(error)?;
    if received != before.len()
        || after.len() != before.len()
        || after.modified().ok() != before.modified().ok()
    {
        let (expected, found) = (format!("{} bytes, left alone", before.len()), format!("{received}"));
        return Err(FetchError::Changed { location: location(), expected, found });
    }
    progress.done(received);
    Ok(())
}
