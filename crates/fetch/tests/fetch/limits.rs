//! A server decides what it sends, not what that costs.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use myriarch_fetch::{FetchError, Http, HttpSettings, Limits, Waiting};
use myriarch_tests::server::Lie;

use crate::mirror::{ARCHIVE, BUNDLE, CHECKSUM, Mirror, noise, release};

fn small(mirror: &Mirror) -> Http {
    let limits = Limits { archive: 300_000, companion: 2_000, index: 10_000 };
    Http::new(HttpSettings { limits, ..mirror.settings() }).unwrap()
}

#[tokio::test]
async fn an_archive_that_announces_too_much_is_refused_unread() {
    let mirror = Mirror::new();
    mirror.server.put_repeated(ARCHIVE, b'x', 1 << 40);
    let error = mirror.bring(&small(&mirror)).await.unwrap_err();
    assert!(
        matches!(error, FetchError::TooLarge { limit: 300_000, found: Some(1_099_511_627_776), .. }),
        "{error:?}"
    );
    assert_eq!(mirror.ranges().len(), 1);
    assert!(mirror.partial_files().is_empty());
}

#[tokio::test]
async fn an_archive_of_exactly_the_limit_is_taken() {
    let mirror = Mirror::holding(&noise(300_000, 1));
    mirror.bring(&small(&mirror)).await.unwrap();
    mirror.server.put(ARCHIVE, noise(300_001, 1));
    for lie in [None, Some(Lie::Chunked), Some(Lie::Unsized)] {
        mirror.server.honest(ARCHIVE);
        if let Some(lie) = lie {
            mirror.server.lie(ARCHIVE, lie);
        }
        let error = mirror.bring(&small(&mirror)).await.unwrap_err();
        assert!(matches!(error, FetchError::TooLarge { .. }), "{error:?}");
        assert!(mirror.partial_files().is_empty());
    }
}

#[tokio::test]
async fn an_endless_archive_ends_at_the_limit_and_leaves_nothing() {
    let mirror = Mirror::holding(b"x");
    mirror.server.lie(ARCHIVE, Lie::Endless);
    let error = mirror.bring(&small(&mirror)).await.unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { found: None, .. }), "{error:?}");
    assert_eq!(mirror.ranges().len(), 1, "more of the same does not help");
    assert!(mirror.partial_files().is_empty());
}

#[tokio::test]
async fn an_endless_companion_is_an_error_and_not_an_absent_one() {
    for path in [CHECKSUM, BUNDLE] {
        let mirror = Mirror::holding(b"archive");
        mirror.server.lie(path, Lie::Endless);
        let error = mirror.bring(&small(&mirror)).await.unwrap_err();
        assert!(matches!(error, FetchError::TooLarge { limit: 2_000, .. }), "{error:?}");
        mirror.server.honest(path);
        mirror.server.put(path, noise(2_001, 1));
        let error = mirror.bring(&small(&mirror)).await.unwrap_err();
        assert!(matches!(error, FetchError::TooLarge { found: Some(2_001), .. }), "{error:?}");
    }
}

#[tokio::test]
async fn an_endless_index_is_refused() {
    let mirror = Mirror::new();
    mirror.server.lie("/index.json", Lie::Endless);
    let error = mirror.indexed().releases().await.unwrap_err();
    assert!(matches!(error, FetchError::TooLarge { limit: 8_388_608, .. }), "{error:?}");
}

#[tokio::test]
async fn huge_headers_are_refused_and_not_asked_for_again() {
    let mirror = Mirror::holding(b"archive");
    mirror.server.lie(ARCHIVE, Lie::HugeHeaders(8 << 20));
    let error = mirror.bring(&mirror.http()).await.unwrap_err();
    assert!(matches!(error, FetchError::Answer { .. }), "{error:?}");
    assert_eq!(mirror.ranges().len(), 1);
}

#[tokio::test]
async fn a_drip_is_no_stall_but_can_be_given_a_time() {
    let archive = noise(50, 2);
    let mirror = Mirror::holding(&archive);
    mirror.server.lie(ARCHIVE, Lie::Drip { bytes: 5, every: Duration::from_millis(100) });
    let download = mirror.bring(&mirror.http()).await.unwrap();
    assert_eq!(crate::mirror::whole(&download), archive);
    myriarch_fetch::discard(&download.archive).unwrap();

    let mut settings = mirror.settings();
    settings.timeouts.archive = Some(Duration::from_millis(450));
    let begin = Instant::now();
    let error = mirror.bring(&Http::new(settings).unwrap()).await.unwrap_err();
    assert!(matches!(error, FetchError::TimedOut { waiting: Waiting::End, .. }), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(2));
    let download = mirror.bring(&mirror.http()).await.unwrap();
    assert!(download.resumed_from > 0, "what came before the end of time is kept");
}

#[tokio::test]
async fn a_companion_that_drips_is_given_up() {
    let mirror = Mirror::holding(b"archive");
    mirror.server.put(BUNDLE, noise(2_000, 2));
    mirror.server.lie(BUNDLE, Lie::Drip { bytes: 1, every: Duration::from_millis(50) });
    let mut settings = mirror.settings();
    settings.timeouts.document = Duration::from_millis(200);
    settings.retries.times = 1;
    let error = mirror.bring(&Http::new(settings).unwrap()).await.unwrap_err();
    assert!(error.chain().contains("within 200ms"), "{}", error.chain());
    assert_eq!(mirror.server.requests_for(BUNDLE).len(), 2);
}

#[tokio::test]
async fn progress_rises_to_the_total_and_is_told_ten_times_a_second_at_most() {
    let archive = noise(1 << 20, 3);
    let mirror = Mirror::holding(&archive);
    mirror.server.lie(ARCHIVE, Lie::Drip { bytes: 8 << 10, every: Duration::from_millis(3) });
    let told = Mutex::new(Vec::new());
    let http = mirror.http();
    let begin = Instant::now();
    http.download(&release(&http), mirror.partial.path(), &|received, total| {
        told.lock().unwrap().push((received, total));
    })
    .await
    .unwrap();
    let most = begin.elapsed().as_millis() / 100 + 2;
    let told = told.into_inner().unwrap();
    assert!(told.len() as u128 <= most, "{} reports", told.len());
    assert!(told.len() >= 3, "{told:?}");
    assert!(told.is_sorted_by_key(|(received, _)| *received), "{told:?}");
    assert!(told.iter().all(|(_, total)| *total == Some(1 << 20)), "{told:?}");
    assert_eq!(told.last(), Some(&(1 << 20, Some(1 << 20))));
}
