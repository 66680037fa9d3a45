//! Each way of failing has its own words, is tried again only where that can help, and weakens no check.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use myriarch_fetch::{FetchError, Http, HttpSettings, Templates, Waiting};
use myriarch_tests::server::Lie;

use crate::mirror::{ARCHIVE, BUNDLE, CHECKSUM, Mirror, SIGNED, SUM, noise, whole};

fn status(code: u16) -> Lie {
    Lie::Status { code, retry_after: None }
}

/// The fault of the last try, and the number of tries.
fn last(error: FetchError) -> (FetchError, u32) {
    match error {
        FetchError::GaveUp { tries, last } => (*last, tries),
        error => (error, 1),
    }
}

#[tokio::test]
async fn an_honest_server_is_believed() {
    let mirror = Mirror::holding(b"archive");
    let download = mirror.bring(&mirror.http()).await.unwrap();
    assert_eq!(whole(&download), b"archive");
    assert_eq!(download.file_name, "otelcol_0.158.0_linux_amd64.tar.gz");
    let name = "otelcol_0.158.0_linux_amd64.tar.gz.sha256".to_owned();
    assert_eq!(download.checksum, Some((name, SUM.into())));
    assert_eq!(download.bundle, Some(SIGNED.into()));
}

#[tokio::test]
async fn a_companion_that_fails_is_never_left_out() {
    for path in [CHECKSUM, BUNDLE] {
        let mirror = Mirror::holding(b"archive");
        for lie in [
            status(500),
            status(403),
            status(401),
            status(410),
            status(204),
            status(206),
            status(304),
            Lie::CloseBeforeAnswer,
            Lie::Stall { after: None },
            Lie::Stall { after: Some(3) },
            Lie::Truncate { after: 3 },
            Lie::Length(100),
            Lie::ChunkedTruncate { after: 3 },
            Lie::Garbage,
            Lie::HugeHeaders(4 << 20),
            Lie::Redirect { code: 302, to: "file:///dev/null".to_owned() },
            Lie::Redirect { code: 302, to: path.to_owned() },
        ] {
            mirror.server.honest(path);
            mirror.server.lie(path, lie.clone());
            let brought = mirror.bring(&mirror.once()).await;
            assert!(brought.is_err(), "{path} with {lie:?} gave {brought:?}");
        }
    }
}

#[tokio::test]
async fn a_checksum_file_that_is_named_must_be_there_and_a_bundle_may_be_absent() {
    let mirror = Mirror::holding(b"archive");
    mirror.server.remove(BUNDLE);
    let download = mirror.bring(&mirror.once()).await.unwrap();
    assert!(download.checksum.is_some() && download.bundle.is_none(), "{download:?}");

    mirror.server.remove(CHECKSUM);
    let error = mirror.bring(&mirror.once()).await.unwrap_err();
    assert!(matches!(error, FetchError::NoChecksum { .. }), "{error:?}");
    assert!(error.to_string().contains(&mirror.server.url_of(CHECKSUM)), "{error}");
    assert!(!error.hint().is_empty());
}

#[tokio::test]
async fn a_checksum_file_that_an_index_names_must_be_there() {
    let mirror = Mirror::holding(b"archive");
    mirror.server.put(
        "/index.json",
        format!(
            r#"{{"schema":1,"releases":[{{"version":"1.0.0","assets":[{{"os":"linux","arch":"amd64",
                "archive":"{ARCHIVE}","checksum":"/gone"}}]}}]}}"#
        ),
    );
    let http = mirror.indexed();
    let release = http.release("1.0.0").await.unwrap().unwrap();
    let error = http.download(&release, mirror.partial.path(), &|_, _| {}).await.unwrap_err();
    assert!(matches!(error, FetchError::NoChecksum { .. }), "{error:?}");
    assert_eq!(mirror.ranges().len(), 0, "no archive is moved for nothing");
}

#[tokio::test]
async fn a_fault_that_may_pass_is_tried_again() {
    for lie in [
        Lie::CloseBeforeAnswer,
        Lie::Stall { after: None },
        Lie::Truncate { after: 2 },
        status(500),
        status(503),
        status(429),
    ] {
        let mirror = Mirror::holding(b"archive");
        mirror.server.lie_times(ARCHIVE, 3, lie.clone());
        let download = mirror.bring(&mirror.http()).await.unwrap();
        assert_eq!(whole(&download), b"archive", "{lie:?}");
        assert_eq!(mirror.ranges().len(), 4, "{lie:?}");
    }
}

