//! Over TLS the machine's own trust decides, and the CA that is named besides. Each test runs in a process of its own, since the place of the
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

use myriarch_fetch::{FetchError, Http, HttpSettings, Proxy, Templates, Timeouts, Waiting};
use myriarch_tests::{proxy, server::Server, tls};
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
fn a_ca_that_is_named_is_trusted_besides_the_machines_own() {
    let name = "a_ca_that_is_named_is_trusted_besides_the_machines_own";
    if !in_a_process_that_trusts(name, &file("other-ca.pem")) {
        return;
    }
    let plain = Server::start();
    plain.put("/1.tar.gz", "archive");
    let url = tls::before(plain.address());
    let with = |authorities: PathBuf| HttpSettings {
        proxy: Proxy::Direct,
        authorities: Some(authorities),
        ..HttpSettings::default()
    };
    assert_eq!(bring_with(&url, with(file("ca.pem"))).unwrap(), b"archive");
    let error = bring_with(&url, with(file("other-ca.pem"))).unwrap_err();
    assert!(matches!(error, FetchError::Untrusted { .. }), "{error:?}");
    assert!(error.hint().contains("source.ca"), "{}", error.hint());

    // Roots of the machine go on counting beside it.
    let directory = tempfile::tempdir().unwrap();
    let both = directory.path().join("both.pem");
    let [ca, other] = ["ca.pem", "other-ca.pem"].map(|name| fs::read(file(name)).unwrap());
    fs::write(&both, [other.as_slice(), &ca].concat()).unwrap();
    assert_eq!(bring_with(&url, with(both)).unwrap(), b"archive");
}

#[test]
fn the_machines_roots_count_beside_a_ca_that_is_named() {
    let name = "the_machines_roots_count_beside_a_ca_that_is_named";
    if !in_a_process_that_trusts(name, &file("ca.pem")) {
        return;
    }
    let plain = Server::start();
    plain.put("/1.tar.gz", "archive");
    let authorities = Some(file("other-ca.pem"));
    let settings = HttpSettings { proxy: Proxy::Direct, authorities, ..HttpSettings::default() };
    assert_eq!(bring_with(&tls::before(plain.address()), settings).unwrap(), b"archive");
}

#[test]
fn a_ca_suffices_where_the_machine_has_no_roots_and_can_be_put_there_later() {
    let name = "a_ca_suffices_where_the_machine_has_no_roots_and_can_be_put_there_later";
    if !in_a_process_that_trusts(name, Path::new("/nowhere/roots.pem")) {
        return;
    }
    let plain = Server::start();
    plain.put("/1.tar.gz", "archive");
    let directory = tempfile::tempdir().unwrap();
    let authorities = directory.path().join("ca.pem");
    let settings = HttpSettings {
        proxy: Proxy::Direct,
        authorities: Some(authorities.clone()),
        templates: Some(Templates {
            archive: format!("{}/{{version}}.tar.gz", tls::before(plain.address())),
            checksum: None,
            bundle: None,
        }),
        ..HttpSettings::default()
    };
    let http = Http::new(settings).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bring = || runtime.block_on(http.download(&http.locate("1").unwrap(), directory.path(), &|_, _| {}));
    for (content, words) in [
        (None, "found no file"),
        (Some(""), "found none"),
        (Some("a text"), "found none"),
        (
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "found certificate 1 damaged",
        ),
        (Some("-----BEGIN CERTIFICATE-----\nAAAA\n"), "found certificate 1 damaged"),
    ] {
        if let Some(content) = content {
            fs::write(&authorities, content).unwrap();
        }
        let error = bring().unwrap_err();
        assert!(matches!(error, FetchError::Authorities { .. }), "{error:?}");
        assert!(error.chain().contains(words), "{}", error.chain());
        assert!(error.hint().contains(&*authorities.to_string_lossy()), "{}", error.hint());
    }
    fs::copy(file("ca.pem"), &authorities).unwrap();
    assert_eq!(fs::read(bring().unwrap().archive).unwrap(), b"archive");
}

