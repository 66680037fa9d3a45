//! What does not fit on the disk is not begun.

use std::{fs, os::unix::fs::FileExt as _};

use myriarch_fetch::{Directory, DirectorySettings, FetchError, Http, HttpSettings, Limits, Outstanding};
use myriarch_tests::server::Lie;

use crate::mirror::{ARCHIVE, Mirror, noise, release};

/// More than any disk that this is tested on.
const HUGE: u64 = 1 << 50;

fn boundless(mirror: &Mirror) -> Http {
    let limits = Limits { archive: u64::MAX, ..Limits::default() };
    Http::new(HttpSettings { limits, ..mirror.settings() }).unwrap()
}

#[tokio::test]
async fn an_archive_that_does_not_fit_is_refused_before_its_first_byte() {
    let mirror = Mirror::new();
    mirror.server.put_repeated(ARCHIVE, b'x', HUGE);
    // Announced in whole, sent in no way that could fill a disk.
    mirror.server.lie(ARCHIVE, Lie::Truncate { after: 100 });
    let error = mirror.bring(&boundless(&mirror)).await.unwrap_err();
    assert!(matches!(error, FetchError::NoRoom { expected: HUGE, .. }), "{error:?}");
    assert!(error.hint().contains("free space"), "{}", error.hint());
    assert_eq!(mirror.ranges().len(), 1, "more of the same does not help");
    assert_eq!(fs::metadata(&mirror.partial_files()[0]).unwrap().len(), 0);
}

#[tokio::test]
async fn the_rest_of_an_archive_that_does_not_fit_is_refused_and_what_is_there_kept() {
    let mirror = Mirror::new();
    mirror.server.put_repeated(ARCHIVE, b'x', HUGE);
    mirror.server.lie_times(ARCHIVE, 1, Lie::Length(100_000));
    let http = boundless(&mirror);
    mirror.bring(&http).await.unwrap();
    // The origin says what the server's length is in truth.
    let origin = mirror.partial_files().pop().unwrap();
    let text = fs::read_to_string(&origin).unwrap().replace("100000", &HUGE.to_string());
    fs::write(&origin, text).unwrap();
    mirror.server.lie(ARCHIVE, Lie::Truncate { after: 100 });
    let error = mirror.bring(&http).await.unwrap_err();
    assert!(matches!(error, FetchError::NoRoom { expected, .. } if expected == HUGE - 100_000), "{error:?}");
    assert_eq!(fs::metadata(&mirror.partial_files()[0]).unwrap().len(), 100_000);
}

#[tokio::test]
async fn a_directory_is_not_copied_where_it_does_not_fit() {
    let (share, partial) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let index = r#"{"schema":1,"releases":[{"version":"1.0.0","assets":[{"os":"linux","arch":"amd64","archive":"x.tar.gz"}]}]}"#;
    fs::write(share.path().join("index.json"), index).unwrap();
    // A file that has a length and next to no bytes: as large as the disk and some more.
    let disk = rustix::fs::statvfs(partial.path()).unwrap();
    let length = (disk.f_blocks + 1) * disk.f_frsize;
    let sparse = fs::File::create(share.path().join("x.tar.gz")).unwrap();
    sparse.set_len(length).unwrap();
    sparse.write_all_at(b"begin", 0).unwrap();
    let limits = Limits { archive: u64::MAX, ..Limits::default() };
    let settings =
        DirectorySettings { arch: "amd64".to_owned(), limits, ..DirectorySettings::at(share.path()) };
    let source = Directory::new(settings).unwrap();
    let release = source.release("1.0.0").await.unwrap().unwrap();
    let known = source.outstanding(&release, partial.path()).await.unwrap();
    assert_eq!((known.archive, known.here), (Some(length), 0));
    let told = |received, _| assert!(received < 1 << 20, "the copy was begun");
    let error = source.download(&release, partial.path(), &told).await.unwrap_err();
    assert!(matches!(error, FetchError::NoRoom { expected, .. } if expected == length), "{error:?}");
    assert_eq!(fs::read_dir(partial.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_is_still_to_come_is_known_beforehand() {
    let mirror = Mirror::holding(&noise(1000, 1));
    let http = mirror.once();
    let outstanding = async || {
        let known = http.outstanding(&release(&http), mirror.partial.path()).await.unwrap();
        (known.archive, known.here)
    };
    assert_eq!(outstanding().await, (Some(1000), 0));
    mirror.server.lie_times(ARCHIVE, 1, Lie::Truncate { after: 400 });
    mirror.bring(&http).await.unwrap_err();
    assert_eq!(outstanding().await, (Some(1000), 400));

    // A server that does not say is no fault: the download will tell.
    for lie in [Lie::Status { code: 403, retry_after: None }, Lie::CloseBeforeAnswer, Lie::Chunked] {
        mirror.server.honest(ARCHIVE);
        mirror.server.lie(ARCHIVE, lie);
        assert_eq!(outstanding().await, (None, 400));
    }

    // What the index says needs no question.
    let asked = mirror.server.requests_for(ARCHIVE).len();
    mirror.server.put(
        "/index.json",
        format!(
            r#"{{"schema":1,"releases":[{{"version":"0.158.0","assets":[{{"os":"linux","arch":"amd64","archive":"{ARCHIVE}","size":4711}}]}}]}}"#
        ),
    );
    let http = mirror.indexed();
    let release = http.release("0.158.0").await.unwrap().unwrap();
    let known = http.outstanding(&release, mirror.partial.path()).await.unwrap();
    let file = mirror.partial_files().swap_remove(0);
    assert_eq!(known, Outstanding { archive: Some(4711), here: 400, file });
    assert_eq!(mirror.server.requests_for(ARCHIVE).len(), asked);
}
