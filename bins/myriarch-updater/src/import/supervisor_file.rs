//! The one scalar of a supervisor's configuration that names the collector, found and replaced in place.
//!
//! People write such files by hand, with comments and an order of their own. So nothing is written anew: the
//! bytes of the scalar are replaced, and the result is read again to see that nothing else means anything else.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

/// Where the collector is named.
const POINTER: &str = "/agent/executable";

#[derive(Deserialize)]
struct Document {
    agent: Agent,
}

#[derive(Deserialize)]
struct Agent {
    executable: Spanned<String>,
}

/// The collector as a supervisor's configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executable {
    /// The value, `${env:…}` not replaced.
    pub(crate) value: String,
    /// Its bytes in the text, quotes included.
    pub(crate) range: Range<usize>,
}

/// What `text` names as the collector; none where it is no supervisor's configuration.
pub(crate) fn executable(text: &str) -> Option<Executable> {
    let Document { agent: Agent { executable } } = serde_saphyr::from_str(text).ok()?;
    let span = executable.defined.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let line_end = text[start..].find('\n').map_or(text.len(), |end| start + end);
    let written = text.get(start..line_end)?;
    let length = match written.chars().next()? {
        quote @ ('"' | '\'') => written[1..].find(quote)? + 2,
        _ => plain_length(written),
    };
    Some(Executable { value: executable.value, range: start..start + length })
}

/// `text` with the collector named `program`; none where that cannot be done by these bytes alone.
pub(crate) fn with_executable(text: &str, program: &str) -> Option<String> {
    replace(text, &scalar(program), program)
}

/// As [`with_executable`], with the very bytes that stood there before.
pub(crate) fn with_written(text: &str, written: &str) -> Option<String> {
    let mut value: Value = serde_saphyr::from_str(&format!("agent:\n  executable: {written}\n")).ok()?;
    let program = value.pointer_mut(POINTER)?.as_str()?.to_owned();
    replace(text, written, &program)
}

/// The name of the variable, where the whole value is one: `${env:NAME}`, a default aside.
pub(crate) fn variable(value: &str) -> Option<&str> {
    let inside = value.strip_prefix("${")?.strip_suffix('}')?;
    let inside = inside.strip_prefix("env:").unwrap_or(inside);
    let name = inside.split_once(":-").map_or(inside, |(name, _)| name);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

/// The value with every `${env:NAME}` replaced, a default taken where there is no such variable.
pub(crate) fn expanded(value: &str, variable: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, after)) = after.split_once('}') else { break };
        let inside = inside.strip_prefix("env:").unwrap_or(inside);
        let (name, default) = inside.split_once(":-").unwrap_or((inside, ""));
        out.push_str(before);
        out.push_str(&variable(name).unwrap_or_else(|| default.to_owned()));
        rest = after;
    }
    out + rest
}

fn replace(text: &str, written: &str, value: &str) -> Option<String> {
    let found = executable(text)?;
    let mut replaced = text.to_owned();
    replaced.replace_range(found.range, written);
    let read = |text: &str| serde_saphyr::from_str::<Value>(text).ok();
    let mut expected = read(text)?;
    *expected.pointer_mut(POINTER)? = Value::String(value.to_owned());
    (read(&replaced)? == expected).then_some(replaced)
}

/// A path as YAML.
fn scalar(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.starts_with('/') && path.chars().all(plain) {
        return path.to_owned();
    }
    Value::String(path.to_owned()).to_string()
}

/// A plain scalar ends where a comment begins, or with its line.
fn plain_length(written: &str) -> usize {
    let end = written.find(" #").or_else(|| written.find("\t#")).unwrap_or(written.len());
    let in_flow = written[..end].find([',', '}']).filter(|_| !written.starts_with("${"));
    written[..in_flow.unwrap_or(end)].trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "/opt/myriarch/otelcol/current/bin/otelcol";

    #[test]
    fn only_the_scalars_bytes_change() {
        for (before, written) in [
            ("agent:\n  executable: /usr/bin/otelcol\n  args: [a]\n", "/usr/bin/otelcol"),
            ("# ü\nagent:\n    executable:   /usr/bin/otelcol   # the one\n", "/usr/bin/otelcol"),
            ("agent:\n  executable: \"/usr/bin/otelcol\" # x\nserver: {}\n", "\"/usr/bin/otelcol\""),
            ("agent:\n  executable: '/usr/bin/otelcol'", "'/usr/bin/otelcol'"),
            ("agent: {executable: /usr/bin/otelcol, args: []}\n", "/usr/bin/otelcol"),
            ("agent:\r\n  executable: /usr/bin/otelcol\r\n", "/usr/bin/otelcol"),
            ("agent:\n  executable: ${env:DIR}/otelcol\n", "${env:DIR}/otelcol"),
        ] {
            let after = with_executable(before, NEW).unwrap_or_else(|| panic!("{before}"));
            assert_eq!(after, before.replace(written, NEW));
            assert_eq!(executable(&after).unwrap().value, NEW);
            assert_eq!(with_written(&after, written).unwrap(), before);
        }
    }

    #[test]
    fn what_cannot_be_done_by_these_bytes_alone_is_not_done() {
        for text in [
            "server: {}\n",
            "agent: &a\n  executable: /x\nother: *a\n",
            "agent:\n  executable: [a]\n",
            "<html>",
        ] {
            assert_eq!(with_executable(text, NEW), None, "{text}");
        }
    }

    #[test]
    fn a_variable_is_known_and_replaced() {
        assert_eq!(variable("${env:COLLECTOR_EXE}"), Some("COLLECTOR_EXE"));
        assert_eq!(variable("${EXE:-/usr/bin/otelcol}"), Some("EXE"));
        for other in ["/usr/bin/otelcol", "${env:DIR}/otelcol", "${file:/x}", "${}"] {
            assert_eq!(variable(other), None, "{other}");
        }
        let known = |name: &str| (name == "DIR").then(|| "/usr/bin".to_owned());
        assert_eq!(expanded("${env:DIR}/otelcol", known), "/usr/bin/otelcol");
        assert_eq!(expanded("${env:EXE:-/usr/bin/a}", known), "/usr/bin/a");
    }
}
