//! The index as it was last read.
//!
//! `run` looks every hour, an update asks more than once, and an index seldom changes: with the entity tag of the
//! last answer a server can say "not modified" instead of sending it all again. What is remembered lives in this
//! process's memory and ends with it. A file would save one answer per start, and would have to be judged for
//! damage, age and owner each time it is read.
//!
//! There is one at most, of bounded size, and it counts only while the server says so. What could not be read as an
//! index is not remembered: the next answer would only confirm it.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::{Url, header::HeaderValue};

/// Larger ones are asked for anew each time.
const LARGEST: usize = 1 << 20;

/// A document, its entity tag, and where the redirects led to it.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    pub(crate) tag: HeaderValue,
    pub(crate) at: Url,
    pub(crate) content: Arc<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Option<Remembered>>);

impl Memory {
    pub(crate) fn recall(&self) -> Option<Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps `new`, if it is not too large, and forgets what was kept before.
    pub(crate) fn keep(&self, new: Option<Remembered>) {
        let new = new.filter(|new| new.content.len() <= LARGEST);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}

/// Whether two entity tags name the same document; whether they are weak does not matter (RFC 9110, section 8.8.3.2).
pub(crate) fn is_same(one: &HeaderValue, other: &HeaderValue) -> bool {
    let opaque = |tag: &HeaderValue| {
        let bytes = tag.as_bytes();
        bytes.strip_prefix(b"W/").unwrap_or(bytes).to_owned()
    };
    opaque(one) == opaque(other)
}
