//! A download goes on where it stood, and never sews two files together.

use std::{fs, os::unix::fs::symlink, time::Duration};

use crate::mirror::{ARCHIVE, Mirror, noise, read, release, whole};
use myriarch_fetch::{FetchError, Http};
use myriarch_tests::server::{Etag, Lie};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn an_interrupted_download_goes_on_where_it_stood() {
    let archive = noise(3 * MIB, 1);
    let mirror = Mirror::holding(&archive);
    mirror.server.lie_times(ARCHIVE, 1, Lie::Truncate { after: 2 << 20 });
    let cut = mirror.bring(&mirror.once()).await.unwrap_err();
    assert!(
        matches!(cut, FetchError::CutShort { received: 2_097_152, expected: Some(3_145_728), .. }),
        "{cut:?}"
    );
    let download = mirror.bring(&mirror.once()).await.unwrap();
    assert_eq!(whole(&download), archive);
    assert_eq!(download.resumed_from, 2 << 20);
    assert_eq!(mirror.ranges(), [None, Some("bytes=2097152-".to_owned())]);
}

#[tokio::test]
async fn one_call_resumes_by_itself() {
    let archive = noise(3 * MIB, 1);
    let mirror = Mirror::holding(&archive);
    mirror.server.lie_times(ARCHIVE, 1, Lie::Truncate { after: 100_000 });
    mirror.server.lie_times(ARCHIVE, 1, Lie::Stall { after: Some(100_000) });
    mirror.server.lie_times(ARCHIVE, 1, Lie::CloseBeforeAnswer);
    let download = mirror.bring(&mirror.http()).await.unwrap();
    assert_eq!(whole(&download), archive);
    assert_eq!(download.resumed_from, 0);
    let ranges = [None, Some("bytes=100000-"), Some("bytes=200000-"), Some("bytes=200000-")];
    assert_eq!(mirror.ranges(), ranges.map(|range| range.map(str::to_owned)));
}

#[tokio::test]
async fn a_line_that_breaks_again_and_again_still_gets_there() {
    let archive = noise(4 * MIB, 2);
    let mirror = Mirror::holding(&archive);
    mirror.server.lie(ARCHIVE, Lie::Truncate { after: 1 << 20 });
    let mut settings = mirror.settings();
    settings.retries.times = 1;
    let download = mirror.bring(&Http::new(settings).unwrap()).await.unwrap();
    assert_eq!(whole(&download), archive);
    assert_eq!(mirror.ranges().len(), 4);
}

#[tokio::test]
async fn a_line_that_gets_nowhere_is_given_up() {
    let mirror = Mirror::holding(&noise(MIB, 2));
    mirror.server.lie(ARCHIVE, Lie::Truncate { after: 1000 });
    let error = mirror.bring(&mirror.http()).await.unwrap_err();
    assert!(matches!(error, FetchError::GaveUp { tries: 4, .. }), "{error:?}");
    assert_eq!(mirror.ranges().len(), 4);
}

#[tokio::test]
async fn a_file_that_changed_in_between_begins_anew() {
    let (old, new) = (noise(2 * MIB, 3), noise(2 * MIB, 4));
    let mirror = Mirror::holding(&old);
    mirror.server.lie_times(ARCHIVE, 1, Lie::TruncateThenChange { after: 1 << 20, to: new.clone() });
    let download = mirror.bring(&mirror.http()).await.unwrap();
    assert!(whole(&download) == new, "two files were sewn together");
    assert_eq!(mirror.ranges(), [None, Some("bytes=1048576-".to_owned())]);
}

#[tokio::test]
async fn a_file_that_changes_all_the_time_is_given_up() {
    let mirror = Mirror::holding(&noise(2 * MIB, 3));
    for seed in 4..11 {
        mirror.server.lie_times(
            ARCHIVE,
            1,
            Lie::TruncateThenChange { after: 1 << 20, to: noise(2 * MIB, seed) },
        );
    }
    let error = mirror.bring(&mirror.http()).await.unwrap_err();
    assert!(matches!(error, FetchError::GaveUp { .. }), "{error:?}");
    assert!(mirror.ranges().len() < 8);
}

