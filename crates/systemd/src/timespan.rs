//! Spans of time as systemd prints them: `1min 30s`, `100ms`, `infinity` (systemd.time(7)).

use std::time::Duration;

/// Longest unit first only for the reader; each name is looked up whole.
const UNITS: &[(&str, u64)] = &[
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
    ("w", 604_800_000_000),
    ("month", 2_629_800_000_000),
    ("y", 31_557_600_000_000),
];

/// A span; none for `infinity` and for what cannot be read. `0` is a span, and means "no limit" to some options.
pub(crate) fn timespan(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut micros = 0_u64;
    for word in text.split_whitespace() {
        let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let (number, unit) = word.split_at(digits);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        micros = micros.checked_add(number.parse::<u64>().ok()?.checked_mul(*factor)?)?;
    }
    (!text.trim().is_empty()).then(|| Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_they_are_printed() {
        for (text, millis) in [
            ("1min 30s", Some(90_000)),
            ("100ms", Some(100)),
            ("0", Some(0)),
            ("1d 2h 3min 4s 5ms", Some(93_784_005)),
            ("infinity", None),
            ("", None),
            ("[not set]", None),
            ("5", None),
        ] {
            assert_eq!(timespan(text), millis.map(Duration::from_millis), "{text}");
        }
    }
}
