//! An index decides what is on offer, and one bad entry hides no other.

use myriarch_fetch::{FetchError, Http, HttpSettings, Listing, Templates};

use crate::mirror::Mirror;

const INDEX: &str = "/feed/index.json";
const SHA: &str = "7623348c295ec7b00d86c30040a30730f7e3537e813b34c880c1d5abb9bbe8d5";

fn http(mirror: &Mirror) -> Http {
    let index = Some(mirror.server.url_of(INDEX));
    Http::new(HttpSettings { index, templates: None, ..mirror.settings() }).unwrap()
}

async fn listing(releases: &str) -> (Mirror, Listing) {
    let mirror = Mirror::new();
    mirror.server.put(INDEX, format!("{{\"schema\":1,\"releases\":[{releases}]}}"));
    let listing = http(&mirror).listing().await.unwrap();
    (mirror, listing)
}

fn entry(version: &str, archive: &str, more: &str) -> String {
    format!(
        "{{\"version\":\"{version}\",\"assets\":[{{\"os\":\"linux\",\"arch\":\"amd64\",\
         \"archive\":\"{archive}\"{more}}}]}}"
    )
}

#[tokio::test]
async fn references_are_resolved_against_the_index() {
    let more =
        format!(",\"sha256\":\"{SHA}\",\"checksum\":\"../sums.txt\",\"bundle\":\"/b.json\",\"new\":[1,2]");
    let (mirror, listing) = listing(&entry("0.158.0", "v0.158.0/otelcol.tar.gz", &more)).await;
    assert_eq!(listing.skipped, []);
    let [release] = &listing.releases[..] else { panic!("{listing:?}") };
    assert_eq!(release.version, "0.158.0");
    assert_eq!(release.location, mirror.server.url_of("/feed/v0.158.0/otelcol.tar.gz"));
    assert_eq!(release.file_name, "otelcol.tar.gz");
    assert_eq!(release.sha256, Some(SHA.parse().unwrap()));
    mirror.server.put("/feed/v0.158.0/otelcol.tar.gz", "archive");
    mirror.server.put("/sums.txt", "sums");
    mirror.server.put("/b.json", "bundle");
    let download = http(&mirror).download(release, mirror.partial.path(), &|_, _| {}).await.unwrap();
    assert_eq!(download.checksum, Some(("sums.txt".to_owned(), b"sums".to_vec())));
    assert_eq!(download.bundle, Some(b"bundle".to_vec()));
}

#[tokio::test]
async fn a_redirected_index_resolves_from_where_it_is() {
    use myriarch_tests::server::Lie;
    let mirror = Mirror::new();
    mirror.server.lie(INDEX, Lie::Redirect { code: 302, to: "/real/index.json".to_owned() });
    mirror.server.put(
        "/real/index.json",
        format!("{{\"schema\":1,\"releases\":[{}]}}", entry("1.0.0", "x.tar.gz", "")),
    );
    let releases = http(&mirror).releases().await.unwrap();
    assert_eq!(releases[0].location, mirror.server.url_of("/real/x.tar.gz"));
}

#[tokio::test]
async fn a_bad_entry_is_set_aside_with_its_reason() {
    for (bad, reason) in [
        (entry("2.0.0", "ftp://x/y.tar.gz", ""), "http or https"),
        (entry("2.0.0", "file:///etc/passwd", ""), "http or https"),
        (entry("2.0.0", "x/", ""), "plain file name"),
        (entry("2.0.0", "x.tar.gz", ",\"sha256\":\"123\""), "64 hexadecimal"),
        (entry("2.0.0", "x.tar.gz", ",\"bundle\":7"), "string"),
        (entry("2.0.0", "x.tar.gz", ",\"bundle\":\"data:x\""), "http or https"),
        (entry("../2.0.0", "x.tar.gz", ""), "expected a version"),
        (entry("2.0.0\\u001b[2J", "x.tar.gz", ""), "expected a version"),
        ("{\"version\":2,\"assets\":[]}".to_owned(), "expected a version"),
        ("{\"assets\":[]}".to_owned(), "expected a version"),
        ("{\"version\":\"2.0.0\"}".to_owned(), "assets"),
        ("{\"version\":\"2.0.0\",\"assets\":[]}".to_owned(), "linux/amd64"),
        (
            "{\"version\":\"2.0.0\",\"assets\":[{\"os\":\"linux\",\"arch\":\"arm64\",\"archive\":\"x\"}]}"
                .to_owned(),
            "found \"linux/arm64\"",
        ),
        ("null".to_owned(), "expected a version"),
        ("[[]]".to_owned(), "expected a version"),
        (entry("1.0.0", "again.tar.gz", ""), "listed before"),
    ] {
        let releases =
            [entry("1.0.0", "a.tar.gz", ""), bad.clone(), entry("3.0.0", "c.tar.gz", "")].join(",");
        let (_mirror, listing) = listing(&releases).await;
        let versions: Vec<_> = listing.releases.iter().map(|release| release.version.as_str()).collect();
        assert_eq!(versions, ["1.0.0", "3.0.0"], "{bad}");
        let [skipped] = &listing.skipped[..] else { panic!("{bad}: {:?}", listing.skipped) };
        assert!(skipped.reason.contains(reason), "{bad}: {skipped:?}");
        assert!(!skipped.reason.contains('\u{1b}'));
    }
}

