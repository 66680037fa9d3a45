//! What a fresh process must do first, decided from the journal alone. Pure: no clock, no disk, no waiting.
//!
//! A trial that was interrupted is resumed while starts are left and given up when none are. Starts count
//! only while on trial, so restarting a confirmed build any number of times rolls nothing back. Going back
//! means the last *confirmed* build, whatever `current` named when the trial began.

use crate::{
    build::Build,
    excerpt::Excerpt,
    journal::{Entry, Leaving, Line},
    state::State,
};

/// What an interrupted run left to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing was interrupted.
    Nothing,
    /// A trial is open and may be started again.
    Resume {
        /// The candidate.
        to: Build,
        /// The build to go back to if it fails.
        from: Option<Build>,
        /// Starts that may follow the one to be made now.
        tries: u8,
        /// Whether what ran before the trial was healthy.
        baseline_healthy: bool,
        /// What is left for good if the candidate is confirmed.
        leaving: Option<Leaving>,
    },
    /// A trial is over and the way back was not gone to its end.
    GoBack {
        /// The build to leave.
        from: Build,
        /// The build to go back to.
        to: Option<Build>,
        /// Why.
        reason: String,
        /// What points to the surroundings, if anything does.
        excuse: Option<String>,
        /// What the program said last, where the journal says it.
        excerpt: Option<Excerpt>,
        /// Whether the journal says already that it failed.
        recorded: bool,
    },
}

/// Decides.
///
/// ```
/// use myriarch_update::{Recovery, recover};
///
/// assert_eq!(recover(&[]), Recovery::Nothing);
/// ```
pub fn recover(lines: &[Line]) -> Recovery {
    let state = State::of(lines);
    let way_back = |left: &Build, named: Option<&Build>| last_confirmed(&state, left).or(named).cloned();
    match last_act(lines) {
        Some(Entry::Trial { to, from, tries: 0, baseline_healthy, .. }) => Recovery::GoBack {
            from: to.clone(),
            to: way_back(to, from.as_ref()),
            reason: "the trial was interrupted and no try is left".to_owned(),
            excuse: (!baseline_healthy).then(|| "what ran before was not healthy either".to_owned()),
            excerpt: None,
            recorded: false,
        },
        Some(Entry::Trial { to, from, tries, baseline_healthy, leaving, .. }) => Recovery::Resume {
            to: to.clone(),
            from: way_back(to, from.as_ref()),
            tries: tries - 1,
            baseline_healthy: *baseline_healthy,
            leaving: leaving.clone(),
        },
        Some(Entry::Failed { build, to, reason, excuse, excerpt }) => Recovery::GoBack {
            from: build.clone(),
            to: to.clone(),
            reason: reason.clone(),
            excuse: excuse.clone(),
            excerpt: excerpt.clone(),
            recorded: true,
        },
        _ => Recovery::Nothing,
    }
}

/// The last line that begins or ends a trial.
pub(crate) fn last_act(lines: &[Line]) -> Option<&Entry> {
    lines.iter().rev().map(|line| &line.entry).find(|entry| {
        !matches!(
            entry,
            Entry::Quarantined { .. }
                | Entry::Released { .. }
                | Entry::Pinned { .. }
                | Entry::Unpinned
                | Entry::SetAside { .. }
        )
    })
}

/// The latest confirmed build other than `left`.
pub(crate) fn last_confirmed<'a>(state: &'a State, left: &Build) -> Option<&'a Build> {
    state.confirmed().iter().rev().find(|build| *build != left)
}
