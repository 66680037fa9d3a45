//! A web server that can lie.
//!
//! Real servers are at their most dangerous when they almost work: they cut a body short, answer a range with
//! the whole file, swap the file between two requests or never stop sending. No well-behaved HTTP library lets
//! a test do that, so this one writes its answers by hand, over plain sockets on the loopback interface. Told
//! nothing it is an honest server of ranges, strong validators and conditions on them; [`Server::lie`] teaches it one lie per path.
//! It answers one request per connection, each in a thread of its own, and all of them end when it is dropped.

mod answer;

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, BufRead, BufReader, Read},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use answer::Answer;

/// The pieces in which a body is written.
const PIECE: usize = 64 * 1024;
/// How often a waiting thread looks whether the server is to end.
const NAP: Duration = Duration::from_millis(5);

/// One way of not telling the truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lie {
    /// Announces this length and sends the true bytes: fewer or more than announced.
    Length(u64),
    /// Announces the true length and closes after so many bytes of the body.
    Truncate {
        /// Bytes of this answer's body that are sent.
        after: u64,
    },
    /// As `Truncate`, and the next request finds another content.
    TruncateThenChange {
        /// Bytes of this answer's body that are sent.
        after: u64,
        /// What the path holds from then on.
        to: Vec<u8>,
    },
    /// Falls silent with the connection open: before the answer, or after so many bytes of its body.
    Stall {
        /// Bytes of the body that are sent first; with `None` not even the status line is.
        after: Option<u64>,
    },
    /// Reads the request and closes.
    CloseBeforeAnswer,
    /// Answers with this status and a short text.
    Status {
        /// The status code.
        code: u16,
        /// The value of `Retry-After`, if any.
        retry_after: Option<String>,
    },
    /// Answers a range with the whole.
    IgnoreRange,
    /// Answers a range from this offset on, whatever was asked for.
    WrongRange {
        /// Where the answer begins.
        start: u64,
    },
    /// Answers a range honestly but names another entity tag than the one it was asked for.
    OtherEtagInRange,
    /// Answers every range with 416 and the true length.
    Unsatisfiable,
    /// Sends an answer of unknown length that never ends.
    Endless,
    /// Sends the true bytes without a length, closing at the end, as HTTP/1.0 did.
    Unsized,
    /// Sends the true bytes in chunks.
    Chunked,
    /// Sends the true bytes in chunks and closes after so many of them, before the last chunk.
    ChunkedTruncate {
        /// Bytes of the body that are sent.
        after: u64,
    },
    /// Puts a header field of this many bytes before the true ones.
    HugeHeaders(usize),
    /// Sends the client elsewhere.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        code: u16,
        /// The value of `Location`.
        to: String,
    },
    /// Sends the body so many bytes at a time, with a pause after each.
    Drip {
        /// Bytes at a time.
        bytes: usize,
        /// The pause.
        every: Duration,
    },
    /// Answers with something that is not HTTP.
    Garbage,
}

/// How a resource's entity tag is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Etag {
    /// Strong, and another one for other bytes.
    OfContent,
    /// As `OfContent`, marked weak.
    Weak,
    /// None is sent, and conditions on one never hold.
    Absent,
    /// Always this one, quotes included, also when the bytes change.
    Fixed(String),
}