#[test]
fn https_goes_through_a_proxy_that_sees_none_of_it() {
    if !in_a_process_that_trusts("https_goes_through_a_proxy_that_sees_none_of_it", &file("ca.pem")) {
        return;
    }
    let plain = Server::start();
    plain.put("/1.tar.gz", "archive");
    let url = tls::before(plain.address());
    let host = url.trim_start_matches("https://").to_owned();
    let proxy = proxy::Proxy::with_key(&[(&host, host.parse().unwrap())], "Basic bWU6czNjcmV0");
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("credentials");
    fs::write(&secret, "Bearer t0ken").unwrap();
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let with = |proxy: String| HttpSettings {
        proxy: Proxy::Through(proxy),
        credentials: Some(secret.clone()),
        retries: myriarch_fetch::Retries { times: 0, ..Default::default() },
        ..HttpSettings::default()
    };
    let brought = bring_with(&url, with(format!("http://me:s3cret@{}", proxy.address())));
    assert_eq!(brought.unwrap(), b"archive");
    assert!(proxy.asked()[0].starts_with(&format!("CONNECT {host} ")), "{:?}", proxy.asked());
    assert!(proxy.asked().iter().all(|asked| !asked.contains("t0ken")), "{:?}", proxy.asked());
    assert_eq!(plain.requests()[0].header("authorization"), Some("Bearer t0ken"));
    assert_eq!(plain.requests()[0].header("proxy-authorization"), None);

    let error = bring_with(&url, with(proxy.url())).unwrap_err();
    assert!(matches!(error, FetchError::Connect { proxy: Some(_), .. }), "{error:?}");
    assert!(error.chain().contains("through the proxy"), "{}", error.chain());
    assert!(error.hint().contains("source.proxy"), "{}", error.hint());
}

#[test]
fn the_environments_proxy_is_used_unless_another_is_configured() {
    let name = "the_environments_proxy_is_used_unless_another_is_configured";
    if env::var_os(CHILD).is_none() {
        let proxy = proxy::Proxy::knowing(&[]);
        let output = Command::new(env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .env("http_proxy", proxy.url())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(proxy.asked().len(), 1, "{:?}", proxy.asked());
        return;
    }
    rustls::crypto::aws_lc_rs::default_provider().install_default().unwrap();
    let server = Server::start();
    server.put("/1.tar.gz", "archive");
    let with = |proxy| HttpSettings {
        proxy,
        retries: myriarch_fetch::Retries { times: 0, ..Default::default() },
        ..HttpSettings::default()
    };
    let error = bring_with(&server.url(), with(Proxy::FromEnvironment)).unwrap_err();
    assert!(matches!(error, FetchError::Status { status: 502, .. }), "{error:?}");
    assert_eq!(bring_with(&server.url(), with(Proxy::Direct)).unwrap(), b"archive");
    let ours = proxy::Proxy::knowing(&[(server.url().trim_start_matches("http://"), server.address())]);
    assert_eq!(bring_with(&server.url(), with(Proxy::Through(ours.url()))).unwrap(), b"archive");
    assert_eq!(ours.asked().len(), 1);
}

#[test]
fn a_connection_that_never_comes_about_has_a_time_of_its_own() {
    let name = "a_connection_that_never_comes_about_has_a_time_of_its_own";
    if !in_a_process_that_trusts(name, &file("ca.pem")) {
        return;
    }
    // Connected by the kernel, and then nobody speaks TLS.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = std::time::Duration::from_millis(300);
    let settings = HttpSettings {
        proxy: Proxy::Direct,
        timeouts: Timeouts { connect, ..Timeouts::default() },
        retries: myriarch_fetch::Retries { times: 0, ..Default::default() },
        ..HttpSettings::default()
    };
    let error = bring_with(&format!("https://{}", silent.local_addr().unwrap()), settings).unwrap_err();
    let expected = matches!(
        error,
        FetchError::TimedOut { waiting: Waiting::Connection, limit, .. } if limit == connect
    );
    assert!(expected, "{error:?}");
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
    bring_with(url, HttpSettings { proxy: Proxy::Direct, ..HttpSettings::default() })
}

fn bring_with(url: &str, settings: HttpSettings) -> Result<Vec<u8>, FetchError> {
    let templates = Templates { archive: format!("{url}/{{version}}.tar.gz"), checksum: None, bundle: None };
    let http = Http::new(HttpSettings { templates: Some(templates), ..settings })?;
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
