//! Releases behind URLs.
//!
//! An index, where there is one, decides alone what is on offer: what a mirror has withdrawn is not looked for
//! by guessing. Templates then only fill in the companions that its entries do not name. Without an index they
//! say where one version is, which is enough to bring it but not to list.

use std::path::Path;

use reqwest::{Method, StatusCode, Url, header::HeaderMap};

use crate::{
    client::{Answer, Client, unexpected},
    error::{FetchError, Waiting, quoted, shown},
    index::{self, Listing, Resolved},
    limits::{Limits, Proxy, Timeouts},
    partial::Partial,
    platform::{LINUX, host_arch},
    progress::Progress,
    release::{Download, Location, Release},
    retry::{Retries, Tries},
    template::{Kind, Platform, TemplateSet, Templates, is_nameable},
    transfer::Transfer,
};

/// Where an [`Http`] source looks, and how.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// The URL of an index, http or https.
    pub index: Option<String>,
    /// URL templates, needed where there is no index.
    pub templates: Option<Templates>,
    /// The operating system as releases name it. Default `linux`.
    pub os: String,
    /// The architecture as releases name it. Default this machine's.
    pub arch: String,
    /// The most bytes.
    pub limits: Limits,
    /// The longest waits.
    pub timeouts: Timeouts,
    /// How often a fault that may pass is tried again.
    pub retries: Retries,
    /// Whether a proxy is used.
    pub proxy: Proxy,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            index: None,
            templates: None,
            os: LINUX.to_owned(),
            arch: host_arch().to_owned(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            proxy: Proxy::default(),
        }
    }
}

/// A source that is reached by HTTP.
#[derive(Debug)]
pub struct Http {
    index: Option<Url>,
    templates: Option<TemplateSet>,
    os: String,
    arch: String,
    limits: Limits,
    timeouts: Timeouts,
    retries: Retries,
    client: Client,
}

impl Http {
    /// Reads the settings; asks nobody anything yet.
    ///
    /// The process must have a default TLS provider before, also where only plain http is used: the HTTP client
    /// cannot be built without one. A binary installs it once, first thing:
    /// `rustls::crypto::aws_lc_rs::default_provider().install_default()`. Missing root certificates, on the
    /// other hand, are no error until an https URL is asked for.
    ///
    /// # Errors
    /// When neither index nor templates are given, a URL or template is wrong, or no provider is installed.
    pub fn new(settings: HttpSettings) -> Result<Self, FetchError> {
        let HttpSettings { index, templates, os, arch, limits, timeouts, retries, proxy } = settings;
        let index = index.map(|text| http_url("index", &text)).transpose()?;
        let platform = Platform { os: &os, arch: &arch };
        let templates = templates.map(|templates| check(&templates, platform)).transpose()?;
        if index.is_none() && templates.is_none() {
            let expected = "an index or an archive template".to_owned();
            return Err(FetchError::Setting { setting: "source", expected, found: String::new() });
        }
        let client = Client::new(timeouts, proxy)?;
        Ok(Self { index, templates, os, arch, limits, timeouts, retries, client })
    }

    /// Everything on offer for this platform.
    ///
    /// # Errors
    /// When there is no index, or it cannot be had or read.
    pub async fn releases(&self) -> Result<Vec<Release>, FetchError> {
        Ok(self.listing().await?.releases)
    }

    /// As [`releases`](Self::releases), with the entries that were passed over and why.
    ///
    /// # Errors
    /// As there.
    pub async fn listing(&self) -> Result<Listing, FetchError> {
        let index = self.index.as_ref().ok_or(FetchError::NoIndex)?;
        let (base, content) = self
            .document(index, self.limits.index)
            .await?
            .ok_or_else(|| FetchError::Missing { location: shown(index) })?;
        index::read(&content, &shown(index), self.platform(), |version, asset| {
            let archive = relative(&base, &asset.archive)?;
            let (mut checksum, mut bundle) = match &self.templates {
                Some(templates) => {
                    templates.companions_of(version, self.platform(), archive.as_str(), Kind::Url)
                }
                None => (None, None),
            };
            checksum = asset.checksum.clone().or(checksum);
            bundle = asset.bundle.clone().or(bundle);
            let companion =
                |text: Option<String>| text.map(|text| relative(&base, &text).map(Location::Url)).transpose();
            Ok(Resolved {
                archive: Location::Url(archive),
                checksum: companion(checksum)?,
                bundle: companion(bundle)?,
            })
        })
    }

