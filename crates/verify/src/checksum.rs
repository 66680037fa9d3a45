//! Checksum files, read strictly.
//!
//! A publisher puts them beside an archive in a handful of dialects, and a misconfigured server
//! answers with an error page that happens to hold 64 hexadecimal digits. So nothing is searched for:
//! every line obeys the grammar or the file is refused, and names are compared whole. A digest from
//! here says which bytes the publisher meant; who the publisher is, only the trust policy can tell.
//!
//! ```text
//! file  = [BOM] (bare / 1*named)        ; bare only if the file is called "<asset>.sha256"
//! bare  = 64HEXDIG [EOL]
//! named = 64HEXDIG " " (" " / "*") name EOL      EOL = LF / CRLF, blank lines are skipped
//! ```

use crate::Digest;

const DIGITS: usize = 64;
const NAMES_SHOWN: usize = 5;
const TEXT_SHOWN: usize = 80;

/// Why a checksum file tells nothing about an asset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChecksumError {
    /// Not a single line in it.
    #[error("checksum file {file} is empty: expected the SHA-256 of {asset}")]
    Empty {
        /// Name of the checksum file.
        file: String,
        /// Name of the asset asked for.
        asset: String,
    },
    /// A web page, in all likelihood a server's error page.
    #[error("checksum file {file} is a web page: expected lines of SHA-256 and name, found {found:?}")]
    WebPage {
        /// Name of the checksum file.
        file: String,
        /// How it begins.
        found: String,
    },
    /// Bytes that are no UTF-8.
    #[error("checksum file {file} is not text: expected UTF-8, found other bytes at offset {offset}")]
    NotText {
        /// Name of the checksum file.
        file: String,
        /// Where the text ends.
        offset: usize,
    },
    /// A line outside the grammar.
    #[error(
        "checksum file {file}, line {line}: expected 64 hexadecimal digits, two separators and a name, \
         found {found:?}"
    )]
    Malformed {
        /// Name of the checksum file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The line, shortened.
        found: String,
    },
    /// A digest without a name, in a file whose own name does not say whose it is.
    #[error(
        "checksum file {file}, line {line}: a digest without a name is accepted only in {asset}.sha256, \
         alone"
    )]
    Nameless {
        /// Name of the checksum file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Name of the asset asked for.
        asset: String,
    },
    /// Good lines, none of them ours.
    #[error("checksum file {file} does not list {asset}: found {}", listed(.found, *.more))]
    AssetMissing {
        /// Name of the checksum file.
        file: String,
        /// Name of the asset asked for.
        asset: String,
        /// Some of the names that it does list, the most similar first.
        found: Vec<String>,
        /// How many more there are.
        more: usize,
    },
    /// Two answers to one question.
    #[error("checksum file {file} lists {asset} twice: {first} and {second}")]
    Conflict {
        /// Name of the checksum file.
        file: String,
        /// Name of the asset asked for.
        asset: String,
        /// The digest listed first.
        first: Digest,
        /// The other one.
        second: Digest,
    },
}

impl ChecksumError {
    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::WebPage { .. } => {
                "open the checksum's address in a browser: the server answers with a page"
            }
            Self::AssetMissing { .. } => {
                "names are compared whole, directories included: check the file names in the feed"
            }
            Self::Conflict { .. } => "the publisher has to withdraw one of the two lines",
            Self::Nameless { .. } => "rename the checksum file, or write it with `sha256sum <asset>`",
            Self::Empty { .. } | Self::NotText { .. } | Self::Malformed { .. } => {
                "write the file with `sha256sum <asset>`"
            }
        }
    }
}

