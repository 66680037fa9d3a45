//! Texts with `{version}` in them, compared whole.
//!
//! An identity pattern that somebody forgot to anchor trusts more signers than its author believes. So
//! there are no patterns: a template has one placeholder, the version asked for is put in its place,
//! and what comes out is compared byte by byte. What looks like a pattern is refused when the policy is
//! read, since it would never match and its author means something that it does not say.

use std::fmt;

use crate::TrustPolicyError;

const VERSION: &str = "{version}";

/// A text in which `{version}` stands for the version asked for.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Template(String);

impl Template {
    /// `what` names the setting in errors.
    pub(crate) fn new(what: &str, text: &str) -> Result<Self, TrustPolicyError> {
        let what = || what.to_owned();
        let value = || text.to_owned();
        if text.trim().is_empty() {
            return Err(TrustPolicyError::Empty { what: what() });
        }
        if text.trim() != text || text.contains(char::is_control) {
            return Err(TrustPolicyError::Blank { what: what(), value: value() });
        }
        let fixed = text.replace(VERSION, "");
        if fixed.contains(['{', '}']) {
            return Err(TrustPolicyError::Placeholder { what: what(), value: value() });
        }
        if fixed.contains(['*', '\\']) || text.starts_with('^') || text.ends_with('$') {
            return Err(TrustPolicyError::Pattern { what: what(), value: value() });
        }
        if fixed.is_empty() {
            return Err(TrustPolicyError::OnlyVersion { what: what(), value: value() });
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn names_version(&self) -> bool {
        self.0.contains(VERSION)
    }

    pub(crate) fn with(&self, version: &str) -> String {
        self.0.replace(VERSION, version)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_becomes_the_version() {
        let template = Template::new("identity", "https://e.com/{version}/w@refs/tags/v{version}").unwrap();
        assert!(template.names_version());
        assert_eq!(template.with("1.2.3"), "https://e.com/1.2.3/w@refs/tags/v1.2.3");
    }

    #[test]
    fn what_looks_like_a_pattern_or_says_nothing_is_refused() {
        let table = [
            ("", "is empty"),
            ("  ", "is empty"),
            (" https://e.com/{version}", "begins or ends"),
            ("https://e.com/{version}\n", "begins or ends"),
            ("https://e.com/{tag}", "{version} is the only placeholder"),
            ("https://e.com/{{version}}", "{version} is the only placeholder"),
            ("https://e.com/{version", "{version} is the only placeholder"),
            (".*", "pattern"),
            ("https://e.com/*@refs/tags/v{version}", "pattern"),
            ("^https://e.com/{version}", "pattern"),
            ("https://e.com/{version}$", "pattern"),
            (r"https://e\.com/{version}", "pattern"),
            ("{version}", "nothing but"),
            ("{version}{version}", "nothing but"),
        ];
        for (text, expected) in table {
            let error = Template::new("identity", text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(error.starts_with("identity"), "{text}: {error}");
        }
    }
}
