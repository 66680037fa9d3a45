//! What may run: versions, bounds, selection. Pure: no IO, no clock, no async.

mod select;
mod version;

pub use select::{Bounds, Choice, Hold, Nearest, Objection, PassedOver, Prerelease, Situation, select};
pub use version::{MAX_LENGTH, ParseVersionError, Relation, Version};