    /// The release of exactly `version`, if there is one. Without an index the archive's URL is asked whether
    /// it is there (`HEAD`); a server that does not answer such questions is believed to have it.
    ///
    /// # Errors
    /// When the source cannot be asked, or its entry for that version cannot be used.
    pub async fn release(&self, version: &str) -> Result<Option<Release>, FetchError> {
        if !is_nameable(version) {
            return Err(FetchError::Version { found: version.to_owned() });
        }
        if let Some(index) = &self.index {
            return self.listing().await?.find(version, &shown(index));
        }
        let release = self.locate(version)?;
        let there = match &release.archive {
            Location::Url(url) => self.is_there(url).await?,
            Location::File(_) => false,
        };
        Ok(there.then_some(release))
    }

    /// Where the templates say that `version` is, without asking whether it is there.
    ///
    /// # Errors
    /// When there are no templates, or the version cannot be put in them.
    pub fn locate(&self, version: &str) -> Result<Release, FetchError> {
        if !is_nameable(version) {
            return Err(FetchError::Version { found: version.to_owned() });
        }
        let error = |expected: String| FetchError::Setting {
            setting: "archive template",
            expected,
            found: version.to_owned(),
        };
        let templates = self.templates.as_ref().ok_or_else(|| error("an archive template".to_owned()))?;
        let places = templates.places(version, self.platform(), Kind::Url);
        let archive = Location::Url(http_url("archive template", &places.archive)?);
        let companion = |setting, place: Option<String>| {
            place.map(|text| http_url(setting, &text).map(Location::Url)).transpose()
        };
        Ok(Release {
            version: version.to_owned(),
            location: archive.shown(),
            sha256: None,
            file_name: archive.file_name().map_err(error)?,
            archive,
            checksum: companion("checksum template", places.checksum)?,
            bundle: companion("bundle template", places.bundle)?,
        })
    }

    /// Brings `release` into the directory `partial`, going on where an earlier download of it stood.
    /// `progress` is told the bytes so far and in all, at most ten times a second.
    ///
    /// The companions come first: when one of them cannot be had, no archive is moved for nothing.
    ///
    /// # Errors
    /// When the archive is not there or does not come; when a companion that the release names is neither
    /// brought nor plainly absent (404).
    pub async fn download(
        &self,
        release: &Release,
        partial: &Path,
        progress: &(dyn Fn(u64, Option<u64>) + Send + Sync),
    ) -> Result<Download, FetchError> {
        let Location::Url(url) = &release.archive else {
            return Err(FetchError::Foreign { location: release.location.clone() });
        };
        let checksum = match release.named_checksum()? {
            Some((name, location)) => self.companion(location).await?.map(|content| (name, content)),
            None => None,
        };
        let bundle = match &release.bundle {
            Some(location) => self.companion(location).await?,
            None => None,
        };
        let file = Partial::open(partial, &release.version, url.as_str(), &release.file_name).await?;
        let transfer = Transfer {
            client: &self.client,
            url,
            limit: self.limits.archive,
            timeouts: &self.timeouts,
            retries: &self.retries,
        };
        let (file, resumed_from) = transfer.run(file, &mut Progress::new(progress)).await?;
        Ok(Download {
            archive: file.path().to_owned(),
            file_name: release.file_name.clone(),
            checksum,
            bundle,
            resumed_from,
        })
    }

