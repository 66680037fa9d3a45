//! What can go wrong on the way, and what to do about it.
//!
//! Each message names the URL or path, what was expected and what was found; [`FetchError::hint`] says what an
//! operator can try. Text that a server chose is quoted and cut, and URLs are shown without user, password and
//! query, since an error ends in logs that more people read than may use the link.

use std::{error::Error, fmt, io, path::PathBuf, time::Duration};

use crate::platform::host_arch;

type Cause = Box<dyn Error + Send + Sync>;

/// A source that could not answer or deliver.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A setting that cannot work.
    #[error("{setting}: expected {expected}, found {found:?}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A version that cannot be put in a file name or URL.
    #[error("expected a version of letters, digits and . _ + -, found {found:?}")]
    Version {
        /// The version asked for.
        found: String,
    },
    /// The process has no cryptography for TLS.
    #[error("no TLS provider is installed in this process")]
    NoProvider,
    /// https cannot be used on this machine.
    #[error("{url}: expected trusted root certificates on this machine, found none that can be used")]
    NoRoots {
        /// The URL asked for.
        url: String,
        /// What the platform said.
        #[source]
        source: Cause,
    },
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be set up")]
    Client(#[source] Cause),
    /// The file with certificate authorities cannot be used.
    #[error("{}: expected certificates of authorities in PEM form, found {found}", .path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What is there instead.
        found: String,
    },
    /// The file with credentials cannot be used. What is in it is not told.
    #[error("credentials {}: expected {expected}, found {found}", .path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
        /// What mends it.
        hint: String,
    },
    /// No connection came about.
    #[error("{url}: could not connect{}", .proxy.as_ref().map_or_else(String::new, |proxy| format!(" through the proxy {proxy}")))]
    Connect {
        /// The URL asked for.
        url: String,
        /// The proxy, where one is named.
        proxy: Option<String>,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// The other side could not prove who it is, or spoke no TLS.
    #[error("{url}: expected a server that this machine trusts, found another")]
    Untrusted {
        /// The URL asked for.
        url: String,
        /// What TLS said.
        #[source]
        source: Cause,
    },
    /// Nothing came for too long.
    #[error("{url}: expected {waiting} within {limit:?}, found silence")]
    TimedOut {
        /// The URL asked for.
        url: String,
        /// What for.
        waiting: Waiting,
        /// How long.
        limit: Duration,
    },
    /// The connection ended before the answer did.
    #[error(
        "{url}: expected {}, found the connection's end after {received}",
        .expected.map_or_else(|| "a complete answer".to_owned(), |bytes| format!("{bytes} bytes"))
    )]
    CutShort {
        /// The URL asked for.
        url: String,
        /// Bytes that arrived, those of earlier tries included.
        received: u64,
        /// Bytes in all, where the server told.
        expected: Option<u64>,
        /// What the connection said.
        #[source]
        source: Option<Cause>,
    },
    /// An answer with another status.
    #[error("{url}: expected status 200, found {status}")]
    Status {
        /// The URL asked for.
        url: String,
        /// The status found.
        status: u16,
        /// How long the server asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// A redirect that is not followed.
    #[error("{url}: expected {expected}, found a redirect to {to}")]
    Redirect {
        /// The URL that answered with it.
        url: String,
        /// Where it leads.
        to: String,
        /// What would have been followed.
        expected: &'static str,
    },
    /// An answer that makes no sense.
    #[error("{url}: expected {expected}, found {found}")]
    Answer {
        /// The URL asked for.
        url: String,
        /// What would have made sense.
        expected: String,
        /// What came.
        found: String,
    },
    /// More bytes than allowed.
    #[error("{location}: expected at most {limit} bytes, found {}", .found.map_or_else(|| "more".to_owned(), |bytes| bytes.to_string()))]
    TooLarge {
        /// The URL or path.
        location: String,
        /// The limit.
        limit: u64,
        /// The size, where it was announced.
        found: Option<u64>,
    },
    /// It is not what it was when the download began.
    #[error("{location}: changed during the download: expected {expected}, found {found}")]
    Changed {
        /// The URL or path.
        location: String,
        /// What it was.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The rest of a file that does not fit the part on disk. The part is given up.
    #[error("{url}: the rest does not fit the part on disk: expected {expected}, found {found}")]
    Unfit {
        /// The URL asked for.
        url: String,
        /// What would have fitted.
        expected: String,
        /// What came.
        found: String,
    },
    /// A document that is no index of ours.
    #[error("{location}: expected a release index of schema 1, found {found}")]
    Index {
        /// The URL or path.
        location: String,
        /// What is there instead.
        found: String,
    },
    /// The release is listed, but its entry cannot be used here.
    #[error("{location}: the entry of {version} cannot be used: {reason}")]
    Entry {
        /// The index's URL or path.
        location: String,
        /// The version asked for.
        version: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A source without an index was asked for a list.
    #[error("expected an index to list releases from, found only URL templates")]
    NoIndex,
    /// The archive or index is not there.
    #[error("{location}: expected a file, found none")]
    Missing {
        /// The URL or path.
        location: String,
    },
    /// A checksum file is named and not there, so that a check would be left out.
    #[error("{location}: expected the checksum file that is named for the release, found none")]
    NoChecksum {
        /// The URL or path.
        location: String,
    },
    /// The archive does not fit on the disk. Nothing more was written.
    #[error(
        "{}: expected {} free for the download, found {}",
        .path.display(),
        mebibytes((u128::from(*.expected) * 10).div_ceil(1 << 20)),
        mebibytes(u128::from(*.found) * 10 / (1 << 20))
    )]
    NoRoom {
        /// Where it would be written.
        path: PathBuf,
        /// Bytes that are still to come.
        expected: u64,
        /// Bytes free for ordinary users.
        found: u64,
    },
    /// A download that does not say how large it is came as far as the disk's reserve for others.
    #[error(
        "{}: expected {} to stay free beside a download of a size that is not told, found {}",
        .path.display(),
        mebibytes((u128::from(*.expected) * 10).div_ceil(1 << 20)),
        mebibytes(u128::from(*.found) * 10 / (1 << 20))
    )]
    Reserve {
        /// Where it is written.
        path: PathBuf,
        /// Bytes that are left to others.
        expected: u64,
        /// Bytes free for ordinary users.
        found: u64,
    },
    /// A release that another source listed.
    #[error("{location}: expected a release that this source listed, found another's")]
    Foreign {
        /// Where the release is.
        location: String,
    },
    /// A file of this machine could not be used.
    #[error("{}: could not {doing}", .path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another download writes the same file.
    #[error("{}: expected to be alone, found another download writing it", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// Every try failed.
    #[error("gave up after {tries} tries")]
    GaveUp {
        /// How many there were.
        tries: u32,
        /// What the last one came to.
        #[source]
        last: Box<FetchError>,
    },
}

