//! What a stand-in collector does, as data behind its executable.

use serde::{Deserialize, Serialize};

/// The last bytes of a stand-in with a script.
pub const MAGIC: &[u8; 8] = b"STANDIN1";

/// All that a stand-in collector does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    /// The distribution's name.
    pub dist: String,
    /// The version that it was built as.
    pub version: String,
    /// Means nothing, and makes another digest.
    pub salt: String,
    /// What `--version` does.
    pub version_flag: VersionFlag,
    /// What `validate` does.
    pub validate: Validate,
    /// Its receivers.
    pub receivers: Vec<String>,
    /// Its processors.
    pub processors: Vec<String>,
    /// Its exporters.
    pub exporters: Vec<String>,
    /// Its extensions.
    pub extensions: Vec<String>,
    /// The feature gates that it knows.
    pub gates: Vec<String>,
    /// What its health endpoint says.
    pub health: Health,
    /// What it says, on standard error, once it runs; not in the supervisor's bootstrap run.
    pub says: String,
    /// How it ends by itself.
    pub end: End,
    /// Whether the end comes in the supervisor's bootstrap run too.
    pub also_in_bootstrap: bool,
    /// What SIGINT and SIGTERM do.
    pub signals: Signals,
    /// What outlives it.
    pub grandchild: Grandchild,
    /// Whether it prints without end.
    pub floods: bool,
    /// What it uses up.
    pub exhausts: Exhausts,
}

impl Default for Script {
    fn default() -> Self {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self {
            dist: "otelcol-testbed".into(),
            version: "0.0.0".into(),
            salt: String::new(),
            version_flag: VersionFlag::Prints,
            validate: Validate::Accepts,
            receivers: list(&["otlp"]),
            processors: list(&["batch"]),
            exporters: list(&["debug", "nop", "otlp_grpc"]),
            extensions: list(&["file_storage", "health_check", "opamp"]),
            gates: list(&["service.AllowNoPipelines"]),
            health: Health::ReadyAfter { ms: 0 },
            says: String::new(),
            end: End::Never,
            also_in_bootstrap: false,
            signals: Signals::Stop { after_ms: 0 },
            grandchild: Grandchild::None,
            floods: false,
            exhausts: Exhausts::Nothing,
        }
    }
}

/// What `--version` does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum VersionFlag {
    /// Prints `<dist> version <version>`.
    Prints,
    /// Prints this instead.
    Says(String),
    /// Does not know the flag.
    Missing,
    /// Does not come back.
    Hangs,
    /// Dies.
    Crashes,
}

/// What `validate` does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Validate {
    /// Accepts whatever names only components that it has.
    Accepts,
    /// Rejects with this after `Error: `.
    Rejects(String),
    /// Rejects a configuration that contains this text, be it validated or run: a key that was removed.
    RejectsContaining(String),
    /// Rejects unless this environment variable is set.
    NeedsEnv(String),
    /// Rejects unless this file can be read; a relative one from the working directory.
    NeedsFile(String),
    /// Rejects unless it is run as this user, in this group and in this supplementary group.
    NeedsUser {
        /// The user's number.
        uid: u32,
        /// The group's number.
        gid: u32,
        /// The supplementary group's number.
        group: u32,
    },
    /// Does not come back.
    Hangs,
    /// Prints many megabytes and then accepts.
    Floods,
    /// Dies.
    Crashes,
}

/// What the health endpoint says, once it is configured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Health {
    /// 503, and 200 after so long.
    ReadyAfter {
        /// Milliseconds after the start.
        ms: u64,
    },
    /// 503 for ever.
    Never,
    /// 200, and 503 after so long.
    UnhealthyAfter {
        /// Milliseconds after the start.
        ms: u64,
    },
    /// Nothing listens, though it is configured.
    Absent,
    /// Accepts connections and says nothing.
    Mute,
    /// Another executable file answers, 200.
    OtherProcess,
}

/// How it ends by itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum End {
    /// It does not.
    Never,
    /// By SIGABRT.
    Abort {
        /// Milliseconds after the start.
        ms: u64,
    },
    /// With this exit code.
    Exit {
        /// Milliseconds after the start.
        ms: u64,
        /// The code; 0 is possible too.
        code: i32,
    },
}

/// What SIGINT and SIGTERM do.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Signals {
    /// It shuts down and exits 0.
    Stop {
        /// How many milliseconds the shutdown takes.
        after_ms: u64,
    },
    /// It shuts down and fails at it.
    Fail {
        /// The code that it exits with.
        code: i32,
    },
    /// Nothing.
    Ignore,
}

/// What outlives it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Grandchild {
    /// Nothing.
    None,
    /// A process in its own group, which runs the same file.
    SameGroup,
    /// A process in a group apart, which runs the same file.
    OtherGroup,
}

/// What it uses up once it runs; not in the supervisor's bootstrap run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Exhausts {
    /// Nothing to speak of.
    Nothing,
    /// So much memory, which it keeps.
    Memory {
        /// Mebibytes.
        mib: usize,
    },
    /// The disk, by a file in this directory; then it exits 1.
    Disk {
        /// A path, from the working directory if it is relative.
        directory: String,
    },
}
