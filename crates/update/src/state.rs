//! What the journal's lines add up to: confirmed builds, quarantine, pin, an open trial. Pure.

use myriarch_policy::Version;

use crate::{
    build::Build,
    journal::{Entry, Line},
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
                Entry::Confirmed { build } => {
                    state.confirmed.retain(|known| known != build);
                    state.confirmed.push(build.clone());
                }
                // Both lines say it, so that no single damaged one loses it.
                Entry::Quarantined { build, reason }
                | Entry::RolledBack { from: build, reason, fault: Fault::Version, .. } => {
                    state.confirmed.retain(|known| known != build);
                    state.quarantine.retain(|known| known.build != *build);
                    let (build, reason) = (build.clone(), reason.clone());
                    state.quarantine.push(Quarantined { build, reason, since: *at });
                }
                Entry::Released { version } => {
                    state.quarantine.retain(|known| !known.build.version.names_same(version));
                }
                Entry::Pinned { version } => state.pin = Some(version.clone()),
                Entry::Unpinned => state.pin = None,
                Entry::Trial { .. }
                | Entry::Failed { .. }
                | Entry::RolledBack { fault: Fault::Environment { .. }, .. }
                | Entry::Rescued { .. }
                | Entry::SetAside { .. } => {}
            }
        }
        state
    }

    /// Confirmed builds that are not quarantined, the latest confirmed last.
    pub fn confirmed(&self) -> &[Build] {
        &self.confirmed
    }

    /// What is quarantined, the latest last.
    pub fn quarantine(&self) -> &[Quarantined] {
        &self.quarantine
    }

    /// The pinned version, if there is one.
    pub fn pin(&self) -> Option<&Version> {
        self.pin.as_ref()
    }

    /// The quarantine that stands against these bytes, whether archive or program.
    pub fn quarantined(&self, is: impl Fn(&Build) -> bool) -> Option<&Quarantined> {
        self.quarantine.iter().find(|known| is(&known.build))
    }
}
