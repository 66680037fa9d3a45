//! A child process's life: start, stop, its group, what it leaves behind.
//!
//! A supervised program is not one process. It starts others, dies and leaves them, and the next one cannot have
//! their ports until all of them are gone. So a [`Child`] is stopped with everything that came from it, and a
//! process is always named by its id *and* the tick at which it started, because ids are used again.
//!
//! In a container this program is process 1 and inherits every orphan: [`orphans`] collects them without taking
//! the exit status of a child from whoever started it. After a crash of this program, [`leftover`] finds and ends
//! what it had started.
//!
//! ```no_run
//! # async fn example() -> Result<(), myriarch_supervise::SpawnError> {
//! use myriarch_supervise::{Child, Spec, Stop};
//!
//! let mut child = Child::spawn(&Spec::new("/usr/bin/opampsupervisor", ["-config", "/etc/supervisor.yaml"]))?;
//! tokio::select! {
//!     status = child.wait() => println!("ended by itself: {status}"),
//!     _ = tokio::signal::ctrl_c() => {}
//! }
//! println!("{}", child.stop(&Stop::default()).await);
//! # Ok(())
//! # }
//! ```

pub mod leftover;
pub mod orphans;

mod backoff;
mod child;
mod descendants;
mod process;
mod stop;

pub use rustix::process::Signal;

pub use crate::{
    backoff::Backoff,
    child::{Child, Output, SpawnError, Spec},
    descendants::Descendants,
    orphans::become_subreaper,
    process::Process,
    stop::{End, Stop, Stopped},
};