/// One request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD`, …
    pub method: String,
    /// The path with its query, as sent.
    pub path: String,
    /// Header fields in their order, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// The first header field of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// The server. Dropping it closes every connection and ends its threads.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// If no port can be had.
    #[expect(clippy::expect_used, reason = "a test without its server has nothing to say")]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback interface");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:<port>`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The URL of `path`, which begins with a slash.
    pub fn url_of(&self, path: &str) -> String {
        format!("{}{path}", self.url())
    }

    /// Holds `bytes` at `path` from now on. What was told about its entity tag and its lies stays.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.state().resource(path).body = Some(Body::Bytes(Arc::new(bytes.into())));
    }

    /// Holds `length` times the same byte at `path`, without having them in memory.
    pub fn put_repeated(&self, path: &str, byte: u8, length: u64) {
        self.state().resource(path).body = Some(Body::Repeated { byte, length });
    }

    /// Holds nothing at `path` any more.
    pub fn remove(&self, path: &str) {
        self.state().resource(path).body = None;
    }

    /// How the entity tag at `path` is made; [`Etag::OfContent`] unless told.
    pub fn etag(&self, path: &str, etag: Etag) {
        self.state().resource(path).etag = etag;
    }

    /// Tells `lie` to every request for `path` from now on. A path that holds nothing can lie too.
    pub fn lie(&self, path: &str, lie: Lie) {
        self.state().resource(path).lies.push_back((lie, None));
    }

    /// Tells `lie` to the next `times` requests for `path`, after the lies it was already told for.
    pub fn lie_times(&self, path: &str, times: usize, lie: Lie) {
        self.state().resource(path).lies.push_back((lie, Some(times)));
    }

    /// Forgets every lie about `path`.
    pub fn honest(&self, path: &str) {
        self.state().resource(path).lies.clear();
    }

    /// Every request so far, in the order in which they came.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// The requests so far for exactly `path`.
    pub fn requests_for(&self, path: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.path == path).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let (connections, threads) = {
            let mut state = self.state();
            state.ending = true;
            (std::mem::take(&mut state.connections), std::mem::take(&mut state.threads))
        };
        for connection in connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
        // Accepting blocks until someone connects.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for thread in threads {
            let _ = thread.join();
        }
    }
}

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    resources: HashMap<String, Resource>,
    requests: Vec<Request>,
    connections: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    ending: bool,
}

#[derive(Debug, Clone)]
struct Resource {
    body: Option<Body>,
    etag: Etag,
    lies: VecDeque<(Lie, Option<usize>)>,
}

#[derive(Debug, Clone)]
enum Body {
    Bytes(Arc<Vec<u8>>),
    Repeated { byte: u8, length: u64 },
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ending(&self) -> bool {
        self.state().ending
    }

    /// Sleeps for `duration`; answers whether the server still lives.
    fn sleep(&self, mut duration: Duration) -> bool {
        while !self.ending() {
            let nap = duration.min(NAP);
            if nap.is_zero() {
                return true;
            }
            thread::sleep(nap);
            duration -= nap;
        }
        false
    }
}

impl State {
    fn resource(&mut self, path: &str) -> &mut Resource {
        self.resources.entry(path.to_owned()).or_insert_with(|| Resource {
            body: None,
            etag: Etag::OfContent,
            lies: VecDeque::new(),
        })
    }

    /// What a request for `path` is answered from, and the lie whose turn it is.
    fn turn(&mut self, path: &str) -> (Option<Body>, Etag, Option<Lie>) {
        let Some(resource) = self.resources.get_mut(path) else {
            return (None, Etag::OfContent, None);
        };
        let body = resource.body.clone();
        let lie = match resource.lies.front_mut() {
            None => None,
            Some((lie, None)) => Some(lie.clone()),
            Some((lie, Some(left))) => {
                let lie = lie.clone();
                *left = left.saturating_sub(1);
                if *left == 0 {
                    resource.lies.pop_front();
                }
                Some(lie)
            }
        };
        if let Some(Lie::TruncateThenChange { to, .. }) = &lie {
            resource.body = Some(Body::Bytes(Arc::new(to.clone())));
        }
        (body, resource.etag.clone(), lie)
    }
}

