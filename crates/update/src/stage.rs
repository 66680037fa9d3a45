//! Stage: the one file that matters becomes a durable, immutable slot.

use std::{
    io::{self, Read, Seek as _},
    path::Path,
};

use myriarch_store::{Manifest, Slot};
use myriarch_verify::{Digest, Hasher};

use crate::{
    chain::{Error, Updater, with_causes},
    event::Event,
    obtain::Verified,
    outcome::{Refusal, RefusalKind, Stage},
    relay::beside,
    select::quarantined,
    unpack::{UnpackError, unpack_one_if},
};

/// A complete slot that nothing points to yet.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) slot: Slot,
}

impl Updater {
    pub(crate) fn stage(&self, mut verified: Verified) -> Result<Staged, Error> {
        let disk = |error: &dyn std::error::Error| Refusal {
            stage: Stage::Stage,
            kind: RefusalKind::Environment,
            reason: with_causes(error),
            hint: "check the space and the permissions of the store".to_owned(),
        };
        let mut staging = self.store.staging(&self.settings.binary).map_err(|error| disk(&error))?;
        verified.archive.rewind().map_err(|error| disk(&error))?;
        let mut archive = Hashing { inner: &verified.archive, hasher: Hasher::new() };
        let mut no_room = None;
        let fits = |length| {
            no_room = self.has_room_for_program(length, &verified.path).err();
            no_room.is_none()
        };
        let (binary, largest) = (&self.settings.binary, self.settings.largest_program);
        let (taken_out, written) =
            beside(&mut staging, |relay| unpack_one_if(&mut archive, binary, largest, fits, relay))
                .map_err(|error| disk(&error))?;
        let store = self.store.root();
        // Where writing failed, that is why taking out did.
        written
            .map_err(UnpackError::Write)
            .and(taken_out)
            .map_err(|error| no_room.unwrap_or_else(|| unpacking(&error, &verified.source, store)))?;
        let unpacked = archive.finish().map_err(|error| disk(&error))?;
        if unpacked != verified.digest {
            return Err(changed(&verified, unpacked).into());
        }
        let slot = self
            .store
            .publish(staging, |binary| Manifest {
                schema: Manifest::SCHEMA,
                name: self.settings.binary.clone(),
                version: verified.version.to_string(),
                binary,
                archive: verified.digest,
                evidence: serde_json::to_value(&verified.evidence).unwrap_or_default(),
                source: verified.source.clone(),
                staged_at: self.ports.clock.now().to_string(),
            })
            .map_err(|error| disk(&error))?;
        // The slot is durable: the download has served, and a leftover would only take space.
        let _ = self.ports.source.discard(&verified.path);
        let binary = slot.manifest().binary;
        if let Some(standing) = self.state()?.standing(|build| build.binary == binary) {
            return Err(quarantined(standing).into());
        }
        self.tell(&Event::Staged { slot: slot.name().to_string() });
        Ok(Staged { slot })
    }
}

/// Reads through and hashes what passes, so that the bytes unpacked are known to be the bytes trusted.
struct Hashing<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..length]);
        Ok(length)
    }
}

impl<R: Read> Hashing<R> {
    fn finish(mut self) -> io::Result<Digest> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.hasher.finish())
    }
}

fn unpacking(error: &UnpackError, archive: &str, store: &Path) -> Refusal {
    let full = format!(
        "free space at {}; the download is kept, and the next update goes on from it",
        store.display()
    );
    let (kind, hint) = match error {
        UnpackError::Write(source) if is_full(source) => (RefusalKind::Environment, &*full),
        UnpackError::Read(_) | UnpackError::Write(_) | UnpackError::NoRoom { .. } => {
            (RefusalKind::Environment, "check the space and the permissions of the store")
        }
        UnpackError::TooLarge { .. } => {
            let hint = "if the program really is that large, raise source.max_archive: eight times that is the limit";
            (RefusalKind::Candidate, hint)
        }
        UnpackError::NotGzip
        | UnpackError::Truncated { .. }
        | UnpackError::TrailingData
        | UnpackError::Malformed(_)
        | UnpackError::Absent { .. }
        | UnpackError::Several { .. }
        | UnpackError::NotAFile { .. } => {
            (RefusalKind::Candidate, "it was published like this: tell its publisher, or mend program.binary")
        }
    };
    let reason = format!("archive {archive}: {}", with_causes(error));
    Refusal { stage: Stage::Stage, kind, reason, hint: hint.to_owned() }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn changed(verified: &Verified, found: Digest) -> Refusal {
    Refusal {
        stage: Stage::Stage,
        kind: RefusalKind::Trust,
        reason: format!(
            "archive {}: expected sha256 {} as verified, found {found} while it was unpacked",
            verified.path.display(),
            verified.digest
        ),
        hint: "something writes to the store's partial directory; find out what".to_owned(),
    }
}
