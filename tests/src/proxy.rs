//! A forward proxy: `CONNECT` for TLS, whole URLs for plain http.
//!
//! It resolves no names but those it was told, so a client that reaches a host by such a name came through it.

use std::{
    collections::HashMap,
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// The proxy; it listens until the process ends.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    hosts: HashMap<String, SocketAddr>,
    /// The value of `Proxy-Authorization` that is demanded, if one is.
    key: Option<String>,
    asked: Mutex<Vec<String>>,
}

impl Proxy {
    /// A proxy that knows these hosts, `name:port`, and where each really is.
    pub fn knowing(hosts: &[(&str, SocketAddr)]) -> Self {
        Self::start(hosts, None)
    }

    /// As [`knowing`](Self::knowing), for those alone who send this `Proxy-Authorization`.
    pub fn with_key(hosts: &[(&str, SocketAddr)], key: &str) -> Self {
        Self::start(hosts, Some(key.to_owned()))
    }

    fn start(hosts: &[(&str, SocketAddr)], key: Option<String>) -> Self {
        let hosts = hosts.iter().map(|(host, address)| ((*host).to_owned(), *address)).collect();
        let shared = Arc::new(Shared { hosts, key, asked: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback interface");
        let address = listener.local_addr().expect("a bound socket has an address");
        let theirs = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&theirs);
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, shared }
    }

    /// `127.0.0.1:<port>`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The first line of every request so far, with the header fields that follow it.
    pub fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    shared.asked.lock().unwrap_or_else(PoisonError::into_inner).push(head.clone());
    let refuse = |client: &mut TcpStream, status: &str| {
        write!(client, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    };
    let field = |name: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    if shared.key.is_some() && field("proxy-authorization") != shared.key {
        return refuse(&mut client, "407 Proxy Authentication Required");
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (host, path) = match target.strip_prefix("http://").and_then(|rest| rest.split_once('/')) {
        Some((host, path)) => (host.to_owned(), format!("/{path}")),
        None => (target.to_owned(), String::new()),
    };
    let host = if host.contains(':') { host } else { format!("{host}:80") };
    let Some(mut server) = shared.hosts.get(&host).and_then(|address| TcpStream::connect(address).ok())
    else {
        return refuse(&mut client, "502 Bad Gateway");
    };
    if method == "CONNECT" {
        client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    } else {
        server.write_all(head.replacen(target, &path, 1).as_bytes())?;
    }
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let done = io::copy(&mut server, &mut client).map(drop);
    let _ = client.shutdown(Shutdown::Both);
    done
}
