//! Files from the disk to a socket, by the kernel alone, so that the server is never what is measured.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use rustix::fs::sendfile;

/// The most that one call is asked to move.
const MOST: usize = 1 << 30;

/// Serves the files of one directory on loopback until the process ends. It knows `GET` and nothing else.
#[derive(Debug)]
pub(crate) struct FileServer {
    address: SocketAddr,
}

impl FileServer {
    pub(crate) fn start(directory: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback interface");
        let address = listener.local_addr().expect("a bound socket has an address");
        let directory: Arc<Path> = directory.into();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let directory = Arc::clone(&directory);
                thread::spawn(move || {
                    // Who goes away in the middle fails its own measurement.
                    let _ = answer(&stream, &directory);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address }
    }

    /// The URL of a file in the directory.
    pub(crate) fn url_of(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }
}

fn answer(mut stream: &TcpStream, directory: &Path) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let Some(path) = requested(&first).map(|name| directory.join(name)) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/gzip\r\nContent-Length: {length}\r\nETag: \"{length:x}\"\r\nConnection: close\r\n\r\n"
    )?;
    let mut offset = 0;
    while offset < length {
        let most = usize::try_from(length - offset).unwrap_or(MOST).min(MOST);
        if sendfile(stream, &file, Some(&mut offset), most)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// The name of a file directly in the directory.
fn requested(line: &str) -> Option<PathBuf> {
    let name = line.strip_prefix("GET /")?.split(' ').next()?;
    (!name.is_empty() && !name.contains('/') && !name.starts_with('.')).then(|| name.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn ask(server: &FileServer, path: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_file_arrives_whole_and_nothing_outside_the_directory_does() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = vec![7; 3_000_000];
        std::fs::create_dir(dir.path().join("served")).unwrap();
        std::fs::write(dir.path().join("served/a"), &bytes).unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        let server = FileServer::start(&dir.path().join("served"));
        let answer = ask(&server, "/a");
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(&bytes));
        assert!(answer.len() < bytes.len() + 200);
        for path in ["/../secret", "/", "/.."] {
            assert!(ask(&server, path).starts_with(b"HTTP/1.1 404"), "{path}");
        }
    }
}
