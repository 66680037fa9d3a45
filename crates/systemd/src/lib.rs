//! A unit as systemd tells and changes it. Knows no collector and no store.
//!
//! systemd is asked through its own command, `systemctl`: it speaks the version of systemd that runs, waits for a
//! job as an operator's own call would, and needs no message bus, since root's calls go to systemd's private socket.
//! What `systemctl show` prints is parsed here and nowhere else ([`Unit`]), together with the file of an
//! `EnvironmentFile=` ([`environment_file`]), which systemd reads only when it starts the program.
//!
//! That a unit is "active" says that systemd started something. Whether the program is well is for others to say.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use myriarch_systemd::Systemd;
//!
//! let (systemd, name) = (Systemd::new(), "otelcol".parse()?);
//! if let Err(error) = systemd.restart(&name, Duration::from_secs(90)).await {
//!     eprintln!("{error}\nhint: {}", error.hint());
//! }
//! let unit = systemd.unit(&name).await?;
//! println!("{}: {}, process {:?}", unit.name, unit.words(), unit.main_pid);
//! # Ok(())
//! # }
//! ```

mod ask;
mod command;
mod environment_file;
mod error;
mod name;
mod properties;
mod start;
mod systemd;
mod timespan;
mod unit;
mod written;

#[cfg(test)]
mod recorded;

pub use crate::{
    command::Command,
    environment_file::environment_file,
    error::{Action, SystemdError},
    name::{UnitName, UnitNameError},
    start::{EnvironmentFileError, StartCommand},
    systemd::{Asked, Systemd},
    unit::{ActiveState, Ended, EnvironmentFile, LoadState, Sandbox, Unit, UnitAccount, UnitSurroundings},
    written::{COMMAND_PREFIXES, logical_lines},
};
