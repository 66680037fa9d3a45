//! The restart ports of a host: a child of ours, a unit of systemd's, or a command that restarts the program
//! elsewhere.

mod child;
mod command;
mod systemd;
mod through_current;

pub(crate) use child::ChildRestart;
pub(crate) use command::CommandRestart;
pub(crate) use systemd::SystemdRestart;
