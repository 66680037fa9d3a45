//! How things stand: read from the store and the processes, without the lock, while anything goes on.

use myriarch_cli::{
    Config, HistoryDocument, HistoryLine, StatusDocument, describe,
    status::{
        Confirmed, Current, Integrity, Last, OnTrial, Quarantined, Running, STATUS_SCHEMA, SlotState, Updater,
    },
};
use myriarch_store::{Slot, Store, durable, running};
use myriarch_update::{
    Build, Recovery, State,
    journal::{Entry, Journal, JournalError, Line},
    recover,
};

/// The status document. What cannot be read is said in it and hides nothing else.
pub(crate) fn document(config: &Config, store: &Store) -> StatusDocument {
    let (lines, trouble) = match Journal::at(store.journal_path()).lines() {
        Ok(lines) => (lines, None),
        Err(JournalError::Unreadable { readable, reason, .. }) => (readable, Some(reason)),
        Err(error) => (vec![], Some(error.to_string())),
    };
    let state = State::of(&lines);
    let slots = store.slots().unwrap_or_default();
    let readable: Vec<&Slot> = slots.iter().filter_map(|(_, slot)| slot.as_ref().ok()).collect();
    // Hashing a program is what costs here: each is hashed once.
    let states: Vec<SlotState> = slots
        .iter()
        .map(|(name, slot)| SlotState {
            slot: name.to_string(),
            integrity: match slot {
                Ok(slot) => integrity(slot),
                Err(error) => Integrity::Damaged { reason: crate::words::with_causes(error) },
            },
        })
        .collect();
    let at = |build: &Build| {
        let confirmed = |line: &&Line| {
            matches!(&line.entry, Entry::Confirmed { build: known, .. } | Entry::Imported { build: known, .. }
                if known == build)
        };
        lines.iter().rev().find(confirmed).map_or(String::new(), |line| line.at.to_string())
    };
    StatusDocument {
        schema: STATUS_SCHEMA,
        service: config.service.clone(),
        store: store.root().to_path_buf(),
        current: current(store, &states),
        running: readable.iter().filter_map(|slot| running_from(slot)).collect(),
        updater: store.holder().ok().flatten().map(|holder| Updater { pid: holder.pid, since: holder.since }),
        trial: match recover(&lines) {
            Recovery::Resume { to, from, .. } => {
                let left = lines.iter().rev().find_map(|line| match line.entry {
                    Entry::Trial { tries, .. } => Some(tries),
                    _ => None,
                });
                Some(OnTrial {
                    to: to.name(),
                    from: from.as_ref().map(Build::name),
                    tries: left.unwrap_or(0),
                })
            }
            Recovery::GoBack { from, to, .. } => {
                Some(OnTrial { to: from.name(), from: to.as_ref().map(Build::name), tries: 0 })
            }
            Recovery::Nothing => None,
        },
        pin: state.pin().cloned(),
        last: last(&lines, trouble),
        confirmed: state
            .confirmed()
            .iter()
            .rev()
            .map(|build| Confirmed { version: build.version.clone(), slot: build.name(), since: at(build) })
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
        slots: states,
    }
}

/// Rewrites `status.json` for those who read files. It is derived: that it cannot be written is worth nothing.
pub(crate) fn publish(config: &Config, store: &Store) {
    if let Ok(text) = serde_json::to_vec(&document(config, store)) {
        let _ = durable::replace(&store.status_path(), &text, 0o644);
    }
}

/// Everything that the journal tells.
pub(crate) fn history(store: &Store) -> Result<HistoryDocument, JournalError> {
    let lines = Journal::at(store.journal_path()).lines()?;
    let told = lines.iter().map(|line| HistoryLine { time: line.at.to_string(), words: words(&line.entry) });
    Ok(HistoryDocument::new(told.collect()))
}

fn current(store: &Store, states: &[SlotState]) -> Current {
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
                    integrity: states
                        .iter()
                        .find(|state| state.slot == name.as_str())
                        .map_or_else(|| integrity(&slot), |state| state.integrity.clone()),
                },
                Err(_) => Current::Foreign { target: slot.dir().to_path_buf() },
            },
            Err(_) => Current::Foreign { target: store.versions_dir().join(name.as_str()) },
        },
        Err(_) => Current::Foreign { target: store.root().join("current") },
    }
}

fn integrity(slot: &Slot) -> Integrity {
    match slot.check() {
        Ok(()) => Integrity::Intact,
        Err(damage) => Integrity::Damaged { reason: crate::words::with_causes(&damage) },
    }
}

fn running_from(slot: &Slot) -> Option<Running> {
    let pids = running::processes_running(slot.file_id().ok()?).ok()?;
    (!pids.is_empty()).then(|| Running { slot: Some(slot.name().to_string()), pids })
}

fn last(lines: &[Line], trouble: Option<String>) -> Option<Last> {
    let ended = |line: &&Line| {
        matches!(
            line.entry,
            Entry::Confirmed { .. }
                | Entry::Imported { .. }
                | Entry::ImportUndone
                | Entry::RolledBack { .. }
                | Entry::Withdrawn { .. }
                | Entry::Rescued { .. }
        )
    };
    let last = lines.iter().rev().find(ended);
    match (trouble, last) {
        (Some(trouble), last) => Some(Last {
            words: format!("the journal cannot be read whole: {trouble}"),
            time: last.map_or(String::new(), |line| line.at.to_string()),
        }),
        (None, last) => last.map(|line| Last { words: words(&line.entry), time: line.at.to_string() }),
    }
}

/// One journal line in words.
fn words(entry: &Entry) -> String {
    let named = |build: &Option<Build>| build.as_ref().map_or("nothing".to_owned(), Build::name);
    match entry {
        Entry::Trial { to, from, tries, .. } => {
            format!(
                "trial of {} begins; way back {}; {tries} tries left after this one",
                to.name(),
                named(from)
            )
        }
        Entry::Confirmed { build, leaving: None } => format!("{} confirmed", build.name()),
        Entry::Confirmed { build, leaving: Some(left) } => {
            format!("{} confirmed; {} quarantined: {}", build.name(), left.build.name(), left.reason)
        }
        Entry::Failed { build, to, reason, .. } => {
            format!("trial of {} failed: {reason}; going back to {}", build.name(), named(to))
        }
        Entry::RolledBack { from, to, reason, fault, healthy } => format!(
            "rolled back from {} to {}, {}: {reason} ({})",
            from.name(),
            named(to),
            if *healthy { "healthy" } else { "not healthy" },
            describe::blame(fault),
        ),
        Entry::Imported { build, from } => {
            format!("{} imported from {}; it counts as confirmed", build.name(), from.display())
        }
        Entry::ImportUndone => "import undone: the program was given back to what had it before".to_owned(),
        Entry::Withdrawn { from, to, reason } => {
            format!(
                "left {} without a verdict: {reason}; {} is current, nothing was started",
                from.name(),
                named(to)
            )
        }
        Entry::Rescued { to, reason } => format!("{reason}; {} is current now", named(to)),
        Entry::Quarantined { build, reason } => format!("{} quarantined: {reason}", build.name()),
        Entry::Released { version } => format!("{version} released from quarantine"),
        Entry::Pinned { version } => format!("pinned to {version}"),
        Entry::Unpinned => "pin lifted".to_owned(),
        Entry::SetAside { kept_as, reason } => {
            format!("journal begun anew, the old one kept as {}: {reason}", kept_as.display())
        }
    }
}
