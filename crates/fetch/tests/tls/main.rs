//! Over TLS the machine's own trust decides. Each test runs in a process of its own, since the place of the
//! machine's roots is taken from the environment.
//!
//! `server.pem` is for 127.0.0.1 and signed by `ca.pem`, whose key is gone; `other-ca.pem` signed nothing. All
//! are valid for a hundred years. To make them anew: `openssl req -x509` with a P-256 key for the two CAs, and
//! `openssl x509 -req -CA ca.pem` with `subjectAltName=IP:127.0.0.1` for the server's.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on is to stop there")]

use std::{
    env, fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use myriarch_fetch::{FetchError, Http, HttpSettings, Proxy, Templates};
use myriarch_tests::server::Server;
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

const CHILD: &str = "MYRIARCH_TLS_TEST";

#[test]
fn a_private_ca_in_the_machines_store_is_trusted() {
    if !in_a_process_that_trusts("a_private_ca_in_the_machines_store_is_trusted", &file("ca.pem")) {
        return;
    }
    let server = TlsServer::start("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\narchive");
    assert_eq!(bring(&server.url()).unwrap(), b"archive");
}

#[test]
fn a_ca_that_the_machine_does_not_know_is_refused_and_not_asked_again() {
    let name = "a_ca_that_the_machine_does_not_know_is_refused_and_not_asked_again";
    if !in_a_process_that_trusts(name, &file("other-ca.pem")) {
        return;
    }
    let server = TlsServer::start("");
    let error = bring(&server.url()).unwrap_err();
    assert!(matches!(error, FetchError::Untrusted { .. }), "{error:?}");
    assert!(error.chain().contains("UnknownIssuer"), "{}", error.chain());
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn without_any_roots_https_says_so_and_http_works() {
    let name = "without_any_roots_https_says_so_and_http_works";
    if !in_a_process_that_trusts(name, Path::new("/nowhere/roots.pem")) {
        return;
    }
    let error = bring("https://127.0.0.1:1").unwrap_err();
    assert!(matches!(error, FetchError::NoRoots { .. }), "{error:?}");
    assert!(error.hint().contains("SSL_CERT_FILE"));
    let plain = Server::start();
    plain.put("/1.tar.gz", "archive");
    assert_eq!(bring(&plain.url()).unwrap(), b"archive");
}

#[test]
fn a_redirect_from_https_to_http_is_refused() {
    if !in_a_process_that_trusts("a_redirect_from_https_to_http_is_refused", &file("ca.pem")) {
        return;
    }
    let plain = Server::start();
    plain.put("/1.tar.gz", "archive");
    let to = plain.url_of("/1.tar.gz");
    let server = TlsServer::start(&format!(
        "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ));
    let error = bring(&server.url()).unwrap_err();
    assert!(matches!(error, FetchError::Redirect { .. }), "{error:?}");
    assert_eq!(plain.requests(), []);
}

#[test]
fn a_server_that_hangs_up_on_tls_is_given_up() {
    if !in_a_process_that_trusts("a_server_that_hangs_up_on_tls_is_given_up", &file("ca.pem")) {
        return;
    }
    let plain = Server::start();
    let error = bring(&plain.url().replace("http:", "https:")).unwrap_err();
    assert!(matches!(error, FetchError::GaveUp { .. }), "{error:?}");
    assert!(error.chain().contains("could not connect"), "{}", error.chain());
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

/// Runs the test `name` in a process whose roots are in `roots`; answers whether this is that process.
fn in_a_process_that_trusts(name: &str, roots: &Path) -> bool {
    if env::var_os(CHILD).is_some() {
        rustls::crypto::aws_lc_rs::default_provider().install_default().unwrap();
        return true;
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("SSL_CERT_FILE", roots)
        .env("SSL_CERT_DIR", "/nowhere")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{words}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(words.contains("1 passed"), "{words}");
    false
}

fn bring(url: &str) -> Result<Vec<u8>, FetchError> {
    let templates = Templates { archive: format!("{url}/{{version}}.tar.gz"), checksum: None, bundle: None };
    let settings =
        HttpSettings { templates: Some(templates), proxy: Proxy::Direct, ..HttpSettings::default() };
    let http = Http::new(settings)?;
    let partial = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let download = runtime.block_on(http.download(&http.locate("1")?, partial.path(), &|_, _| {}))?;
    Ok(fs::read(download.archive).unwrap())
}

/// Gives the same answer to everyone, until the process ends.
struct TlsServer {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl TlsServer {
    fn start(answer: &str) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = CertificateDer::pem_file_iter(file("server.pem")).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        thread::spawn({
            let (connections, config, answer) =
                (Arc::clone(&connections), Arc::new(config), answer.to_owned());
            move || {
                for stream in listener.incoming() {
                    connections.fetch_add(1, Ordering::SeqCst);
                    let _ = serve(stream.unwrap(), &config, &answer);
                }
            }
        });
        Self { address, connections }
    }

    fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

fn serve(stream: TcpStream, config: &Arc<ServerConfig>, answer: &str) -> std::io::Result<()> {
    let connection = ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
    let mut tls = StreamOwned::new(connection, stream);
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        tls.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    tls.write_all(answer.as_bytes())?;
    tls.conn.send_close_notify();
    tls.flush()
}
