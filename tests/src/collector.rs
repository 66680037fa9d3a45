//! A stand-in collector whose behaviour is part of its bytes.
//!
//! What is updated is a *file*, known by its digest; so what a stand-in does must be in the file and not beside
//! it. One small program is compiled once, and each script is written behind it: every script is another build
//! with another digest, a real ELF executable that needs nothing but itself, wherever it is copied.
//!
//! It is faithful to what was seen of the real collectors 0.149.0 and 0.158.0: `--version`, `validate`,
//! `components`, `featuregate`, health endpoint, exit codes, messages. `tests/contract.rs` holds both to it.

#![expect(clippy::expect_used, reason = "a kit that cannot build its programs has nothing to give")]

use std::{fs, io, os::unix::fs::PermissionsExt as _, path::Path};

use crate::built::stand_in as program;
pub use crate::stand_in::script::{
    End, Exhausts, Grandchild, Health, MAGIC, Script, Signals, Validate, VersionFlag,
};

/// Builds a stand-in collector.
#[derive(Debug, Clone)]
pub struct StandIn {
    script: Script,
}

impl StandIn {
    /// A collector `otelcol-testbed` of `version` that does everything right.
    pub fn version(version: &str) -> Self {
        Self { script: Script { version: version.to_owned(), ..Script::default() } }
    }

    /// Another distribution name.
    #[must_use]
    pub fn dist(mut self, name: &str) -> Self {
        name.clone_into(&mut self.script.dist);
        self
    }

    /// Bytes that make another build of what behaves the same: a re-release.
    #[must_use]
    pub fn salt(mut self, salt: &str) -> Self {
        salt.clone_into(&mut self.script.salt);
        self
    }

    /// What `--version` does.
    #[must_use]
    pub fn version_flag(mut self, flag: VersionFlag) -> Self {
        self.script.version_flag = flag;
        self
    }

    /// What `validate` does.
    #[must_use]
    pub fn validate(mut self, validate: Validate) -> Self {
        self.script.validate = validate;
        self
    }

    /// Another set of extensions. Without `opamp` it cannot be run by a supervisor.
    #[must_use]
    pub fn extensions(mut self, names: &[&str]) -> Self {
        self.script.extensions = names.iter().map(ToString::to_string).collect();
        self
    }

    /// Another set of receivers.
    #[must_use]
    pub fn receivers(mut self, names: &[&str]) -> Self {
        self.script.receivers = names.iter().map(ToString::to_string).collect();
        self
    }

    /// Another set of exporters.
    #[must_use]
    pub fn exporters(mut self, names: &[&str]) -> Self {
        self.script.exporters = names.iter().map(ToString::to_string).collect();
        self
    }

    /// What the health endpoint says, and when.
    #[must_use]
    pub fn health(mut self, health: Health) -> Self {
        self.script.health = health;
        self
    }

    /// How it ends by itself.
    #[must_use]
    pub fn end(mut self, end: End) -> Self {
        self.script.end = end;
        self
    }

    /// What it says, on standard error, once it runs.
    #[must_use]
    pub fn says(mut self, words: &str) -> Self {
        words.clone_into(&mut self.script.says);
        self
    }

    /// Applies the end to the supervisor's bootstrap run as well.
    #[must_use]
    pub fn also_in_bootstrap(mut self) -> Self {
        self.script.also_in_bootstrap = true;
        self
    }

    /// What SIGINT and SIGTERM do.
    #[must_use]
    pub fn signals(mut self, signals: Signals) -> Self {
        self.script.signals = signals;
        self
    }

    /// A process that it starts and that outlives it, for at most a minute.
    #[must_use]
    pub fn grandchild(mut self, grandchild: Grandchild) -> Self {
        self.script.grandchild = grandchild;
        self
    }

    /// Makes it print without end while it runs.
    #[must_use]
    pub fn floods(mut self) -> Self {
        self.script.floods = true;
        self
    }

    /// Makes it allocate so much memory when it runs.
    #[must_use]
    pub fn allocates(mut self, mib: usize) -> Self {
        self.script.exhausts = Exhausts::Memory { mib };
        self
    }

    /// Makes it fill the disk of this directory when it runs, and exit 1.
    #[must_use]
    pub fn fills(mut self, directory: &str) -> Self {
        self.script.exhausts = Exhausts::Disk { directory: directory.to_owned() };
        self
    }

    /// The executable's bytes.
    ///
    /// # Panics
    ///
    /// When the program behind it cannot be built.
    pub fn build(&self) -> Vec<u8> {
        let (mut program, script) = self.parts();
        program.extend(script);
        program
    }

    /// The executable's bytes in two parts. Whatever is put between them is never looked at: it makes the program
    /// as large as a real one.
    ///
    /// # Panics
    ///
    /// When the program behind it cannot be built.
    pub fn parts(&self) -> (Vec<u8>, Vec<u8>) {
        let program = fs::read(program("stand-in-collector")).expect("the stand-in can be read");
        let mut script = serde_json::to_vec(&self.script).expect("a script is plain data");
        let length = script.len() as u64;
        script.extend(length.to_le_bytes());
        script.extend(MAGIC);
        (program, script)
    }

    /// Writes the executable to `path`, with mode 0755.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        fs::write(path, self.build())?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    }
}