    fn platform(&self) -> Platform<'_> {
        Platform { os: &self.os, arch: &self.arch }
    }

    async fn companion(&self, location: &Location) -> Result<Option<Vec<u8>>, FetchError> {
        match location {
            Location::Url(url) => {
                Ok(self.document(url, self.limits.companion).await?.map(|(_, content)| content))
            }
            Location::File(_) => Err(FetchError::Foreign { location: location.shown() }),
        }
    }

    /// A small file and where it was found in the end; `None` if it is plainly not there.
    async fn document(&self, url: &Url, limit: u64) -> Result<Option<(Url, Vec<u8>)>, FetchError> {
        let mut tries = Tries::new(&self.retries);
        loop {
            let within = self.timeouts.document;
            let done = tokio::time::timeout(within, self.document_once(url, limit)).await;
            let late =
                |_| Err(FetchError::TimedOut { url: shown(url), waiting: Waiting::End, limit: within });
            match done.unwrap_or_else(late) {
                Ok(found) => return Ok(found),
                Err(error) => tries.after(error).await?,
            }
        }
    }

    async fn document_once(&self, url: &Url, limit: u64) -> Result<Option<(Url, Vec<u8>)>, FetchError> {
        let Answer { url: found_at, mut response } =
            self.client.ask(Method::GET, url, HeaderMap::new()).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Err(unexpected(&found_at, &response)),
        }
        let too_large = |found| FetchError::TooLarge { location: shown(url), limit, found };
        let expected = response.content_length();
        if expected.is_some_and(|expected| expected > limit) {
            return Err(too_large(expected));
        }
        let mut content = Vec::new();
        loop {
            match tokio::time::timeout(self.timeouts.stall, response.chunk()).await {
                Ok(Ok(Some(piece))) if (content.len() + piece.len()) as u64 > limit => {
                    return Err(too_large(None));
                }
                Ok(Ok(Some(piece))) => content.extend_from_slice(&piece),
                Ok(Ok(None)) => return Ok(Some((found_at, content))),
                Ok(Err(fault)) => {
                    return Err(FetchError::CutShort {
                        url: shown(url),
                        received: content.len() as u64,
                        expected,
                        source: Some(fault.without_url().into()),
                    });
                }
                Err(_) => {
                    let (waiting, limit) = (Waiting::Bytes, self.timeouts.stall);
                    return Err(FetchError::TimedOut { url: shown(url), waiting, limit });
                }
            }
        }
    }

    async fn is_there(&self, url: &Url) -> Result<bool, FetchError> {
        let mut tries = Tries::new(&self.retries);
        loop {
            let error = match self.client.ask(Method::HEAD, url, HeaderMap::new()).await {
                Ok(Answer { url, response }) => match response.status() {
                    StatusCode::NOT_FOUND => return Ok(false),
                    // Links that are signed for GET alone answer 403, simple servers 405 or 501.
                    StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                        return Ok(true);
                    }
                    status if status.is_success() => return Ok(true),
                    _ => unexpected(&url, &response),
                },
                Err(error) => error,
            };
            tries.after(error).await?;
        }
    }
}

fn http_url(setting: &'static str, text: &str) -> Result<Url, FetchError> {
    let error = || FetchError::Setting {
        setting,
        expected: "an http or https URL".to_owned(),
        found: text.to_owned(),
    };
    let url: Url = text.parse().map_err(|_| error())?;
    if is_http(&url) { Ok(url) } else { Err(error()) }
}

fn is_http(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

/// Templates that make URLs with file names, tried with an example.
fn check(templates: &Templates, platform: Platform<'_>) -> Result<TemplateSet, FetchError> {
    let set = TemplateSet::parse(templates)?;
    let places = set.places("0.0.0", platform, Kind::Url);
    let setting = "archive template";
    let archive = Location::Url(http_url(setting, &places.archive)?);
    archive.file_name().map_err(|expected| FetchError::Setting {
        setting,
        expected,
        found: templates.archive.clone(),
    })?;
    for (setting, place) in [("checksum template", places.checksum), ("bundle template", places.bundle)] {
        if let Some(place) = place {
            http_url(setting, &place)?;
        }
    }
    Ok(set)
}

fn relative(base: &Url, reference: &str) -> Result<Url, String> {
    let url = base.join(reference).ok().filter(is_http);
    url.ok_or_else(|| {
        format!("expected an http or https URL or one relative to the index, found {}", quoted(reference))
    })
}
