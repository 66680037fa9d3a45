//! One HTTP request, with every wait bounded and every redirect judged.
//!
//! Redirects are followed by hand: only so can each hop be held to the rules (few, and never from https to http,
//! where anyone on the way could write the answer), be named in the error, and be kept from the credentials.
//! Certificates are judged by the platform's own store, since operators install the CA of their mirror there
//! (docs/adr/0003), and by the file that the configuration adds to it. A machine without any can still use plain
//! http: what comes is trusted for its signature, not for its way.

use std::{error::Error, io, path::PathBuf, sync::Arc, time::SystemTime};

use reqwest::{
    Method, Response, StatusCode, Url,
    header::{self, HeaderMap, HeaderValue},
};
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider, pki_types::CertificateDer};
use tokio::sync::Mutex;

use crate::{
    authorities::read_authorities,
    credentials::Credentials,
    error::{FetchError, Waiting, quoted, shown},
    limits::{Proxy, Timeouts},
    retry::parse_retry_after,
};

/// The most redirects that are followed.
const HOPS: usize = 5;

/// How servers are reached.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) timeouts: Timeouts,
    pub(crate) proxy: Proxy,
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) credentials: Option<Credentials>,
}

#[derive(Debug)]
pub(crate) struct Client {
    /// For http. It trusts no certificate, so it can be had on every machine.
    plain: reqwest::Client,
    /// For http with credentials: what may not leave the machine in the clear goes through no proxy.
    direct: reqwest::Client,
    /// For https, once it was asked for: only then are roots read, and missed. What could not be made is tried
    /// again, since a file that is missing at boot can be there an hour later.
    secure: Mutex<Option<reqwest::Client>>,
    provider: Arc<CryptoProvider>,
    way: Way,
}

/// An answer with its headers read and its body to come.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Where the redirects led.
    pub(crate) url: Url,
    pub(crate) response: Response,
}

impl Client {
    pub(crate) fn new(way: Way) -> Result<Self, FetchError> {
        let provider = CryptoProvider::get_default().cloned().ok_or(FetchError::NoProvider)?;
        let http = |proxy: &Proxy| {
            let tls = trusting_nobody(&provider).map_err(|fault| FetchError::Client(fault.into()))?;
            build(tls, way.timeouts, proxy).map_err(|fault| FetchError::Client(fault.into()))
        };
        let (plain, direct) = (http(&way.proxy)?, http(&Proxy::Direct)?);
        Ok(Self { plain, direct, secure: Mutex::default(), provider, way })
    }

    /// Asks for `url` and waits for the answer's headers. Any status is an answer, a followed redirect is not.
    /// Credentials go along as long as every hop is to the server that was asked first.
    pub(crate) async fn ask(
        &self,
        method: Method,
        url: &Url,
        fields: HeaderMap,
    ) -> Result<Answer, FetchError> {
        let mut url = url.clone();
        let mut credentials = self.way.credentials.as_ref();
        for _ in 0..=HOPS {
            let secret = match credentials.filter(|credentials| credentials.are_for(&url)) {
                Some(credentials) => Some(credentials.read().await?),
                None => None,
            };
            let response = self.ask_once(method.clone(), &url, fields.clone(), secret).await?;
            let Some(next) = redirect(&url, &response)? else { return Ok(Answer { url, response }) };
            if next.origin() != url.origin() {
                credentials = None;
            }
            url = next;
        }
        Err(FetchError::Redirect { to: "yet another URL".to_owned(), expected: FEW, url: shown(&url) })
    }

