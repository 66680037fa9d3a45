//! One answer, honest or with a lie in it.

use std::{
    fmt::Write as _,
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use super::{Body, Etag, Lie, NAP, PIECE, Request, Shared};

/// How the end of a body is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length,
    Chunks,
    Close,
}

pub(super) struct Answer<'a> {
    pub(super) stream: &'a TcpStream,
    pub(super) shared: &'a Shared,
    pub(super) request: &'a Request,
    pub(super) body: Option<Body>,
    pub(super) etag: Etag,
    pub(super) lie: Option<Lie>,
}

impl Answer<'_> {
    pub(super) fn send(&self) -> io::Result<()> {
        match &self.lie {
            Some(Lie::CloseBeforeAnswer) => return Ok(()),
            Some(Lie::Stall { after: None }) => return self.hold(),
            Some(Lie::Garbage) => return self.write(b"220 mail.example ESMTP ready\r\n"),
            Some(Lie::Status { code, retry_after }) => return self.status(*code, retry_after.as_deref()),
            Some(Lie::Redirect { code, to }) => {
                return self.write(
                    format!("HTTP/1.1 {code} Elsewhere\r\nLocation: {to}\r\nContent-Length: 0\r\n{CLOSE}")
                        .as_bytes(),
                );
            }
            Some(Lie::Endless) => return self.endless(),
            _ => {}
        }
        match &self.body {
            Some(body) => self.content(body),
            None => self.status(404, None),
        }
    }

    fn status(&self, code: u16, retry_after: Option<&str>) -> io::Result<()> {
        let text = format!("status {code}\n");
        let retry_after = retry_after.map(|value| format!("Retry-After: {value}\r\n")).unwrap_or_default();
        let head =
            format!("HTTP/1.1 {code} Told so\r\nContent-Length: {}\r\n{retry_after}{CLOSE}", text.len());
        self.write(head.as_bytes())?;
        self.write(text.as_bytes())
    }

    fn endless(&self) -> io::Result<()> {
        self.write(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{CLOSE}").as_bytes())?;
        let chunk = [format!("{PIECE:x}\r\n").as_bytes(), &vec![b'x'; PIECE], b"\r\n"].concat();
        while !self.shared.ending() {
            self.write(&chunk)?;
        }
        Ok(())
    }

    fn content(&self, body: &Body) -> io::Result<()> {
        let length = body.len();
        let etag = body.etag(&self.etag);
        let known = self.request.header("if-none-match");
        if let Some(etag) = etag.as_deref().filter(|etag| Some(*etag) == known) {
            return self.write(format!("HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n{CLOSE}").as_bytes());
        }
        let mut fields = String::new();
        if let Some(Lie::HugeHeaders(bytes)) = &self.lie {
            let _ = write!(fields, "X-Filler: {}\r\n", "x".repeat(*bytes));
        }
        let (status, start) = match self.range(length, etag.as_deref()) {
            Some(_) if self.lie == Some(Lie::Unsatisfiable) => (416, length),
            Some(start) if start >= length => (416, length),
            Some(start) => (206, start),
            None => (200, 0),
        };
        let etag = match (&self.lie, status) {
            (Some(Lie::OtherEtagInRange), 206) => Some("\"another\"".to_owned()),
            _ => etag,
        };
        if let Some(etag) = etag {
            let _ = write!(fields, "ETag: {etag}\r\n");
        }
        match status {
            206 => {
                let last = length.saturating_sub(1);
                let _ = write!(fields, "Content-Range: bytes {start}-{last}/{length}\r\n");
            }
            416 => {
                let _ = write!(fields, "Content-Range: bytes */{length}\r\n");
            }
            _ => {}
        }
        let framing = match &self.lie {
            Some(Lie::Unsized) => Framing::Close,
            Some(Lie::Chunked | Lie::ChunkedTruncate { .. }) => Framing::Chunks,
            _ => Framing::Length,
        };
        match framing {
            Framing::Length => {
                let claimed =
                    if let Some(Lie::Length(claimed)) = &self.lie { *claimed } else { length - start };
                let _ = write!(fields, "Content-Length: {claimed}\r\n");
            }
            Framing::Chunks => fields.push_str("Transfer-Encoding: chunked\r\n"),
            Framing::Close => {}
        }
        self.write(
            format!("HTTP/1.1 {status} As asked\r\nAccept-Ranges: bytes\r\n{fields}{CLOSE}").as_bytes(),
        )?;
        if self.request.method == "HEAD" || status == 416 {
            return Ok(());
        }
        self.send_body(body, start, framing)
    }

    fn send_body(&self, body: &Body, start: u64, framing: Framing) -> io::Result<()> {
        let (stop, hold) = match &self.lie {
            Some(
                Lie::Truncate { after }
                | Lie::TruncateThenChange { after, .. }
                | Lie::ChunkedTruncate { after },
            ) => (start + after, false),
            Some(Lie::Stall { after: Some(after) }) => (start + after, true),
            _ => (u64::MAX, false),
        };
        let (portion, pause) = match &self.lie {
            Some(Lie::Drip { bytes, every }) => (*bytes as u64, *every),
            _ => (PIECE as u64, Duration::ZERO),
        };
        let end = body.len().min(stop);
        let mut at = start;
        while at < end {
            let piece = body.piece(at, end.min(at + portion));
            if framing == Framing::Chunks {
                self.write(format!("{:x}\r\n", piece.len()).as_bytes())?;
            }
            self.write(&piece)?;
            if framing == Framing::Chunks {
                self.write(b"\r\n")?;
            }
            at += piece.len() as u64;
            if !self.shared.sleep(pause) {
                return Ok(());
            }
        }
        if hold {
            return self.hold();
        }
        if framing == Framing::Chunks && end == body.len() {
            self.write(b"0\r\n\r\n")?;
        }
        Ok(())
    }

    /// The first byte asked for, where a range is asked for and the lie and the condition let it count.
    fn range(&self, length: u64, etag: Option<&str>) -> Option<u64> {
        let asked = self.request.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()?;
        let condition = self.request.header("if-range");
        let weak = etag.is_some_and(|etag| etag.starts_with("W/"));
        match &self.lie {
            Some(Lie::IgnoreRange) => None,
            _ if condition.is_some_and(|wanted| weak || Some(wanted) != etag) => None,
            Some(Lie::WrongRange { start }) => Some((*start).min(length)),
            _ => Some(asked),
        }
    }

    /// Says nothing more until the client or the server ends.
    fn hold(&self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(NAP))?;
        let mut stream = self.stream;
        while !self.shared.ending() {
            match stream.read(&mut [0; 64]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.stream;
        stream.write_all(bytes)
    }
}

const CLOSE: &str = "Connection: close\r\n\r\n";
