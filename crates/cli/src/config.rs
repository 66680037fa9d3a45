//! One TOML file per service: what to keep at which version, where it comes from, whom to trust, how it is
//! restarted and how its health is judged.
//!
//! What the file may say (`file`: all optional, nothing believed) is kept apart from what the program uses
//! ([`Config`]: complete, validated, plain values). In between, every problem of the file is collected with
//! its line, since a configuration that is half understood is not used at all. State never lives here.

mod connection;
mod detected;
mod file;
mod interval;
mod permission;
mod problem;
mod resolve;
mod section;
mod service;
mod show;
mod template;
mod url;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use myriarch_policy::Version;
use myriarch_systemd::UnitName;
use myriarch_verify::Digest;
use serde::{Deserialize, Deserializer, Serialize, de};
use toml::de::DeTable;

pub use detected::{Detected, Runs, Seen};
pub use problem::{ConfigError, Position, Problem};
pub use service::{ParseServiceNameError, ServiceName};
pub use template::with_program;

use file::File;
use problem::Problems;
use section::Section;

/// The configuration's schema that this version reads.
pub const CONFIG_SCHEMA: i64 = 1;

/// Everything the file decides, validated and complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Which service this is.
    pub service: ServiceName,
    /// The program that is kept up to date.
    pub program: Program,
    /// Where builds are kept.
    pub store: Store,
    /// How `run` behaves.
    pub run: Run,
    /// Where offers come from.
    pub source: Source,
    /// Whom to trust.
    pub trust: Trust,
    /// Which versions may run.
    pub policy: Policy,
    /// How the program is restarted.
    pub restart: Restart,
    /// What a candidate must pass before anything stops.
    pub validate: Validate,
    /// How health is judged.
    pub probe: Probe,
    /// How often an interrupted trial is taken up again.
    pub trial: Trial,
}

/// The program that is kept up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its file name inside the archive and the slot.
    pub binary: String,
    /// The name that its `--version` prints.
    pub distribution: String,
}

/// Where builds are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The store's directory.
    pub path: PathBuf,
    /// Confirmed builds kept besides the current one.
    pub keep: u32,
}

/// How `run` behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Where the control socket and the child's record live.
    pub directory: PathBuf,
    /// How often `run` looks for offers.
    pub check_interval: CheckInterval,
}

/// How often `run` looks for offers by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckInterval {
    /// Only when asked.
    Off,
    /// Again after this long; never zero.
    Every(Duration),
}

/// Where offers come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The kind, with what it needs.
    pub kind: SourceKind,
    /// The largest archive accepted, in bytes.
    pub max_archive: u64,
}

/// The kinds of source. At least one of `index` and `templates` is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceKind {
    /// A web server.
    Http {
        /// URL of the index document that lists the releases.
        index: Option<String>,
        /// Where a version's files are when it is asked for by name.
        templates: Option<Templates>,
        /// How servers are reached.
        connection: Connection,
    },
    /// A directory on this machine.
    Directory {
        /// Its path.
        path: PathBuf,
    },
}

/// How the servers of a source are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// A PEM file of authorities that are trusted besides the machine's own.
    pub ca: Option<PathBuf>,
    /// By which way.
    pub proxy: Proxy,
    /// A file with `Bearer <token>` or `<user>:<password>`.
    pub credentials: Option<PathBuf>,
    /// Until a connection is made.
    pub connect_timeout: Duration,
    /// From then until an answer begins.
    pub first_byte_timeout: Duration,
    /// Between two bytes of it.
    pub stall_timeout: Duration,
}

/// Whether a proxy is between a source's servers and us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proxy {
    /// As `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say.
    Environment,
    /// Never.
    None,
    /// Always the one at this http URL, which may hold a user and a password.
    Url(String),
}

/// URLs of a release's files, with `{version}`, `{os}`, `{arch}`, and `{archive}` where it can be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Templates {
    /// The archive; contains `{version}`.
    pub archive: String,
    /// Its checksum file; may contain `{archive}`.
    pub checksum: Option<String>,
    /// Its Sigstore bundle; may contain `{archive}`.
    pub bundle: Option<String>,
}

