//! Whether a unit's sandbox lets it see and run what lies in the store.
//!
//! Hardening is written for the file that was installed. Where it would hide or forbid the store, a drop-in can
//! open exactly that much, or cannot, and then nothing is changed.

use std::path::Path;

use myriarch_systemd::Unit;

/// What a unit makes of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It sees and runs it with these lines of `[Service]`; none are needed where it does already.
    With(Vec<String>),
    /// It cannot, whatever a drop-in says.
    Never {
        /// What stands against it.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
}

const HOMES: &[&str] = &["/home", "/root", "/run/user"];
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];
const ELSEWHERE: &str = "choose another store.path, such as one below /opt, or lift that line of the unit";

/// Judges `unit` for the store at `store`.
pub(crate) fn sight(unit: &Unit, store: &Path) -> Sight {
    let sandbox = &unit.sandbox;
    let never = |reason: String| Sight::Never { reason, hint: ELSEWHERE };
    for (key, root) in [("RootDirectory", &sandbox.root_directory), ("RootImage", &sandbox.root_image)] {
        if let Some(root) = root.as_deref().filter(|root| *root != Path::new("/")) {
            return Sight::Never {
                reason: format!(
                    "{key}={}: its root is another one, in which there is no store",
                    root.display()
                ),
                hint: "a unit with a root of its own brings its program along and cannot be imported",
            };
        }
    }
    if let Some(path) = longest(&sandbox.inaccessible_paths, store) {
        return never(format!("InaccessiblePaths={path} hides the store {}", store.display()));
    }
    if sandbox.private_tmp && TEMPORARY.iter().any(|tmp| store.starts_with(tmp)) {
        return never(format!("PrivateTmp=yes hides the store {}", store.display()));
    }
    let at_home = HOMES.iter().any(|home| store.starts_with(home));
    if at_home && sandbox.protect_home == "yes" {
        return never(format!("ProtectHome=yes hides the store {}", store.display()));
    }
    let mut lines = Vec::new();
    let bound = longest(&sandbox.bind_paths, store).map_or(0, str::len);
    let hidden = longest(&sandbox.temporary_file_system, store).map_or(0, str::len);
    if hidden > bound || (at_home && sandbox.protect_home == "tmpfs" && bound == 0) {
        lines.push(format!("BindReadOnlyPaths={}", super::exec_start::quoted(&store.to_string_lossy())));
    }
    let forbidden = longest(&sandbox.no_exec_paths, store).map_or(0, str::len);
    if forbidden > longest(&sandbox.exec_paths, store).map_or(0, str::len) {
        lines.push(format!("ExecPaths={}", super::exec_start::quoted(&store.to_string_lossy())));
    }
    Sight::With(lines)
}

/// The longest of `paths` that `store` lies in: the nearest one counts. Prefixes and mount options aside.
fn longest<'p>(paths: &'p [String], store: &Path) -> Option<&'p str> {
    let bare = paths.iter().map(|path| path.trim_start_matches(['-', '+']).split(':').next().unwrap_or(""));
    bare.filter(|path| path.starts_with('/') && store.starts_with(path)).max_by_key(|path| path.len())
}
