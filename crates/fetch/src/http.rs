//! Releases behind URLs.
//!
//! An index, where there is one, decides alone what is on offer: what a mirror has withdrawn is not looked for
//! by guessing. Templates then only fill in the companions that its entries do not name. Without an index they
//! say where one version is, which is enough to bring it but not to list.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use reqwest::{
    Method, StatusCode, Url,
    header::{self, HeaderMap, HeaderValue},
};

use crate::{
    client::{Answer, Client, Way, text_of, unexpected},
    credentials::Credentials,
    document::{Document, Found},
    error::{FetchError, quoted, shown, without_secrets},
    index::{self, Listing, Resolved},
    limits::{Limits, Proxy, Timeouts},
    partial::Partial,
    platform::{LINUX, host_arch},
    progress::Progress,
    release::{Download, Location, Outstanding, Release},
    remembered::{Memory, Remembered, is_same},
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
    /// A PEM file of certificate authorities that are trusted besides the machine's own. Default none.
    pub authorities: Option<PathBuf>,
    /// A file whose first line is `Bearer <token>` or `<user>:<password>`, for the servers that index and
    /// templates name. It belongs to root or to whoever runs this, with mode 0600 or less. It is read anew for
    /// each request, goes over https or to loopback only, and never to where a redirect leads. Default none.
    pub credentials: Option<PathBuf>,
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
            authorities: None,
            credentials: None,
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
    memory: Memory,
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
        let HttpSettings {
            index,
            templates,
            os,
            arch,
            limits,
            timeouts,
            retries,
            proxy,
            authorities,
            credentials,
        } = settings;
        let index = index.map(|text| http_url("index", &text)).transpose()?;
        let platform = Platform { os: &os, arch: &arch };
        let templates = templates.map(|templates| check(&templates, platform)).transpose()?;
        if index.is_none() && templates.is_none() {
            let expected = "an index or an archive template".to_owned();
            return Err(FetchError::Setting { setting: "source", expected, found: String::new() });
        }
        let servers = servers(index.as_ref(), templates.as_ref(), platform);
        let credentials = credentials.map(|path| Credentials::new(path, servers));
        let client = Client::new(Way { timeouts, proxy, authorities, credentials })?;
        let memory = Memory::default();
        Ok(Self { index, templates, os, arch, limits, timeouts, retries, client, memory })
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
        let (seen, tag) = self.look_at(index).await?;
        let Index { at: base, content } = seen;
        let listing = index::read(&content, &shown(index), self.platform(), |version, asset| {
            let archive = relative(&base, &asset.archive)?;
            let (checksum, bundle) = match &self.templates {
                Some(templates) => {
                    templates.companions_of(version, self.platform(), archive.as_str(), Kind::Url)
                }
                None => (None, None),
            };
            Resolved::of(asset, Location::Url(archive), (checksum, bundle), |text| {
                relative(&base, text).map(Location::Url)
            })
        })?;
        self.memory.keep(tag.map(|tag| Remembered { tag, at: base, content }));
        Ok(listing)
    }

    /// The index, asked for only as far as it is not known yet, and the entity tag to ask by the next time.
    async fn look_at(&self, index: &Url) -> Result<(Index, Option<HeaderValue>), FetchError> {
        let document = self.document(index, self.limits.index);
        let known = self.memory.recall();
        let mut found = document.bring(known.as_ref().map(|known| &known.tag)).await?;
        if let (Found::Unchanged { at, tag }, Some(known)) = (&found, known) {
            if *at == known.at && tag.as_ref().is_some_and(|tag| is_same(tag, &known.tag)) {
                return Ok((Index { at: known.at, content: known.content }, Some(known.tag)));
            }
            // "Not modified" from elsewhere, or of something else, says nothing about this document.
            found = document.bring(None).await?;
        }
        match found {
            Found::Whole { at, tag, content } => Ok((Index { at, content: Arc::new(content) }, tag)),
            Found::Absent | Found::Unchanged { .. } => Err(FetchError::Missing { location: shown(index) }),
        }
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
        let Location::Url(url) = &release.archive else { return Ok(None) };
        Ok(match self.is_there(url).await? {
            There::No => None,
            There::Yes { size } => Some(Release { size, ..release }),
        })
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
            size: None,
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
    /// When the archive is not there or does not come, or does not fit on the disk; when its checksum file is
    /// not brought, or its bundle is neither brought nor plainly absent (404).
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

    /// How large `release` is, and how much of it `partial` has already. Where the index does not say, the server
    /// is asked once.
    ///
    /// # Errors
    /// When the release is another source's.
    pub async fn outstanding(&self, release: &Release, partial: &Path) -> Result<Outstanding, FetchError> {
        let Location::Url(url) = &release.archive else {
            return Err(FetchError::Foreign { location: release.location.clone() });
        };
        let archive = match release.size {
            Some(size) => Some(size),
            // Whether it can be had at all is for the download to say.
            None => match self.client.ask(Method::HEAD, url, HeaderMap::new()).await {
                Ok(Answer { response, .. }) if response.status() == StatusCode::OK => {
                    announced(response.headers())
                }
                _ => None,
            },
        };
        let (file, here) = Partial::look(partial, &release.version, url.as_str(), &release.file_name);
        Ok(Outstanding { archive, here, file })
    }

    fn platform(&self) -> Platform<'_> {
        Platform { os: &self.os, arch: &self.arch }
    }

    async fn companion(&self, location: &Location) -> Result<Option<Vec<u8>>, FetchError> {
        match location {
            Location::Url(url) => match self.document(url, self.limits.companion).bring(None).await? {
                Found::Whole { content, .. } => Ok(Some(content)),
                Found::Absent | Found::Unchanged { .. } => Ok(None),
            },
            Location::File(_) => Err(FetchError::Foreign { location: location.shown() }),
        }
    }

    fn document<'a>(&'a self, url: &'a Url, limit: u64) -> Document<'a> {
        Document { client: &self.client, url, limit, timeouts: &self.timeouts, retries: &self.retries }
    }

    async fn is_there(&self, url: &Url) -> Result<There, FetchError> {
        let mut tries = Tries::new(&self.retries);
        loop {
            let error = match self.client.ask(Method::HEAD, url, HeaderMap::new()).await {
                Ok(Answer { url, response }) => match response.status() {
                    StatusCode::NOT_FOUND => return Ok(There::No),
                    // Links that are signed for GET alone answer 403, simple servers 405 or 501.
                    StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                        return Ok(There::Yes { size: None });
                    }
                    status if status.is_success() => {
                        return Ok(There::Yes { size: announced(response.headers()) });
                    }
                    _ => unexpected(&url, &response),
                },
                Err(error) => error,
            };
            tries.after(error).await?;
        }
    }
}

