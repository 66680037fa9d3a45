//! The executables of this workspace, built once per process by cargo itself.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// The updater under test.
///
/// # Panics
///
/// When it cannot be built.
pub fn updater() -> PathBuf {
    executable("myriarch-updater")
}

/// A stand-in of the kit.
///
/// # Panics
///
/// When it cannot be built.
pub fn stand_in(name: &str) -> PathBuf {
    // Cargo tells the tests of this very package.
    let told = std::env::var_os(format!("CARGO_BIN_EXE_{name}"));
    told.map_or_else(|| executable(name), PathBuf::from)
}

/// Where the executable `name` is, after building it.
fn executable(name: &str) -> PathBuf {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(name.to_owned()).or_insert_with(|| build(name)).clone()
}

/// The whole workspace is selected, for features are resolved for what is selected: another selection would
/// compile everything once more. It is built as this kit is: optimised for whoever measures.
fn build(name: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--message-format=json", "--profile", profile, "--workspace"])
        .args(["--bin", name])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{name} cannot be built");
    let messages = String::from_utf8_lossy(&output.stdout);
    let of = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let wanted = message["target"]["name"] == name;
        wanted.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
    };
    messages.lines().find_map(of).unwrap_or_else(|| panic!("cargo built no {name}"))
}
