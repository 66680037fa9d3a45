//! How long to wait before an exited child is started again.
//!
//! This is the steady state, off trial: the program was good once and is started for ever, ever more slowly, so
//! that a broken surrounding is not hammered. On trial there is no backing off; there is going back.

use std::time::Duration;

/// Waiting that doubles with each short life and begins anew after a long one.
#[derive(Debug, Clone)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    reset_after: Duration,
    next: Duration,
}

impl Backoff {
    /// From `min` doubling to `max`; a life of `reset_after` makes it begin at `min` again.
    pub fn new(min: Duration, max: Duration, reset_after: Duration) -> Self {
        Self { min, max: max.max(min), reset_after, next: min }
    }

    /// How long to wait after a life that lasted `lived`.
    pub fn after(&mut self, lived: Duration) -> Duration {
        if lived >= self.reset_after {
            self.next = self.min;
        }
        let wait = self.next;
        self.next = (wait.saturating_mul(2)).min(self.max);
        wait
    }
}

/// 1 s doubling to 60 s, begun anew after 60 s of life.
impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_secs(1), Duration::from_mins(1), Duration::from_mins(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_doubles_to_the_most_and_begins_anew_after_a_long_life() {
        let mut backoff = Backoff::default();
        let lives = [0, 0, 1, 59, 0, 0, 0, 0, 0, 60, 0, 3600, 0];
        let waits = [1, 2, 4, 8, 16, 32, 60, 60, 60, 1, 2, 1, 2];
        for (index, (lived, wait)) in lives.into_iter().zip(waits).enumerate() {
            assert_eq!(backoff.after(Duration::from_secs(lived)), Duration::from_secs(wait), "{index}");
        }
    }

    #[test]
    fn a_most_below_the_least_waits_the_least() {
        let mut backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(1), Duration::MAX);
        assert_eq!((0..3).map(|_| backoff.after(Duration::ZERO).as_secs()).collect::<Vec<_>>(), [5, 5, 5]);
    }

    #[test]
    fn waiting_never_overflows() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::MAX, Duration::MAX);
        for _ in 0..200 {
            backoff.after(Duration::ZERO);
        }
        assert_eq!(backoff.after(Duration::ZERO), Duration::MAX);
    }
}
