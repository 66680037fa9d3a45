//! The source port: a release of `fetch` is an offer of `update`.

use std::{io, path::Path};

use async_trait::async_trait;
use myriarch_fetch::{Directory, Download, FetchError, Http, Release};
use myriarch_policy::Version;
use myriarch_update::{Delivery, Offer, Outstanding, Progress, Source, SourceError};

/// One of the sources that can be configured.
#[derive(Debug)]
pub(crate) enum ReleaseSource {
    Http(Box<Http>),
    Directory(Directory),
}

impl ReleaseSource {
    async fn release(&self, version: &str) -> Result<Option<Release>, FetchError> {
        match self {
            Self::Http(source) => source.release(version).await,
            Self::Directory(source) => source.release(version).await,
        }
    }

    /// The release behind an offer, as the source has it now.
    async fn offered(&self, offer: &Offer) -> Result<Release, SourceError> {
        let release = self.release(offer.version.as_str()).await.map_err(|error| failed(&error))?;
        release.ok_or_else(|| SourceError {
            reason: format!("{}: expected release {}, found it gone", offer.location, offer.version),
            hint: "the source changed between two questions; try again".to_owned(),
        })
    }
}

#[async_trait]
impl Source for ReleaseSource {
    async fn offers(&self) -> Result<Vec<Offer>, SourceError> {
        let releases = match self {
            Self::Http(source) => source.releases().await,
            Self::Directory(source) => source.releases().await,
        };
        Ok(releases.map_err(|error| failed(&error))?.iter().filter_map(offer).collect())
    }

    async fn offer(&self, version: &Version) -> Result<Option<Offer>, SourceError> {
        let release = self.release(version.as_str()).await.map_err(|error| failed(&error))?;
        Ok(release.as_ref().and_then(offer))
    }

    async fn outstanding(&self, offer: &Offer, partial: &Path) -> Result<Option<Outstanding>, SourceError> {
        let release = self.offered(offer).await?;
        let found = match self {
            Self::Http(source) => source.outstanding(&release, partial).await,
            Self::Directory(source) => source.outstanding(&release, partial).await,
        };
        let myriarch_fetch::Outstanding { archive, here, file } = found.map_err(|error| failed(&error))?;
        Ok(Some(Outstanding { archive, here, file }))
    }

    async fn deliver(
        &self,
        offer: &Offer,
        partial: &Path,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Delivery, SourceError> {
        let release = self.offered(offer).await?;
        let tell = |received, total| progress(Progress { received, total });
        let download = match self {
            Self::Http(source) => source.download(&release, partial, &tell).await,
            Self::Directory(source) => source.download(&release, partial, &tell).await,
        };
        let Download { archive, file_name, checksum, bundle, .. } =
            download.map_err(|error| failed(&error))?;
        Ok(Delivery { archive, file_name, checksum, bundle })
    }

    fn discard(&self, archive: &Path) -> io::Result<()> {
        myriarch_fetch::discard(archive)
    }
}

/// A release whose version is no version text cannot be offered; the source says so where it lists.
fn offer(release: &Release) -> Option<Offer> {
    let version = release.version.parse().ok()?;
    Some(Offer { version, location: release.location.clone(), claimed: release.sha256 })
}

fn failed(error: &FetchError) -> SourceError {
    SourceError { reason: error.chain(), hint: error.hint() }
}