/// What was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// A connection.
    Connection,
    /// The begin of the answer.
    Answer,
    /// The next byte.
    Bytes,
    /// The end of it all.
    End,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "a connection",
            Self::Answer => "the begin of an answer",
            Self::Bytes => "more bytes",
            Self::End => "all of it",
        })
    }
}

impl FetchError {
    /// What an operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Setting { setting, .. } => format!("correct `{setting}` in the configuration"),
            Self::Version { .. } => "give the version as the release names it, without a leading v".to_owned(),
            Self::NoProvider => "the program must call \
                rustls::crypto::aws_lc_rs::default_provider().install_default() once before it opens a source"
                .to_owned(),
            Self::NoRoots { .. } => "install the system's CA certificates, or name a file of them in \
                SSL_CERT_FILE; or serve the releases by plain http, they are verified by their signatures"
                .to_owned(),
            Self::Client(_) => "check `source.proxy`, and the proxy variables of the environment where it names no \
                proxy itself"
                .to_owned(),
            Self::Authorities { path, .. } => {
                format!("put the CA's certificate in {}, from BEGIN to END CERTIFICATE", path.display())
            }
            Self::Credentials { hint, .. } => hint.clone(),
            Self::Connect { proxy: Some(_), .. } => "check that the proxy runs, that it lets this host through, \
                and its user and password in `source.proxy`"
                .to_owned(),
            Self::Connect { .. } => "check that the host name resolves, that the server runs and that no \
                firewall or proxy is in between"
                .to_owned(),
            Self::Untrusted { .. } => "if a CA of your own signed the server's certificate, name its file in \
                `source.ca` or install it in the system's trust store; check the machine's clock"
                .to_owned(),
            Self::TimedOut { .. } | Self::CutShort { .. } => {
                "try again: a download goes on where it stood; look at the server or a proxy in between if it \
                 happens again"
                    .to_owned()
            }
            Self::Status { status, retry_after, .. } => status_hint(*status, *retry_after),
            Self::Redirect { .. } => "name the final URL in the configuration".to_owned(),
            Self::Answer { .. } => {
                "the server or a proxy in between breaks HTTP; try another mirror".to_owned()
            }
            Self::TooLarge { .. } => {
                "raise the limit in the configuration if a file of this size is meant to be there".to_owned()
            }
            Self::Changed { .. } => "try again when nobody writes the file any more".to_owned(),
            Self::Unfit { .. } => "the server changed the file, or answers ranges wrongly; try again, the download \
                begins anew"
                .to_owned(),
            Self::Index { .. } => "expected is {\"schema\":1,\"releases\":[…]}; check that the URL or path names \
                the index and that this program is not older than it"
                .to_owned(),
            Self::Entry { .. } => "correct the entry in the index".to_owned(),
            Self::NoIndex => "name an index, or ask for one version with --to".to_owned(),
            Self::Missing { .. } => format!(
                "check the version and the template or index; this machine looks for linux/{}",
                host_arch()
            ),
            Self::NoChecksum { .. } => "publish it beside the archive; if the releases have none, take it out of \
                the index or of [source]"
                .to_owned(),
            Self::NoRoom { .. } | Self::Reserve { .. } => file_hint(&io::ErrorKind::StorageFull.into()).to_owned(),
            Self::Foreign { .. } => "list the releases again".to_owned(),
            Self::File { source, .. } => file_hint(source).to_owned(),
            Self::Busy { .. } => "wait for the other download, or look for a stuck one".to_owned(),
            Self::GaveUp { last, .. } => last.hint(),
        }
    }

    /// The message with all of its causes, in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let words = error.to_string();
            // Layers of a library often repeat the one below.
            if !text.ends_with(&words) {
                text.push_str(": ");
                text.push_str(&words);
            }
            cause = error.source();
        }
        text
    }

    /// Whether the disk took no more, in the middle of it.
    pub(crate) fn is_full_disk(&self) -> bool {
        match self {
            Self::File { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }

    /// Whether trying again can help.
    pub(crate) fn passing(&self) -> Passing {
        match self {
            Self::Connect { .. } | Self::TimedOut { .. } | Self::CutShort { .. } | Self::Unfit { .. } => {
                Passing::Perhaps
            }
            Self::Status { status: 408 | 425 | 429 | 500 | 502..=504 | 506..=599, retry_after, .. } => {
                retry_after.map_or(Passing::Perhaps, Passing::After)
            }
            _ => Passing::Never,
        }
    }
}

/// Whether a fault may pass by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passing {
    /// Only when someone changes something.
    Never,
    /// At any time.
    Perhaps,
    /// Not before this time, as the server says.
    After(Duration),
}

