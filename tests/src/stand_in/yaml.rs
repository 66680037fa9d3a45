//! The part of YAML that collectors and supervisors are configured in: block maps and lists, plain and quoted
//! scalars, `[a, b]`, `{}`, comments. Scalars stay text.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Reads `text`; a document that holds nothing is an empty map.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let mut lines = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = without_comment(raw);
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed == "---" {
            continue;
        }
        if raw.starts_with('\t') {
            return Err(format!("line {}: found a tab", index + 1));
        }
        lines.push((line.len() - line.trim_start().len(), trimmed.to_owned()));
    }
    let mut rest = lines.as_slice();
    let value = block(&mut rest, 0)?;
    match rest.first() {
        Some((_, line)) => Err(format!("unexpected {line:?}")),
        None => Ok(value),
    }
}

/// Writes `value` as the collector's library does: sorted keys, four blanks, lists indented.
pub(crate) fn emit(value: &Value) -> String {
    let mut text = String::new();
    write_block(value, 0, &mut text);
    text
}

/// Lays `over` upon `base`: maps are merged, anything else is replaced.
pub(crate) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Replaces `${env:NAME}` and `${env:NAME:-default}`.
pub(crate) fn expand(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${env:") {
        let Some((inside, after)) = after.split_once('}') else { break };
        let (name, default) = inside.split_once(":-").unwrap_or((inside, ""));
        out.push_str(before);
        out.push_str(&std::env::var(name).unwrap_or_else(|_| default.to_owned()));
        rest = after;
    }
    out + rest
}

type Lines<'a> = &'a [(usize, String)];

fn block(lines: &mut Lines<'_>, least: usize) -> Result<Value, String> {
    match lines.first() {
        Some((indent, line)) if *indent >= least => {
            if line == "-" || line.starts_with("- ") {
                list(lines, *indent)
            } else {
                map(lines, *indent)
            }
        }
        _ => Ok(Value::Null),
    }
}

fn map(lines: &mut Lines<'_>, indent: usize) -> Result<Value, String> {
    let mut map = Map::new();
    while let Some(((at, line), rest)) = lines.split_first() {
        if *at != indent || line.starts_with("- ") {
            break;
        }
        let (key, value) = match line.split_once(": ") {
            Some((key, value)) => (key, value.trim()),
            None => (line.strip_suffix(':').ok_or_else(|| format!("expected `key:`, found {line:?}"))?, ""),
        };
        *lines = rest;
        let value = if value.is_empty() {
            // A list may stand at the indentation of its key.
            let listed = lines.first().is_some_and(|(at, line)| *at == indent && line.starts_with("- "));
            block(lines, if listed { indent } else { indent + 1 })?
        } else {
            scalar(value)
        };
        map.insert(unquoted(key), value);
    }
    Ok(Value::Object(map))
}

fn list(lines: &mut Lines<'_>, indent: usize) -> Result<Value, String> {
    let mut items = Vec::new();
    while let Some(((at, line), rest)) = lines.split_first() {
        let Some(item) = line.strip_prefix("- ").filter(|_| *at == indent) else { break };
        let mut mapped = vec![(indent + 2, item.trim().to_owned())];
        let is_map = item.ends_with(':') || item.contains(": ") && !item.starts_with(['"', '\'', '[', '{']);
        if is_map {
            let more = rest.iter().take_while(|(at, _)| *at > indent).count();
            let (own, after) = rest.split_at(more);
            mapped.extend_from_slice(own);
            *lines = after;
            let mut inner = mapped.as_slice();
            items.push(map(&mut inner, indent + 2)?);
        } else {
            *lines = rest;
            items.push(scalar(item.trim()));
        }
    }
    Ok(Value::Array(items))
}

fn scalar(text: &str) -> Value {
    if let Some(inside) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        let items = inside.split(',').map(str::trim).filter(|item| !item.is_empty());
        return Value::Array(items.map(scalar).collect());
    }
    if text == "{}" {
        return Value::Object(Map::new());
    }
    Value::String(unquoted(text))
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some(inside) = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)) {
            return inside.to_owned();
        }
    }
    text.to_owned()
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.split_once(" #").map_or(line, |(before, _)| before).trim_end()
}

fn write_block(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        _ = writeln!(text, "{pad}{key}:");
                        write_block(value, indent + 4, text);
                    }
                    Value::Array(inner) if !inner.is_empty() => {
                        _ = writeln!(text, "{pad}{key}:");
                        write_block(value, indent + 4, text);
                    }
                    other => _ = writeln!(text, "{pad}{key}: {}", flow(other)),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Object(inner) if !inner.is_empty() => {
                        let mut nested = String::new();
                        write_block(item, indent + 2, &mut nested);
                        _ = write!(text, "{pad}- {}", nested.trim_start());
                    }
                    other => _ = writeln!(text, "{pad}- {}", flow(other)),
                }
            }
        }
        other => _ = writeln!(text, "{pad}{}", flow(other)),
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Object(_) => "{}".into(),
        Value::Array(_) => "[]".into(),
        Value::String(text) if text.is_empty() => "\"\"".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
