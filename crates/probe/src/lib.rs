//! Is the program well?
//!
//! Before a switch a candidate answers questions by being run ([`exec`]), in the surroundings that the running
//! program has ([`process`]). After a switch it is watched ([`Probe`]): it must become ready within the *settle*
//! time and stay ready for the *soak* time, and the process that answers must run the very file that was
//! switched to. An answer from somebody else is worth nothing: the old process may still hold the port.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use myriarch_probe::{FileRef, Identity, Probe, ProbeSettings, Verdict};
//!
//! let probe = Probe::new(ProbeSettings {
//!     http: Some("http://127.0.0.1:13133/".into()),
//!     identity: Identity::Listener,
//!     ..ProbeSettings::default()
//! })?;
//! let (dev, ino) = FileRef::from(std::path::Path::new("/opt/myriarch/otelcol/current/bin/otelcol")).id()?;
//! match probe.watch((dev, ino), &mut |phase| println!("{phase}")).await {
//!     Verdict::Healthy => println!("confirmed"),
//!     bad => println!("rolling back: {bad}"),
//! }
//! # Ok(())
//! # }
//! ```

pub mod exec;
pub mod process;

mod capture;
mod credentials;
mod ended;
mod http;
mod listener;
mod reading;
mod verdict;
mod watch;

pub use crate::{
    http::Http,
    reading::{FileRef, Identity, Probe, ProbeError, ProbeSettings, Reading},
    verdict::{Phase, Verdict},
};
