//! One archive from a server to the disk.
//!
//! Each try asks for what is missing, on the condition that the file is still the one begun; an answer counts
//! only as far as its own numbers agree with each other, with what was asked and with what is on disk. Memory
//! holds one piece of the network's at a time. Faults that may pass are tried again from where the last try
//! came to; if the file changed in between, from the beginning.

use reqwest::{
    Method, Response, StatusCode, Url,
    header::{self, HeaderMap, HeaderValue},
};

use crate::{
    client::{Answer, Client, text_of, unexpected},
    error::{FetchError, Waiting, quoted, shown},
    limits::Timeouts,
    partial::Partial,
    progress::Progress,
    retry::{Retries, Tries},
};

/// A try that brought so much is no failure of the line.
const AHEAD: u64 = 1 << 20;

/// How much of a download is given back that filled the disk: others have to write, too.
const GIVEN_BACK: u64 = 1 << 20;

/// How often, in bytes, a download of unknown size looks at what it leaves to others.
const LOOKED_EVERY: u64 = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer<'a> {
    pub(crate) client: &'a Client,
    pub(crate) url: &'a Url,
    pub(crate) limit: u64,
    pub(crate) timeouts: &'a Timeouts,
    pub(crate) retries: &'a Retries,
}

impl Transfer<'_> {
    /// Brings the whole archive into `partial`; answers how much of it was there before.
    pub(crate) async fn run(
        &self,
        mut partial: Partial,
        progress: &mut Progress<'_>,
    ) -> Result<(Partial, u64), FetchError> {
        let error = match self.within_time(&mut partial, progress).await {
            Ok(resumed_from) => return Ok((partial, resumed_from)),
            Err(error) => error,
        };
        match error {
            FetchError::TooLarge { .. } => partial.discard().await?,
            // What cannot be resumed only takes room from others.
            FetchError::Reserve { .. } if partial.resume().is_none() => partial.discard().await?,
            _ if error.is_full_disk() && partial.resume().is_none() => partial.discard().await?,
            _ if error.is_full_disk() => {
                partial.truncate(partial.received().saturating_sub(GIVEN_BACK)).await?;
            }
            _ => {}
        }
        Err(error)
    }

    async fn within_time(
        &self,
        partial: &mut Partial,
        progress: &mut Progress<'_>,
    ) -> Result<u64, FetchError> {
        let Some(limit) = self.timeouts.archive else { return self.tries(partial, progress).await };
        if let Ok(done) = tokio::time::timeout(limit, self.tries(partial, progress)).await {
            return done;
        }
        partial.settle().await?;
        Err(FetchError::TimedOut { url: shown(self.url), waiting: Waiting::End, limit })
    }

    async fn tries(&self, partial: &mut Partial, progress: &mut Progress<'_>) -> Result<u64, FetchError> {
        let mut resumed_from = partial.resume().map_or(0, |(offset, _)| offset);
        let mut tries = Tries::new(self.retries);
        // Only ground never reached before counts, or a file that changes all the time would be tried for ever.
        let mut furthest = partial.received();
        loop {
            let done = self.once(partial, &mut resumed_from, progress).await;
            let received = partial.settle().await?;
            let Err(error) = done else {
                progress.done(received);
                return Ok(resumed_from);
            };
            if received >= furthest + AHEAD {
                furthest = received;
                tries.got_ahead();
            }
            if let FetchError::Unfit { .. } = error {
                partial.begin(None, None).await?;
            }
            tries.after(error).await?;
        }
    }

    async fn once(
        &self,
        partial: &mut Partial,
        resumed_from: &mut u64,
        progress: &mut Progress<'_>,
    ) -> Result<(), FetchError> {
        let mut fields = HeaderMap::new();
        let mut asked = None;
        if let Some((offset, origin)) = partial.resume()
            && let Ok(etag) = HeaderValue::from_str(&origin.etag)
            && let Ok(range) = HeaderValue::from_str(&format!("bytes={offset}-"))
        {
            fields.insert(header::IF_RANGE, etag);
            fields.insert(header::RANGE, range);
            asked = Some(Asked { offset, etag: origin.etag.clone(), total: origin.total });
        }
        let Answer { url, response } = self.client.ask(Method::GET, self.url, fields).await?;
        let (total, end) = match (response.status(), asked) {
            (StatusCode::OK, _) => {
                let total = response.content_length();
                self.check_size(total)?;
                partial.begin(strong_etag(&response), total).await?;
                *resumed_from = 0;
                match total {
                    Some(total) => partial.has_room_for(total).await?,
                    None => partial.leaves_others_room().await?,
                }
                (total, total)
            }
            (StatusCode::PARTIAL_CONTENT, Some(asked)) => {
                let (end, total) = self.judge_part(&asked, &response)?;
                self.check_size(Some(total))?;
                partial.truncate(asked.offset).await?;
                partial.has_room_for(end - asked.offset).await?;
                (Some(total), Some(end))
            }
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(asked)) => {
                return Err(self.unfit(format!("more than {} bytes", asked.offset), "fewer".to_owned()));
            }
            (StatusCode::PARTIAL_CONTENT, None) => {
                return Err(self.answer("the whole", "a part nobody asked for".to_owned()));
            }
            _ => return Err(unexpected(&url, &response)),
        };
        self.body(response, partial, (total, end), progress).await
    }

    /// Takes the body up to `end`, the offset behind the last byte that was announced.
    async fn body(
        &self,
        mut response: Response,
        partial: &mut Partial,
        (total, end): (Option<u64>, Option<u64>),
        progress: &mut Progress<'_>,
    ) -> Result<(), FetchError> {
        let mut looked_at = partial.received();
        loop {
            progress.at(partial.received(), total);
            let piece = match tokio::time::timeout(self.timeouts.stall, response.chunk()).await {
                Ok(Ok(Some(piece))) => piece,
                Ok(Ok(None)) => break,
                Ok(Err(fault)) => return Err(self.cut_short(partial, total, Some(fault))),
                Err(_) => {
                    let (waiting, limit) = (Waiting::Bytes, self.timeouts.stall);
                    return Err(FetchError::TimedOut { url: shown(self.url), waiting, limit });
                }
            };
            let received = partial.received().saturating_add(piece.len() as u64);
            if let Some(end) = end
                && received > end
            {
                return Err(self.unfit(format!("{end} bytes"), "more".to_owned()));
            }
            if received > self.limit {
                return Err(FetchError::TooLarge {
                    location: shown(self.url),
                    limit: self.limit,
                    found: None,
                });
            }
            partial.append(&piece).await?;
            if total.is_none() && received - looked_at >= LOOKED_EVERY {
                partial.leaves_others_room().await?;
                looked_at = received;
            }
        }
        match total {
            Some(total) if partial.received() < total => Err(self.cut_short(partial, Some(total), None)),
            _ => Ok(()),
        }
    }

    /// Where the part ends that `response` brings, and how long the whole is.
    fn judge_part(&self, asked: &Asked, response: &Response) -> Result<(u64, u64), FetchError> {
        let field = text_of(response.headers(), &header::CONTENT_RANGE).unwrap_or("no Content-Range");
        let Some(range) = ContentRange::parse(field) else {
            return Err(self.unfit("a Content-Range of bytes".to_owned(), quoted(field)));
        };
        if let Some(etag) = text_of(response.headers(), &header::ETAG)
            && etag != asked.etag
        {
            return Err(self.unfit(format!("entity tag {}", quoted(&asked.etag)), quoted(etag)));
        }
        if range.start != asked.offset {
            return Err(self.unfit(
                format!("a part from byte {} on", asked.offset),
                format!("one from {}", range.start),
            ));
        }
        if asked.total.is_some_and(|total| total != range.total) {
            let expected = asked.total.unwrap_or_default();
            return Err(self.unfit(format!("{expected} bytes in all"), range.total.to_string()));
        }
        let announced = range.end - range.start;
        match response.content_length() {
            Some(length) if length != announced => {
                Err(self.unfit(format!("{announced} bytes, as its Content-Range says"), length.to_string()))
            }
            _ => Ok((range.end, range.total)),
        }
    }

    fn check_size(&self, total: Option<u64>) -> Result<(), FetchError> {
        match total {
            Some(found) if found > self.limit => {
                Err(FetchError::TooLarge { location: shown(self.url), limit: self.limit, found: Some(found) })
            }
            _ => Ok(()),
        }
    }

    fn answer(&self, expected: &str, found: String) -> FetchError {
        FetchError::Answer { url: shown(self.url), expected: expected.to_owned(), found }
    }

    fn unfit(&self, expected: String, found: String) -> FetchError {
        FetchError::Unfit { url: shown(self.url), expected, found }
    }

    fn cut_short(
        &self,
        partial: &Partial,
        expected: Option<u64>,
        fault: Option<reqwest::Error>,
    ) -> FetchError {
        FetchError::CutShort {
            url: shown(self.url),
            received: partial.received(),
            expected,
            source: fault.map(|fault| fault.without_url().into()),
        }
    }
}