/// The SHA-256 that the checksum file called `checksum_file_name` states for `asset`.
///
/// Both names are bare file names; `content` is the whole file.
///
/// # Errors
/// [`ChecksumError`], if any line of the file is outside the grammar, or `asset` is not listed, or is
/// listed with two different digests.
pub fn digest_for(checksum_file_name: &str, asset: &str, content: &[u8]) -> Result<Digest, ChecksumError> {
    let file = || checksum_file_name.to_owned();
    let text = text(checksum_file_name, content)?;
    let lines: Vec<(usize, &str)> = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    if lines.is_empty() {
        return Err(ChecksumError::Empty { file: file(), asset: asset.to_owned() });
    }

    let mut ours: Option<Digest> = None;
    let mut names = Vec::new();
    for &(number, line) in &lines {
        let (digest, name) = entry(line).ok_or_else(|| ChecksumError::Malformed {
            file: file(),
            line: number,
            found: shortened(line),
        })?;
        let Some(name) = name else {
            let named_for_asset = checksum_file_name.strip_suffix(".sha256") == Some(asset);
            if named_for_asset && lines.len() == 1 {
                return Ok(digest);
            }
            return Err(ChecksumError::Nameless { file: file(), line: number, asset: asset.to_owned() });
        };
        if name != asset {
            names.push(name);
            continue;
        }
        match ours {
            Some(first) if first != digest => {
                return Err(ChecksumError::Conflict {
                    file: file(),
                    asset: asset.to_owned(),
                    first,
                    second: digest,
                });
            }
            _ => ours = Some(digest),
        }
    }
    ours.ok_or_else(|| {
        // A name that only differs by its directory is what people look for first.
        names.sort_by_key(|name| !name.ends_with(asset));
        ChecksumError::AssetMissing {
            file: file(),
            asset: asset.to_owned(),
            found: names.iter().take(NAMES_SHOWN).map(|name| shortened(name)).collect(),
            more: names.len().saturating_sub(NAMES_SHOWN),
        }
    })
}

fn text<'a>(file: &str, content: &'a [u8]) -> Result<&'a str, ChecksumError> {
    let text = std::str::from_utf8(content)
        .map_err(|error| ChecksumError::NotText { file: file.to_owned(), offset: error.valid_up_to() })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('<') {
        return Err(ChecksumError::WebPage { file: file.to_owned(), found: shortened(text.trim_start()) });
    }
    Ok(text)
}

/// One line: the digest, and the name if there is one.
fn entry(line: &str) -> Option<(Digest, Option<&str>)> {
    let (digits, rest) = line.split_at_checked(DIGITS)?;
    // `Digest` reads a `sha256:` prefix as well; 64 characters never leave room for one.
    let digest = digits.parse().ok()?;
    if rest.is_empty() {
        return Some((digest, None));
    }
    let name = rest.strip_prefix("  ").or_else(|| rest.strip_prefix(" *"))?;
    (!name.is_empty() && !name.contains(char::is_control)).then_some((digest, Some(name)))
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_SHOWN).collect()
}