fn status_hint(status: u16, retry_after: Option<Duration>) -> String {
    match (status, retry_after) {
        (_, Some(wait)) => {
            format!("the server asks to be left alone for {} s; try again then", wait.as_secs())
        }
        (401 | 403, _) => {
            "the server wants other credentials or hides what is not there; name a file with them in \
            `source.credentials`, or make the releases readable"
                .to_owned()
        }
        (407, _) => "the proxy wants a user and a password; put them in `source.proxy`".to_owned(),
        (429, _) => "too many requests; try again later".to_owned(),
        (500.., _) => "the server is broken; try again later".to_owned(),
        _ => "open the URL by hand to see what the server says".to_owned(),
    }
}

fn file_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space on the store's file system; the download goes on where it stood"
        }
        io::ErrorKind::PermissionDenied => "run as the user that owns the store",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only; look at the system's log",
        io::ErrorKind::NotFound => "check that the path exists",
        _ => "look at the system's log for the file system's state",
    }
}

/// Tenths of a MiB for people: what is needed comes rounded up, what is there rounded down.
fn mebibytes(tenths: u128) -> String {
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// Text that a server chose, quoted, without control characters, and not too long.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(100).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// A URL as it may be shown: without user, password, query and fragment.
pub(crate) fn shown(url: &reqwest::Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Only a URL without a host refuses these, and such a one has none of them.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// Text that may be a URL with a secret in it, without the secret: user, password, query.
pub(crate) fn without_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let rest = rest.split('?').next().unwrap_or_default();
    let authority = rest.split(['/', '#']).next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => format!("{scheme}://{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_url_has_no_secrets_either() {
        for (text, expected) in [
            ("https://me:secret@host.example:x/", "https://host.example:x/"),
            ("https://me:sec@ret@[/a", "https://[/a"),
            ("https://host.example/a@b", "https://host.example/a@b"),
            ("https://me@host.example/a?sig=a@b", "https://host.example/a"),
            ("https://host.example?sig=a/b@c", "https://host.example"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_secrets(text), expected);
        }
    }

    #[test]
    fn room_is_told_so_that_too_little_never_looks_like_enough() {
        let error = FetchError::NoRoom { path: "/p/x".into(), expected: (5 << 20) + 1, found: (5 << 20) - 1 };
        assert_eq!(error.to_string(), "/p/x: expected 5.1 MiB free for the download, found 4.9 MiB");
    }

    #[test]
    fn a_shown_url_has_no_secrets() {
        let url = "https://me:secret@host.example/a/b.tar.gz?X-Signature=abc#part".parse().unwrap();
        assert_eq!(shown(&url), "https://host.example/a/b.tar.gz");
    }

    #[test]
    fn quoted_text_cannot_write_to_the_terminal() {
        let text = quoted(&"\u{1b}[2Jx".repeat(100));
        assert!(!text.contains('\u{1b}') && text.len() < 400, "{text}");
    }

    #[test]
    fn a_chain_names_each_cause_once() {
        let source = io::Error::new(io::ErrorKind::StorageFull, "no space left on device");
        let error = FetchError::GaveUp {
            tries: 4,
            last: Box::new(FetchError::File { doing: "write it", path: "/p/x".into(), source }),
        };
        assert_eq!(error.chain(), "gave up after 4 tries: /p/x: could not write it: no space left on device");
        assert!(error.hint().contains("free space"));
    }
}
