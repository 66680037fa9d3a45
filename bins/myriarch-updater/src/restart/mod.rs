//! The restart ports of a host: a child of ours, or a command that restarts the program elsewhere.

mod child;
mod command;

pub(crate) use child::ChildRestart;
pub(crate) use command::CommandRestart;
