//! The supervisor's own configuration, where it would work against updates or against the way back.

use std::{io, time::Duration};

use myriarch_cli::doctor::Finding;
use myriarch_update::regular;
use serde_json::Value;

use super::Host;
use crate::import::{
    program::{expanded, variable},
    supervisor_file,
};

const CHECK: &str = "supervisor";
/// What a supervisor waits for its collector's first hello unless told otherwise.
const DEFAULT_BOOTSTRAP: Duration = Duration::from_secs(3);
/// What it should wait on a machine that is busy.
const ENOUGH: Duration = Duration::from_mins(1);

pub(crate) fn findings(host: &Host) -> Vec<Finding> {
    let Some(path) = &host.supervisor else { return vec![] };
    let shown = path.display();
    let text = match regular::text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return vec![Finding::unseen(CHECK, format!("{shown}: may not be read by this user"))];
        }
        Err(error) => {
            return vec![Finding::problem(
                CHECK,
                format!("{shown}: {error}"),
                "see the supervisor's --config",
            )];
        }
    };
    let Ok(document) = serde_saphyr::from_str::<Value>(&text) else {
        return vec![Finding::problem(
            CHECK,
            format!("{shown}: expected YAML, found something else"),
            "the supervisor will not start with it",
        )];
    };
    let mut found = Vec::new();
    let accepts = |key: &str| document.pointer(&format!("/capabilities/{key}")) == Some(&Value::Bool(true));
    if accepts("accepts_packages") {
        found.push(Finding::problem(
            CHECK,
            format!("{shown}: capabilities.accepts_packages is true: the supervisor would replace programs as well, or not start at all"),
            "set it to false: programs come through this updater alone",
        ));
    }
    let bootstrap = document.pointer("/agent/bootstrap_timeout").and_then(Value::as_str);
    let waits = bootstrap.and_then(go_duration).unwrap_or(DEFAULT_BOOTSTRAP);
    if waits < ENOUGH {
        found.push(Finding::warning(
            CHECK,
            format!(
                "{shown}: agent.bootstrap_timeout is {}: on a busy machine a good build fails its start",
                bootstrap.unwrap_or("3s by default")
            ),
            "set it to 1m or more",
        ));
    }
    found.extend(follows(host, &text));
    if found.is_empty() {
        found.push(Finding::ok(
            CHECK,
            format!("{shown}: starts {} and takes no packages", host.through_current().display()),
        ));
    }
    found
}

/// Whether what it starts is what `current` names. Before an import it need not be.
fn follows(host: &Host, text: &str) -> Option<Finding> {
    let shown = host.supervisor.as_deref()?.display();
    let executable = supervisor_file::executable(text)?;
    let expected = host.through_current();
    let value = match (host.loaded_unit(), &host.config.restart) {
        (Some(unit), _) => expanded(&executable.value, |name| variable(unit, name)),
        (None, myriarch_cli::config::Restart::Child(child)) => expanded(&executable.value, |name| {
            let value = child.environment.get(name).cloned().or_else(|| std::env::var(name).ok())?;
            Some(myriarch_cli::config::with_program(&value, &expected).to_string_lossy().into_owned())
        }),
        (None, _) => executable.value,
    };
    let is_expected = host.current.is_some() || host.unit.is_none();
    (is_expected && value != expected.to_string_lossy()).then(|| {
        Finding::problem(
            CHECK,
            format!("{shown}: agent.executable is {value:?}, which does not follow {}", expected.display()),
            "`import` sets it; by hand, name that path",
        )
    })
}

/// Go's way to write a duration: `1m30s`, `500ms`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |end| digits + end);
        let seconds = match &rest[digits..unit] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" | "ns" => 0.0,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number * seconds).ok()?;
        rest = &rest[unit..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [
            ("1m", 60_000),
            ("3s", 3000),
            ("1m30s", 90_000),
            ("1.5s", 1500),
            ("250ms", 250),
            ("1h", 3_600_000),
        ] {
            assert_eq!(go_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["fast", "1", "5 minutes"] {
            assert_eq!(go_duration(text), None, "{text}");
        }
    }
}
