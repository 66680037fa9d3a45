//! A proxy that is configured is used for everything, and named when it is the trouble.

use myriarch_fetch::{FetchError, Http, HttpSettings, Proxy, Templates};
use myriarch_tests::proxy;

use crate::mirror::{Mirror, whole};

/// A name that nobody but the proxy knows.
const HOST: &str = "releases.example:80";

fn through(mirror: &Mirror, proxy: String) -> Http {
    let archive = "http://releases.example/x_{version}.tar.gz".to_owned();
    let templates = Some(Templates { archive, checksum: None, bundle: None });
    Http::new(HttpSettings { templates, proxy: Proxy::Through(proxy), ..mirror.settings() }).unwrap()
}

fn mirror() -> Mirror {
    let mirror = Mirror::new();
    mirror.server.put("/x_0.158.0.tar.gz", "archive");
    mirror
}

#[tokio::test]
async fn plain_http_goes_through_the_proxy_that_is_configured() {
    let mirror = mirror();
    let proxy = proxy::Proxy::knowing(&[(HOST, mirror.server.address())]);
    let download = mirror.bring(&through(&mirror, proxy.url())).await.unwrap();
    assert_eq!(whole(&download), b"archive");
    assert!(proxy.asked()[0].starts_with("GET http://releases.example/x_0.158.0.tar.gz "));
}

#[tokio::test]
async fn user_and_password_of_the_proxy_are_for_the_proxy() {
    let mirror = mirror();
    let proxy = proxy::Proxy::with_key(&[(HOST, mirror.server.address())], "Basic bWU6czNjcmV0");
    let url = format!("http://me:s3cret@{}", proxy.address());
    mirror.bring(&through(&mirror, url)).await.unwrap();
    assert_eq!(mirror.server.requests()[0].header("authorization"), None);

    let error = mirror.bring(&through(&mirror, proxy.url())).await.unwrap_err();
    assert!(matches!(error, FetchError::Status { status: 407, .. }), "{error:?}");
    assert!(error.hint().contains("source.proxy"), "{}", error.hint());
}

#[tokio::test]
async fn a_proxy_that_does_not_answer_is_named_without_its_password() {
    let mirror = mirror();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let http = through(&mirror, format!("http://me:s3cret@{nobody}"));
    let error = mirror.bring(&http).await.unwrap_err();
    let chain = error.chain();
    assert!(chain.contains(&format!("could not connect through the proxy http://{nobody}/")), "{chain}");
    assert!(!chain.contains("s3cret") && error.hint().contains("proxy"), "{chain}");
}
