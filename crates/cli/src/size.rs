//! Amounts of bytes as people write and read them: `1GiB`, `512MiB`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An amount of bytes that reads and prints as text. Prints exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const EXPECTED: &str = "a size such as \"1GiB\", \"512MiB\" or \"4096B\"";

/// Bytes for people, to one decimal.
pub(crate) fn rough(bytes: u64) -> String {
    for (unit, size) in UNITS {
        if bytes >= size && size > 1 {
            let (whole, part) = (bytes / size, bytes % size * 10 / size);
            return format!("{whole}.{part} {unit}");
        }
    }
    format!("{bytes} B")
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || format!("expected {EXPECTED}, found {text:?}");
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?);
        let size = UNITS.iter().find(|known| known.0 == unit).ok_or_else(error)?.1;
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(size));
        bytes.map(Self).ok_or_else(error)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in UNITS {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{}{unit}", self.0 / size);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
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
    fn sizes_read_and_print_exactly() {
        for (text, bytes) in [("1GiB", 1 << 30), ("512MiB", 512 << 20), ("3KiB", 3072), ("0B", 0), ("7B", 7)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), text);
        }
        for text in ["", "1", "1GB", "1 GiB", "GiB", "1.5GiB", "99999999999GiB", "1GiB2"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn people_read_one_decimal() {
        assert_eq!(rough(999), "999 B");
        assert_eq!(rough(1536), "1.5 KiB");
        assert_eq!(rough(93 << 20), "93.0 MiB");
    }
}
