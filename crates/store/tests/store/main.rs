//! The store's promises, one file each.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod checks_are_remembered;
mod damage_is_seen;
mod follows_its_model;
mod groups_of_ours_may_write;
mod kit;
mod one_writer;
mod point_is_atomic;
mod pruning_keeps_what_is_needed;
mod slots_are_immutable;
mod whole_lines_survive;

#[test]
fn no_test_file_is_forgotten() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/store");
    for name in kit::names(&here) {
        let module = name.strip_suffix(".rs").unwrap();
        assert!(module == "main" || include_str!("main.rs").contains(&format!("mod {module};")), "{name}");
    }
}