    async fn ask_once(
        &self,
        method: Method,
        url: &Url,
        mut fields: HeaderMap,
        secret: Option<HeaderValue>,
    ) -> Result<Response, FetchError> {
        let Timeouts { connect, first_byte, .. } = self.way.timeouts;
        let http = match (url.scheme(), &secret) {
            ("https", _) => self.secure(url).await?,
            (_, None) => self.plain.clone(),
            (_, Some(_)) => self.direct.clone(),
        };
        fields.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        fields.extend(secret.map(|secret| (header::AUTHORIZATION, secret)));
        let request = http.request(method, url.clone()).headers(fields);
        match tokio::time::timeout(connect + first_byte, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(fault)) => Err(self.explain(url, fault)),
            Err(_) => {
                let waiting = Waiting::Answer;
                Err(FetchError::TimedOut { url: shown(url), waiting, limit: connect + first_byte })
            }
        }
    }

    async fn secure(&self, url: &Url) -> Result<reqwest::Client, FetchError> {
        let mut made = self.secure.lock().await;
        if let Some(client) = &*made {
            return Ok(client.clone());
        }
        let authorities = match &self.way.authorities {
            Some(path) => read_authorities(path).await?,
            None => vec![],
        };
        let no_roots = |fault: rustls::Error| FetchError::NoRoots { url: shown(url), source: fault.into() };
        let tls = trusting_the_platform(&self.provider, authorities).map_err(no_roots)?;
        let client = build(tls, self.way.timeouts, &self.way.proxy)
            .map_err(|fault| FetchError::Client(fault.into()))?;
        Ok(made.insert(client).clone())
    }

    fn explain(&self, url: &Url, fault: reqwest::Error) -> FetchError {
        let url = shown(url);
        let source = Box::new(fault.without_url());
        if source.is_timeout() {
            let (waiting, limit) = (Waiting::Connection, self.way.timeouts.connect);
            return FetchError::TimedOut { url, waiting, limit };
        }
        if causes(&*source).any(is_tls) {
            return FetchError::Untrusted { url, source };
        }
        if let Some(fault) = causes(&*source).find_map(|cause| cause.downcast_ref::<hyper::Error>())
            && fault.is_parse()
        {
            let found = causes(fault).map(ToString::to_string).collect::<Vec<_>>().join(": ");
            return FetchError::Answer { url, expected: "an HTTP answer".to_owned(), found };
        }
        if source.is_connect() {
            let proxy = match &self.way.proxy {
                Proxy::Through(proxy) => proxy.parse().ok().map(|proxy| shown(&proxy)),
                Proxy::Direct | Proxy::FromEnvironment => None,
            };
            FetchError::Connect { url, proxy, source }
        } else {
            FetchError::CutShort { url, received: 0, expected: None, source: Some(source) }
        }
    }
}

fn build(mut tls: ClientConfig, timeouts: Timeouts, proxy: &Proxy) -> reqwest::Result<reqwest::Client> {
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(timeouts.connect)
        .user_agent(concat!("myriarch-updater/", env!("CARGO_PKG_VERSION")));
    match proxy {
        Proxy::FromEnvironment => builder.build(),
        Proxy::Direct => builder.no_proxy().build(),
        Proxy::Through(proxy) => builder.proxy(reqwest::Proxy::all(proxy)?).build(),
    }
}

fn trusting_nobody(provider: &Arc<CryptoProvider>) -> Result<ClientConfig, rustls::Error> {
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(provider)).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn trusting_the_platform(
    provider: &Arc<CryptoProvider>,
    authorities: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, rustls::Error> {
    let verifier =
        rustls_platform_verifier::Verifier::new_with_extra_roots(authorities, Arc::clone(provider))?;
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(provider)).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

const FEW: &str = "at most 5 redirects";

/// Where `response` sends us, if it does and if that may be followed.
fn redirect(url: &Url, response: &Response) -> Result<Option<Url>, FetchError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let error = |expected: &str, found: String| FetchError::Answer {
        url: shown(url),
        expected: expected.to_owned(),
        found,
    };
    let location = text_of(response.headers(), &header::LOCATION)
        .ok_or_else(|| error("a redirect that says where to", "one without a location".to_owned()))?;
    let next = url.join(location).map_err(|_| error("a redirect to a URL", quoted(location)))?;
    match may_follow(url, &next) {
        Ok(()) => Ok(Some(next)),
        Err(expected) => Err(FetchError::Redirect { url: shown(url), to: shown(&next), expected }),
    }
}

fn may_follow(from: &Url, to: &Url) -> Result<(), &'static str> {
    match (from.scheme(), to.scheme()) {
        (_, "https") | ("http", "http") => Ok(()),
        ("https", "http") => Err("to stay on https"),
        _ => Err("to stay on http or https"),
    }
}

/// The error for an answer that is none of those expected.
pub(crate) fn unexpected(url: &Url, response: &Response) -> FetchError {
    if response.status() == StatusCode::NOT_FOUND {
        return FetchError::Missing { location: shown(url) };
    }
    let retry_after = text_of(response.headers(), &header::RETRY_AFTER)
        .and_then(|value| parse_retry_after(value, SystemTime::now()));
    FetchError::Status { url: shown(url), status: response.status().as_u16(), retry_after }
}

/// A header field as text, if it is there and is text.
pub(crate) fn text_of<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // An I/O error that wraps another does not count it among its causes.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn is_tls(error: &(dyn Error + 'static)) -> bool {
    error.is::<rustls::Error>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_never_leaves_https_for_http() {
        for (from, to, allowed) in [
            ("http://a/", "http://b/", true),
            ("http://a/", "https://b/", true),
            ("https://a/", "https://b/", true),
            ("https://a/", "http://a/", false),
            ("http://a/", "file:///etc/passwd", false),
            ("https://a/", "ftp://b/", false),
            ("http://a/", "data:text/plain,x", false),
        ] {
            let judged = may_follow(&from.parse().unwrap(), &to.parse().unwrap());
            assert_eq!(judged.is_ok(), allowed, "{from} → {to}: {judged:?}");
        }
    }
}
