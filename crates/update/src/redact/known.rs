//! What is known to be secret, by the name that it stands under.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

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
    "pwd",
];

/// Ends of a name that make it look like the place of a secret instead.
const PLACES: &[&str] = &["file", "path", "dir", "directory", "url", "endpoint"];

/// What a URL cannot hold as it is (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

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

/// Every text that stands under a key that looks secret, however deep. What is no YAML is read line by line.
pub(super) fn of_configuration(text: &str) -> Vec<String> {
    let mut found = vec![];
    match serde_saphyr::from_str::<Value>(text) {
        Ok(document) => collect(&document, false, &mut found),
        Err(_) => {
            for line in text.lines() {
                if let Some((key, value)) = line.split_once(':')
                    && looks_secret(key)
                {
                    found.push(value.trim().trim_matches(['"', '\'']).to_owned());
                }
            }
        }
    }
    found
}

fn collect(value: &Value, is_secret: bool, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                collect(value, is_secret || looks_secret(key), found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, is_secret, found)),
        Value::String(text) if is_secret => found.push(text.clone()),
        Value::Number(number) if is_secret => found.push(number.to_string()),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// The names in `${env:NAME}`, `${NAME}` and `${env:NAME:-default}`.
pub(super) fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split("${").skip(1).filter_map(|rest| {
        let (inside, _) = rest.split_once('}')?;
        let name = inside.strip_prefix("env:").unwrap_or(inside);
        Some(name.split(":-").next().unwrap_or(name))
    })
}

/// The ways in which programs write a text: as it is, as in JSON and Go's quotes, as in a URL.
pub(super) fn spellings(secret: &str) -> Vec<String> {
    let mut spellings = vec![secret.to_owned()];
    if let Ok(quoted) = serde_json::to_string(secret) {
        spellings.push(quoted[1..quoted.len() - 1].to_owned());
    }
    spellings.push(utf8_percent_encode(secret, RESERVED).to_string());
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
        assert_eq!(of_configuration(text), ["one", "2", "three"]);
        assert_eq!(of_configuration("password: 'five'\nnot: [closed"), ["five"]);
        assert_eq!(variables("a ${env:B} ${C} ${env:D:-e} ${").collect::<Vec<_>>(), ["B", "C", "D"]);
    }
}
