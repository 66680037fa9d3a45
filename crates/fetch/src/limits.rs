//! How much, how long, and by which way.
//!
//! A server decides what it sends, never how much of the machine that may cost. There is no limit on the time an
//! archive takes in all, since nobody knows the line; there is one on every silence in between.

use std::time::Duration;

/// The most bytes taken of anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of an archive. Default 1 GiB.
    pub archive: u64,
    /// Of a checksum file or a bundle. Default 1 MiB.
    pub companion: u64,
    /// Of an index. Default 8 MiB.
    pub index: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { archive: 1 << 30, companion: 1 << 20, index: 8 << 20 }
    }
}

/// The longest waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection, TLS included, is made. Default 10 s.
    pub connect: Duration,
    /// From then until the answer begins. Default 30 s.
    pub first_byte: Duration,
    /// Between two bytes. Default 30 s.
    pub stall: Duration,
    /// For one whole archive, retries included. Default none.
    pub archive: Option<Duration>,
    /// For one try at an index, a checksum file or a bundle, in all: these are small, and a server that drips
    /// them byte by byte would otherwise hold an update for ever. Default 2 minutes.
    pub document: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            archive: None,
            document: Duration::from_mins(2),
        }
    }
}

/// Whether requests go through a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Proxy {
    /// As `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` (or their lower-case forms) say.
    #[default]
    FromEnvironment,
    /// Never.
    Direct,
    /// All of them through the one at this http URL, whatever the environment says. User and password in the URL
    /// are for the proxy.
    Through(String),
}
