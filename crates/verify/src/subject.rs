//! What is judged: a version, an archive's digest, and what came with it.
//!
//! The version is the one that was asked for, and everything else has to agree with it. It takes part
//! in the comparison of identities, so it may hold nothing that could move a text's meaning: no slash,
//! no `@`, no space.

use crate::Digest;

const LONGEST_VERSION: usize = 128;

/// A candidate for trust. Its archive has been hashed, and nothing else was done to it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The version asked for, bare: `0.158.0`, not `v0.158.0`.
    pub version: &'a str,
    /// SHA-256 of the archive.
    pub archive: Digest,
    /// The archive's own file name.
    pub file_name: &'a str,
    /// The Sigstore bundle that came with it: the JSON document.
    pub bundle: Option<&'a [u8]>,
}

pub(crate) fn is_version(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST_VERSION
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte))
}

/// Whether `file_name` names some version, but not this one. A name without any version is no objection:
/// what a file is called proves nothing, but a name that says otherwise is a slip worth stopping at.
pub(crate) fn names_other_version(file_name: &str, version: &str) -> bool {
    let bytes = file_name.as_bytes();
    let is_ours = file_name.match_indices(version).any(|(start, _)| {
        let goes_on = match &bytes[start + version.len()..] {
            [b'.', next, ..] | [next, ..] => next.is_ascii_digit(),
            [] => false,
        };
        let has_begun = start > 0 && (bytes[start - 1].is_ascii_digit() || bytes[start - 1] == b'.');
        !has_begun && !goes_on
    });
    !is_ours && has_version(bytes)
}

/// Three numbers with dots between them, anywhere.
fn has_version(name: &[u8]) -> bool {
    name.split(|byte| !byte.is_ascii_digit() && *byte != b'.')
        .any(|run| run.split(|&byte| byte == b'.').filter(|number| !number.is_empty()).count() >= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_holds_nothing_that_moves_an_identity() {
        for good in ["0.158.0", "1.2.3-rc.1+build_5", "dev", "v1.2.3"] {
            assert!(is_version(good), "{good}");
        }
        let long = "1".repeat(129);
        for bad in ["", "1/2", "1@refs/heads/main", "1 2", "1\n", "{version}", "1%2e", "é", long.as_str()] {
            assert!(!is_version(bad), "{bad}");
        }
    }

    #[test]
    fn a_file_that_names_another_version_is_told_from_one_that_names_none() {
        let table = [
            ("otelcol_0.158.0_linux_amd64.tar.gz", "0.158.0", false),
            ("otelcol-v0.158.0-linux.tar.gz", "0.158.0", false),
            ("otelcol_0.158.0.tar.gz", "0.158.0", false),
            ("otelcol_0.158.0-rc.1_linux.tar.gz", "0.158.0-rc.1", false),
            ("otelcol.tar.gz", "0.158.0", false),
            ("otelcol_2.0_linux.tar.gz", "0.158.0", false),
            ("otelcol_dev.tar.gz", "dev", false),
            ("otelcol_0.157.0_linux_amd64.tar.gz", "0.158.0", true),
            ("otelcol_10.158.0_linux.tar.gz", "0.158.0", true),
            ("otelcol_0.158.01_linux.tar.gz", "0.158.0", true),
            ("otelcol_0.158.0.1_linux.tar.gz", "0.158.0", true),
            ("otelcol_1.0.158.0_linux.tar.gz", "0.158.0", true),
        ];
        for (name, version, other) in table {
            assert_eq!(names_other_version(name, version), other, "{name} for {version}");
        }
    }
}