#[tokio::test]
async fn but_not_for_ever() {
    let mirror = Mirror::holding(b"archive");
    mirror.server.lie(ARCHIVE, Lie::CloseBeforeAnswer);
    let (fault, tries) = last(mirror.bring(&mirror.http()).await.unwrap_err());
    assert!(matches!(fault, FetchError::CutShort { received: 0, .. }), "{fault:?}");
    assert_eq!((tries, mirror.ranges().len()), (4, 4));
}

#[tokio::test]
async fn a_fault_that_stays_is_not_tried_again() {
    for code in [400, 401, 403, 404, 410, 418, 501] {
        let mirror = Mirror::holding(b"archive");
        mirror.server.lie(ARCHIVE, status(code));
        let error = mirror.bring(&mirror.http()).await.unwrap_err();
        match error {
            FetchError::Missing { .. } => assert_eq!(code, 404),
            FetchError::Status { status, .. } => assert_eq!(code, status),
            other => panic!("{code}: {other:?}"),
        }
        assert_eq!(mirror.ranges().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn silence_ends_in_an_error_that_says_what_was_waited_for() {
    let mirror = Mirror::holding(&noise(10_000, 1));
    for (lie, expected) in [
        (Lie::Stall { after: None }, Waiting::Answer),
        (Lie::Stall { after: Some(0) }, Waiting::Bytes),
        (Lie::Stall { after: Some(5_000) }, Waiting::Bytes),
    ] {
        mirror.server.honest(ARCHIVE);
        mirror.server.lie(ARCHIVE, lie);
        let begin = Instant::now();
        let error = mirror.bring(&mirror.once()).await.unwrap_err();
        assert!(matches!(error, FetchError::TimedOut { waiting, .. } if waiting == expected), "{error:?}");
        assert!(begin.elapsed() < Duration::from_secs(3));
    }
}

#[tokio::test]
async fn a_server_that_names_its_time_is_obeyed() {
    let mirror = Mirror::holding(b"archive");
    mirror.server.lie_times(ARCHIVE, 1, Lie::Status { code: 429, retry_after: Some("1".to_owned()) });
    let begin = Instant::now();
    mirror.bring(&mirror.http()).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_server_that_wants_too_long_a_wait_is_left_alone() {
    let mirror = Mirror::holding(b"archive");
    mirror.server.lie(ARCHIVE, Lie::Status { code: 503, retry_after: Some("86400".to_owned()) });
    let begin = Instant::now();
    let error = mirror.bring(&mirror.http()).await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert!(matches!(error, FetchError::Status { status: 503, .. }), "{error:?}");
    assert!(error.hint().contains("86400 s"), "{}", error.hint());
    assert_eq!(mirror.ranges().len(), 1);
}

#[tokio::test]
async fn a_refused_connection_says_so() {
    let mirror = Mirror::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let templates =
        Templates { archive: format!("http://{nobody}/x_{{version}}.tar.gz"), checksum: None, bundle: None };
    let http = Http::new(HttpSettings { templates: Some(templates), ..mirror.settings() }).unwrap();
    let (fault, tries) = last(mirror.bring(&http).await.unwrap_err());
    assert!(matches!(fault, FetchError::Connect { .. }), "{fault:?}");
    assert_eq!(tries, 4);
    assert!(fault.chain().contains("refused"), "{}", fault.chain());
    assert!(fault.to_string().contains(&nobody.to_string()));
}

#[tokio::test]
async fn something_that_is_not_http_is_named() {
    let mirror = Mirror::holding(b"archive");
    mirror.server.lie(ARCHIVE, Lie::Garbage);
    let error = mirror.bring(&mirror.http()).await.unwrap_err();
    assert!(matches!(error, FetchError::Answer { .. }), "{error:?}");
    assert_eq!(mirror.ranges().len(), 1);
}

#[tokio::test]
async fn a_length_that_is_a_lie_is_found_out() {
    let archive = noise(100_000, 1);
    let mirror = Mirror::holding(&archive);
    mirror.server.lie(ARCHIVE, Lie::Length(200_000));
    let error = mirror.bring(&mirror.once()).await.unwrap_err();
    assert!(
        matches!(error, FetchError::CutShort { received: 100_000, expected: Some(200_000), .. }),
        "{error:?}"
    );
    let mirror = Mirror::holding(&archive);
    mirror.server.lie(ARCHIVE, Lie::ChunkedTruncate { after: 50_000 });
    let error = mirror.bring(&mirror.once()).await.unwrap_err();
    assert!(matches!(error, FetchError::CutShort { .. }), "{error:?}");
}

#[tokio::test]
async fn bytes_behind_the_announced_end_are_not_taken() {
    let archive = noise(100_000, 1);
    let mirror = Mirror::holding(&archive);
    mirror.server.lie(ARCHIVE, Lie::Length(60_000));
    let download = mirror.bring(&mirror.once()).await.unwrap();
    assert_eq!(whole(&download), archive[..60_000]);
}

#[tokio::test]
async fn a_body_without_a_length_is_taken() {
    for lie in [Lie::Chunked, Lie::Unsized] {
        let archive = noise(200_000, 1);
        let mirror = Mirror::holding(&archive);
        mirror.server.lie(ARCHIVE, lie);
        for _ in 0..2 {
            assert_eq!(whole(&mirror.bring(&mirror.http()).await.unwrap()), archive);
        }
    }
}

#[tokio::test]
async fn redirects_are_followed_with_the_range_and_the_name_asked_for() {
    let archive = noise(100_000, 1);
    let mirror = Mirror::new();
    mirror.server.put("/blob/4711", archive.clone());
    mirror.server.lie("/hop", Lie::Redirect { code: 307, to: mirror.server.url_of("/blob/4711") });
    mirror.server.lie(ARCHIVE, Lie::Redirect { code: 302, to: "/hop".to_owned() });
    mirror.server.lie_times("/blob/4711", 1, Lie::Truncate { after: 40_000 });
    let download = mirror.bring(&mirror.http()).await.unwrap();
    assert_eq!(whole(&download), archive);
    assert_eq!(download.file_name, "otelcol_0.158.0_linux_amd64.tar.gz");
    let asked = mirror.server.requests_for("/blob/4711");
    assert_eq!(asked[1].header("range"), Some("bytes=40000-"));
}

#[tokio::test]
async fn redirects_that_lead_nowhere_are_refused() {
    for (to, words) in [
        (ARCHIVE, "at most 5 redirects"),
        ("file:///etc/passwd", "to stay on http or https"),
        ("http://[", "a redirect to a URL"),
    ] {
        let mirror = Mirror::new();
        mirror.server.lie(ARCHIVE, Lie::Redirect { code: 301, to: to.to_owned() });
        let error = mirror.bring(&mirror.http()).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(mirror.ranges().len() <= 6);
    }
}

#[tokio::test]
async fn errors_have_no_secrets() {
    let mirror = Mirror::new();
    let host = mirror.server.url().replace("http://", "");
    let templates = Templates {
        archive: format!("http://me:secret@{host}/x_{{version}}.tar.gz?token=secret"),
        checksum: None,
        bundle: None,
    };
    let http = Http::new(HttpSettings { templates: Some(templates), ..mirror.settings() }).unwrap();
    let path = "/x_0.158.0.tar.gz?token=secret";
    for lie in [
        status(404),
        status(500),
        Lie::CloseBeforeAnswer,
        Lie::Stall { after: None },
        Lie::Garbage,
        Lie::Redirect { code: 302, to: "ftp://me:secret@x/?secret".to_owned() },
    ] {
        mirror.server.honest(path);
        mirror.server.lie(path, lie.clone());
        let error = mirror.bring(&http).await.unwrap_err();
        assert!(!error.chain().contains("secret"), "{lie:?}: {}", error.chain());
        assert!(error.chain().contains("/x_0.158.0.tar.gz"), "{lie:?}: {}", error.chain());
    }
    assert!(!http.locate("0.158.0").unwrap().location.contains("secret"));
    let asked = mirror.server.requests_for(path);
    assert_eq!(asked[0].header("authorization"), Some("Basic bWU6c2VjcmV0"));
}

#[tokio::test]
async fn every_error_has_a_hint() {
    let mirror = Mirror::new();
    for code in [401, 404, 429, 500] {
        mirror.server.lie_times(ARCHIVE, 1, status(code));
        let error = mirror.bring(&mirror.once()).await.unwrap_err();
        assert!(!error.hint().is_empty());
        assert!(error.to_string().contains(&mirror.server.url_of(ARCHIVE)), "{error}");
    }
}
