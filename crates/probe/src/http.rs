//! One HTTP question, answered by the status code.
//!
//! The health endpoint of the watched program changes its body between versions; 2xx or not is the part that
//! lasts. The body is kept for words alone. Plain HTTP on this machine is all there is: a health endpoint behind
//! TLS would make the answer depend on certificates, and is refused by name.

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, Response, StatusCode, Uri, body::Bytes, client::conn::http1, header, http::uri::Authority,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use crate::reading::ProbeError;

/// How much of a body is read for words.
const BODY_LIMIT: usize = 512;

/// A health endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    uri: Uri,
    authority: Authority,
    timeout: Duration,
}

/// What the endpoint said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    status: StatusCode,
    body: String,
}

impl Http {
    /// The endpoint at `url`, given `timeout` for connection, status and words together.
    ///
    /// # Errors
    ///
    /// When `url` is no `http://host[:port][/path]`.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, ProbeError> {
        let refuse = |found| ProbeError::Url { url: url.to_owned(), found };
        let uri: Uri = url.parse().map_err(|_| refuse("no URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(refuse("https, which is not spoken here")),
            _ => return Err(refuse("another scheme, or none")),
        }
        let authority = uri.authority().cloned().ok_or_else(|| refuse("no host"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("a user name"));
        }
        // What stands after the host is a port; the parser lets a number pass that is none.
        let after_host = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        if !after_host.is_empty() && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(refuse("no usable port"));
        }
        Ok(Self { uri, authority, timeout })
    }

    /// The host, without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    /// The TCP port, 80 where the URL names none.
    pub(crate) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(80)
    }

    /// Asks once. `Err` says in words why there was no answer.
    pub(crate) async fn ask(&self) -> Result<Answer, String> {
        match timeout(self.timeout, self.exchange()).await {
            Ok(answer) => answer.map_err(|error| format!("{}: {error}", self.uri)),
            Err(_) => Err(format!("{}: no answer within {:?}", self.uri, self.timeout)),
        }
    }

    async fn exchange(&self) -> Result<Answer, String> {
        let stream = TcpStream::connect((self.host(), self.port())).await.map_err(|e| e.to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::get(path)
            .header(header::HOST, self.authority.as_str())
            .header(header::USER_AGENT, concat!("myriarch-updater/", env!("CARGO_PKG_VERSION")))
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|e| e.to_string())?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
            Ok(Answer { status: response.status(), body: words(response).await })
        };
        tokio::pin!(connection, answer);
        // The connection does the work and must be polled; whichever ends first, the answer is what counts.
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            _ = &mut connection => answer.await,
        }
    }
}

impl Answer {
    /// Whether the status code is 2xx.
    pub(crate) fn is_success(&self) -> bool {
        self.status.is_success()
    }

    /// For people.
    pub(crate) fn in_words(&self) -> String {
        if self.body.is_empty() {
            return format!("HTTP {}", self.status);
        }
        format!("HTTP {}: {}", self.status, self.body)
    }
}

/// The begin of a body on one line, made safe for a terminal. A body that breaks off is no failure.
async fn words(mut response: Response<hyper::body::Incoming>) -> String {
    let mut body = Vec::new();
    while body.len() < BODY_LIMIT {
        let Some(Ok(frame)) = response.body_mut().frame().await else { break };
        body.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    body.truncate(BODY_LIMIT);
    printable(&String::from_utf8_lossy(&body))
}

/// Without control characters, runs of white space made one blank.
pub(crate) fn printable(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_asked_is_refused_and_named() {
        for (url, part) in [
            ("https://127.0.0.1:1/", "https"),
            ("ftp://127.0.0.1/", "scheme"),
            ("/health", "scheme"),
            ("127.0.0.1:13133", "scheme"),
            ("", "no URL"),
            ("http://a b/", "no URL"),
            ("http://me:secret@127.0.0.1/", "user name"),
            ("http://127.0.0.1:0/", "port"),
            ("http://127.0.0.1:99999/", "port"),
        ] {
            let error = Http::new(url, Duration::from_secs(1)).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn host_and_port_are_read_from_the_url() {
        for (url, host, port) in [
            ("http://127.0.0.1:13133/", "127.0.0.1", 13133),
            ("http://localhost", "localhost", 80),
            ("http://[::1]:9/status?x=1", "::1", 9),
        ] {
            let http = Http::new(url, Duration::from_secs(1)).unwrap();
            assert_eq!((http.host(), http.port()), (host, port), "{url}");
        }
    }

    #[test]
    fn what_is_shown_cannot_steer_a_terminal() {
        assert_eq!(printable("a\x1b[2J\r\n\tb\u{7}"), "a [2J b");
    }
}
