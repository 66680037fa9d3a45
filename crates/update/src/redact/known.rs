//! What is known to be secret, by the name that it stands under.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

/// Parts of a name that make it look secret, wherever they stand in it.
const TELLING: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "authorization",
    "apikey",
    "headers",
    "cookie",
    "bearer",
    "dsn",
    "connectionstring",
    "privatekey",
    "accesskey",
    "signature",
    "keypem",
    "pwd",
];

/// Ends of a name that make it look like the place of a secret instead.
const PLACES: &[&str] = &["file", "path", "dir", "directory", "url", "endpoint"];

/// Headers whose values are known to everybody, and stand in many words.
const HARMLESS: &[&str] = &[
    "Accept",
    "Accept-Encoding",
    "Accept-Language",
    "Cache-Control",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Type",
    "Host",
    "TE",
    "Transfer-Encoding",
    "User-Agent",
];

/// What a URL cannot hold as it is (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What Go's url.PathEscape writes otherwise.
const IN_PATH: &AsciiSet =
    &RESERVED.remove(b'$').remove(b'&').remove(b'+').remove(b'=').remove(b':').remove(b'@');

/// Whether what stands under `name` is secret. Case, dashes, dots and underscores aside.
pub(super) fn looks_secret(name: &str) -> bool {
    let words: Vec<String> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase).collect();
    let Some(last) = words.iter().rev().find(|word| !word.is_empty()) else { return false };
    if PLACES.iter().any(|place| last.ends_with(place)) {
        return false;
    }
    let joined = words.concat();
    TELLING.iter().any(|telling| joined.contains(telling)) || last.ends_with("key")
}

/// What a configuration tells.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Every text that stands under a key that looks secret, however deep.
    pub(super) secrets: Vec<String>,
    /// Texts that stand elsewhere, and in which more may be put.
    pub(super) templates: Vec<String>,
}

/// What is no YAML is read line by line.
pub(super) fn of_configuration(text: &str) -> Told {
    let mut told = Told::default();
    match serde_saphyr::from_str::<Value>(text) {
        Ok(document) => told.collect(&document, "", Position::Open),
        Err(_) => {
            for line in text.lines() {
                if let Some((key, value)) = line.split_once(':')
                    && looks_secret(key)
                {
                    told.secrets.push(value.trim().trim_matches(['"', '\'']).to_owned());
                }
            }
        }
    }
    told
}

/// All that is in a `text` that is secret as a whole: its parts, where it is a mapping or a list.
pub(super) fn of_secret(text: &str) -> Vec<String> {
    let mut told = Told::default();
    if let Ok(document @ (Value::Object(_) | Value::Array(_))) = serde_saphyr::from_str::<Value>(text) {
        told.collect(&document, "", Position::Secret);
    }
    told.secrets
}

/// Whether what is read stands under a name that looks secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Secret,
    Open,
}

impl Told {
    /// `parent` is the key that `value` stands under.
    fn collect(&mut self, value: &Value, parent: &str, position: Position) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    self.collect(value, key, position.of(map, key, parent));
                }
            }
            Value::Array(list) => list.iter().for_each(|value| self.collect(value, parent, position)),
            Value::String(text) if position == Position::Secret => self.secrets.push(text.clone()),
            Value::Number(number) if position == Position::Secret => self.secrets.push(number.to_string()),
            Value::String(text) if text.contains("${") => self.templates.push(text.clone()),
            Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }
}

impl Position {
    /// That of what stands under `key` in `map`, which stands under `parent` in this position.
    fn of(self, map: &Map<String, Value>, key: &str, parent: &str) -> Self {
        let names_another = ["value", "values", "action", "from_attribute", "from_context"];
        let names_another = map.keys().any(|key| names_another.contains(&&**key));
        let is_secret = if key.eq_ignore_ascii_case("key") {
            // In `key: host, action: insert` it is a name; beside a certificate and under `api` it is a key.
            !names_another
                && (self == Self::Secret || is_of_keys(parent) || map.keys().any(|key| is_beside_keys(key)))
        } else if is_harmless(key) {
            false
        } else {
            let named =
                || ["key", "name"].iter().filter_map(|name| map.get(*name)?.as_str()).any(looks_secret);
            self == Self::Secret || looks_secret(key) || (key.starts_with("value") && named())
        };
        if is_secret { Self::Secret } else { Self::Open }
    }
}

