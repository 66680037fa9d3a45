//! Trying again, not for ever and not all at once.
//!
//! A whole fleet sees the same broken server in the same second. Each pause is therefore drawn anew from nothing
//! up to a bound that doubles with every failure, and a server that names its own time is obeyed, up to a limit.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::{Duration, SystemTime},
};

use crate::error::{FetchError, Passing};

/// How often, and how long apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Tries after the first, for faults that may pass. Default 3. A download that got ahead by a mebibyte in
    /// one try counts from the beginning again.
    pub times: u32,
    /// The bound of the first pause, doubling with each. Default 500 ms.
    pub first_pause: Duration,
    /// The bound of every pause. Default 30 s.
    pub longest_pause: Duration,
    /// The longest `Retry-After` that is waited for; a longer one ends the tries. Default 2 minutes.
    pub longest_retry_after: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            times: 3,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            longest_retry_after: Duration::from_mins(2),
        }
    }
}

/// The tries of one request.
pub(crate) struct Tries<'a> {
    retries: &'a Retries,
    failed: u32,
    in_all: u32,
}

impl<'a> Tries<'a> {
    pub(crate) fn new(retries: &'a Retries) -> Self {
        Self { retries, failed: 0, in_all: 0 }
    }

    /// Begins to count anew: something was gained that no later failure takes away.
    pub(crate) fn got_ahead(&mut self) {
        self.failed = 0;
    }

    /// Pauses after `error`, where another try is due.
    ///
    /// # Errors
    /// With `error` itself where it will not pass or the server asks for too long a wait; else, when the tries
    /// are used up, with their number around it.
    pub(crate) async fn after(&mut self, error: FetchError) -> Result<(), FetchError> {
        self.failed += 1;
        self.in_all += 1;
        let wish = match error.passing() {
            Passing::Never => return Err(error),
            Passing::After(wish) if wish > self.retries.longest_retry_after => return Err(error),
            Passing::After(wish) => Some(wish),
            Passing::Perhaps => None,
        };
        if self.failed > self.retries.times {
            return Err(match self.in_all {
                1 => error,
                tries => FetchError::GaveUp { tries, last: Box::new(error) },
            });
        }
        tokio::time::sleep(wish.unwrap_or_else(|| pause(self.retries, self.failed, random()))).await;
        Ok(())
    }
}

/// The pause after the `failed`th failure in a row, for a `share` of its bound from 0 to 1.
fn pause(retries: &Retries, failed: u32, share: f64) -> Duration {
    let doubled =
        2_u32.checked_pow(failed.saturating_sub(1)).and_then(|by| retries.first_pause.checked_mul(by));
    doubled.unwrap_or(retries.longest_pause).min(retries.longest_pause).mul_f64(share.clamp(0.0, 1.0))
}

/// A number from 0 to 1 that differs between processes and calls: the standard library seeds its hash maps so.
fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 32;
    f64::from(u32::try_from(bits).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

/// What `Retry-After` asks for: seconds, or a date (RFC 9110, section 10.2.3). Anything else asks for nothing.
pub(crate) fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound() {
        let retries = Retries::default();
        let bounds = [1, 2, 3, 6, 7, 8, 40].map(|failed| pause(&retries, failed, 1.0).as_millis());
        assert_eq!(bounds, [500, 1000, 2000, 16_000, 30_000, 30_000, 30_000]);
        assert_eq!(pause(&retries, 3, 0.0), Duration::ZERO);
        assert_eq!(pause(&retries, 3, 0.25), Duration::from_millis(500));
    }

    #[test]
    fn jitter_is_drawn_anew() {
        let drawn: std::collections::BTreeSet<u64> = (0..20).map(|_| random().to_bits()).collect();
        assert!(drawn.len() > 10);
        assert!(drawn.iter().all(|bits| (0.0..=1.0).contains(&f64::from_bits(*bits))));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, expected) in [
            ("7", Some(7)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(parse_retry_after(value, now), expected.map(Duration::from_secs), "{value:?}");
        }
    }
}
