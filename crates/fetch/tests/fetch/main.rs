//! What the sources promise, one file per property.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on is to stop there")]

mod credentials;
mod directory;
mod index;
mod limits;
mod lying_servers;
mod mirror;
mod no_weaker_check;
mod proxies;
mod resume;
mod revalidation;
mod room;
mod templates;
