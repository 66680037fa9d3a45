//! A stand-in OpAMP Supervisor, and the configuration that it and the real one read.
//!
//! It does to its collector what the real supervisors 0.149.0 and 0.158.0 were seen to do: ask for the feature
//! gates, bootstrap with a configuration of nothing, run the real one, start a dead collector again for ever, and
//! on SIGTERM die and leave it an orphan. Its knobs are in one environment variable, since its file is the image's
//! and never updated.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::built::stand_in as program;

/// The environment variable that holds the knobs.
pub const KNOBS: &str = "STAND_IN_SUPERVISOR";

/// A file of this name in the storage directory makes the next start's bootstrap hang, and is removed by it.
pub const HANG_ONCE: &str = "hang-once";

/// The compiled stand-in supervisor.
///
/// # Panics
///
/// When it cannot be built.
pub fn executable() -> PathBuf {
    program("stand-in-supervisor")
}

/// What the stand-in does otherwise than by default, as the value of [`KNOBS`] by [`ToString`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knobs {
    /// Between a collector's death and its next start. 5 s.
    pub restart_after: Duration,
    /// Between SIGINT and SIGKILL to the collector. 10 s.
    pub kill_after: Duration,
    /// What SIGTERM does after the bootstrap.
    pub sigterm: Sigterm,
    /// Whether the bootstrap comes to an end.
    pub bootstrap: Bootstrap,
}

/// What SIGTERM does after the bootstrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sigterm {
    /// Dies at once and leaves the collector behind, as 0.149.0 does.
    Orphans,
    /// Stops the collector first, as 0.158.0 does.
    Stops,
}

/// Whether the bootstrap comes to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bootstrap {
    /// As soon as the collector says hello.
    Works,
    /// Not before the bootstrap timeout, as the real ones do when they were started with SIGINT ignored. A signal
    /// kills it meanwhile.
    Hangs,
    /// The same, and SIGINT does nothing meanwhile.
    Deaf,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            restart_after: Duration::from_secs(5),
            kill_after: Duration::from_secs(10),
            sigterm: Sigterm::Orphans,
            bootstrap: Bootstrap::Works,
        }
    }
}

impl fmt::Display for Knobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sigterm = match self.sigterm {
            Sigterm::Orphans => "orphans",
            Sigterm::Stops => "stops",
        };
        let bootstrap = match self.bootstrap {
            Bootstrap::Works => "works",
            Bootstrap::Hangs => "hangs",
            Bootstrap::Deaf => "deaf",
        };
        let (restart, kill) = (self.restart_after.as_millis(), self.kill_after.as_millis());
        write!(f, "restart_ms={restart},kill_ms={kill},sigterm={sigterm},bootstrap={bootstrap}")
    }
}

/// A supervisor's configuration, in the form that the real ones read.
#[derive(Debug, Clone)]
pub struct Config {
    /// `agent.executable`; may hold `${env:NAME}`.
    pub executable: String,
    /// `agent.config_files`.
    pub config_files: Vec<PathBuf>,
    /// `storage.directory`.
    pub storage: PathBuf,
    /// `agent.opamp_server_port`.
    pub opamp_server_port: u16,
    /// `agent.bootstrap_timeout`.
    pub bootstrap_timeout: Duration,
}

impl Config {
    /// Writes it to `path`.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        let files: Vec<_> = self.config_files.iter().map(|file| format!("\"{}\"", file.display())).collect();
        let text = format!(
            "server:\n  endpoint: ws://127.0.0.1:9/v1/opamp\ncapabilities:\n  reports_effective_config: true\n  reports_health: true\n\
             agent:\n  executable: {}\n  config_files: [{}]\n  config_apply_timeout: 5s\n  bootstrap_timeout: {}ms\n  opamp_server_port: {}\n\
             storage:\n  directory: {}\n",
            self.executable,
            files.join(", "),
            self.bootstrap_timeout.as_millis(),
            self.opamp_server_port,
            self.storage.display(),
        );
        fs::write(path, text)
    }
}

/// A collector configuration with an OTLP receiver and a health endpoint on these ports of 127.0.0.1.
pub fn collector_config(health: u16, otlp: u16) -> String {
    format!(
        "receivers:\n  otlp:\n    protocols:\n      http:\n        endpoint: 127.0.0.1:{otlp}\nexporters:\n  debug: {{}}\n\
         extensions:\n  health_check:\n    endpoint: 127.0.0.1:{health}\n\
         service:\n  extensions: [health_check]\n  telemetry:\n    metrics:\n      level: none\n  \
         pipelines:\n    traces:\n      receivers: [otlp]\n      exporters: [debug]\n"
    )
}