#[tokio::test]
async fn without_a_strong_validator_nothing_is_resumed() {
    for etag in [Etag::Weak, Etag::Absent, Etag::Fixed("unquoted".to_owned())] {
        let archive = noise(2 * MIB, 5);
        let mirror = Mirror::holding(&archive);
        mirror.server.etag(ARCHIVE, etag.clone());
        mirror.server.lie_times(ARCHIVE, 1, Lie::Truncate { after: 1 << 20 });
        let download = mirror.bring(&mirror.http()).await.unwrap();
        assert_eq!(whole(&download), archive);
        assert_eq!(mirror.ranges(), [None, None], "{etag:?}");
    }
}

#[tokio::test]
async fn a_complete_download_is_only_asked_after() {
    let archive = noise(2 * MIB, 6);
    let mirror = Mirror::holding(&archive);
    mirror.bring(&mirror.http()).await.unwrap();
    let again = mirror.bring(&mirror.http()).await.unwrap();
    assert_eq!(whole(&again), archive);
    assert_eq!(again.resumed_from, 2_097_151);
    assert_eq!(mirror.ranges(), [None, Some("bytes=2097151-".to_owned())]);
}

#[tokio::test]
async fn a_complete_download_counts_only_while_the_server_has_that_length() {
    let (old, new) = (noise(2 * MIB, 7), noise(3 * MIB, 8));
    let mirror = Mirror::holding(&old);
    // A server whose entity tag does not change with the file.
    mirror.server.etag(ARCHIVE, Etag::Fixed("\"always\"".to_owned()));
    mirror.bring(&mirror.http()).await.unwrap();
    mirror.server.put(ARCHIVE, new.clone());
    let download = mirror.bring(&mirror.http()).await.unwrap();
    assert!(whole(&download) == new, "a stale download was kept");

    mirror.server.remove(ARCHIVE);
    let error = mirror.bring(&mirror.http()).await.unwrap_err();
    assert!(matches!(error, FetchError::Missing { .. }), "{error:?}");
}