/// The part that was asked for.
#[derive(Debug)]
struct Asked {
    offset: u64,
    etag: String,
    total: Option<u64>,
}

/// `bytes first-last/total` (RFC 9110, section 14.4), kept as offsets of which `end` is behind the last byte.
#[derive(Debug, PartialEq, Eq)]
struct ContentRange {
    start: u64,
    end: u64,
    total: u64,
}

impl ContentRange {
    fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (start, end, total) = (number(first)?, number(last)?.checked_add(1)?, number(total)?);
        (start < end && end <= total).then_some(Self { start, end, total })
    }
}

fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The entity tag, if it is one that promises the same bytes (RFC 9110, section 8.8.3).
fn strong_etag(response: &Response) -> Option<String> {
    let etag = text_of(response.headers(), &header::ETAG)?;
    (etag.len() >= 2 && etag.len() <= 1024 && etag.starts_with('"') && etag.ends_with('"'))
        .then(|| etag.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_must_add_up() {
        let good = ContentRange { start: 3, end: 5, total: 5 };
        assert_eq!(ContentRange::parse("bytes 3-4/5"), Some(good));
        for bad in [
            "bytes 3-4/*",
            "bytes */5",
            "bytes 4-3/5",
            "bytes 3-5/5",
            "3-4/5",
            "bytes 3-4",
            "bytes +3-4/5",
            "bytes 3-18446744073709551615/5",
            "bytes -4/5",
            "",
            "items 3-4/5",
        ] {
            assert_eq!(ContentRange::parse(bad), None, "{bad}");
        }
    }
}
