//! Where a collector answers for its health, read from its configuration.

use serde_json::Value;

use crate::import::supervisor_file::expanded;

/// Where the `health_check` extension listens unless told otherwise.
const DEFAULT: &str = "localhost:13133";

/// The health endpoint that a configuration opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Its URL, as this machine reaches it.
    pub(crate) url: String,
    /// The key that says so, with its value.
    pub(crate) said: String,
}

/// The endpoint of the extension that `service.extensions` starts; none where none is started or it needs TLS.
pub(crate) fn endpoint(text: &str, variable: impl Fn(&str) -> Option<String>) -> Option<Endpoint> {
    let document: Value = serde_saphyr::from_str(&expanded(text, variable)).ok()?;
    let started = document.pointer("/service/extensions")?.as_array()?;
    let mut names = started.iter().filter_map(Value::as_str);
    names.find_map(|name| {
        let options = document.get("extensions")?.get(name).unwrap_or(&Value::Null);
        match name.split('/').next()? {
            "health_check" => first_version(name, options),
            "healthcheckv2" => second_version(name, options),
            _ => None,
        }
    })
}

fn first_version(name: &str, options: &Value) -> Option<Endpoint> {
    let endpoint = options.get("endpoint").and_then(Value::as_str);
    let path = options.get("path").and_then(Value::as_str).unwrap_or("/");
    let said = match endpoint {
        Some(endpoint) => format!("extensions.{name}.endpoint = {endpoint:?}"),
        None => format!("extensions.{name} without an endpoint, which is {DEFAULT}"),
    };
    plain(options).then(|| Endpoint { url: url(endpoint.unwrap_or(DEFAULT), path), said })
}

fn second_version(name: &str, options: &Value) -> Option<Endpoint> {
    let Some(http) = options.get("http") else {
        return first_version(name, options);
    };
    let endpoint = http.get("endpoint").and_then(Value::as_str).unwrap_or(DEFAULT);
    let path = http.pointer("/status/path").and_then(Value::as_str).unwrap_or("/status");
    let said = format!("extensions.{name}.http.endpoint = {endpoint:?}");
    plain(http).then(|| Endpoint { url: url(endpoint, path), said })
}

/// A probe speaks plain HTTP alone.
fn plain(options: &Value) -> bool {
    options.get("tls").is_none_or(Value::is_null)
}

/// From inside this machine, an endpoint on every address is one on loopback.
fn url(endpoint: &str, path: &str) -> String {
    let (host, port) = endpoint.rsplit_once(':').unwrap_or((endpoint, "13133"));
    let host = match host {
        "" | "0.0.0.0" | "localhost" => "127.0.0.1",
        "[::]" => "[::1]",
        other => other,
    };
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("http://{host}:{port}{slash}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        endpoint(text, |name| (name == "HOST").then(|| "10.0.0.1".to_owned())).map(|found| found.url)
    }

    #[test]
    fn the_extension_that_is_started_is_the_one_that_answers() {
        let config = |extension: &str, options: &str| {
            format!(
                "extensions:\n  zpages:\n  {extension}:{options}\nservice:\n  extensions: [zpages, {extension}]\n"
            )
        };
        for (extension, options, url) in [
            ("health_check", "", "http://127.0.0.1:13133/"),
            ("health_check", "\n    endpoint: 0.0.0.0:13144", "http://127.0.0.1:13144/"),
            ("health_check/own", "\n    endpoint: \"[::]:1\"\n    path: health", "http://[::1]:1/health"),
            ("health_check", "\n    endpoint: ${env:HOST}:13133", "http://10.0.0.1:13133/"),
            ("health_check", "\n    endpoint: ${env:NOBODY:-127.0.0.1}:9", "http://127.0.0.1:9/"),
            (
                "healthcheckv2",
                "\n    http:\n      endpoint: localhost:5\n      status: {path: /s}",
                "http://127.0.0.1:5/s",
            ),
            ("healthcheckv2", "\n    endpoint: localhost:5", "http://127.0.0.1:5/"),
        ] {
            assert_eq!(found(&config(extension, options)).as_deref(), Some(url), "{extension}{options}");
        }
    }

    #[test]
    fn what_does_not_answer_is_not_found() {
        for text in [
            "extensions:\n  health_check: {}\nservice:\n  extensions: []\n",
            "extensions:\n  health_check:\n    tls: {cert_file: a}\nservice:\n  extensions: [health_check]\n",
            "service: {}\n",
            "<html>",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
