//! What happens next, in words: by itself, or only with the operator.

use std::iter;

use jiff::tz::TimeZone;
use myriarch_policy::Version;

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
                (_, true) | (Health::Healthy | Health::Answers { .. } | Health::NotAsked, _) => return None,
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
        let offered = self.offered();
        let held = self.pin.as_ref().map(|pin| format!("; the pin lets nothing but {pin} in, until `unpin`"));
        let held = held.unwrap_or_default();
        Some(match (at, offered) {
            (Some(at), Some(version)) => {
                format!("update to {version} at the next look, {at}, or now by `update`{held}")
            }
            (Some(at), _) => format!("next look at {at}{held}"),
            (None, Some(version)) => {
                format!("`update` takes {version}; nothing does by itself{held}")
            }
            (None, _) if self.run_is_alive() => {
                format!("no look by itself, since run.check_interval is \"off\"; `check` looks now{held}")
            }
            (None, _) => format!("no look by itself, since `run` is not alive; `check` looks now{held}"),
        })
    }

    /// The version that the last look found and that an update would still take.
    fn offered(&self) -> Option<&Version> {
        match &self.look.as_ref()?.found {
            Found::Available { version } if self.since_the_look(version).is_none() => Some(version),
            _ => None,
        }
    }

    /// What became of a version that the last look found, where that is known by now: an update to a named version
    /// and a rollback are no looks.
    pub(super) fn since_the_look(&self, version: &Version) -> Option<&'static str> {
        if self.is_quarantined(version) {
            return Some("quarantined");
        }
        let installed =
            matches!(&self.current, Current::Slot { version: current, .. } if current.names_same(version));
        installed.then_some("installed")
    }

    fn is_quarantined(&self, version: &Version) -> bool {
        self.quarantined.iter().any(|known| known.version.names_same(version))
    }

    /// What the last look leaves to do for somebody.
    fn offer_to_do(&self) -> Option<String> {
        match &self.look.as_ref()?.found {
            Found::Left { version } | Found::Available { version } => {
                let stands = self.is_quarantined(version);
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
