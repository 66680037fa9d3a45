//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use myriarch_cli::{Config, ServiceName};
use myriarch_policy::Version;
use myriarch_systemd::UnitName;
use myriarch_update::Accept;

/// Keeps one supervised program at the version a policy asks for, and never leaves the machine without a
/// working, verified one.
#[derive(Debug, Parser)]
#[command(name = "myriarch-updater", version, max_term_width = 100)]
pub(crate) struct CommandLine {
    /// The service's configuration
    #[arg(long, short, global = true, value_name = "FILE", default_value = "/etc/myriarch/otelcol.toml")]
    config: PathBuf,

    /// The service, instead of its configuration's path: /etc/myriarch/<SERVICE>.toml
    #[arg(long, short, global = true, conflicts_with = "config")]
    service: Option<ServiceName>,

    /// Data as a JSON document on stdout, progress as JSON lines on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl CommandLine {
    /// How this program is called for the same configuration, for hints.
    pub(crate) fn called(&self) -> String {
        match &self.service {
            Some(service) => format!("myriarch-updater --service {service}"),
            None => format!("myriarch-updater --config {}", self.config.display()),
        }
    }

    /// The path of the service's configuration.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.service.as_ref().map_or_else(|| self.config.clone(), Config::default_path)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Own the program as a child, look for offers, answer the other verbs; ends on SIGTERM or SIGINT
    Run,
    /// What is installed and runs, whether it is well, what is on offer, and what happens next
    Status(Status),
    /// Look whether an update is available; exit code 100 if so
    Check,
    /// Carry out an update by the whole chain
    Update(To),
    /// Go back to the previous confirmed build, and quarantine the one that is left
    Rollback(To),
    /// What happened, oldest first: trials with how they ended, how long they took and why
    History,
    /// Judge an archive by the trust policy, and touch nothing
    Verify(Verify),
    /// Release a version from quarantine
    Release {
        /// The version
        version: Version,
    },
    /// Install only this version from now on, lower than the current one or not
    Pin {
        /// The version
        version: Version,
    },
    /// Lift the pin
    Unpin,
    /// Bring an interrupted trial to its end, and `current` to an intact build; idempotent
    Recover(Recover),
    /// Take over the collector that a systemd unit runs, as the first slot; shows every change, and can be undone
    Import(Import),
    /// Look at everything that an update needs, and say what is in the way; changes nothing
    Doctor,
    /// The configuration itself
    #[command(subcommand)]
    Config(ConfigVerb),
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Status {
    /// Read every program whole and compare its digest, instead of telling what the last such check found
    #[arg(long)]
    pub(crate) integrity: bool,
    /// Do not ask the health endpoint, which takes up to half a second where nothing answers
    #[arg(long)]
    pub(crate) no_probe: bool,
}

#[derive(Debug, Args)]
pub(crate) struct To {
    /// Exactly this version
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: Option<Version>,
}

#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// Start and judge nothing: whoever keeps the program is about to start it, as at boot
    #[arg(long)]
    pub(crate) before_start: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The release archive
    pub(crate) archive: PathBuf,
    /// The version it claims to be
    #[arg(long)]
    pub(crate) version: Version,
    /// Its Sigstore bundle [default: <ARCHIVE>.sigstore.json if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Its checksum file [default: <ARCHIVE>.sha256 if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) checksum: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Show what would be changed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Put everything back as it was before the import
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) undo: bool,
    /// Take the installed file as it is, although it is not root's own, or has what a slot's copy will not have
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) accept: Vec<AcceptWord>,
    /// Where units and drop-ins are written
    #[arg(long, value_name = "DIR", default_value = "/etc/systemd/system")]
    pub(crate) unit_directory: PathBuf,
}

/// What `--accept` can name.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AcceptWord {
    /// It belongs to another user than root
    Owner,
    /// Others than its owner can write to it
    Writable,
    /// It has file capabilities, and the unit gives them as ambient ones
    Capabilities,
}

impl From<AcceptWord> for Accept {
    fn from(word: AcceptWord) -> Self {
        match word {
            AcceptWord::Owner => Self::Owner,
            AcceptWord::Writable => Self::Writable,
            AcceptWord::Capabilities => Self::Capabilities,
        }
    }
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Read the file and say everything that is wrong with it
    Check,
    /// The configuration in force, defaults filled in
    Show,
    /// A commented example
    Example {
        /// Write one for the collector that is found on this machine
        #[arg(long)]
        detect: bool,
        /// Of several units, this one
        #[arg(long, value_name = "NAME", requires = "detect")]
        unit: Option<UnitName>,
    },
}
