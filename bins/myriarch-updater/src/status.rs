//! How things stand: read from the store and the processes, without the lock, while anything goes on.
//!
//! No program is hashed for a screen unless that is asked for: what the last check found is told as long as the
//! file is the very same.

use std::{collections::HashMap, fs, os::unix::fs::DirBuilderExt as _, time::Duration};

use jiff::{SignedDuration, Timestamp};
use myriarch_cli::{
    Config, HistoryDocument, StatusDocument,
    config::IdentityCheck,
    history::{Happened, What},
    status::{
        Confirmed, Current, Health, Integrity, OnTrial, Quarantined, Running, STATUS_SCHEMA, SlotState,
        Trusted, Unasked, Updater,
    },
};
use myriarch_probe::{Identity, Probe, ProbeSettings, Reading, process::Process};
use myriarch_store::{FileId, Manifest, Slot, Store, durable, running};
use myriarch_update::{
    Build, Clock as _, Recovery, State,
    journal::{Entry, Journal, JournalError, Line},
    recover,
};
use myriarch_verify::Evidence;

use crate::{clock::SystemClock, compose, look, verbs, words::with_causes};

/// The most that the health endpoint may take to answer a status.
const PATIENCE: Duration = Duration::from_millis(500);

/// The status as it was asked for.
pub(crate) async fn asked(config: &Config, store: &Store, how: verbs::Status) -> StatusDocument {
    if how.integrity {
        for slot in store.slots().unwrap_or_default().iter().filter_map(|(_, slot)| slot.as_ref().ok()) {
            // What is found is remembered and told below.
            let _ = slot.check();
        }
        remember(config, store);
    } else {
        store.checks().load(&compose::checked(config));
    }
    let document = document(config, store);
    let health = if how.no_probe { Health::NotAsked } else { health(config, store, &document.running).await };
    StatusDocument { health, ..document }
}

/// The status document. What cannot be read is said in it and hides nothing else.
pub(crate) fn document(config: &Config, store: &Store) -> StatusDocument {
    let (lines, journal) = match Journal::at(store.journal_path()).lines() {
        Ok(lines) => (lines, None),
        Err(JournalError::Unreadable { readable, reason, line, .. }) => {
            (readable, Some(format!("cannot be read whole: line {line}: {reason}")))
        }
        Err(error) => (vec![], Some(with_causes(&error))),
    };
    let state = State::of(&lines);
    let slots = store.slots().unwrap_or_default();
    let pids = running::processes_by_file().unwrap_or_default();
    let readable = slots.iter().filter_map(|(_, slot)| slot.as_ref().ok());
    let updater = store.holder().ok().flatten();
    let updater =
        updater.map(|holder| Updater { pid: holder.pid, purpose: holder.purpose, since: holder.since });
    let look = look::read(store);
    StatusDocument {
        schema: STATUS_SCHEMA,
        service: config.service.clone(),
        store: store.root().to_path_buf(),
        current: current(store),
        running: readable.filter_map(|slot| running_from(slot, &pids)).collect(),
        health: Health::NotAsked,
        trusted: store.current_slot().ok().flatten().map(|slot| trusted(slot.manifest())),
        look: look.last,
        next_look: look.next.filter(|_| updater.is_some()),
        updater,
        trial: on_trial(&lines),
        pin: state.pin().cloned(),
        last: last(&lines),
        journal,
        confirmed: state
            .confirmed()
            .iter()
            .rev()
            .map(|build| Confirmed {
                version: build.version.clone(),
                slot: build.name(),
                since: confirmed_at(&lines, build),
            })
            .collect(),
        quarantined: state
            .quarantined()
            .iter()
            .map(|known| Quarantined {
                version: known.build.version.clone(),
                slot: known.build.name(),
                reason: known.reason.clone(),
                since: known.since.to_string(),
            })
            .collect(),
        slots: slots
            .iter()
            .map(|(name, slot)| SlotState {
                slot: name.to_string(),
                integrity: match slot {
                    Ok(slot) => integrity(slot),
                    Err(error) => Integrity::Damaged { reason: with_causes(error) },
                },
            })
            .collect(),
    }
}

/// Rewrites `status.json` for those who read files, and keeps what this process's checks found for those who ask.
/// Both are derived: that they cannot be written is worth nothing.
pub(crate) fn publish(config: &Config, store: &Store) {
    remember(config, store);
    if let Ok(text) = serde_json::to_vec(&document(config, store)) {
        let _ = durable::replace(&store.status_path(), &text, 0o644);
    }
}

fn remember(config: &Config, store: &Store) {
    let _ = fs::DirBuilder::new().recursive(true).mode(0o755).create(&config.run.directory);
    let versions = store.versions_dir();
    let _ = store.checks().save(&compose::checked(config), |slot| versions.join(slot).is_dir());
}

/// What happened, as the journal tells it.
pub(crate) fn history(store: &Store) -> Result<HistoryDocument, JournalError> {
    Ok(HistoryDocument::of(&Journal::at(store.journal_path()).lines()?))
}