/// Whether a bare `key` under `parent` is one.
fn is_of_keys(parent: &str) -> bool {
    let parent = parent.to_ascii_lowercase();
    let last = parent.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    ["api", "access", "account", "auth", "encryption", "private", "shared", "signing", "ssl", "tls"]
        .contains(&last)
}

/// Whether a bare `key` beside `sibling` is one.
fn is_beside_keys(sibling: &str) -> bool {
    let sibling = sibling.to_ascii_lowercase();
    let first = sibling.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_bare = sibling == "key";
    !is_bare && (looks_secret(&sibling) || first == "ca" || first.starts_with("cert"))
}

/// Whether a header of this name tells nothing that is secret.
pub(super) fn is_harmless(header: &str) -> bool {
    HARMLESS.iter().any(|harmless| harmless.eq_ignore_ascii_case(header.trim()))
}

/// The ways in which programs write a text: as it is, as in JSON and Go's quotes, as in a URL.
pub(super) fn spellings(secret: &str) -> Vec<String> {
    let mut spellings = vec![secret.to_owned()];
    if let Ok(quoted) = serde_json::to_string(secret) {
        let quoted = &quoted[1..quoted.len() - 1];
        spellings.push(quoted.to_owned());
        // Go's encoding/json writes what could end a script so.
        spellings.push(quoted.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"));
    }
    let encoded = utf8_percent_encode(secret, RESERVED).to_string();
    // In a query, a blank is a plus (Go's url.QueryEscape).
    spellings.push(encoded.replace("%20", "+"));
    spellings.push(encoded);
    spellings.push(utf8_percent_encode(secret, IN_PATH).to_string());
    spellings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_secret_are_known_in_every_spelling() {
        for name in [
            "password",
            "DB_PASSWORD",
            "api-key",
            "apiKey",
            "API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "key",
            "Authorization",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "x.client_secret",
            "GITHUB_TOKEN",
            "credentials",
            "tokens",
            "key_pem_key",
        ] {
            assert!(looks_secret(name), "{name}");
        }
        for name in [
            "",
            "receivers",
            "endpoint",
            "key_file",
            "token_path",
            "TOKEN_URL",
            "keepalive",
            "keys",
            "monkeys",
            "HOME",
            "PATH",
        ] {
            assert!(!looks_secret(name), "{name}");
        }
    }

    #[test]
    fn secrets_of_a_configuration_are_found_however_deep() {
        let text = "a:\n  headers:\n    x: [one, {y: 2}]\n  password: three\n  user: four\n";
        assert_eq!(of_configuration(text).secrets, ["one", "2", "three"]);
        assert_eq!(of_configuration("password: 'five'\nnot: [closed").secrets, ["five"]);
        assert_eq!(of_secret("{x: [one, 2]}"), ["one", "2"]);
        assert!(of_secret("one").is_empty());
        let told = of_configuration("a: ${file:b}\nc: d\ntoken: ${E}");
        assert_eq!((told.secrets, told.templates), (vec!["${E}".to_owned()], vec!["${file:b}".to_owned()]));
    }

    #[test]
    fn a_bare_key_is_secret_where_keys_are_and_a_name_elsewhere() {
        for text in [
            "tls: {cert: c, key: secret}",
            "x: {ca_file: c, key: secret}",
            "x: {user: u, client_secret: secret, key: secret}",
            "datadog: {api: {site: s, key: secret}}",
            "headers: {key: secret}",
            "attributes: {actions: [{key: x-api-key, value: secret, action: insert}]}",
            "headers: [{name: Authorization, value: secret}]",
        ] {
            let secrets = of_configuration(text).secrets;
            assert!(secrets.contains(&"secret".to_owned()), "{text}: {secrets:?}");
        }
        for text in [
            "processors: {attributes: {actions: [{key: host}]}}",
            "actions: [{key: level, value: error, action: insert}]",
            "headers_setter: {headers: [{action: insert, key: X-Scope, from_context: tenant_id}]}",
        ] {
            let secrets = of_configuration(text).secrets;
            assert!(
                !secrets.iter().any(|s| ["host", "level", "error", "X-Scope"].contains(&&**s)),
                "{text}: {secrets:?}"
            );
        }
    }

    #[test]
    fn headers_that_everybody_knows_are_not_learned() {
        let text = "headers: {Content-Type: application/json, accept: '*/*', X-Tenant: acme}";
        assert_eq!(of_configuration(text).secrets, ["acme"]);
    }
}
