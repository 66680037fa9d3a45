//! Recovery is decided from the journal alone: pure, total, and the same the second time.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use myriarch_update::{
    Build, Fault, Recovery, State,
    journal::{Entry, Leaving, Line},
    recover,
};
use proptest::prelude::*;

fn build(n: u8) -> Build {
    Build {
        version: format!("0.{n}.0").parse().unwrap(),
        binary: [n; 32].into(),
        archive: [n.wrapping_add(100); 32].into(),
    }
}

fn lines(entries: impl IntoIterator<Item = Entry>) -> Vec<Line> {
    entries.into_iter().map(|entry| Line::new(jiff::Timestamp::UNIX_EPOCH, entry)).collect()
}

fn trial(to: u8, from: Option<u8>, tries: u8) -> Entry {
    Entry::Trial {
        to: build(to),
        from: from.map(build),
        tries,
        baseline_healthy: true,
        leaving: None,
        boot: None,
    }
}

fn confirmed(n: u8) -> Entry {
    Entry::Confirmed { build: build(n), leaving: None, took: None }
}

#[test]
fn nothing_interrupted_is_nothing_to_do() {
    assert_eq!(recover(&[]), Recovery::Nothing);
    assert_eq!(recover(&lines([confirmed(1), trial(2, Some(1), 2), confirmed(2)])), Recovery::Nothing);
}

fn imported(n: u8) -> Entry {
    Entry::Imported { build: build(n), from: "/usr/bin/otelcol".into() }
}

#[test]
fn what_was_imported_counts_as_confirmed_and_is_what_a_trial_goes_back_to() {
    assert_eq!(recover(&lines([imported(1)])), Recovery::Nothing);
    assert_eq!(State::of(&lines([imported(1)])).confirmed(), [build(1)]);
    let Recovery::GoBack { to, .. } = recover(&lines([imported(1), trial(2, Some(1), 0)])) else {
        panic!("expected the way back")
    };
    assert_eq!(to, Some(build(1)));
}

#[test]
fn after_an_undone_import_nothing_is_confirmed_and_quarantine_stands() {
    let quarantined = Entry::Quarantined { build: build(3), reason: "ill".into() };
    let state = State::of(&lines([imported(1), confirmed(2), quarantined, Entry::ImportUndone]));
    assert_eq!(state.confirmed(), []);
    assert_eq!(state.quarantined().len(), 1);
}

#[test]
fn an_interrupted_trial_is_resumed_with_one_try_less() {
    let recovery = recover(&lines([confirmed(1), trial(2, Some(1), 2)]));
    let expected = Recovery::Resume {
        to: build(2),
        from: Some(build(1)),
        tries: 1,
        baseline_healthy: true,
        leaving: None,
    };
    assert_eq!(recovery, expected);
}

#[test]
fn a_trial_without_tries_goes_back_to_the_last_confirmed_build() {
    // 9 was current when the trial began but was never confirmed.
    let Recovery::GoBack { from, to, recorded, .. } =
        recover(&lines([confirmed(1), confirmed(2), trial(3, Some(9), 0)]))
    else {
        panic!("expected the way back")
    };
    assert_eq!((from, to, recorded), (build(3), Some(build(2)), false));
}

#[test]
fn a_failed_trial_goes_back_even_if_the_journal_ends_there() {
    let failed = Entry::Failed {
        build: build(2),
        to: Some(build(1)),
        reason: "ill".into(),
        excuse: None,
        excerpt: None,
    };
    let quarantined = Entry::Quarantined { build: build(2), reason: "ill".into() };
    for tail in [vec![], vec![quarantined]] {
        let entries = [confirmed(1), trial(2, Some(1), 2), failed.clone()].into_iter().chain(tail);
        let recovery = recover(&lines(entries));
        assert!(matches!(recovery, Recovery::GoBack { recorded: true, .. }), "{recovery:?}");
    }
}

#[test]
fn restarting_a_confirmed_build_any_number_of_times_rolls_nothing_back() {
    // Starts of a confirmed build leave no line: the journal is the same after the tenth start.
    let journal = lines([confirmed(1), trial(2, Some(1), 0), confirmed(2)]);
    for _ in 0..10 {
        assert_eq!(recover(&journal), Recovery::Nothing);
    }
}

