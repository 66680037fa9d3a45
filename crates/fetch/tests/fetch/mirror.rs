//! A release on a test server, a store's partial directory, and a source with little patience.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use myriarch_fetch::{
    Download, FetchError, Http, HttpSettings, Proxy, Release, Retries, Templates, Timeouts,
};
use myriarch_tests::server::Server;
use tempfile::TempDir;

pub(crate) const VERSION: &str = "0.158.0";
pub(crate) const ARCHIVE: &str = "/otelcol_0.158.0_linux_amd64.tar.gz";
pub(crate) const CHECKSUM: &str = "/otelcol_0.158.0_linux_amd64.tar.gz.sha256";
pub(crate) const BUNDLE: &str = "/otelcol_0.158.0_linux_amd64.tar.gz.sigstore.json";

/// What the checksum file says.
pub(crate) const SUM: &str = "the sum";
/// What the bundle says.
pub(crate) const SIGNED: &str = "{\"signed\":true}";

pub(crate) struct Mirror {
    pub(crate) server: Server,
    pub(crate) partial: TempDir,
}

impl Mirror {
    /// A server with a checksum file, a bundle, and nothing that they belong to.
    pub(crate) fn new() -> Self {
        install_provider();
        let server = Server::start();
        server.put(CHECKSUM, SUM);
        server.put(BUNDLE, SIGNED);
        Self { server, partial: TempDir::new().unwrap() }
    }

    pub(crate) fn holding(archive: &[u8]) -> Self {
        let mirror = Self::new();
        mirror.server.put(ARCHIVE, archive);
        mirror
    }

    pub(crate) fn settings(&self) -> HttpSettings {
        HttpSettings {
            templates: Some(Templates {
                archive: self.server.url_of("/otelcol_{version}_{os}_{arch}.tar.gz"),
                checksum: Some("{archive}.sha256".to_owned()),
                bundle: Some("{archive}.sigstore.json".to_owned()),
            }),
            arch: "amd64".to_owned(),
            timeouts: Timeouts {
                connect: Duration::from_millis(500),
                first_byte: Duration::from_millis(200),
                stall: Duration::from_millis(400),
                ..Timeouts::default()
            },
            retries: Retries {
                first_pause: Duration::from_millis(2),
                longest_pause: Duration::from_millis(10),
                longest_retry_after: Duration::from_secs(3),
                ..Retries::default()
            },
            proxy: Proxy::Direct,
            ..HttpSettings::default()
        }
    }

    pub(crate) fn http(&self) -> Http {
        Http::new(self.settings()).unwrap()
    }

    pub(crate) fn indexed(&self) -> Http {
        let index = Some(self.server.url_of("/index.json"));
        Http::new(HttpSettings { index, templates: None, ..self.settings() }).unwrap()
    }

    /// A source that tries once only.
    pub(crate) fn once(&self) -> Http {
        let mut settings = self.settings();
        settings.retries.times = 0;
        Http::new(settings).unwrap()
    }

    pub(crate) async fn bring(&self, http: &Http) -> Result<Download, FetchError> {
        let release = release(http);
        http.download(&release, self.partial.path(), &|_, _| {}).await
    }

    pub(crate) fn partial_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            fs::read_dir(self.partial.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// The headers `Range` and `If-Range` of every GET for the archive.
    pub(crate) fn ranges(&self) -> Vec<Option<String>> {
        let requests = self.server.requests_for(ARCHIVE);
        let gets = requests.iter().filter(|request| request.method == "GET");
        gets.map(|request| {
            assert_eq!(request.header("range").is_some(), request.header("if-range").is_some());
            request.header("range").map(str::to_owned)
        })
        .collect()
    }
}

/// The release, without asking the server: the archive's lies are meant for the download.
pub(crate) fn release(http: &Http) -> Release {
    http.locate(VERSION).unwrap()
}

pub(crate) fn install_provider() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// Bytes in which every place is different from its neighbours.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

pub(crate) fn whole(download: &Download) -> Vec<u8> {
    read(&download.archive)
}
