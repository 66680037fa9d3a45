//! A process without a TLS provider is told so. Alone in its process, since the provider is the process's own.

use myriarch_fetch::{FetchError, Http, HttpSettings};

#[test]
fn without_a_tls_provider_the_error_names_the_call_that_is_missing() {
    let settings = || HttpSettings {
        index: Some("http://127.0.0.1:9/index.json".to_owned()),
        ..HttpSettings::default()
    };
    let error = Http::new(settings()).unwrap_err();
    assert!(matches!(error, FetchError::NoProvider), "{error:?}");
    assert!(error.hint().contains("aws_lc_rs::default_provider().install_default()"), "{}", error.hint());

    rustls::crypto::aws_lc_rs::default_provider().install_default().unwrap();
    Http::new(settings()).unwrap();
}
