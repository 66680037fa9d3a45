//! A small file from a server, whole or not at all: an index, a checksum file, a bundle.
//!
//! Each try has a time of its own in all, since a server that drips a small file byte by byte would otherwise hold
//! an update for ever. Only a plain 404 makes a document absent; every other answer is an error or the document.

use reqwest::{
    Method, StatusCode, Url,
    header::{self, HeaderMap, HeaderValue},
};

use crate::{
    client::{Answer, Client, unexpected},
    error::{FetchError, Waiting, shown},
    limits::Timeouts,
    retry::{Retries, Tries},
};

/// Longer entity tags are not remembered.
const LONGEST_TAG: usize = 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Document<'a> {
    pub(crate) client: &'a Client,
    pub(crate) url: &'a Url,
    pub(crate) limit: u64,
    pub(crate) timeouts: &'a Timeouts,
    pub(crate) retries: &'a Retries,
}

/// What a server has of a document.
#[derive(Debug)]
pub(crate) enum Found {
    /// Plainly nothing.
    Absent,
    /// What the condition named, the server says.
    Unchanged {
        /// Where the redirects led.
        at: Url,
        /// The entity tag of what is unchanged. A server has to name it (RFC 9110, section 15.4.5); where it does
        /// not, it is not known what the answer is about.
        tag: Option<HeaderValue>,
    },
    /// All of it.
    Whole {
        /// Where the redirects led.
        at: Url,
        /// Its entity tag, to be asked by the next time.
        tag: Option<HeaderValue>,
        /// Its bytes.
        content: Vec<u8>,
    },
}

impl Document<'_> {
    /// Asks for it, unless it still is what `known` names.
    pub(crate) async fn bring(&self, known: Option<&HeaderValue>) -> Result<Found, FetchError> {
        let mut tries = Tries::new(self.retries);
        loop {
            let limit = self.timeouts.document;
            let done = tokio::time::timeout(limit, self.once(known)).await;
            let late = |_| Err(FetchError::TimedOut { url: shown(self.url), waiting: Waiting::End, limit });
            match done.unwrap_or_else(late) {
                Ok(found) => return Ok(found),
                Err(error) => tries.after(error).await?,
            }
        }
    }

    async fn once(&self, known: Option<&HeaderValue>) -> Result<Found, FetchError> {
        let mut fields = HeaderMap::new();
        fields.extend(known.map(|tag| (header::IF_NONE_MATCH, tag.clone())));
        let Answer { url: at, mut response } = self.client.ask(Method::GET, self.url, fields).await?;
        let tag = response.headers().get(header::ETAG).filter(|tag| tag.len() <= LONGEST_TAG).cloned();
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(Found::Absent),
            StatusCode::NOT_MODIFIED if known.is_some() => return Ok(Found::Unchanged { at, tag }),
            _ => return Err(unexpected(&at, &response)),
        }
        let expected = response.content_length();
        if expected.is_some_and(|expected| expected > self.limit) {
            return Err(self.too_large(expected));
        }
        let mut content = Vec::new();
        loop {
            match tokio::time::timeout(self.timeouts.stall, response.chunk()).await {
                Ok(Ok(Some(piece))) if (content.len() + piece.len()) as u64 > self.limit => {
                    return Err(self.too_large(None));
                }
                Ok(Ok(Some(piece))) => content.extend_from_slice(&piece),
                Ok(Ok(None)) => return Ok(Found::Whole { at, tag, content }),
                Ok(Err(fault)) => {
                    return Err(FetchError::CutShort {
                        url: shown(self.url),
                        received: content.len() as u64,
                        expected,
                        source: Some(fault.without_url().into()),
                    });
                }
                Err(_) => {
                    let (waiting, limit) = (Waiting::Bytes, self.timeouts.stall);
                    return Err(FetchError::TimedOut { url: shown(self.url), waiting, limit });
                }
            }
        }
    }

    fn too_large(&self, found: Option<u64>) -> FetchError {
        FetchError::TooLarge { location: shown(self.url), limit: self.limit, found }
    }
}