/// Whom to trust: any rule or pin may vouch, nothing else can. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    /// Identities whose Sigstore signatures are trusted.
    pub keyless: Vec<Keyless>,
    /// Archives trusted by their digest, sorted by the version's text.
    pub pins: Vec<Pin>,
}

/// An identity whose Sigstore signatures are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyless {
    /// The issuer, compared exactly.
    pub issuer: String,
    /// The signer, compared exactly after `{version}` is replaced.
    pub identity: String,
    /// Sigstore's trusted root as a file; the built-in public-good root if absent.
    pub trusted_root: Option<PathBuf>,
    /// What the bundle must prove besides inclusion in the log.
    pub require: Vec<Requirement>,
    /// Claims of the certificate by name, compared exactly after `{version}` is replaced.
    pub claims: BTreeMap<String, String>,
}

/// What a bundle must prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requirement {
    /// Inclusion in the transparency log; always demanded, named or not.
    InclusionProof,
    /// A timestamp of a timestamp authority.
    Timestamp,
    /// A signed certificate timestamp.
    Sct,
}

/// An archive trusted by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The version it is trusted as.
    pub version: Version,
    /// The archive's digest.
    pub archive: Digest,
}

/// Which versions may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Nothing below this; always a semantic version.
    pub min_version: Option<Version>,
    /// Whether pre-releases are taken.
    pub prerelease: Prerelease,
}

/// Whether pre-releases are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prerelease {
    /// They are passed over.
    Skip,
    /// They count like any other.
    Allow,
}

/// How the program is restarted. In arguments and environment, [`with_program`] replaces `{program}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restart {
    /// `run` owns it as its child.
    Child(ChildRestart),
    /// Something else owns it; commands restart it.
    Command(CommandRestart),
    /// It is a unit of systemd's.
    Systemd(SystemdRestart),
}

/// A program that `run` starts itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRestart {
    /// What is started; never empty.
    pub command: Vec<String>,
    /// Added to the inherited environment.
    pub environment: BTreeMap<String, String>,
    /// Where it is started.
    pub working_directory: PathBuf,
    /// What asks it to stop.
    pub stop_signal: StopSignal,
    /// How long it may take before its group is killed.
    pub stop_timeout: Duration,
}

/// Commands that restart a program owned by something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRestart {
    /// What restarts it; never empty.
    pub command: Vec<String>,
    /// What stops it; never empty.
    pub stop_command: Vec<String>,
    /// How long each may take.
    pub timeout: Duration,
}

/// A unit of systemd's that is the program, or whose program starts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemdRestart {
    /// Its name.
    pub unit: UnitName,
    /// How long a restart may take; what the unit's own files allow if absent.
    pub timeout: Option<Duration>,
}

/// A signal that asks a program to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopSignal {
    /// SIGINT.
    #[serde(rename = "SIGINT")]
    Interrupt,
    /// SIGTERM.
    #[serde(rename = "SIGTERM")]
    Terminate,
    /// SIGQUIT.
    #[serde(rename = "SIGQUIT")]
    Quit,
}

/// What a candidate must pass before anything stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validate {
    /// The effective configuration that the supervisor writes; the running collector's own if absent.
    pub effective: Option<PathBuf>,
    /// The configuration used where nothing runs.
    pub configuration: Option<PathBuf>,
    /// What the candidate must list.
    pub components: Components,
    /// The most that each of the checks may take.
    pub timeout: Duration,
    /// Further arguments of the collector where nothing runs.
    pub arguments: Vec<String>,
    /// The collector's environment where nothing runs, added to the inherited one.
    pub environment: BTreeMap<String, String>,
    /// The collector's user where nothing runs.
    pub user: Option<Account>,
    /// The collector's group where nothing runs.
    pub group: Option<Account>,
    /// The collector's working directory where nothing runs.
    pub working_directory: Option<PathBuf>,
}

