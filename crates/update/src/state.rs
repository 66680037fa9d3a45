//! What the journal's lines add up to: confirmed builds, quarantine, pin, an open trial. Pure.

use myriarch_policy::Version;

use crate::{
    build::Build,
    journal::{Entry, Leaving, Line},
    outcome::Fault,
};

/// The sum of all lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    confirmed: Vec<Build>,
    quarantine: Vec<Quarantined>,
    pin: Option<Version>,
}

/// A build that is not tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// It.
    pub build: Build,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: jiff::Timestamp,
}

impl State {
    /// Adds the lines up, oldest first.
    pub fn of(lines: &[Line]) -> Self {
        let mut state = Self::default();
        for Line { at, entry, .. } in lines {
            match entry {
                Entry::Confirmed { build, leaving, .. } => {
                    state.confirmed.retain(|known| known != build);
                    state.confirmed.push(build.clone());
                    if let Some(Leaving { build, reason }) = leaving {
                        state.quarantine(build, reason, *at);
                    }
                }
                // Both lines say it, so that no single damaged one loses it.
                Entry::Quarantined { build, reason }
                | Entry::RolledBack { from: build, reason, fault: Fault::Version, .. } => {
                    state.quarantine(build, reason, *at);
                }
                Entry::Imported { build, .. } => {
                    state.confirmed.retain(|known| known != build);
                    state.confirmed.push(build.clone());
                }
                Entry::ImportUndone => state.confirmed.clear(),
                Entry::Released { version } => {
                    state.quarantine.retain(|known| !known.build.version.names_same(version));
                }
                Entry::Pinned { version } => state.pin = Some(version.clone()),
                Entry::Unpinned => state.pin = None,
                Entry::Trial { .. }
                | Entry::Failed { .. }
                | Entry::Withdrawn { .. }
                | Entry::RolledBack { fault: Fault::Environment { .. }, .. }
                | Entry::Rescued { .. }
                | Entry::SetAside { .. } => {}
            }
        }
        state
    }

    fn quarantine(&mut self, build: &Build, reason: &str, since: jiff::Timestamp) {
        self.confirmed.retain(|known| known != build);
        self.quarantine.retain(|known| known.build != *build);
        self.quarantine.push(Quarantined { build: build.clone(), reason: reason.to_owned(), since });
    }

    /// Confirmed builds that are not quarantined, the latest confirmed last.
    pub fn confirmed(&self) -> &[Build] {
        &self.confirmed
    }

    /// What is quarantined, the latest last.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantine
    }

    /// The pinned version, if there is one.
    pub fn pin(&self) -> Option<&Version> {
        self.pin.as_ref()
    }

    /// The quarantine that stands against these bytes, whether archive or program.
    pub fn standing(&self, is: impl Fn(&Build) -> bool) -> Option<&Quarantined> {
        self.quarantine.iter().find(|known| is(&known.build))
    }
}
