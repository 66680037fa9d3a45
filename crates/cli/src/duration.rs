//! Durations as people write and read them: `90s`, `5m`, `1h30m`, `250ms`.
//!
//! A bare number is refused, because `timeout = 90` does not say of what.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration that reads and prints as text. Prints exactly, largest units first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DurationText(pub(crate) Duration);

/// Units in milliseconds, largest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const EXPECTED: &str = "a duration such as \"90s\", \"5m\", \"1h30m\" or \"250ms\"";

/// A duration in milliseconds for people: exact below ten seconds, whole seconds above.
pub(crate) fn rough(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..10_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => DurationText(Duration::from_secs(millis / 1000)).to_string(),
    }
}

/// Whole milliseconds, saturating.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl FromStr for DurationText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || format!("expected {EXPECTED}, found {text:?}");
        let mut rest = text;
        let mut total = 0_u64;
        let mut largest = u64::MAX;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
            let (number, tail) = rest.split_at(digits);
            let (unit, tail) = tail.split_at(tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len()));
            let size = UNITS.iter().find(|known| known.0 == unit).ok_or_else(error)?.1;
            // Each unit once and in falling order: `5m5m` or `5s1h` is a slip, not a sum.
            if size >= largest {
                return Err(error());
            }
            let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(size));
            total = part.and_then(|part| total.checked_add(part)).ok_or_else(error)?;
            (rest, largest) = (tail, size);
        }
        if text.is_empty() { Err(error()) } else { Ok(Self(Duration::from_millis(total))) }
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = millis(self.0);
        if left == 0 {
            return f.write_str("0s");
        }
        for (unit, size) in UNITS {
            if left >= size {
                write!(f, "{}{unit}", left / size)?;
                left %= size;
            }
        }
        Ok(())
    }
}

impl Serialize for DurationText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = DurationText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<DurationText, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_printed_the_same() {
        for (text, millis) in [
            ("0s", 0),
            ("250ms", 250),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1d1ms", 86_400_001),
        ] {
            let read: DurationText = text.parse().unwrap();
            assert_eq!(read.0, Duration::from_millis(millis), "{text}");
            assert_eq!(read.to_string().parse::<DurationText>().unwrap(), read, "{text}");
        }
        assert_eq!(DurationText(Duration::from_secs(90)).to_string(), "1m30s");
    }

    #[test]
    fn a_slip_is_refused_not_guessed() {
        let huge = format!("{}d", u64::MAX);
        for text in ["", "90", "s", "1.5s", "-1s", "5 s", "5S", "1y", "5s1h", "5m5m", "1h30", " 5s", &huge] {
            assert!(text.parse::<DurationText>().is_err(), "{text}");
        }
    }
}
