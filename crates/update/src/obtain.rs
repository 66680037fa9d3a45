//! Obtain: the bytes arrive, and are trusted or refused before anything parses them. A store that cannot take them,
//! or where others decide what runs, is said to be so before anything is asked of the source.
//!
//! The archive is opened once. The file that was hashed is the file that is unpacked later: whoever swaps the
//! path in between changes nothing here.

use std::{
    fs::File,
    io::{self, Seek as _},
};

use myriarch_policy::Version;
use myriarch_verify::{Digest, Distrust, Evidence, Subject, checksum};

use crate::{
    chain::{Error, Updater},
    event::Event,
    outcome::{Refusal, RefusalKind, Stage},
    ports::{Delivery, Progress},
    select::{Candidate, quarantined},
    space::RoomError,
};

/// An archive that is trusted, held open.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) version: Version,
    pub(crate) source: String,
    pub(crate) archive: File,
    pub(crate) path: std::path::PathBuf,
    pub(crate) digest: Digest,
    pub(crate) evidence: Evidence,
}

impl Updater {
    pub(crate) async fn obtain(&self, Candidate { offer, .. }: Candidate) -> Result<Verified, Error> {
        self.store
            .fit()
            .map_err(|unfit| refusal(RefusalKind::Environment, unfit.to_string(), &unfit.hint()))?;
        self.has_room_for(&offer).await.map_err(|error| match error {
            RoomError::Refused(refusal) => refusal,
            RoomError::Source(error) => refusal(RefusalKind::Environment, error.reason, &error.hint),
        })?;
        let progress = |Progress { received, total }| {
            self.tell(&Event::Downloading { version: offer.version.clone(), received, total });
        };
        let delivery = self
            .ports
            .source
            .deliver(&offer, &self.store.partial_dir(), &progress)
            .await
            .map_err(|error| refusal(RefusalKind::Environment, error.reason, &error.hint))?;
        let judged = self.judge(&offer, &delivery);
        if judged.is_err() {
            // What was refused must not be resumed or taken for a finished download the next time.
            let _ = self.ports.source.discard(&delivery.archive);
        }
        let (archive, digest, evidence) = judged?;
        self.tell(&Event::Verified {
            version: offer.version.clone(),
            archive: digest,
            trust: evidence.to_string(),
        });
        Ok(Verified {
            version: offer.version,
            source: offer.location,
            archive,
            path: delivery.archive,
            digest,
            evidence,
        })
    }

    fn judge(
        &self,
        offer: &crate::ports::Offer,
        delivery: &Delivery,
    ) -> Result<(File, Digest, Evidence), Error> {
        let (archive, digest) = hash(&delivery.archive).map_err(|error| {
            let path = delivery.archive.display();
            refusal(RefusalKind::Environment, format!("reading {path}: {error}"), "check the store's disk")
        })?;
        if let Some(claimed) = offer.claimed.filter(|claimed| *claimed != digest) {
            return Err(altered(&offer.location, "the source's list", claimed, digest).into());
        }
        if let Some((name, content)) = &delivery.checksum {
            let expected = checksum::digest_for(name, &delivery.file_name, content)
                .map_err(|error| refusal(RefusalKind::Trust, error.to_string(), error.hint()))?;
            if expected != digest {
                return Err(altered(&offer.location, name, expected, digest).into());
            }
        }
        let subject = Subject {
            version: offer.version.bare(),
            archive: digest,
            file_name: &delivery.file_name,
            bundle: delivery.bundle.as_deref(),
        };
        let evidence = self.settings.trust.judge(&subject).map_err(|error| distrusted(&error))?;
        if let Some(standing) = self.state()?.standing(|build| build.archive == digest) {
            return Err(quarantined(standing).into());
        }
        Ok((archive, digest, evidence))
    }
}

fn hash(path: &std::path::Path) -> io::Result<(File, Digest)> {
    let mut archive = File::open(path)?;
    let (digest, _) = Digest::of_reader(&archive)?;
    archive.rewind()?;
    Ok((archive, digest))
}

fn refusal(kind: RefusalKind, reason: String, hint: &str) -> Refusal {
    Refusal { stage: Stage::Obtain, kind, reason, hint: hint.to_owned() }
}

fn altered(location: &str, by: &str, expected: Digest, found: Digest) -> Refusal {
    let reason = format!("archive {location}: expected sha256 {expected} as {by} says, found {found}");
    refusal(
        RefusalKind::Trust,
        reason,
        "the archive was altered or damaged on its way; ask its publisher or mirror",
    )
}

fn distrusted(error: &Distrust) -> Refusal {
    refusal(RefusalKind::Trust, error.to_string(), error.hint())
}
