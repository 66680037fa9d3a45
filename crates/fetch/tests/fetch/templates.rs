//! A template says where one version is, and is refused early when it cannot.

use myriarch_fetch::{Directory, DirectorySettings, FetchError, Http, HttpSettings, Templates};
use myriarch_tests::server::Lie;

use crate::mirror::{ARCHIVE, Mirror, install_provider};

fn only(archive: &str) -> Templates {
    Templates { archive: archive.to_owned(), checksum: None, bundle: None }
}

fn http(templates: Templates) -> Result<Http, FetchError> {
    install_provider();
    Http::new(HttpSettings {
        templates: Some(templates),
        arch: "arm64".to_owned(),
        ..HttpSettings::default()
    })
}

#[test]
fn holes_are_filled_in_everywhere() {
    let http = http(only("https://h.example/v{version}/x_{version}_{os}_{arch}.tar.gz")).unwrap();
    let release = http.locate("0.158.0").unwrap();
    assert_eq!(release.location, "https://h.example/v0.158.0/x_0.158.0_linux_arm64.tar.gz");
    assert_eq!(release.file_name, "x_0.158.0_linux_arm64.tar.gz");
    assert_eq!(release.sha256, None);
}

#[test]
fn a_plus_is_encoded_in_the_url_and_plain_in_the_name() {
    let release = http(only("https://h.example/x_{version}.tar.gz")).unwrap().locate("1.0.0+b.1").unwrap();
    assert_eq!(release.location, "https://h.example/x_1.0.0%2Bb.1.tar.gz");
    assert_eq!(release.file_name, "x_1.0.0+b.1.tar.gz");
}

#[test]
fn a_template_that_cannot_work_is_refused_at_once() {
    let good = "http://h.example/{version}.tar.gz";
    for (archive, checksum, expected) in [
        ("http://h.example/x.tar.gz", None, "{version} in it"),
        ("http://h.example/{version", None, "every { to be closed"),
        ("http://h.example/version}", None, "every } to close"),
        ("http://h.example/{Version}.tar.gz", None, "only {version}, {os} and {arch}"),
        ("http://h.example/{version}{archive}", None, "only {version}, {os} and {arch}"),
        ("h.example/{version}.tar.gz", None, "http or https"),
        ("ftp://h.example/{version}.tar.gz", None, "http or https"),
        ("http://h.example/{version}/", None, "plain file name"),
        ("", None, "{version} in it"),
        (good, Some("http://h.example/sums"), "{version} or {archive}"),
        (good, Some("sums/{version}"), "http or https"),
        (good, Some("{archive}.{sha}"), "and {archive} in braces"),
    ] {
        let templates = Templates { checksum: checksum.map(str::to_owned), ..only(archive) };
        let error = http(templates).unwrap_err();
        assert!(matches!(error, FetchError::Setting { .. }), "{archive}: {error:?}");
        assert!(error.to_string().contains(expected), "{archive} {checksum:?}: {error}");
    }
}

#[test]
fn neither_index_nor_template_is_no_source() {
    install_provider();
    let error = Http::new(HttpSettings::default()).unwrap_err();
    assert!(error.to_string().contains("an index or an archive template"), "{error}");
    let index = Some("index.json".to_owned());
    let error = Http::new(HttpSettings { index, ..HttpSettings::default() }).unwrap_err();
    assert!(error.to_string().contains("expected an http or https URL"), "{error}");
}

#[tokio::test]
async fn a_version_that_would_change_the_url_is_refused() {
    let http = http(only("http://h.example/x_{version}.tar.gz")).unwrap();
    let long = "1".repeat(200);
    for version in
        ["", "../x", "1/2", "1%2F2", "1?x", "1#x", "1 2", "..", ".1", "-1", "1\n", "1{os}", "ä", &long]
    {
        let error = http.release(version).await.unwrap_err();
        assert!(matches!(error, FetchError::Version { .. }), "{version:?}: {error:?}");
        let error = http.locate(version).unwrap_err();
        assert!(matches!(error, FetchError::Version { .. }), "{version:?}: {error:?}");
    }
}

#[tokio::test]
async fn templates_alone_cannot_list() {
    let error = http(only("http://h.example/x_{version}.tar.gz")).unwrap().releases().await.unwrap_err();
    assert!(matches!(error, FetchError::NoIndex), "{error:?}");
    assert!(error.hint().contains("--to"));
}

#[tokio::test]
async fn a_version_is_there_when_its_archive_is() {
    let mirror = Mirror::holding(b"archive");
    let http = mirror.http();
    let found = http.release("0.158.0").await.unwrap().unwrap();
    let mut expected = http.locate("0.158.0").unwrap();
    expected.size = Some("archive".len() as u64);
    assert_eq!(found, expected);
    assert_eq!(http.release("0.159.0").await.unwrap(), None);
    assert_eq!(mirror.server.requests()[0].method, "HEAD");

    for (code, there) in
        [(405, Some(true)), (501, Some(true)), (403, Some(true)), (404, Some(false)), (500, None)]
    {
        mirror.server.honest(ARCHIVE);
        mirror.server.lie(ARCHIVE, Lie::Status { code, retry_after: None });
        let found = http.release("0.158.0").await.ok().map(|release| release.is_some());
        assert_eq!(found, there, "{code}");
    }
}

#[tokio::test]
async fn an_index_decides_alone() {
    let mirror = Mirror::holding(b"archive");
    mirror.server.put("/index.json", "{\"schema\":1,\"releases\":[]}");
    let index = Some(mirror.server.url_of("/index.json"));
    let http = Http::new(HttpSettings { index, ..mirror.settings() }).unwrap();
    assert_eq!(http.release("0.158.0").await.unwrap(), None, "a withdrawn release was guessed");
}

#[test]
fn in_a_directory_a_template_is_a_file_name() {
    for archive in ["../{version}.tar.gz", "/x/{version}.tar.gz", "{version}/x.tar.gz"] {
        let settings = DirectorySettings { templates: Some(only(archive)), ..DirectorySettings::at("/x") };
        let error = Directory::new(settings).unwrap_err();
        assert!(error.to_string().contains("file name without /"), "{error}");
    }
}
