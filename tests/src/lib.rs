//! The test kit: one machine to update, with everything on it that can be had without a network.
//!
//! It is for tests and the demo only: what cannot be done here panics and says why.
#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a kit says what it misses by panicking")]

pub mod archive;
pub mod built;
pub mod collector;
pub mod host;
pub mod machine;
pub mod ports;
pub mod programs;
pub mod proxy;
pub mod publisher;
pub mod server;
pub mod shared;
pub mod sigstore;
pub mod site;
pub mod small_disk;
pub mod stand_in;
pub mod supervisor;
pub mod tls;
pub mod untouched;
