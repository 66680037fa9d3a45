//! The name of a service unit, checked once.
//!
//! What is no unit's name is refused here and not by a systemctl that would read `--help` or a path out of it.

use std::{fmt, str::FromStr};

/// What systemd takes for a unit's name at the most, in bytes.
const LONGEST: usize = 255;

/// The one kind of unit that runs a program.
const SERVICE: &str = ".service";

/// Kinds that a name can end in and that are no service (systemd.unit(5)).
const OTHER_KINDS: &[&str] = &[
    ".socket",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".target",
    ".path",
    ".timer",
    ".slice",
    ".scope",
];

/// A service unit's name, `.service` included.
///
/// ```
/// use myriarch_systemd::UnitName;
///
/// let unit: UnitName = "otelcol".parse()?;
/// assert_eq!(unit.as_str(), "otelcol.service");
/// # Ok::<(), myriarch_systemd::UnitNameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitName(String);

/// A text that names no service unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected the name of a service unit, {expected}, found {found:?}")]
pub struct UnitNameError {
    expected: &'static str,
    found: String,
}

impl UnitName {
    /// With its suffix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without its suffix.
    pub fn stem(&self) -> &str {
        self.0.strip_suffix(SERVICE).unwrap_or(&self.0)
    }

    /// What stands between `@` and the suffix, where it is an instance of a template.
    pub fn instance(&self) -> Option<&str> {
        self.stem().split_once('@').map(|(_, instance)| instance)
    }
}

impl FromStr for UnitName {
    type Err = UnitNameError;

    /// Adds `.service` where it is missing, as systemctl does.
    fn from_str(text: &str) -> Result<Self, UnitNameError> {
        let wrong = |expected| Err(UnitNameError { expected, found: text.to_owned() });
        if OTHER_KINDS.iter().any(|kind| text.ends_with(kind)) {
            return wrong("which ends in .service");
        }
        let stem = text.strip_suffix(SERVICE).unwrap_or(text);
        if stem.is_empty() || stem.len() + SERVICE.len() > LONGEST {
            return wrong("of 1 to 255 bytes");
        }
        if stem.starts_with('-') || !stem.chars().all(is_allowed) {
            return wrong("of letters, digits and : - _ . \\ @, not beginning with -");
        }
        match stem.split_once('@') {
            Some(("", _)) => wrong("with something before the @"),
            Some((_, "")) => wrong("not a template: an instance such as otelcol@edge.service"),
            _ => Ok(Self(format!("{stem}{SERVICE}"))),
        }
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// systemd's `VALID_CHARS_WITH_AT`.
fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || ":-_.\\@".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_whole_as_systemctl_makes_it() {
        for (text, whole) in [
            ("otelcol", "otelcol.service"),
            ("otelcol.service", "otelcol.service"),
            ("otelcol-contrib@edge", "otelcol-contrib@edge.service"),
            ("a.b", "a.b.service"),
            (r"a\x2db", r"a\x2db.service"),
        ] {
            assert_eq!(text.parse::<UnitName>().unwrap().as_str(), whole);
        }
        assert_eq!("a@b".parse::<UnitName>().unwrap().instance(), Some("b"));
    }

    #[test]
    fn what_names_no_service_is_refused() {
        let long = "a".repeat(248);
        for text in [
            "",
            ".service",
            "a@",
            "a@.service",
            "@b",
            "a b",
            "a/b",
            "../a",
            "--help",
            "a.timer",
            "a\n",
            "ä",
            &long,
        ] {
            let error = text.parse::<UnitName>().unwrap_err();
            assert!(error.to_string().ends_with(&format!("found {text:?}")), "{error}");
        }
        assert!("a".repeat(247).parse::<UnitName>().is_ok());
    }
}