/// Components that a candidate must have been built with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Components {
    /// Receivers.
    pub receivers: Vec<String>,
    /// Processors.
    pub processors: Vec<String>,
    /// Exporters.
    pub exporters: Vec<String>,
    /// Connectors.
    pub connectors: Vec<String>,
    /// Extensions.
    pub extensions: Vec<String>,
}

/// A user or group, by name or number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Account {
    /// By number.
    Id(u32),
    /// By name.
    Name(String),
}

/// How health is judged. At least one of `http` and `command` is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// URL that answers 2xx when healthy; always `http://`.
    pub http: Option<String>,
    /// Command that exits 0 when healthy; empty for none.
    pub command: Vec<String>,
    /// Whether what answers must be the installed build.
    pub identity: IdentityCheck,
    /// The most that one reading may take.
    pub timeout: Duration,
    /// Between readings.
    pub interval: Duration,
    /// How long a start may take to become healthy.
    pub settle: Duration,
    /// How long a candidate must then stay healthy.
    pub soak: Duration,
    /// Failures in a row that the soak forgives.
    pub tolerate: u32,
}

/// Whether what answers the probe must be the installed build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdentityCheck {
    /// What listens on the probe's port must run the slot's file.
    Listener,
    /// Anything may answer.
    Skip,
}

/// How often an interrupted trial is taken up again, and where the program says what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Starts that may follow an interrupted trial.
    pub tries: u8,
    /// A file that the program writes its log to, besides the one beside the effective configuration.
    pub log: Option<PathBuf>,
}

impl Config {
    /// Where a service's configuration is unless said otherwise.
    pub fn default_path(service: &ServiceName) -> PathBuf {
        PathBuf::from(format!("/etc/myriarch/{service}.toml"))
    }

    /// Reads and validates the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be read, when others than its owner can write it, and for everything wrong in it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&permission::read_trusted(path)?, path)
    }

    /// Validates `text`; `path` is named in errors.
    ///
    /// # Errors
    /// Lists everything wrong in the text.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let mut problems = Problems::of(text);
        let parsed = read(text, &mut problems).and_then(|file| resolve::config(file, &mut problems));
        match parsed {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(ConfigError::Invalid { path: path.to_owned(), problems: problems.into_sorted() }),
        }
    }

    /// A complete configuration with every key explained. It is valid as it stands.
    pub fn example() -> &'static str {
        include_str!("config/example.toml")
    }

    /// The effective configuration as TOML, every default filled in; reads back as the same, but for a user and a
    /// password in a URL, which are hidden.
    pub fn show(&self) -> String {
        show::toml(self)
    }
}

/// The text as tables; none when its grammar or its schema is not ours, where going on would only guess.
fn read(text: &str, problems: &mut Problems<'_>) -> Option<File> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().map(|span| problems.position(&span));
        problems.add(at, error.message());
    }
    if !errors.is_empty() {
        return None;
    }
    let top = Section::top(table.into_inner());
    if let Some(schema) = top.peek_integer("schema").filter(|schema| *schema != CONFIG_SCHEMA) {
        let at = top.position_of("schema", problems);
        problems.add_with_hint(
            at,
            format!("`schema`: expected {CONFIG_SCHEMA}, the only one this version reads, found {schema}"),
            "the file was written for another version of this program",
        );
        return None;
    }
    Some(File::read(top, problems))
}

impl<'de> Deserialize<'de> for Account {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrNumber;
        impl de::Visitor<'_> for NameOrNumber {
            type Value = Account;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a number")
            }
            fn visit_i64<E: de::Error>(self, id: i64) -> Result<Account, E> {
                u32::try_from(id).map(Account::Id).map_err(|_| {
                    E::custom(format!("expected a name or a number from 0 to {}, found {id}", u32::MAX))
                })
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Account, E> {
                let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
                if name.is_empty() || !name.chars().all(allowed) {
                    return Err(E::custom(format!("expected a name or a number, found {name:?}")));
                }
                Ok(Account::Name(name.to_owned()))
            }
        }
        deserializer.deserialize_any(NameOrNumber)
    }
}
