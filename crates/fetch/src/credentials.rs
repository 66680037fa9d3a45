//! A secret for the configured servers, out of a file of its own.
//!
//! The file is read anew for every request that takes it along, so that a secret can be rotated without a restart.
//! Where it goes is decided here and nowhere else: to the origins (scheme, host and port) that the configuration
//! names, over TLS, or in the clear to this machine itself. What an index names elsewhere, or where a redirect
//! leads, never gets it. The value is in no error, and marked so that no library prints it.

use std::{
    net::IpAddr,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::PathBuf,
};

use base64::Engine as _;
use reqwest::{Url, header::HeaderValue};

use crate::{
    error::FetchError,
    regular::{open, read_opened},
};

/// More than any token has.
const LIMIT: u64 = 64 * 1024;
/// Its owner may read and write it; nobody may do anything else.
const ALLOWED_MODE: u32 = 0o600;

/// The file, and who may be told what is in it.
#[derive(Debug)]
pub(crate) struct Credentials {
    path: PathBuf,
    /// Only their origins count.
    servers: Vec<Url>,
}

impl Credentials {
    pub(crate) fn new(path: PathBuf, servers: Vec<Url>) -> Self {
        Self { path, servers }
    }

    /// Whether a request for `url` may take them along.
    pub(crate) fn are_for(&self, url: &Url) -> bool {
        is_private(url) && self.servers.iter().any(|server| server.origin() == url.origin())
    }

    /// The value of `Authorization`, as the file says now.
    pub(crate) async fn read(&self) -> Result<HeaderValue, FetchError> {
        let path = &self.path;
        let Some((file, found)) = open(path).await? else {
            return Err(self.unusable(
                "a file",
                "none",
                format!("write the credentials to {}", path.display()),
            ));
        };
        let mode = found.permissions().mode() & 0o7777;
        if mode & !ALLOWED_MODE != 0 {
            let found = format!("mode {mode:04o}");
            return Err(self.unusable("mode 0600 or less", &found, format!("chmod 600 {}", path.display())));
        }
        let (owner, we) = (found.uid(), rustix::process::geteuid().as_raw());
        if owner != 0 && owner != we {
            let found = format!("user {owner}");
            let expected = format!("it to belong to root or to user {we}, who runs this");
            return Err(self.unusable(&expected, &found, format!("chown root {}", path.display())));
        }
        let content = read_opened(path, file, found.len(), LIMIT).await?;
        value(&content).ok_or_else(|| {
            let expected = "`Bearer <token>` or `<user>:<password>` as its first line";
            let hint = "write one line and nothing else; a token has no blanks in it".to_owned();
            self.unusable(expected, "something else", hint)
        })
    }

    fn unusable(&self, expected: &str, found: &str, hint: String) -> FetchError {
        let (expected, found) = (expected.to_owned(), found.to_owned());
        FetchError::Credentials { path: self.path.clone(), expected, found, hint }
    }
}

/// What the first line says, ready to be sent; never shown by anything that prints headers.
fn value(content: &[u8]) -> Option<HeaderValue> {
    let line = std::str::from_utf8(content).ok()?.lines().next()?.trim_end();
    let text = match line.strip_prefix("Bearer ") {
        Some(token) if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            line.to_owned()
        }
        Some(_) => return None,
        None => {
            let (user, _) = line.split_once(':')?;
            if user.is_empty() || line.chars().any(char::is_control) {
                return None;
            }
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(line))
        }
    };
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether nobody on the way can read what is sent.
fn is_private(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

/// Whether `url` is on this machine, as far as its text says.
fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_a_token_or_a_user_with_a_password() {
        for (content, expected) in [
            ("Bearer abc.d-e_f~g+h/i==\n", Some("Bearer abc.d-e_f~g+h/i==")),
            ("Bearer abc\r\nnext line", Some("Bearer abc")),
            ("me:secret\n", Some("Basic bWU6c2VjcmV0")),
            ("me:se:cr et", Some("Basic bWU6c2U6Y3IgZXQ=")),
            ("me:", Some("Basic bWU6")),
            ("mé:ü", Some("Basic bcOpOsO8")),
            ("Bearer ", None),
            ("Bearer a b", None),
            ("Bearer", None),
            (":secret", None),
            ("me", None),
            ("me:sec\tret", None),
            ("\nme:secret", None),
            ("", None),
        ] {
            let found = value(content.as_bytes());
            let text = found.as_ref().map(|value| value.to_str().unwrap());
            assert_eq!(text, expected, "{content:?}");
            assert!(found.is_none_or(|value| value.is_sensitive()), "{content:?}");
        }
        assert_eq!(value(b"me:\xff"), None);
    }

    #[test]
    fn they_go_to_the_configured_origins_alone_and_never_in_the_clear() {
        let servers = ["https://h.example/index.json", "http://127.0.0.1:80/a", "http://plain.example/a"];
        let servers = servers.map(|text| text.parse().unwrap()).to_vec();
        let credentials = Credentials::new("/secret".into(), servers);
        for (url, expected) in [
            ("https://h.example/other?x", true),
            ("https://h.example:443/", true),
            ("https://h.example:444/", false),
            ("https://sub.h.example/", false),
            ("https://h.example.evil/", false),
            ("http://h.example/", false),
            ("http://127.0.0.1/b", true),
            ("https://127.0.0.1/b", false),
            ("http://plain.example/a", false),
        ] {
            assert_eq!(credentials.are_for(&url.parse().unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn loopback_is_what_cannot_leave_the_machine() {
        for (url, expected) in [
            ("http://127.0.0.1/", true),
            ("http://127.9.9.9:8080/", true),
            ("http://[::1]/", true),
            ("http://localhost/", true),
            ("http://LOCALHOST/", true),
            ("http://localhost.example/", false),
            ("http://127.0.0.1.example/", false),
            ("http://10.0.0.1/", false),
            ("http://[::2]/", false),
        ] {
            assert_eq!(is_loopback(&url.parse().unwrap()), expected, "{url}");
        }
    }
}
