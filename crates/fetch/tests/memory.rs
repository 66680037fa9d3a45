//! Memory does not grow with the archive. Alone in its process, since the measure is the process's own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on is to stop there")]

use std::fs;

use myriarch_fetch::{Http, HttpSettings, Proxy, Templates};
use myriarch_tests::server::Server;

const LENGTH: u64 = 192 << 20;

#[tokio::test]
async fn memory_does_not_grow_with_the_archive() {
    rustls::crypto::aws_lc_rs::default_provider().install_default().unwrap();
    let server = Server::start();
    for version in ["1", "2"] {
        server.put_repeated(
            &format!("/{version}.tar.gz"),
            b'x',
            if version == "1" { 1 << 20 } else { LENGTH },
        );
    }
    let templates = Templates { archive: server.url_of("/{version}.tar.gz"), checksum: None, bundle: None };
    let http = Http::new(HttpSettings {
        templates: Some(templates),
        proxy: Proxy::Direct,
        ..HttpSettings::default()
    })
    .unwrap();
    let partial = tempfile::tempdir().unwrap();
    let bring = async |version: &str| {
        let release = http.locate(version).unwrap();
        let download = http.download(&release, partial.path(), &|_, _| {}).await.unwrap();
        let length = fs::metadata(&download.archive).unwrap().len();
        myriarch_fetch::discard(&download.archive).unwrap();
        length
    };
    bring("1").await;
    let before = peak();
    assert_eq!(bring("2").await, LENGTH);
    let grown = peak() - before;
    println!("the peak grew by {grown} KiB over {} MiB", LENGTH >> 20);
    assert!(grown < 16 << 10, "the peak grew by {grown} KiB");
}

/// The most memory this process ever had resident, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
