//! Noticing that a child has ended without collecting its status.
//!
//! As long as nobody has collected its status, a dead child keeps its process id, and with it the id of the
//! group that it leads. Only in that time is "kill what is left of the group" sure to reach nobody else.

use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::timeout,
};

/// How often is looked where no signal says so: signals of several children can melt into one.
const POLL: Duration = Duration::from_millis(20);

/// Resolves when the child `pid` has ended, and leaves its status to be collected.
pub(crate) async fn ended(pid: Pid) {
    let mut children = signal(SignalKind::child()).ok();
    while !has_ended(pid) {
        match &mut children {
            Some(children) => _ = timeout(POLL, children.recv()).await,
            None => tokio::time::sleep(POLL).await,
        }
    }
}

/// A child that cannot be asked about is one that somebody else has collected.
fn has_ended(pid: Pid) -> bool {
    let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), peek), Ok(None) | Err(rustix::io::Errno::INTR))
}
