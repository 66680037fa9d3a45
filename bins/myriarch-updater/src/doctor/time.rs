//! Time: certificates are judged by it, so a clock that is far off refuses good releases or takes bad ones.

use std::{fs, io};

use jiff::{Timestamp, ToSpan as _};
use myriarch_cli::doctor::Finding;
use myriarch_update::journal::Journal;
use myriarch_verify::TrustedRoot;
use serde_json::Value;

use super::Host;

/// A trusted root older than this may lack a log or an authority that signers use by now, in days.
const OLD: i64 = 400;

/// A clock can be wrong without a sign; what cannot be later than now shows it.
pub(crate) fn clock(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "clock";
    let now = Timestamp::now();
    let hint = "set the clock, and let it be kept (`timedatectl set-ntp true`, or chrony)";
    let built = std::env::current_exe().and_then(fs::metadata).and_then(|metadata| metadata.modified());
    let built = built.ok().and_then(|time| Timestamp::try_from(time).ok());
    let lines = host.store.as_ref().and_then(|store| Journal::at(store.journal_path()).lines().ok());
    let last = lines.and_then(|lines| lines.last().map(|line| line.at));
    let slack = 1.hour();
    for (what, then) in [("this program was installed", built), ("the journal was last written", last)] {
        if let Some(then) = then
            && now.checked_add(slack).is_ok_and(|now| now < then)
        {
            return vec![Finding::problem(
                CHECK,
                format!("it says {now:.0}, and yet {what} at {then:.0}"),
                hint,
            )];
        }
    }
    vec![Finding::ok(CHECK, format!("it says {now:.0}, later than anything here"))]
}

pub(crate) fn trusted_roots(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "trusted root";
    let mut found = Vec::new();
    for rule in &host.config.trust.keyless {
        let (text, name) = match &rule.trusted_root {
            None => (Ok(TrustedRoot::BuiltIn.json().to_owned()), "the built-in trusted root".to_owned()),
            Some(path) => (fs::read_to_string(path), path.display().to_string()),
        };
        let finding = match text {
            Ok(text) => judge(CHECK, &name, &text, Timestamp::now()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Finding::unseen(CHECK, format!("{name}: may not be read by this user"))
            }
            Err(error) => Finding::problem(
                CHECK,
                format!("{name}: {error}"),
                "name a readable trusted_root.json, or leave the key out for the built-in root",
            ),
        };
        if !found.contains(&finding) {
            found.push(finding);
        }
    }
    found
}

/// By the time for which its authorities and logs say that they are valid.
fn judge(check: &str, name: &str, text: &str, now: Timestamp) -> Finding {
    let hint =
        "bring a newer trusted_root.json (trust.keyless.trusted_root), or a newer version of this program";
    let Ok(document) = serde_json::from_str::<Value>(text) else {
        return Finding::problem(check, format!("{name}: expected JSON, found something else"), hint);
    };
    for (kind, at) in [("certificateAuthorities", "/validFor"), ("tlogs", "/publicKey/validFor")] {
        let all = document.get(kind).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let times = |key: &str, entry: &Value| {
            entry.pointer(&format!("{at}/{key}")).and_then(Value::as_str)?.parse::<Timestamp>().ok()
        };
        let valid = |entry: &&Value| {
            times("start", entry).is_none_or(|start| start <= now)
                && times("end", entry).is_none_or(|end| now < end)
        };
        if !all.iter().any(|entry| valid(&entry)) {
            return Finding::problem(
                check,
                format!("{name}: none of its {} {kind} is valid at {now:.0}", all.len()),
                hint,
            );
        }
    }
    let mut starts = Vec::new();
    starts_in(&document, &mut starts);
    match starts.into_iter().filter(|start| *start <= now).max() {
        Some(newest) if now.duration_since(newest).as_hours() / 24 > OLD => Finding::warning(
            check,
            format!(
                "{name}: the newest thing in it is of {newest:.0}; signers may use logs that it does not know"
            ),
            hint,
        ),
        _ => Finding::ok(check, format!("{name} is valid now")),
    }
}

/// Every `validFor.start`, wherever it is.
fn starts_in(value: &Value, starts: &mut Vec<Timestamp>) {
    match value {
        Value::Object(map) => {
            let start = map.get("validFor").and_then(|valid| valid.get("start")).and_then(Value::as_str);
            starts.extend(start.and_then(|start| start.parse::<Timestamp>().ok()));
            map.values().for_each(|value| starts_in(value, starts));
        }
        Value::Array(all) => all.iter().for_each(|value| starts_in(value, starts)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use myriarch_cli::doctor::Level;

    use super::*;

    fn level(text: &str, now: &str) -> Level {
        judge("trusted root", "root.json", text, now.parse().unwrap()).level
    }

    #[test]
    fn a_root_is_judged_by_what_is_valid_in_it() {
        let root = r#"{"tlogs":[{"publicKey":{"validFor":{"start":"2026-01-01T00:00:00Z"}}}],
            "certificateAuthorities":[{"validFor":{"start":"2025-01-01T00:00:00Z","end":"2028-01-01T00:00:00Z"}}]}"#;
        assert_eq!(level(root, "2026-06-01T00:00:00Z"), Level::Ok);
        assert_eq!(level(root, "2027-12-01T00:00:00Z"), Level::Warning, "old");
        assert_eq!(level(root, "2028-06-01T00:00:00Z"), Level::Problem, "over");
        assert_eq!(level(root, "2024-06-01T00:00:00Z"), Level::Problem, "not begun");
        assert_eq!(level("{}", "2026-06-01T00:00:00Z"), Level::Problem);
        assert_eq!(level("<html>", "2026-06-01T00:00:00Z"), Level::Problem);
    }

    #[test]
    fn the_built_in_root_is_valid() {
        assert_ne!(level(TrustedRoot::BuiltIn.json(), "2026-11-01T00:00:00Z"), Level::Problem);
    }
}
