//! URLs as a configuration has them: texts with placeholders, of which only a few parts matter here. What a URL
//! leads to is for the source to say.

use std::net::IpAddr;

/// What stands for a user and a password, and for a query, wherever a URL is printed.
const HIDDEN: &str = "***";

/// Whether `url` is of one of these schemes, has a host, and is made of characters that URLs are made of.
pub(crate) fn is_url(url: &str, schemes: &[&str]) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let plain = !rest.is_empty() && !rest.starts_with('/') && url.chars().all(|c| c.is_ascii_graphic());
    schemes.contains(&scheme) && plain
}

/// `text` as it may be printed: a user and a password in it are hidden, and so is a query, where signatures and
/// tokens are.
pub(crate) fn hiding(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (authority, path) = rest.split_at(length_of_authority(rest));
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => authority.to_owned(),
    };
    match path.split_once('?') {
        Some((path, _)) => format!("{scheme}://{authority}{path}?{HIDDEN}"),
        None => format!("{scheme}://{authority}{path}"),
    }
}

/// Whether there is a user or a password in `url`.
pub(crate) fn has_userinfo(url: &str) -> bool {
    authority(url).0.is_some()
}

/// Whether nobody on the way to `url` can read what is sent: over TLS, or without leaving this machine.
pub(crate) fn is_private(url: &str) -> bool {
    let host = authority(url).1;
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let loopback = bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    url.starts_with("https://") || loopback || bare.eq_ignore_ascii_case("localhost")
}

/// User and password, if there are some, and host with port.
fn authority(url: &str) -> (Option<&str>, &str) {
    let Some((_, rest)) = url.split_once("://") else { return (None, "") };
    let authority = &rest[..length_of_authority(rest)];
    match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    }
}

fn length_of_authority(rest: &str) -> usize {
    rest.find(['/', '?', '#']).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_a_password_and_a_query_are_hidden() {
        for (text, expected, userinfo) in [
            ("https://me:secret@host:8443/a@b", "https://***@host:8443/a@b", true),
            ("https://token@host", "https://***@host", true),
            ("http://me:se@cret@[::1]/?x", "http://***@[::1]/?***", true),
            ("https://host/a@b", "https://host/a@b", false),
            ("https://host?x=a@b", "https://host?***", false),
            ("https://host/{version}.tar.gz?sig=a?b#c", "https://host/{version}.tar.gz?***", false),
            ("{archive}.sha256", "{archive}.sha256", false),
        ] {
            assert_eq!(hiding(text), expected);
            assert_eq!(has_userinfo(text), userinfo);
        }
    }

    #[test]
    fn private_is_tls_or_this_machine() {
        for (url, expected) in [
            ("https://host/", true),
            ("http://127.0.0.1:80/a", true),
            ("http://[::1]:80/a", true),
            ("http://LocalHost/a", true),
            ("http://host/", false),
            ("http://127.0.0.1.example/", false),
            ("http://127.0.0.1@example/", false),
            ("http://localhost.example/", false),
        ] {
            assert_eq!(is_private(url), expected, "{url}");
        }
    }

    #[test]
    fn a_url_has_a_scheme_and_a_host() {
        for (url, expected) in [
            ("http://h", true),
            ("https://h/{version}", true),
            ("ftp://h", false),
            ("http://", false),
            ("http:///a", false),
            ("http://h /a", false),
            ("h", false),
        ] {
            assert_eq!(is_url(url, &["http", "https"]), expected, "{url}");
        }
    }
}