#[tokio::test]
async fn whoever_asks_for_a_bad_entry_gets_its_reason() {
    let mirror = Mirror::new();
    let bad = entry("2.0.0", "x.tar.gz", ",\"sha256\":\"123\"");
    mirror.server.put(INDEX, format!("{{\"schema\":1,\"releases\":[{bad}]}}"));
    let error = http(&mirror).release("2.0.0").await.unwrap_err();
    assert!(matches!(error, FetchError::Entry { .. }), "{error:?}");
    assert!(error.to_string().contains("64 hexadecimal"), "{error}");
    assert_eq!(http(&mirror).release("3.0.0").await.unwrap(), None);
}

#[tokio::test]
async fn another_platforms_broken_asset_is_not_ours_to_judge() {
    let (_mirror, listing) = listing(
        "{\"version\":\"1.0.0\",\"assets\":[{\"os\":\"windows\"},{\"os\":\"linux\",\"arch\":\"amd64\",\
         \"archive\":\"x.tar.gz\"},7]}",
    )
    .await;
    assert_eq!((listing.releases.len(), listing.skipped.len()), (1, 0));
}

#[tokio::test]
async fn a_document_that_is_no_index_is_refused_whole() {
    for (content, found) in [
        ("", "no JSON"),
        ("<html>not found</html>", "no JSON"),
        ("{\"schema\":1,\"releases\":[", "no JSON"),
        ("[]", "no schema"),
        ("{\"releases\":[]}", "no schema"),
        ("{\"schema\":2,\"releases\":[]}", "schema \"2\""),
        ("{\"schema\":\"1\",\"releases\":[]}", "schema"),
        ("{\"schema\":1}", "no list"),
        ("{\"schema\":1,\"releases\":{}}", "no list"),
    ] {
        let mirror = Mirror::new();
        mirror.server.put(INDEX, content);
        let error = http(&mirror).releases().await.unwrap_err();
        assert!(matches!(error, FetchError::Index { .. }), "{content}: {error:?}");
        assert!(error.to_string().contains(found), "{content}: {error}");
        assert!(error.to_string().contains(&mirror.server.url_of(INDEX)), "{error}");
    }
}

#[tokio::test]
async fn deep_nesting_is_refused_and_not_followed() {
    let mirror = Mirror::new();
    mirror.server.put(INDEX, "[".repeat(1 << 20));
    let error = http(&mirror).releases().await.unwrap_err();
    assert!(matches!(error, FetchError::Index { .. }), "{error:?}");
}

#[tokio::test]
async fn an_index_that_is_not_there_is_missing() {
    let error = http(&Mirror::new()).releases().await.unwrap_err();
    assert!(matches!(error, FetchError::Missing { .. }), "{error:?}");
}

#[tokio::test]
async fn an_empty_index_offers_nothing() {
    let (_mirror, listing) = listing("").await;
    assert_eq!(listing, Listing::default());
}

#[tokio::test]
async fn templates_name_the_companions_that_an_entry_does_not() {
    let mirror = Mirror::new();
    let releases =
        [entry("1.0.0", "a.tar.gz", ""), entry("2.0.0", "b.tar.gz", ",\"bundle\":\"own.json\"")].join(",");
    mirror.server.put(INDEX, format!("{{\"schema\":1,\"releases\":[{releases}]}}"));
    let templates = Templates {
        archive: "http://unused.example/{version}".to_owned(),
        checksum: Some("{archive}.sha256".to_owned()),
        bundle: Some("{archive}.sigstore.json".to_owned()),
    };
    let index = Some(mirror.server.url_of(INDEX));
    let http = Http::new(HttpSettings { index, templates: Some(templates), ..mirror.settings() }).unwrap();
    for (path, content) in [
        ("/feed/a.tar.gz", "a"),
        ("/feed/a.tar.gz.sha256", "a sum"),
        ("/feed/a.tar.gz.sigstore.json", "a bundle"),
        ("/feed/b.tar.gz", "b"),
        ("/feed/b.tar.gz.sha256", "b sum"),
        ("/feed/own.json", "b's own"),
    ] {
        mirror.server.put(path, content);
    }
    let bring = async |version| {
        let release = http.release(version).await.unwrap().unwrap();
        http.download(&release, mirror.partial.path(), &|_, _| {}).await.unwrap()
    };
    let one = bring("1.0.0").await;
    assert_eq!(one.checksum, Some(("a.tar.gz.sha256".to_owned(), b"a sum".to_vec())));
    assert_eq!(one.bundle, Some(b"a bundle".to_vec()));
    assert_eq!(bring("2.0.0").await.bundle, Some(b"b's own".to_vec()));
}
