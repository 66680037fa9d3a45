//! Whether a unit starts the program that `current` names. Where it starts another one, as before an import, its
//! restart would try nothing, and its stop would end what is not ours.

use std::{
    fs,
    path::{Path, PathBuf},
};

use myriarch_systemd::Unit;

use crate::import::program::{Program, ProgramError};

/// How many links are followed, as by the kernel.
const MOST_LINKS: usize = 40;

/// What `unit` starts in place of `program`, the path through `current`; none where it starts that.
///
/// # Errors
/// Where it cannot be told.
pub(super) fn another(unit: &Unit, program: &Path) -> Result<Option<PathBuf>, ProgramError> {
    let found = Program::of(unit)?.path;
    Ok((!leads_to(&found, program)).then_some(found))
}

/// Whether `path`, or a link that it names, is `program`. Links of the store's own, `current` above all, are left
/// alone: what they lead to is another thing after each update.
fn leads_to(path: &Path, program: &Path) -> bool {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if is_same(&path, program) {
            return true;
        }
        let Ok(target) = fs::read_link(&path) else { return false };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    false
}

fn is_same(path: &Path, program: &Path) -> bool {
    let parts = |path: &Path| {
        let store = path.ancestors().nth(3)?.to_owned();
        Some((path.strip_prefix(&store).ok()?.to_owned(), fs::canonicalize(store).ok()?))
    };
    path == program || parts(path).is_some_and(|of_path| parts(program) == Some(of_path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_way_through_current_is_known_by_every_name_and_the_slot_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("store/versions/1/bin")).unwrap();
        fs::write(at("store/versions/1/bin/otelcol"), "").unwrap();
        symlink("versions/1", at("store/current")).unwrap();
        symlink(at("store"), at("other")).unwrap();
        symlink("store/current/bin/otelcol", at("otelcol")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let program = at("store/current/bin/otelcol");
        for path in ["store/current/bin/otelcol", "other/current/bin/otelcol", "otelcol"] {
            assert!(leads_to(&at(path), &program), "{path}");
        }
        for path in ["store/versions/1/bin/otelcol", "usr/bin/otelcol", "loop"] {
            assert!(!leads_to(&at(path), &program), "{path}");
        }
    }
}
