//! Retention: what a store keeps besides what runs.

use std::collections::BTreeSet;

use myriarch_store::SlotName;

use crate::{
    build::Build,
    chain::Updater,
    event::Event,
    recovery::{Recovery, recover},
    state::State,
};

impl Updater {
    /// Removes what nothing needs. What `current` names and what runs is kept by the store itself. Failing to
    /// prune is no failure of an update: it is tried again after the next one.
    pub(crate) fn prune(&self) {
        let Ok(lines) = self.journal.lines() else { return };
        let state = State::of(&lines);
        let mut needed: Vec<Build> =
            state.confirmed().iter().rev().take(self.settings.keep + 1).cloned().collect();
        needed.extend(
            state
                .confirmed()
                .iter()
                .filter(|build| state.pin().is_some_and(|pin| pin.names_same(&build.version)))
                .cloned(),
        );
        match recover(&lines) {
            Recovery::Nothing => {}
            Recovery::Resume { to, from, .. } => needed.extend([to].into_iter().chain(from)),
            Recovery::GoBack { from, to, .. } => needed.extend([from].into_iter().chain(to)),
        }
        let keep: BTreeSet<SlotName> = needed.iter().filter_map(|build| build.slot().ok()).collect();
        for slot in self.store.prune(&keep).unwrap_or_default() {
            self.tell(&Event::Pruned { slot: slot.to_string() });
        }
    }
}
