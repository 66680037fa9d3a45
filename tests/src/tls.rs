//! TLS before a server of the kit.
//!
//! It ends TLS with a certificate for 127.0.0.1 and passes what is inside on, one request per connection as that
//! server answers them, so that every lie can be told over TLS, too. The certificate is signed by [`ca`], which no
//! machine trusts by itself.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

/// The certificates that the tests of the source have.
const FILES: &str = "../crates/fetch/tests/tls";

/// The certificate of the authority that signed the server's.
pub fn ca() -> PathBuf {
    file("ca.pem")
}

/// An authority that signed nothing here.
pub fn other_ca() -> PathBuf {
    file("other-ca.pem")
}

/// Listens with TLS before `server` until the process ends, and answers where: `https://127.0.0.1:<port>`.
pub fn before(server: SocketAddr) -> String {
    let chain = CertificateDer::pem_file_iter(file("server.pem")).expect("a certificate");
    let chain = chain.collect::<Result<_, _>>().expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(file("server.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .expect("certificate and key belong together");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback interface");
    let address = listener.local_addr().expect("a bound socket has an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            // A client that trusts nobody here goes away in the middle.
            thread::spawn(move || pass_on(stream, config, server));
        }
    });
    format!("https://{address}")
}

fn pass_on(stream: TcpStream, config: Arc<ServerConfig>, server: SocketAddr) -> io::Result<()> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut tls = StreamOwned::new(connection, stream);
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        tls.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    let mut behind = TcpStream::connect(server)?;
    behind.write_all(&request)?;
    let mut piece = vec![0; 64 * 1024];
    loop {
        let length = behind.read(&mut piece)?;
        if length == 0 {
            break;
        }
        tls.write_all(&piece[..length])?;
    }
    tls.conn.send_close_notify();
    tls.flush()
}

fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILES).join(name);
    path.canonicalize().expect("a file of the tests")
}
