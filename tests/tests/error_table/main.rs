//! Every bad input, through the real program: the exit code, the exact words, and what runs afterwards.
//!
//! A row is one literal ([`Row`]); its words stand in `docs/errors.md`, which is this table's golden file. A group of
//! rows shares one machine and is one test, so that groups run side by side. With `UPDATE_GOLDEN=1` each group writes
//! its section anew; otherwise a word that differs is a failure that names the row.
#![expect(clippy::expect_used, reason = "a test says what it expects by panicking")]

mod answers;
mod archives;
mod configuration;
mod document;
mod lock;
mod offers;
mod row;
mod socket;
mod state;
mod store;
mod trials;
mod words;

use myriarch_tests::shared;
use row::{Group, Row};

/// The groups in the order of the document.
const GROUPS: &[&Group] = &[
    &offers::GROUP,
    &archives::GROUP,
    &answers::GROUP,
    &trials::GROUP,
    &store::GROUP,
    &socket::GROUP,
    &configuration::GROUP,
    &state::GROUP,
    &lock::GROUP,
];

#[test]
fn an_offer_that_cannot_be_trusted_is_refused_in_these_words() {
    row::play(&offers::GROUP);
}

#[test]
fn an_archive_that_is_not_one_program_is_refused_in_these_words() {
    row::play(&archives::GROUP);
}

#[test]
fn a_candidate_that_answers_wrongly_is_refused_in_these_words() {
    row::play(&answers::GROUP);
}

#[test]
fn a_candidate_that_fails_on_trial_is_left_in_these_words() {
    row::play(&trials::GROUP);
}

#[test]
fn a_store_that_cannot_take_a_build_in_is_said_to_be_so_in_these_words() {
    if !store::can_be_played() {
        let test = "a_store_that_cannot_take_a_build_in_is_said_to_be_so_in_these_words";
        return shared::skip(test, "nothing can be mounted in a namespace of its own, which takes root");
    }
    row::play(&store::GROUP);
}

#[test]
fn what_is_no_request_and_what_is_no_answer_is_said_to_be_so_in_these_words() {
    row::play(&socket::GROUP);
}

#[test]
fn another_run_is_named_in_these_words() {
    row::play(&lock::GROUP);
}

#[test]
fn a_mistake_in_the_configuration_is_told_in_these_words() {
    if !rustix::process::geteuid().is_root() {
        let test = "a_mistake_in_the_configuration_is_told_in_these_words";
        return shared::skip(test, "only root can give a file to somebody else");
    }
    row::play(&configuration::GROUP);
}

#[test]
fn damaged_state_keeps_nothing_from_running_and_is_told_in_these_words() {
    row::play(&state::GROUP);
}

#[test]
fn the_document_holds_these_groups_and_nothing_else() {
    document::is_whole(GROUPS);
}

#[test]
fn a_changed_word_is_seen_and_the_row_is_named() {
    let written = "### `one`\n\n```text\nerror: a\nhint: b\n```\n\n### `two`\n\n```text\nerror: c\n```\n";
    assert_eq!(document::difference(written, written), None);
    let changed = written.replace("error: c", "error: d");
    let told = document::difference(written, &changed).unwrap();
    assert!(told.contains("`two`") && !told.contains("`one`"), "{told}");
    assert!(told.contains("- error: c") && told.contains("+ error: d"), "{told}");
    let gone = document::difference(written, "### `one`\n\n```text\nerror: a\nhint: b\n```\n").unwrap();
    assert!(gone.contains("`two`"), "{gone}");
}

#[test]
fn no_two_rows_have_the_same_name() {
    let mut names: Vec<_> = GROUPS.iter().flat_map(|group| group.rows).map(|row: &Row| row.name).collect();
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before);
}