fn listed(names: &[String], more: usize) -> String {
    let mut words: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    if more > 0 {
        words.push(format!("{more} more"));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSET: &str = "otelcol_1.2.3_linux_amd64.tar.gz";
    const A: &str = "7623348c295ec7b00d86c30040a30730f7e3537e813b34c880c1d5abb9bbe8d5";
    const B: &str = "0000000000000000000000000000000000000000000000000000000000000001";

    fn read(file: &str, content: &str) -> Result<Digest, ChecksumError> {
        digest_for(file, ASSET, content.as_bytes())
    }

    #[test]
    fn every_dialect_of_the_grammar_is_read() {
        let own = format!("{ASSET}.sha256");
        let table = [
            ("bare", own.as_str(), A.to_owned()),
            ("bare with a line end", &own, format!("{A}\n")),
            ("bare with CRLF", &own, format!("{A}\r\n")),
            ("bare with BOM", &own, format!("\u{feff}{A}")),
            ("bare in capitals", &own, A.to_uppercase()),
            ("named", "SHA256SUMS", format!("{A}  {ASSET}\n")),
            ("named in its own file", &own, format!("{A}  {ASSET}\n")),
            ("binary mark", "SHA256SUMS", format!("{A} *{ASSET}\n")),
            ("CRLF", "SHA256SUMS", format!("{B}  other\r\n{A}  {ASSET}\r\n")),
            ("BOM", "SHA256SUMS", format!("\u{feff}{A}  {ASSET}\n")),
            ("no line end", "SHA256SUMS", format!("{B}  other\n{A}  {ASSET}")),
            ("blank lines", "SHA256SUMS", format!("\n{B}  other\n\n{A}  {ASSET}\n\n")),
            ("listed twice, agreeing", "SHA256SUMS", format!("{A}  {ASSET}\n{A} *{ASSET}\n")),
            ("the same name in a directory", "SHA256SUMS", format!("{B}  old/{ASSET}\n{A}  {ASSET}\n")),
            ("a name that ours begins", "SHA256SUMS", format!("{B}  {ASSET}.sbom.json\n{A}  {ASSET}\n")),
        ];
        for (what, file, content) in table {
            assert_eq!(read(file, &content).map(|digest| digest.to_string()), Ok(A.to_owned()), "{what}");
        }
    }

    #[test]
    fn whatever_else_it_is_the_file_is_refused_with_its_reason() {
        let own = format!("{ASSET}.sha256");
        let page = format!("<!DOCTYPE html>\n<pre>\n{A}  {ASSET}\n</pre>\n");
        let table = [
            ("empty", own.as_str(), String::new(), "is empty"),
            ("only blank lines", &own, "\r\n\n".to_owned(), "is empty"),
            ("only a BOM", &own, "\u{feff}".to_owned(), "is empty"),
            ("a web page", &own, page.clone(), "is a web page"),
            ("a web page after a BOM", &own, format!("\u{feff}\n {page}"), "is a web page"),
            ("words around a digest", &own, format!("Not found: {A}"), "line 1"),
            ("a good line, then words", &own, format!("{A}  {ASSET}\nnot found\n"), "line 2"),
            ("bare in a list", "SHA256SUMS", A.to_owned(), "without a name"),
            ("bare in the file of another asset", "other.sha256", A.to_owned(), "without a name"),
            ("two bare lines", &own, format!("{A}\n{A}\n"), "without a name"),
            ("a bare line beside a named one", &own, format!("{B}  other\n{A}\n"), "without a name"),
            ("63 digits", &own, A[1..].to_owned(), "line 1"),
            ("65 digits", &own, format!("{A}0"), "line 1"),
            ("a SHA-512", &own, format!("{A}{A}"), "line 1"),
            ("a prefix", &own, format!("sha256:{A}"), "line 1"),
            ("an indented digest", &own, format!(" {A}"), "line 1"),
            ("one space", "SHA256SUMS", format!("{A} {ASSET}"), "line 1"),
            ("a tab", "SHA256SUMS", format!("{A}\t{ASSET}"), "line 1"),
            ("no name after the spaces", "SHA256SUMS", format!("{A}  "), "line 1"),
            ("the BSD dialect", "SHA256SUMS", format!("SHA256 ({ASSET}) = {A}"), "line 1"),
            ("an escaped name", "SHA256SUMS", format!("\\{A}  {ASSET}"), "line 1"),
            ("a comment", "SHA256SUMS", format!("# sums\n{A}  {ASSET}"), "line 1"),
            ("a bare CR within a line", "SHA256SUMS", format!("{A}  {ASSET}\r{B}  other"), "line 1"),
            ("not listed", "SHA256SUMS", format!("{A}  other\n"), "does not list"),
            ("only in a directory", "SHA256SUMS", format!("{A}  dist/{ASSET}\n"), "does not list"),
            ("only below the dot", "SHA256SUMS", format!("{A}  ./{ASSET}\n"), "does not list"),
            ("in another case", "SHA256SUMS", format!("{A}  {}\n", ASSET.to_uppercase()), "does not list"),
            ("with a space at its end", "SHA256SUMS", format!("{A}  {ASSET} \n"), "does not list"),
            ("a longer name", "SHA256SUMS", format!("{A}  {ASSET}.sigstore.json\n"), "does not list"),
            ("another asset in our file", &own, format!("{A}  other\n"), "does not list"),
            ("twice, at odds", "SHA256SUMS", format!("{A}  {ASSET}\n{B}  {ASSET}\n"), "twice"),
        ];
        for (what, file, content, expected) in table {
            let error = read(file, &content).expect_err(what);
            assert!(error.to_string().contains(expected), "{what}: {error}");
            assert!(error.to_string().contains(file), "{what}: the file is not named in {error}");
            assert!(!error.hint().is_empty(), "{what}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_their_place() {
        let error = digest_for("sums", ASSET, b"\xff\xfe7\x006\x00").expect_err("UTF-16");
        assert!(error.to_string().contains("offset 0"), "{error}");
        let multibyte = format!("{}\u{e9}", "a".repeat(63));
        assert!(matches!(read("sums", &multibyte), Err(ChecksumError::Malformed { line: 1, .. })));
    }

    #[test]
    fn a_missing_asset_names_its_likeness_first_and_stays_short() {
        use std::fmt::Write as _;
        let mut content = String::new();
        for n in 0..20 {
            writeln!(content, "{B}  asset-{n}").unwrap();
        }
        writeln!(content, "{A}  dist/{ASSET}").unwrap();
        let error = read("SHA256SUMS", &content).expect_err("not listed").to_string();
        assert!(error.contains(&format!("found \"dist/{ASSET}\", \"asset-0\"")), "{error}");
        assert!(error.ends_with("16 more"), "{error}");
    }
}
