//! Times for people: in their own time zone, with its offset, to the second.

use jiff::{Timestamp, ZonedDateTime, tz::TimeZone};

/// `time`, RFC 3339, as `2026-11-29 09:00:00+01:00` in `zone`. What is no time is shown as it is.
pub(crate) fn local(time: &str, zone: &TimeZone) -> String {
    let Ok(timestamp) = time.parse::<Timestamp>() else { return time.to_owned() };
    ZonedDateTime::new(timestamp, zone.clone()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string()
}

/// Whole milliseconds from `begin` to `end`, both RFC 3339; none where that is no duration.
pub(crate) fn between(begin: &str, end: &str) -> Option<u64> {
    let (begin, end) = (begin.parse::<Timestamp>().ok()?, end.parse::<Timestamp>().ok()?);
    u64::try_from(end.duration_since(begin).as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_the_readers_zone_and_says_which() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(local("2026-11-29T08:00:00.123Z", &zone), "2026-11-29 10:00:00+02:00");
        assert_eq!(local("2026-11-29T08:00:00Z", &TimeZone::UTC), "2026-11-29 08:00:00+00:00");
        assert_eq!(local("unknown", &zone), "unknown");
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_duration() {
        assert_eq!(between("2026-11-29T08:00:00Z", "2026-11-29T08:01:00.5Z"), Some(60_500));
        assert_eq!(between("2026-11-29T08:01:00Z", "2026-11-29T08:00:00Z"), None);
    }
}
