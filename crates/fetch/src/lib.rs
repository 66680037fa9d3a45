//! Where releases come from: a directory or HTTP, streamed and resumable.
//!
//! A source answers two questions, what is on offer and where the bytes are, and is trusted in neither: what it
//! says about a digest can only add a check, and whether an archive may be opened is decided elsewhere, from the
//! bytes in [`Download`]. What this crate owes the chain is that a server can do no more harm than not to
//! deliver: every answer has a limit in size and time, memory does not grow with an archive, a download that was
//! interrupted goes on where it stood, and a checksum file that is named is brought or is an error, so that nobody can
//! leave out a check by breaking a connection. Only a bundle may be plainly absent: without one just those rules can
//! vouch that need none.
//!
//! ```no_run
//! use myriarch_fetch::{Http, HttpSettings};
//!
//! # async fn example() -> Result<(), myriarch_fetch::FetchError> {
//! // A TLS provider has to be installed once per process before; see `Http::new`.
//! let source = Http::new(HttpSettings {
//!     index: Some("https://releases.example/collector/index.json".to_owned()),
//!     ..HttpSettings::default()
//! })?;
//! let Some(release) = source.release("0.158.0").await? else { return Ok(()) };
//! let progress = |received: u64, total: Option<u64>| println!("{received} of {total:?}");
//! let download = source.download(&release, "/opt/myriarch/otelcol/partial".as_ref(), &progress).await?;
//! println!("{} is at {}", download.file_name, download.archive.display());
//! # Ok(())
//! # }
//! ```

mod authorities;
mod client;
mod credentials;
mod directory;
mod document;
mod error;
mod http;
mod index;
mod limits;
mod partial;
mod platform;
mod progress;
mod regular;
mod release;
mod remembered;
mod retry;
mod template;
mod transfer;

pub use directory::{Directory, DirectorySettings};
pub use error::{FetchError, Waiting};
pub use http::{Http, HttpSettings};
pub use index::{Listing, Skipped};
pub use limits::{Limits, Proxy, Timeouts};
pub use partial::{clean, discard};
pub use platform::host_arch;
pub use release::{Download, Outstanding, Release};
pub use retry::Retries;
pub use template::Templates;
