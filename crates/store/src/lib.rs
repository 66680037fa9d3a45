//! What is on disk: slots, the current link, the lock, integrity, pruning. Sync; mechanism only.
//!
//! A [`Store`] is a directory that holds complete builds of one program, each in a [`Slot`] of its own, and a
//! link `current` that names the one to run. Reading needs nothing; changing needs the [`Writer`], of which
//! there is one per store and machine at a time. A slot appears by one rename and is never written again, so
//! that at every instant, also after a power cut, it is whole or absent.
//!
//! ```
//! use std::io::Write as _;
//! use myriarch_store::{Current, Manifest, Store};
//! use myriarch_verify::Digest;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let root = directory.path().join("otelcol");
//! let store = Store::create(&root)?;
//! let writer = store.lock("update to 1.2.3")?;
//!
//! let mut staging = writer.staging("otelcol")?;
//! staging.write_all(b"the program's bytes")?;
//! let slot = writer.publish(staging, |binary| Manifest {
//!     schema: Manifest::SCHEMA,
//!     name: "otelcol".to_owned(),
//!     version: "1.2.3".to_owned(),
//!     binary,
//!     archive: Digest::of(b"the archive it came in"),
//!     evidence: serde_json::json!({ "by": "pin" }),
//!     source: "file:///inbox/otelcol_1.2.3_linux_amd64.tar.gz".to_owned(),
//!     staged_at: "2026-01-02T03:04:05Z".to_owned(),
//! })?;
//! slot.check()?;
//! writer.point(&slot)?;
//!
//! assert_eq!(store.current()?, Current::Slot(slot.name().clone()));
//! assert_eq!(std::fs::read(store.program("otelcol"))?, b"the program's bytes");
//! # Ok(())
//! # }
//! ```

mod checks;
mod current;
pub mod durable;
mod error;
mod fitness;
mod lock;
mod manifest;
mod name;
mod prune;
pub mod running;
mod slot;
mod staging;
mod store;
mod writer;

pub use checks::Checks;
pub use current::Current;
pub use error::StoreError;
pub use fitness::Unfit;
pub use lock::{Holder, LockError};
pub use manifest::Manifest;
pub use name::{ParseSlotNameError, SlotName};
pub use slot::{Damage, FileId, Slot};
pub use staging::Staging;
pub use store::{Listed, Store, available};
pub use writer::Writer;
