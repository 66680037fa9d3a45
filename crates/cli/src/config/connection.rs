//! How the servers of a source are reached: whom TLS trusts besides the machine's own roots, by which way, with
//! which secret, with how much patience.

use std::time::Duration;

use super::{
    Connection, Proxy,
    file::SourceTable,
    problem::Problems,
    resolve::{absolute, foreign, some_time},
    section::Said,
    url::{has_userinfo, hiding, is_private, is_url},
};

const DEFAULT_CONNECT: Duration = Duration::from_secs(10);
const DEFAULT_SILENCE: Duration = Duration::from_secs(30);

/// Takes the keys out of `table`; `urls` are all that the source is told, by their keys.
pub(crate) fn connection(
    table: &mut SourceTable,
    urls: &[(&str, String)],
    problems: &mut Problems<'_>,
) -> Connection {
    let credentials_at = table.credentials.as_ref().and_then(|said| said.at);
    let connection = Connection {
        ca: absolute(table.ca.take(), "source.ca", problems),
        proxy: table.proxy.take().map_or(Proxy::Environment, |said| proxy(said, problems)),
        credentials: absolute(table.credentials.take(), "source.credentials", problems),
        connect_timeout: some_time(
            table.connect_timeout.as_ref(),
            DEFAULT_CONNECT,
            "source.connect_timeout",
            problems,
        ),
        first_byte_timeout: some_time(
            table.first_byte_timeout.as_ref(),
            DEFAULT_SILENCE,
            "source.first_byte_timeout",
            problems,
        ),
        stall_timeout: some_time(
            table.stall_timeout.as_ref(),
            DEFAULT_SILENCE,
            "source.stall_timeout",
            problems,
        ),
    };
    if connection.credentials.is_some() {
        for (key, url) in urls {
            if has_userinfo(url) {
                problems.add_with_hint(
                    credentials_at,
                    format!(
                        "`source.credentials`: expected no user in `{key}` beside it, found {}",
                        hiding(url)
                    ),
                    "leave it to the file, which others cannot read",
                );
            } else if !is_private(url) {
                problems.add_with_hint(
                    credentials_at,
                    format!("`source.credentials`: expected https in `{key}`, found {}", hiding(url)),
                    "over plain http everybody on the way could read them; only to loopback they may go so",
                );
            }
        }
    }
    connection
}

/// Refuses the keys in a source that asks no server.
pub(crate) fn none(table: &SourceTable, problems: &mut Problems<'_>) {
    const ONLY: &str = "kind = \"http\"";
    foreign(table.ca.as_ref(), "source.ca", ONLY, problems);
    foreign(table.proxy.as_ref(), "source.proxy", ONLY, problems);
    foreign(table.credentials.as_ref(), "source.credentials", ONLY, problems);
    foreign(table.connect_timeout.as_ref(), "source.connect_timeout", ONLY, problems);
    foreign(table.first_byte_timeout.as_ref(), "source.first_byte_timeout", ONLY, problems);
    foreign(table.stall_timeout.as_ref(), "source.stall_timeout", ONLY, problems);
}

fn proxy(said: Said<String>, problems: &mut Problems<'_>) -> Proxy {
    match &*said.value {
        "environment" => Proxy::Environment,
        "none" => Proxy::None,
        url => {
            if !is_url(url, &["http"]) {
                problems.add_with_hint(
                    said.at,
                    format!(
                        "`source.proxy`: expected \"environment\", \"none\" or an http:// URL, found {:?}",
                        hiding(url)
                    ),
                    "the proxy itself is spoken to without TLS; what is https stays so through it",
                );
            }
            Proxy::Url(said.value)
        }
    }
}
