//! Starting a program as somebody else, without a line of unsafe code.
//!
//! The collector's own user must be the one that validates the collector's configuration: root can read files
//! that the collector cannot. The standard library can set user and group of a child but not its supplementary
//! groups, and `pre_exec` is unsafe. Linux, however, keeps credentials per *thread*, and a child inherits those
//! of the thread that starts it. So a thread is made for this one start: it takes on the groups, then the group,
//! then the user (in this order, since the last step gives up the right to the first two), starts the program
//! and ends. No other thread is touched, and there is no way back for this one.

use std::{collections::BTreeSet, io};

use rustix::{
    process::{getegid, geteuid, getgroups},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use tokio::process::{Child, Command};

/// User, group and supplementary groups of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The supplementary group ids, in any order.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// Our own.
    ///
    /// # Errors
    ///
    /// When the system does not tell them.
    pub fn own() -> io::Result<Self> {
        let groups = getgroups()?.into_iter().map(rustix::process::Gid::as_raw).collect();
        Ok(Self { uid: geteuid().as_raw(), gid: getegid().as_raw(), groups })
    }

    /// Whether both grant the same: order, repetition and the main group's being listed do not matter.
    fn grants_same(&self, other: &Self) -> bool {
        self.uid == other.uid && self.gid == other.gid && self.all_groups() == other.all_groups()
    }

    fn all_groups(&self) -> BTreeSet<u32> {
        self.groups.iter().copied().chain([self.gid]).collect()
    }

    /// For the calling thread alone, and for good.
    fn take_on(&self) -> io::Result<()> {
        let groups: Vec<_> = self.groups.iter().copied().map(gid).collect::<io::Result<_>>()?;
        let (gid, uid) = (gid(self.gid)?, uid(self.uid)?);
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        Ok(())
    }
}

/// Why a start came to nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The credentials could not be taken on; nothing was run.
    Credentials(io::Error),
    /// The program could not be started.
    Start(io::Error),
}

/// Starts `command` with `credentials`; with our own ones, or none, nothing is changed, so that it works for any
/// user.
pub(crate) fn spawn(command: &mut Command, credentials: Option<&Credentials>) -> Result<Child, Failure> {
    let foreign = match credentials {
        None => None,
        Some(wanted) if wanted.grants_same(&Credentials::own().map_err(Failure::Credentials)?) => None,
        Some(wanted) => Some(wanted),
    };
    let Some(wanted) = foreign else {
        return command.spawn().map_err(Failure::Start);
    };
    let runtime = tokio::runtime::Handle::current();
    std::thread::scope(|scope| {
        let start = || {
            let _entered = runtime.enter();
            wanted.take_on().map_err(Failure::Credentials)?;
            command.spawn().map_err(Failure::Start)
        };
        std::thread::Builder::new()
            .name("start-as".into())
            .spawn_scoped(scope, start)
            .map_err(Failure::Credentials)?
            .join()
            .unwrap_or_else(|_| Err(Failure::Credentials(io::Error::other("the starting thread panicked"))))
    })
}

/// The kernel reads the highest number as "leave it as it is", which would mean root here.
fn real(id: u32) -> io::Result<u32> {
    if id == u32::MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "4294967295 is no user or group id"));
    }
    Ok(id)
}

fn uid(id: u32) -> io::Result<rustix::process::Uid> {
    real(id).map(rustix::process::Uid::from_raw)
}

fn gid(id: u32) -> io::Result<rustix::process::Gid> {
    real(id).map(rustix::process::Gid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_group_order_and_repetition_make_no_difference() {
        let credentials = |groups: &[u32]| Credentials { uid: 1, gid: 5, groups: groups.to_vec() };
        assert!(credentials(&[7, 6]).grants_same(&credentials(&[6, 7, 7, 5])));
        assert!(!credentials(&[7, 6]).grants_same(&credentials(&[7])));
    }

    #[test]
    fn the_id_that_means_leave_as_is_is_refused() {
        assert!(uid(u32::MAX).is_err());
        assert!(gid(u32::MAX).is_err());
        assert!(uid(0).is_ok());
    }
}