#[tokio::test]
async fn a_part_that_does_not_fit_is_not_sewn_on() {
    for lie in [
        Lie::WrongRange { start: 5 },
        Lie::WrongRange { start: (1 << 20) + 10 },
        Lie::OtherEtagInRange,
        Lie::Unsatisfiable,
        Lie::IgnoreRange,
        Lie::Length(1),
        Lie::Length(2 << 20),
    ] {
        let archive = noise(2 * MIB, 9);
        let mirror = Mirror::holding(&archive);
        mirror.server.lie_times(ARCHIVE, 1, Lie::Truncate { after: 1 << 20 });
        mirror.server.lie_times(ARCHIVE, 1, lie.clone());
        let download = mirror.bring(&mirror.http()).await.unwrap();
        assert!(whole(&download) == archive, "{lie:?}");
        let rest = Some("bytes=1048576-".to_owned());
        match lie {
            // The whole is no lie about a part: it is taken at once.
            Lie::IgnoreRange => assert_eq!(mirror.ranges(), [None, rest], "{lie:?}"),
            _ => assert_eq!(mirror.ranges(), [None, rest, None], "{lie:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_that_never_answers_ranges_rightly_does_not_wedge_the_next_run() {
    let archive = noise(2 * MIB, 9);
    let mirror = Mirror::holding(&archive);
    mirror.server.lie_times(ARCHIVE, 1, Lie::Truncate { after: 1 << 20 });
    mirror.server.lie_times(ARCHIVE, 1, Lie::WrongRange { start: 5 });
    mirror.bring(&mirror.once()).await.unwrap_err();
    let unfit = mirror.bring(&mirror.once()).await.unwrap_err();
    assert!(matches!(unfit, FetchError::Unfit { .. }), "{unfit:?}");
    assert_eq!(whole(&mirror.bring(&mirror.once()).await.unwrap()), archive);
}

#[tokio::test]
async fn an_origin_that_cannot_be_read_begins_anew() {
    let archive = noise(2 * MIB, 10);
    for damage in ["", "{", "{\"schema\":2}", "null", "{\"schema\":1,\"resource\":\"x\",\"etag\":\"y\"}"] {
        let mirror = Mirror::holding(&archive);
        mirror.server.lie_times(ARCHIVE, 1, Lie::Truncate { after: 1 << 20 });
        mirror.bring(&mirror.once()).await.unwrap_err();
        let files = mirror.partial_files();
        let origin = files.iter().find(|path| path.extension().is_some_and(|ext| ext == "origin")).unwrap();
        fs::write(origin, damage).unwrap();
        assert_eq!(whole(&mirror.bring(&mirror.once()).await.unwrap()), archive);
        assert_eq!(mirror.ranges(), [None, None], "{damage:?}");
    }
}

#[tokio::test]
async fn another_downloads_origin_does_not_count() {
    let archive = noise(2 * MIB, 10);
    let mirror = Mirror::holding(&archive);
    let other = "/otelcol_0.159.0_linux_amd64.tar.gz";
    mirror.server.put(other, archive.clone());
    mirror.server.put(&format!("{other}.sha256"), "sum");
    mirror.bring(&mirror.once()).await.unwrap();
    let http = mirror.once();
    let newer = http.locate("0.159.0").unwrap();
    let before = mirror.partial_files();
    let first = http.download(&newer, mirror.partial.path(), &|_, _| {}).await.unwrap();
    // The older version's pair under the newer one's names.
    fs::copy(&before[0], &first.archive).unwrap();
    fs::copy(&before[1], first.archive.with_extension("gz.origin")).unwrap();
    let again = http.download(&newer, mirror.partial.path(), &|_, _| {}).await.unwrap();
    assert_eq!(again.resumed_from, 0);
}

#[tokio::test]
async fn a_link_in_the_partial_directory_is_never_written_through() {
    let archive = noise(MIB, 11);
    let mirror = Mirror::holding(&archive);
    let place = mirror.bring(&mirror.once()).await.unwrap().archive;
    let victim = mirror.partial.path().join("victim");
    for link in [symlink::<_, &std::path::Path>, |from, to: &std::path::Path| fs::hard_link(from, to)] {
        fs::write(&victim, "precious").unwrap();
        fs::remove_file(&place).unwrap();
        link(&victim, &place).unwrap();
        assert_eq!(whole(&mirror.bring(&mirror.once()).await.unwrap()), archive);
        assert_eq!(read(&victim), b"precious");
    }
}

#[tokio::test]
async fn a_server_chooses_no_path() {
    let mirror = Mirror::new();
    let name = "/a%20%24%28id%29%3B..%E2%82%AC.tar.gz";
    mirror.server.put(name, "x");
    mirror.server.put(
        "/index.json",
        format!(
            "{{\"schema\":1,\"releases\":[{{\"version\":\"1.0.0\",\"assets\":[{{\"os\":\"linux\",\"arch\":\"amd64\",\
             \"archive\":\"{name}\"}}]}}]}}"
        ),
    );
    let http = mirror.indexed();
    let release = http.release("1.0.0").await.unwrap().unwrap();
    assert_eq!(release.file_name, "a $(id);..€.tar.gz");
    let download = http.download(&release, mirror.partial.path(), &|_, _| {}).await.unwrap();
    assert_eq!(download.archive.parent(), Some(mirror.partial.path()));
    let on_disk = download.archive.file_name().unwrap().to_str().unwrap();
    assert!(on_disk.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{on_disk}");
}

#[tokio::test]
async fn a_download_that_was_dropped_is_resumed() {
    let archive = noise(4 * MIB, 12);
    let mirror = Mirror::holding(&archive);
    mirror.server.lie_times(ARCHIVE, 1, Lie::Stall { after: Some(3 << 20) });
    let http = mirror.once();
    let dropped = tokio::time::timeout(Duration::from_millis(200), mirror.bring(&http)).await;
    assert!(dropped.is_err(), "the stall is longer than that");
    let download = mirror.bring(&http).await.unwrap();
    assert_eq!(whole(&download), archive);
    assert!(download.resumed_from > 0);
}

#[tokio::test]
async fn two_downloads_never_write_one_file() {
    let mirror = Mirror::holding(&noise(MIB, 13));
    let http = mirror.once();
    let place = mirror.bring(&http).await.unwrap().archive;
    let held = fs::File::open(&place).unwrap();
    held.lock().unwrap();
    let release = release(&http);
    let error = http.download(&release, mirror.partial.path(), &|_, _| {}).await.unwrap_err();
    assert!(matches!(error, FetchError::Busy { .. }), "{error:?}");
}

#[tokio::test]
async fn a_discarded_download_begins_anew() {
    let archive = noise(MIB, 14);
    let mirror = Mirror::holding(&archive);
    myriarch_fetch::discard(&mirror.bring(&mirror.once()).await.unwrap().archive).unwrap();
    assert!(mirror.partial_files().is_empty());
    mirror.bring(&mirror.once()).await.unwrap();
    assert_eq!(mirror.ranges(), [None, None]);
    assert_eq!(myriarch_fetch::clean(mirror.partial.path()).unwrap(), 2);
    assert!(mirror.partial_files().is_empty());
}
