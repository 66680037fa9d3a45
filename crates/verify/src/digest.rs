//! A SHA-256, and nothing that could be mistaken for one.
//!
//! Everything this project trusts, stores or quarantines is named by the digest of its bytes, so the
//! digest is a type of its own: it cannot be built from text of another length or alphabet.

use std::{
    fmt,
    io::{self, Read},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest. Reads and prints as 64 lower-case hexadecimal digits; `sha256:` may precede them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Text that is not a SHA-256 digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a SHA-256 digest (64 hexadecimal digits), found {found:?}")]
pub struct ParseDigestError {
    found: String,
}

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Reads `reader` to its end in constant memory; answers the digest and the number of bytes.
    ///
    /// # Errors
    /// Whatever `reader` answers; `Interrupted` is retried.
    pub fn of_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 128 * 1024];
        let mut length = 0;
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok((hasher.finish(), length)),
                Ok(n) => {
                    hasher.update(&buffer[..n]);
                    length += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 12 hexadecimal digits, enough to tell builds apart in a slot's name.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{self}")
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseDigestError { found: text.chars().take(80).collect() };
        let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        if hex.len() != 64 {
            return Err(error());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let (high, low) = nibble(pair[0]).zip(nibble(pair[1])).ok_or_else(error)?;
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A streaming SHA-256.
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// A hasher that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all the bytes taken.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    /// Hands out one byte at a time and is interrupted before each.
    struct Stuttering<'a>(&'a [u8], bool);

    impl Read for Stuttering<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            buffer[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    #[test]
    fn it_is_the_sha_256_of_the_bytes_however_they_come() {
        assert_eq!(Digest::of(b"abc").to_string(), ABC);
        let mut hasher = Hasher::new();
        hasher.update(b"a");
        hasher.update(b"");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), Digest::of(b"abc"));
        assert_eq!(Digest::of_reader(Stuttering(b"abc", false)).unwrap(), (Digest::of(b"abc"), 3));
        let long = vec![7; 300_000];
        assert_eq!(Digest::of_reader(long.as_slice()).unwrap(), (Digest::of(&long), 300_000));
        assert_eq!(Digest::of_reader(io::empty()).unwrap(), (Hasher::new().finish(), 0));
    }

    #[test]
    fn an_error_of_the_reader_is_no_digest() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::PermissionDenied.into())
            }
        }
        let error = Digest::of_reader(b"abc".chain(Broken)).expect_err("half read");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn it_is_read_in_either_case_with_or_without_a_prefix() {
        let digest = Digest::of(b"abc");
        assert_eq!(ABC.parse(), Ok(digest));
        assert_eq!(ABC.to_uppercase().parse(), Ok(digest));
        assert_eq!(format!("sha256:{ABC}").parse(), Ok(digest));
        assert_eq!(format!("{digest:?}").parse(), Ok(digest));
        assert_eq!(digest.short(), &ABC[..12]);
        assert_eq!(Digest::from(*digest.as_bytes()), digest);
    }

    #[test]
    fn nothing_else_is_a_digest() {
        let texts = [
            String::new(),
            "sha256:".to_owned(),
            ABC[1..].to_owned(),
            format!("{ABC}0"),
            format!(" {ABC}"),
            format!("{ABC}\n"),
            format!("SHA256:{ABC}"),
            format!("sha512:{ABC}"),
            format!("sha256:sha256:{ABC}"),
            format!("+{}", &ABC[1..]),
            format!("g{}", &ABC[1..]),
            format!("\u{e9}{}", &ABC[2..]),
        ];
        for text in texts {
            let error = text.parse::<Digest>().expect_err(&text).to_string();
            assert!(error.contains("64 hexadecimal digits"), "{error}");
        }
        assert!("x".repeat(1000).parse::<Digest>().expect_err("long").to_string().len() < 200);
    }

    #[test]
    fn json_holds_it_as_text_and_refuses_the_rest() {
        let digest = Digest::of(b"abc");
        let json = serde_json::to_string(&digest).unwrap();
        assert_eq!(json, format!("\"{ABC}\""));
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>("\"abc\"").is_err());
        assert!(serde_json::from_str::<Digest>("5").is_err());
    }
}
