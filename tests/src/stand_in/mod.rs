//! What the stand-in programs and those who build them share.

pub mod script;