fn current(store: &Store) -> Current {
    use myriarch_store::Current as Link;
    match store.current() {
        Ok(Link::Absent) => Current::Absent,
        Ok(Link::Foreign { target }) => Current::Foreign { target },
        Ok(Link::Slot(name)) => match store.slot(&name) {
            Ok(slot) => match slot.manifest().version.parse() {
                Ok(version) => Current::Slot {
                    slot: name.to_string(),
                    version,
                    binary: slot.manifest().binary,
                    integrity: integrity(&slot),
                },
                Err(_) => Current::Foreign { target: slot.dir().to_path_buf() },
            },
            Err(_) => Current::Foreign { target: store.versions_dir().join(name.as_str()) },
        },
        Err(_) => Current::Foreign { target: store.root().join("current") },
    }
}

fn integrity(slot: &Slot) -> Integrity {
    match slot.last_check() {
        Some(Ok(())) => Integrity::Intact,
        Some(Err(reason)) => Integrity::Damaged { reason },
        None => Integrity::Unchecked,
    }
}

fn trusted(manifest: &Manifest) -> Trusted {
    let evidence = serde_json::from_value::<Evidence>(manifest.evidence.clone());
    Trusted {
        words: evidence.map_or("by evidence that this version cannot read".to_owned(), |it| it.to_string()),
        source: manifest.source.clone(),
        time: manifest.staged_at.clone(),
    }
}

fn running_from(slot: &Slot, running: &HashMap<FileId, Vec<u32>>) -> Option<Running> {
    let pids = running.get(&slot.file_id().ok()?)?.clone();
    let since = pids.iter().filter_map(|pid| started(*pid)).min().map(|at| at.to_string());
    Some(Running { slot: Some(slot.name().to_string()), pids, since })
}

/// When a process started, by the wall clock as it is set now, to the second.
fn started(pid: u32) -> Option<Timestamp> {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let after_boot = Duration::from_millis(Process::with_pid(pid).ok()?.start_time() * 1000 / per_second);
    let age = SystemClock.boottime().saturating_sub(after_boot);
    let at = SystemClock.now().checked_sub(SignedDuration::try_from(age).ok()?).ok()?;
    at.round(jiff::Unit::Second).ok()
}

/// Asks the health endpoint once. A command is not run for a screen, which then says so.
async fn health(config: &Config, store: &Store, running: &[Running]) -> Health {
    let file = store.current_slot().ok().flatten().and_then(|slot| slot.file_id().ok());
    let (Some(file), Some(http)) = (file, config.probe.http.clone()) else {
        return if running.is_empty() { Health::NothingRuns } else { Health::NotAsked };
    };
    // Others may not see who runs what: to them silence of the processes means nothing.
    let sees_all = rustix::process::geteuid().is_root();
    if running.is_empty() && sees_all {
        return Health::NothingRuns;
    }
    let mut unasked = vec![];
    let identity = match config.probe.identity {
        IdentityCheck::Listener if sees_all || !running.is_empty() => Identity::Listener,
        IdentityCheck::Listener => {
            unasked.push(Unasked::Identity);
            Identity::Skip
        }
        IdentityCheck::Skip => Identity::Skip,
    };
    if !config.probe.command.is_empty() {
        unasked.push(Unasked::Command);
    }
    let timeout = config.probe.timeout.min(PATIENCE);
    let Ok(probe) =
        Probe::new(ProbeSettings { http: Some(http), identity, timeout, ..ProbeSettings::default() })
    else {
        return Health::NotAsked;
    };
    match probe.once((file.dev, file.ino)).await {
        Reading::Ready if unasked.is_empty() => Health::Healthy,
        Reading::Ready => Health::Answers { unasked },
        Reading::NotReady(seen) | Reading::Impostor(seen) | Reading::Restarted(seen) => {
            Health::NotHealthy { seen: compose::redactor(config).redact(&seen) }
        }
    }
}

fn on_trial(lines: &[Line]) -> Option<OnTrial> {
    match recover(lines) {
        Recovery::Resume { to, from, .. } => {
            let left = lines.iter().rev().find_map(|line| match line.entry {
                Entry::Trial { tries, .. } => Some(tries),
                _ => None,
            });
            Some(OnTrial { to: to.name(), from: from.as_ref().map(Build::name), tries: left.unwrap_or(0) })
        }
        Recovery::GoBack { from, to, .. } => {
            Some(OnTrial { to: from.name(), from: to.as_ref().map(Build::name), tries: 0 })
        }
        Recovery::Nothing => None,
    }
}

fn last(lines: &[Line]) -> Option<Happened> {
    let ended = |entry: &Happened| match &entry.what {
        What::Trial(trial) => trial.ended.is_some(),
        What::Rescued { .. } | What::Imported { .. } | What::ImportUndone => true,
        _ => false,
    };
    HistoryDocument::of(lines).entries.into_iter().rev().find(ended)
}

fn confirmed_at(lines: &[Line], build: &Build) -> String {
    let confirmed = |line: &&Line| {
        matches!(&line.entry, Entry::Confirmed { build: known, .. } | Entry::Imported { build: known, .. }
                if known == build)
    };
    lines.iter().rev().find(confirmed).map_or(String::new(), |line| line.at.to_string())
}