#[test]
fn operators_lines_do_not_end_a_trial() {
    let pinned = Entry::Pinned { version: build(1).version };
    let journal = lines([confirmed(1), trial(2, Some(1), 1), pinned, Entry::Unpinned]);
    assert!(matches!(recover(&journal), Recovery::Resume { tries: 0, .. }));
}

#[test]
fn a_rollback_quarantines_what_it_left_with_the_line_that_confirms() {
    let leaving = Leaving { build: build(2), reason: "an operator rolled back from it".into() };
    let back = Entry::Confirmed { build: build(1), leaving: Some(leaving.clone()), took: None };
    let on_trial = Entry::Trial {
        to: build(1),
        from: Some(build(2)),
        tries: 1,
        baseline_healthy: true,
        leaving: Some(leaving.clone()),
        boot: None,
    };
    let before = lines([confirmed(0), confirmed(1), confirmed(2), on_trial.clone()]);
    let Recovery::Resume { from, leaving: carried, .. } = recover(&before) else {
        panic!("expected a resume")
    };
    assert_eq!((from, carried), (Some(build(2)), Some(leaving)), "what is left stays what it was");
    let state = State::of(&lines([confirmed(0), confirmed(1), confirmed(2), on_trial, back]));
    assert_eq!(state.confirmed(), [build(0), build(1)]);
    assert_eq!(state.quarantined().len(), 1);
    assert_eq!(state.quarantined()[0].build, build(2));
}

#[test]
fn a_quarantine_outlives_the_loss_of_its_own_line() {
    let rolled_back = Entry::RolledBack {
        from: build(2),
        to: Some(build(1)),
        reason: "ill".into(),
        fault: Fault::Version,
        healthy: true,
        took: None,
        excerpt: None,
    };
    let state = State::of(&lines([confirmed(1), trial(2, Some(1), 2), rolled_back]));
    assert!(state.standing(|build| build.binary == [2; 32].into()).is_some());
}

#[test]
fn a_quarantined_build_is_no_longer_a_way_back() {
    let quarantined = Entry::Quarantined { build: build(2), reason: "ill".into() };
    let journal = lines([confirmed(1), confirmed(2), quarantined]);
    assert_eq!(State::of(&journal).confirmed(), [build(1)]);
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let entry =
        (0u8..6, 1u8..5, prop::option::of(1u8..5), 0u8..3).prop_map(|(kind, to, from, tries)| match kind {
            0 | 1 => trial(to, from, tries),
            2 => confirmed(to),
            3 => Entry::Failed {
                build: build(to),
                to: from.map(build),
                reason: "ill".into(),
                excuse: None,
                excerpt: None,
            },
            4 => Entry::RolledBack {
                from: build(to),
                to: from.map(build),
                reason: "ill".into(),
                fault: Fault::Version,
                healthy: true,
                took: None,
                excerpt: None,
            },
            _ => Entry::Quarantined { build: build(to), reason: "ill".into() },
        });
    prop::collection::vec(entry, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// Whatever the history, carrying out what recovery says leads to `Nothing` in at most tries + 2 starts.
    #[test]
    fn every_history_comes_to_rest(mut history in entries()) {
        for _ in 0..5 {
            match recover(&lines(history.clone())) {
                Recovery::Nothing => return Ok(()),
                // Crash in mid-trial every time: only the line before the start is written.
                Recovery::Resume { to, from, tries, baseline_healthy, leaving } => {
                    history.push(Entry::Trial { to, from, tries, baseline_healthy, leaving, boot: None });
                }
                Recovery::GoBack { from, to, reason, excuse, excerpt, recorded } => {
                    if !recorded {
                        history.push(Entry::Failed { build: from.clone(), to: to.clone(), reason: reason.clone(), excuse, excerpt });
                        continue;
                    }
                    history.push(Entry::RolledBack { from, to, reason, fault: Fault::Version, healthy: true, took: None, excerpt: None });
                }
            }
        }
        prop_assert!(matches!(recover(&lines(history)), Recovery::Nothing));
    }

    /// The way back is never the build that is left, if anything else was ever confirmed.
    #[test]
    fn the_way_back_is_a_confirmed_build(history in entries()) {
        let journal = lines(history);
        let state = State::of(&journal);
        if let Recovery::GoBack { from, to: Some(to), recorded: false, .. } = recover(&journal)
            && state.confirmed().iter().any(|build| *build != from)
        {
            prop_assert!(to != from && state.confirmed().contains(&to));
        }
    }
}
