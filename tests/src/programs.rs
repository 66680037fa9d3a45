//! Which programs a machine runs: the real ones where they were built, the stand-ins otherwise.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::built;

/// The supervisor and the updater under test.
#[derive(Debug, Clone)]
pub struct Programs {
    updater: PathBuf,
    supervisor: PathBuf,
}

impl Programs {
    /// The stand-in supervisor.
    pub fn stand_ins() -> Self {
        Self { updater: built::updater(), supervisor: built::stand_in("stand-in-supervisor") }
    }

    /// The real supervisor of `version`, from where [`real`] found the real programs.
    pub fn real(real: &Real, version: &str) -> Self {
        Self { updater: built::updater(), supervisor: real.path(&format!("opampsupervisor-{version}")) }
    }

    /// The updater under test.
    pub fn updater(&self) -> &Path {
        &self.updater
    }

    /// The supervisor in use.
    pub fn supervisor(&self) -> &Path {
        &self.supervisor
    }
}

/// The directory of the real programs.
#[derive(Debug, Clone)]
pub struct Real(PathBuf);

/// The real programs, where `REAL_PROGRAMS` names their directory.
pub fn real() -> Option<Real> {
    std::env::var_os("REAL_PROGRAMS").map(|directory| Real(directory.into()))
}

impl Real {
    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// A program by its name and version, `collector-0.149.0`.
    pub fn path(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        assert!(path.is_file(), "expected the real program {}; `cargo xtask real` builds it", path.display());
        path
    }

    /// Its bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("a readable program")
    }
}
