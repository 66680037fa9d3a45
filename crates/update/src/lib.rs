//! The update chain: offer, select, obtain, stage, validate, activate, confirm, or roll back and quarantine.
//!
//! [`Updater::update`] is the whole story in one function. Host, container and embedding programs run the same
//! one; what differs is given to it through the [`Ports`]: where offers come from ([`Source`]), how the program
//! is restarted ([`Restart`]), what it says on trial ([`ProgramLog`]), who is told ([`Observe`]) and what time it is
//! ([`Clock`]). Nothing here reads a configuration file, prints, or ends the process.
//!
//! What must outlive a power cut is in the [`journal`]; [`recover`] decides from it alone what an interrupted
//! run left to do, and [`Updater::recover`] does it, first thing at every start.
//!
//! An agent that embeds the chain implements the ports and asks for updates:
//!
//! ```no_run
//! use std::{path::Path, sync::Arc};
//!
//! use async_trait::async_trait;
//! use myriarch_update::*;
//!
//! /// Whatever restarts the program here.
//! #[derive(Debug)]
//! struct MyAgent;
//!
//! #[async_trait]
//! impl Restart for MyAgent {
//!     async fn restart(&self, program: &Path) -> Result<(), RestartError> {
//!         println!("stop the old one, start {}", program.display());
//!         Ok(())
//!     }
//!     async fn stop(&self) -> Result<(), RestartError> {
//!         Ok(())
//!     }
//!     async fn ended(&self) -> Ended {
//!         std::future::pending().await
//!     }
//! }
//!
//! impl Observe for MyAgent {
//!     fn observe(&self, event: &Event) {
//!         println!("{event:?}");
//!     }
//! }
//!
//! # async fn example(
//! #     source: Arc<dyn Source>,
//! #     clock: Arc<dyn Clock>,
//! #     settings: Settings,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let store = myriarch_store::Store::create("/opt/myriarch/otelcol")?.lock("my agent")?;
//! let agent = Arc::new(MyAgent);
//! let ports = Ports { source, restart: agent.clone(), log: Arc::new(NoLog), observe: agent, clock };
//! let updater = Updater::new(store, settings, ports);
//!
//! updater.recover().await?; // first thing at every start
//! match updater.update(&Request::default()).await? {
//!     Outcome::Confirmed { build, .. } => println!("{} runs", build.version),
//!     other => println!("{other:?}"),
//! }
//! # Ok(())
//! # }
//! ```

mod activate;
mod build;
mod chain;
mod confirm;
mod effective;
mod elf;
mod event;
mod excerpt;
mod import;
pub mod journal;
mod obtain;
mod operator;
mod outcome;
mod ports;
mod recovery;
mod redact;
pub mod regular;
mod relay;
mod resume;
mod retention;
mod select;
mod space;
mod stage;
mod start;
mod state;
mod surroundings;
mod unpack;
mod validate;

pub use build::Build;
pub use chain::{AtRest, Error, Ports, Request, Settings, StartedBy, Updater, Validation};
pub use effective::does_nothing;
pub use event::{Check, Event};
pub use excerpt::{EXCERPT_LIMIT, Excerpt};
pub use import::{Accept, Imported, Installed, installed_program};
pub use outcome::{Fault, Outcome, Refusal, RefusalKind, RolledBack, Stage};
pub use ports::{
    Clock, Delivery, Ended, Found, NoLog, NotReady, Observe, Offer, Outstanding, ProgramLog, Progress,
    Restart, RestartError, Source, SourceError,
};
pub use recovery::{Recovery, recover};
pub use redact::{REDACTED, Redactor};
pub use resume::{Resumed, without_updating};
pub use select::Checked;
pub use state::{Quarantined, State};
pub use unpack::{Names, UnpackError, unpack_one_if};
