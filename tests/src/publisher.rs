//! Whoever publishes releases: a server on loopback, a private Sigstore, an index of what is on offer.

use std::{
    fs,
    path::{Path, PathBuf},
};

use myriarch_verify::Digest;
use serde_json::json;

use crate::{
    archive,
    server::Server,
    sigstore::{Identity, Sigstore},
};

/// The distribution that every collector of the kit is: its file's name and what `--version` prints.
pub const DISTRIBUTION: &str = "otelcol-testbed";

/// Who signs the releases of the kit.
pub const ISSUER: &str = "https://token.actions.githubusercontent.com";
/// The workflow that does so.
pub const WORKFLOW: &str = "https://github.com/testbed/releases/.github/workflows/release.yaml";

/// How an offer was made; every field but the bytes can lie.
#[derive(Debug, Clone)]
pub struct Release {
    /// The version offered.
    pub version: String,
    /// The archive as it is served.
    pub archive: Vec<u8>,
    /// The bundle as it is served.
    pub bundle: Option<Vec<u8>>,
    /// The checksum file's content, bare.
    pub checksum: Option<Vec<u8>>,
}

/// The publisher, with nothing on offer at first.
#[derive(Debug)]
pub struct Publisher {
    server: Server,
    sigstore: Sigstore,
    releases: Vec<Release>,
    directory: Option<PathBuf>,
}

impl Publisher {
    /// A server of its own and a Sigstore of its own.
    pub fn new() -> Self {
        let publisher =
            Self { server: Server::start(), sigstore: Sigstore::mint(), releases: vec![], directory: None };
        publisher.serve_index();
        publisher
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The private Sigstore.
    pub fn sigstore(&self) -> &Sigstore {
        &self.sigstore
    }

    /// The index's URL.
    pub fn index(&self) -> String {
        self.server.url() + "/index.json"
    }

    /// An honest release of `program` as `version`: packed, signed, with its checksum.
    pub fn release(&self, version: &str, program: &[u8]) -> Release {
        let archive = archive::pack(DISTRIBUTION, program);
        Release {
            version: version.to_owned(),
            bundle: Some(self.sigstore.sign(Digest::of(&archive), &identity(version))),
            checksum: Some(hex(&archive).into_bytes()),
            archive,
        }
    }

    /// Puts a release on offer; one of the same version is replaced.
    pub fn offer(&mut self, release: Release) {
        let Release { version, archive, bundle, checksum } = &release;
        let name = file_name(version);
        self.publish(&name, archive.clone());
        if let Some(bundle) = bundle {
            self.publish(&format!("{name}.sigstore.json"), bundle.clone());
        }
        if let Some(checksum) = checksum {
            self.publish(&format!("{name}.sha256"), checksum.clone());
        }
        self.releases.retain(|known| known.version != *version);
        self.releases.push(release);
        self.serve_index();
    }

    /// Takes `version` off the list.
    pub fn withdraw(&mut self, version: &str) {
        self.releases.retain(|known| known.version != version);
        self.serve_index();
    }

    /// From now on everything is put into `directory` as well.
    pub fn publish_in(&mut self, directory: &Path) {
        self.directory = Some(directory.to_path_buf());
        self.serve_index();
    }

    fn serve_index(&self) {
        let arch = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "amd64",
        };
        let releases: Vec<_> = self
            .releases
            .iter()
            .map(|release| {
                let name = file_name(&release.version);
                let mut asset = json!({
                    "os": "linux",
                    "arch": arch,
                    "archive": name,
                    "sha256": hex(&release.archive),
                    "size": release.archive.len(),
                });
                if release.bundle.is_some() {
                    asset["bundle"] = format!("{name}.sigstore.json").into();
                }
                if release.checksum.is_some() {
                    asset["checksum"] = format!("{name}.sha256").into();
                }
                json!({"version": release.version, "assets": [asset]})
            })
            .collect();
        self.publish("index.json", json!({"schema": 1, "releases": releases}).to_string().into_bytes());
    }

    fn publish(&self, name: &str, bytes: Vec<u8>) {
        if let Some(directory) = &self.directory {
            fs::write(directory.join(name), &bytes).expect("a file in the directory of releases");
        }
        self.server.put(&format!("/{name}"), bytes);
    }
}

impl Default for Publisher {
    fn default() -> Self {
        Self::new()
    }
}

/// The identity that releases of `version` are signed with.
pub fn identity(version: &str) -> Identity {
    Identity::new(ISSUER, &format!("{WORKFLOW}@refs/tags/v{version}"))
}

fn file_name(version: &str) -> String {
    format!("{DISTRIBUTION}_{version}_linux.tar.gz")
}

fn hex(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}
