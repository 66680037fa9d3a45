//! An index that did not change is not sent again, and one that did is never missed.

use myriarch_fetch::{FetchError, Http};
use myriarch_tests::server::{Etag, Lie, Server};

use crate::mirror::Mirror;

const INDEX: &str = "/index.json";

fn index(version: &str) -> String {
    format!(
        r#"{{"schema":1,"releases":[{{"version":"{version}","assets":[{{"os":"linux","arch":"amd64","archive":"x.tar.gz"}}]}}]}}"#
    )
}

async fn versions(http: &Http) -> Vec<String> {
    http.releases().await.unwrap().into_iter().map(|release| release.version).collect()
}

/// The conditions that were sent for the index.
fn conditions(mirror: &Mirror) -> Vec<bool> {
    let asked = mirror.server.requests_for(INDEX);
    asked.iter().map(|request| request.header("if-none-match").is_some()).collect()
}

#[tokio::test]
async fn an_index_is_asked_for_by_its_tag_and_read_anew_when_it_changed() {
    let mirror = Mirror::new();
    for etag in [Etag::OfContent, Etag::Weak] {
        let http = mirror.indexed();
        mirror.server.etag(INDEX, etag);
        mirror.server.put(INDEX, index("1.0.0"));
        assert_eq!(versions(&http).await, ["1.0.0"]);
        assert_eq!(versions(&http).await, ["1.0.0"]);
        mirror.server.put(INDEX, index("2.0.0"));
        assert_eq!(versions(&http).await, ["2.0.0"]);
        assert_eq!(versions(&http).await, ["2.0.0"]);
    }
    assert_eq!(conditions(&mirror), [false, true, true, true, false, true, true, true]);
}

#[tokio::test]
async fn what_is_known_counts_only_while_the_server_says_so() {
    let mirror = Mirror::new();
    let http = mirror.indexed();
    mirror.server.put(INDEX, index("1.0.0"));
    versions(&http).await;
    for code in [403, 404, 500, 204, 304] {
        mirror.server.honest(INDEX);
        mirror.server.lie(INDEX, Lie::Status { code, retry_after: None });
        assert!(http.releases().await.is_err(), "{code}");
    }
    mirror.server.honest(INDEX);
    mirror.server.lie(INDEX, Lie::CloseBeforeAnswer);
    assert!(http.releases().await.is_err());
    mirror.server.honest(INDEX);
    assert_eq!(versions(&http).await, ["1.0.0"]);
}

#[tokio::test]
async fn not_modified_without_having_been_asked_is_no_answer() {
    let mirror = Mirror::new();
    mirror.server.lie(INDEX, Lie::Status { code: 304, retry_after: None });
    let error = mirror.indexed().releases().await.unwrap_err();
    assert!(matches!(error, FetchError::Status { status: 304, .. }), "{error:?}");
}

#[tokio::test]
async fn what_is_no_index_is_not_remembered() {
    let mirror = Mirror::new();
    let http = mirror.indexed();
    // Cut in the middle without a length, as a proxy does, under the tag of the whole.
    mirror.server.put(INDEX, &index("1.0.0").as_bytes()[..40]);
    mirror.server.etag(INDEX, Etag::Fixed("\"the whole\"".to_owned()));
    mirror.server.lie_times(INDEX, 1, Lie::Unsized);
    let error = http.releases().await.unwrap_err();
    assert!(matches!(error, FetchError::Index { .. }), "{error:?}");
    mirror.server.put(INDEX, index("1.0.0"));
    assert_eq!(versions(&http).await, ["1.0.0"]);
    assert_eq!(conditions(&mirror), [false, false]);
}

#[tokio::test]
async fn another_servers_not_modified_says_nothing() {
    let (mirror, other) = (Mirror::new(), Server::start());
    let http = mirror.indexed();
    let same = Etag::Fixed("\"1\"".to_owned());
    mirror.server.put(INDEX, index("1.0.0"));
    mirror.server.etag(INDEX, same.clone());
    assert_eq!(versions(&http).await, ["1.0.0"]);
    other.put("/moved.json", index("2.0.0"));
    other.etag("/moved.json", same);
    mirror.server.lie(INDEX, Lie::Redirect { code: 302, to: other.url_of("/moved.json") });
    assert_eq!(versions(&http).await, ["2.0.0"]);
    assert_eq!(other.requests_for("/moved.json").len(), 2);
}

#[tokio::test]
async fn a_large_index_is_read_but_not_kept() {
    let mirror = Mirror::new();
    let http = mirror.indexed();
    mirror.server.put(INDEX, index("1.0.0") + &" ".repeat(1 << 20));
    versions(&http).await;
    versions(&http).await;
    assert_eq!(conditions(&mirror), [false, false]);
}