impl Body {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Repeated { length, .. } => *length,
        }
    }

    /// The bytes from `start` to before `end`, at most a piece of them.
    fn piece(&self, start: u64, end: u64) -> Vec<u8> {
        let end = end.min(self.len()).min(start + PIECE as u64);
        match self {
            Self::Bytes(bytes) => bytes[index(start).min(bytes.len())..index(end)].to_vec(),
            Self::Repeated { byte, .. } => vec![*byte; index(end.saturating_sub(start))],
        }
    }

    fn etag(&self, etag: &Etag) -> Option<String> {
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Bytes(bytes) => bytes.hash(&mut hasher),
            Self::Repeated { byte, length } => (byte, length).hash(&mut hasher),
        }
        match etag {
            Etag::OfContent => Some(format!("\"{:016x}\"", hasher.finish())),
            Etag::Weak => Some(format!("W/\"{:016x}\"", hasher.finish())),
            Etag::Absent => None,
            Etag::Fixed(text) => Some(text.clone()),
        }
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let mut state = shared.state();
        if state.ending {
            return;
        }
        let Ok(twin) = stream.try_clone() else { continue };
        state.connections.push(twin);
        let thread = thread::spawn({
            let shared = Arc::clone(shared);
            move || {
                // A client that goes away in the middle is what many tests are about.
                let _ = serve(&stream, &shared);
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        state.threads.push(thread);
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(request) = read_request(stream)? else { return Ok(()) };
    let (body, etag, lie) = {
        let mut state = shared.state();
        state.requests.push(request.clone());
        state.turn(&request.path)
    };
    Answer { stream, shared, request: &request, body, etag, lie }.send()
}

fn read_request(stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut lines = BufReader::new(stream.take(256 * 1024)).lines();
    let Some(first) = lines.next().transpose()? else { return Ok(None) };
    let mut words = first.split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let mut headers = Vec::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Some(Request { method: method.to_owned(), path: path.to_owned(), headers }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn ask(server: &Server, path: &str, fields: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n{fields}\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn it_is_honest_unless_told_otherwise() {
        let server = Server::start();
        server.put("/a", "hello");
        let whole = ask(&server, "/a", "");
        assert!(whole.starts_with("HTTP/1.1 200") && whole.ends_with("\r\n\r\nhello"), "{whole}");
        let part = ask(&server, "/a", "Range: bytes=3-\r\n");
        assert!(part.contains("Content-Range: bytes 3-4/5") && part.ends_with("\r\n\r\nlo"), "{part}");
        assert!(ask(&server, "/b", "").starts_with("HTTP/1.1 404"));
        assert_eq!(server.requests().len(), 3);
        assert_eq!(server.requests_for("/a")[1].header("range"), Some("bytes=3-"));
    }

    #[test]
    fn a_condition_that_fails_gets_the_whole() {
        let server = Server::start();
        server.put("/a", "hello");
        let whole = ask(&server, "/a", "Range: bytes=3-\r\nIf-Range: \"old\"\r\n");
        assert!(whole.starts_with("HTTP/1.1 200"), "{whole}");
    }

    #[test]
    fn what_is_known_already_is_not_sent_again() {
        let server = Server::start();
        server.put("/a", "hello");
        server.etag("/a", Etag::Fixed("\"one\"".to_owned()));
        let known = ask(&server, "/a", "If-None-Match: \"one\"\r\n");
        assert!(known.starts_with("HTTP/1.1 304") && known.ends_with("\r\n\r\n"), "{known}");
        assert!(ask(&server, "/a", "If-None-Match: \"two\"\r\n").ends_with("\r\n\r\nhello"));
    }

    #[test]
    fn lies_take_turns_and_end() {
        let server = Server::start();
        server.put("/a", "hello");
        server.lie_times("/a", 1, Lie::Status { code: 503, retry_after: Some("1".into()) });
        server.lie_times("/a", 1, Lie::Truncate { after: 2 });
        assert!(ask(&server, "/a", "").contains("Retry-After: 1"));
        assert!(ask(&server, "/a", "").ends_with("\r\n\r\nhe"));
        assert!(ask(&server, "/a", "").ends_with("\r\n\r\nhello"));
    }

    #[test]
    fn dropping_it_frees_a_stalled_client() {
        let server = Server::start();
        server.put("/a", "hello");
        server.lie("/a", Lie::Stall { after: Some(1) });
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "GET /a HTTP/1.1\r\n\r\n").unwrap();
        drop(server);
        let _ = stream.read_to_end(&mut Vec::new());
    }
}
