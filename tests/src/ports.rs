//! Ports that nobody else will take.
//!
//! A port that the kernel gives and that is let go of again is given to the next one who asks, or to an outgoing
//! connection, before the program under test has bound it. So ports come from below the kernel's own range, each
//! once in a process, from a place in the range that differs between processes.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicU32, Ordering},
};

/// The range: below the kernel's default for outgoing connections, which begins at 32768.
const FIRST: u32 = 15_000;
const COUNT: u32 = 17_000;

/// Ports of 127.0.0.1 that are free and that no other call in this process returns.
///
/// # Panics
///
/// When all are taken.
pub fn free<const N: usize>() -> [u16; N] {
    std::array::from_fn(|_| one())
}

fn one() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = std::process::id().wrapping_mul(7919).wrapping_add(step) % COUNT;
        if let Ok(port) = u16::try_from(FIRST + offset)
            && TcpListener::bind(("127.0.0.1", port)).is_ok()
        {
            return port;
        }
    }
    panic!("no port between {FIRST} and {} is free", FIRST + COUNT)
}
