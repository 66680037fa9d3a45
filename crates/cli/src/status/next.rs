//! What happens next, in words: by itself, or only with the operator.

use std::iter;

use jiff::tz::TimeZone;

use super::{Current, Health, Integrity, StatusDocument};
use crate::{describe, look::Found, time};

/// The purpose of a lock's holder that looks for offers by itself.
const RUN: &str = "run";

impl StatusDocument {
    /// One sentence for each thing that will happen or waits for somebody, the most pressing first. Never empty.
    pub(super) fn next(&self, zone: &TimeZone) -> Vec<String> {
        let mut next: Vec<String> = iter::empty()
            .chain(self.trial_next())
            .chain(self.program_next())
            .chain(self.offers_next(zone))
            .chain(self.offer_to_do())
            .collect();
        if next.is_empty() {
            next.push("nothing".to_owned());
        }
        next
    }

    fn run_is_alive(&self) -> bool {
        self.updater.as_ref().is_some_and(|updater| updater.purpose == RUN)
    }

    fn trial_next(&self) -> Option<String> {
        let trial = self.trial.as_ref()?;
        let back = trial.from.as_deref().unwrap_or("nothing");
        Some(match (&self.updater, trial.tries) {
            (Some(_), _) => format!("the trial is judged; if it fails, {back} runs again"),
            (None, 0) => {
                format!("nobody judges the trial: start `run`, or `recover`, which goes back to {back}")
            }
            (None, _) => {
                "nobody judges the trial: start `run`, or `recover`, which takes it up again".to_owned()
            }
        })
    }

    fn program_next(&self) -> Option<String> {
        let to_do = match &self.current {
            Current::Absent if self.run_is_alive() => {
                "`run` installs what the policy selects, and tries again"
            }
            Current::Absent => "start `run`, or `update`, to install what the policy selects",
            Current::Foreign { .. } => "`current` is not of this store: `update` sets it aside",
            Current::Slot { integrity: Integrity::Damaged { .. }, .. } => {
                "the program is damaged: start `run` anew, or `recover`, before it is started again"
            }
            Current::Slot { .. } => match (&self.health, self.trial.is_some()) {
                (_, true) | (Health::Healthy | Health::NotAsked, _) => return None,
                (Health::NothingRuns, _) if self.run_is_alive() => {
                    "nothing runs: what starts the program is asked again, or look at its log"
                }
                (Health::NothingRuns, _) => "nothing runs: start `run`, or the program's service",
                (Health::NotHealthy { .. }, _) => {
                    "it is not healthy: look at its log; `rollback` goes back to the build before"
                }
            },
        };
        Some(to_do.to_owned())
    }

    fn offers_next(&self, zone: &TimeZone) -> Option<String> {
        if self.trial.is_some() {
            return None;
        }
        let at = self.next_look.as_ref().filter(|_| self.run_is_alive()).map(|at| time::local(at, zone));
        let found = self.look.as_ref().map(|look| &look.found);
        let held = self.pin.as_ref().map(|pin| format!("; the pin lets nothing but {pin} in, until `unpin`"));
        let held = held.unwrap_or_default();
        Some(match (at, found) {
            (Some(at), Some(Found::Available { version })) => {
                format!("update to {version} at the next look, {at}, or now by `update`{held}")
            }
            (Some(at), _) => format!("next look at {at}{held}"),
            (None, Some(Found::Available { version })) => {
                format!("`update` takes {version}; nothing does by itself{held}")
            }
            (None, _) if self.run_is_alive() => {
                format!("no look by itself, since run.check_interval is \"off\"; `check` looks now{held}")
            }
            (None, _) => format!("no look by itself, since `run` is not alive; `check` looks now{held}"),
        })
    }

    /// What the last look leaves to do for somebody.
    fn offer_to_do(&self) -> Option<String> {
        match &self.look.as_ref()?.found {
            Found::Left { version } => {
                let stands = self.quarantined.iter().any(|known| known.version.names_same(version));
                stands.then(|| format!("{version} is not tried again until `release {version}`"))
            }
            Found::Refused { hint, .. } => Some(format!("of the refusal: {hint}")),
            _ => None,
        }
    }

    /// The trial that is on, in words.
    pub(super) fn trial_words(&self) -> String {
        self.trial.as_ref().map_or("none".to_owned(), |trial| {
            let back = trial.from.as_deref().unwrap_or("nothing");
            format!("{} on trial, way back {back}, {}", trial.to, describe::tries_left(trial.tries))
        })
    }
}