/// An index's bytes, and where the redirects led to them.
struct Index {
    at: Url,
    content: Arc<Vec<u8>>,
}

/// Whether a server has an archive.
enum There {
    No,
    Yes { size: Option<u64> },
}

/// The length that an answer without a body announces.
fn announced(headers: &HeaderMap) -> Option<u64> {
    text_of(headers, &header::CONTENT_LENGTH)?.parse().ok()
}

/// URLs of the servers that the settings name. A host with the version in it is not one server, and is left out by
/// being another one for every real version.
fn servers(index: Option<&Url>, templates: Option<&TemplateSet>, platform: Platform<'_>) -> Vec<Url> {
    let places = templates.map(|templates| templates.places("0.0.0", platform, Kind::Url));
    let files = places.map(|places| [Some(places.archive), places.checksum, places.bundle]);
    let files = files.into_iter().flatten().flatten().filter_map(|place| place.parse().ok());
    index.cloned().into_iter().chain(files).collect()
}

fn http_url(setting: &'static str, text: &str) -> Result<Url, FetchError> {
    let error =
        |found: String| FetchError::Setting { setting, expected: "an http or https URL".to_owned(), found };
    // Text that is no URL can still hold a secret.
    let url: Url = text.parse().map_err(|_| error(without_secrets(text)))?;
    if is_http(&url) { Ok(url) } else { Err(error(shown(&url))) }
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
        found: without_secrets(&templates.archive),
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
