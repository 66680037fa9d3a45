//! The operator's surface: configuration, status document, reporters, exit codes.
//!
//! Everything here is text and values: no sockets, no processes, no clock. The binary parses the command
//! line, composes the parts and owns the streams; what it says and how it ends is decided here, so that host
//! and container say the same thing in the same words.
//!
//! ```
//! use std::{io, path::Path};
//!
//! use myriarch_cli::{Config, Ending, ExitCode, Reporter};
//! use myriarch_update::{Event, Observe};
//!
//! let config = Config::parse(Config::example(), Path::new("/etc/myriarch/otelcol.toml"))?;
//! assert_eq!(config.store.path, Path::new("/opt/myriarch/otelcol"));
//!
//! let reporter = Reporter::lines(io::stderr());
//! reporter.observe(&Event::Staged { slot: "0.165.1-7623348c295e".to_owned() });
//!
//! let ending = Ending::failed(ExitCode::Locked, &io::Error::other("held by pid 7"), None);
//! assert_eq!(ending.human(), "error: held by pid 7\n");
//! # Ok::<(), myriarch_cli::ConfigError>(())
//! ```

pub mod config;
pub mod control;
pub mod describe;
pub mod doctor;
mod duration;
pub mod ending;
pub mod escape;
pub mod exit;
pub mod history;
pub mod import;
pub mod look;
pub mod reporter;
mod size;
pub mod status;
mod time;

pub use config::{Config, ConfigError, ServiceName};
pub use doctor::DoctorDocument;
pub use ending::Ending;
pub use exit::ExitCode;
pub use history::HistoryDocument;
pub use import::PlanDocument;
pub use look::LookDocument;
pub use reporter::Reporter;
pub use status::StatusDocument;
