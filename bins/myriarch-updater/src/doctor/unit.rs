//! The unit that runs the program: whether systemd can start it, whether it follows `current`, and who watches it.

use std::path::Path;

use myriarch_cli::{Config, ServiceName, doctor::Finding};
use myriarch_systemd::{LoadState, Unit};

use super::Host;
use crate::{
    import::sandbox::{Sight, sight},
    words::with_causes,
};

const CHECK: &str = "unit";

pub(crate) fn findings(host: &Host) -> Vec<Finding> {
    match &host.unit {
        None => vec![],
        Some(Err(error)) => vec![Finding::problem(CHECK, error.to_string(), error.hint())],
        Some(Ok(unit)) => of_unit(host, unit),
    }
}

fn of_unit(host: &Host, unit: &Unit) -> Vec<Finding> {
    let name = &unit.name;
    if let Err(error) = unit.startable() {
        return vec![Finding::problem(CHECK, error.to_string(), error.hint())];
    }
    let mut found = vec![state(unit)];
    if unit.needs_daemon_reload {
        found.push(Finding::warning(
            CHECK,
            format!("{name}: its files changed since systemd read them; a restart would run something else than now"),
            "`systemctl daemon-reload`",
        ));
    }
    if unit.load_state == LoadState::Loaded && unit.unit_file_state == "disabled" {
        found.push(Finding::warning(
            CHECK,
            format!("{name} does not start at boot"),
            format!("`systemctl enable {name}`, unless something else starts it"),
        ));
    }
    found.push(follows(host, unit));
    found.extend(watched(host, unit));
    match sight(unit, &host.config.store.path) {
        Sight::Never { reason, hint } => found.push(Finding::problem("sandbox", reason, hint)),
        Sight::With(lines) if !lines.is_empty() => found.push(Finding::problem(
            "sandbox",
            format!("{name}: its hardening keeps it from the store {}", host.config.store.path.display()),
            format!("`import` adds {} to it", lines.join(" and ")),
        )),
        Sight::With(_) => {
            found.push(Finding::ok("sandbox", format!("{name} sees the store and may run what is in it")));
        }
    }
    found
}

fn state(unit: &Unit) -> Finding {
    let words = format!("{} is {}", unit.name, unit.words());
    if unit.is_held_by_start_limit() {
        return Finding::problem(
            CHECK,
            words,
            format!("`journalctl -u {0}` says why it failed; then `systemctl reset-failed {0}`", unit.name),
        );
    }
    match unit.active_state {
        myriarch_systemd::ActiveState::Failed => {
            Finding::problem(CHECK, words, format!("`journalctl -u {}` says why", unit.name))
        }
        myriarch_systemd::ActiveState::Inactive => {
            Finding::warning(CHECK, words, "a candidate is judged by what runs: start it before an update")
        }
        _ => Finding::ok(CHECK, words),
    }
}

/// Whether what the unit runs is what `current` names.
fn follows(host: &Host, unit: &Unit) -> Finding {
    let expected = host.through_current();
    match &host.program {
        Some(program) if program.path == expected => {
            Finding::ok("program", format!("{} runs {}", unit.name, expected.display()))
        }
        Some(program) if host.current.is_none() => Finding::warning(
            "program",
            format!("{} runs {}, which is not imported yet", unit.name, program.path.display()),
            "`import --dry-run` shows what taking it over changes",
        ),
        Some(program) => Finding::problem(
            "program",
            format!(
                "{} runs {} and does not follow {}",
                unit.name,
                program.path.display(),
                expected.display()
            ),
            format!(
                "a drop-in of the import is gone or another wins over it: see `systemctl cat {}`; `import --undo` and `import` write it anew",
                unit.name
            ),
        ),
        None => Finding::warning(
            "program",
            format!("{}: what it runs cannot be told", unit.name),
            format!("see ExecStart= in `systemctl cat {}`", unit.name),
        ),
    }
}

/// The watchdog that outlives the updater: named by the unit, known to systemd, and with a configuration to read.
fn watched(host: &Host, unit: &Unit) -> Option<Finding> {
    const CHECK: &str = "watchdog";
    host.current.as_ref()?;
    let service = &host.config.service;
    let [recover, boot] = watchdogs(service);
    let mut missing = Vec::new();
    if !unit.on_failure.contains(&recover) {
        missing.push(format!("OnFailure={recover}"));
    }
    if !(unit.wants.contains(&boot) && unit.after.contains(&boot)) {
        missing.push(format!("Wants= and After={boot}"));
    }
    if !missing.is_empty() {
        return Some(Finding::warning(
            CHECK,
            format!(
                "{} has no {}: a trial that an updater did not survive is not gone back on by itself",
                unit.name,
                missing.join(", no ")
            ),
            "`import` writes them; see docs/systemd.md",
        ));
    }
    for (name, found) in &host.watchdogs {
        let found = match found {
            Some(LoadState::Loaded) => continue,
            Some(LoadState::Masked) => "it masked",
            Some(LoadState::NotFound) => "no file of that name",
            Some(LoadState::Bad | LoadState::Other(_)) => "one that it does not take",
            None => "no answer",
        };
        return Some(Finding::warning(
            CHECK,
            format!("{name}: expected a unit that systemd has loaded, found {found}"),
            "install the package's units, or `import --undo` and `import`, which writes them; see docs/systemd.md",
        ));
    }
    let path = Config::default_path(service);
    Some(match reads_this_store(&path, &host.config.store.path) {
        Ok(()) => Finding::ok(CHECK, format!("{recover} and {boot} watch over a trial when no updater does")),
        Err(Unread::Denied) => {
            Finding::unseen(CHECK, format!("{}: may not be read by this user", path.display()))
        }
        Err(Unread::Wrong(words)) => Finding::warning(
            CHECK,
            format!("{recover} and {boot} read {}: {words}", path.display()),
            "put the configuration there: without it no trial is gone back on when no updater runs",
        ),
    })
}

/// The units that watch over a trial.
pub(super) fn watchdogs(service: &ServiceName) -> [String; 2] {
    ["recover", "boot"].map(|what| format!("myriarch-{what}@{service}.service"))
}

/// Why the watchdogs would do nothing.
#[derive(Debug, PartialEq, Eq)]
enum Unread {
    Denied,
    Wrong(String),
}

/// Whether the configuration at `path` is there and is about `store`.
fn reads_this_store(path: &Path, store: &Path) -> Result<(), Unread> {
    match Config::load(path) {
        Ok(config) if config.store.path == store => Ok(()),
        Ok(config) => Err(Unread::Wrong(format!(
            "expected the store {}, found {}",
            store.display(),
            config.store.path.display()
        ))),
        Err(_) if matches!(path.try_exists(), Ok(false)) => {
            Err(Unread::Wrong("expected the configuration, found none".to_owned()))
        }
        Err(error) => {
            let words = with_causes(&error);
            if words.contains("Permission denied") { Err(Unread::Denied) } else { Err(Unread::Wrong(words)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_without_the_configuration_of_this_store_watches_over_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.toml");
        let store = Path::new("/opt/a");
        let words = |found: Result<(), Unread>| match found.unwrap_err() {
            Unread::Wrong(words) => words,
            Unread::Denied => String::new(),
        };
        assert_eq!(words(reads_this_store(&path, store)), "expected the configuration, found none");
        let text = |store: &str| {
            format!(
                "schema = 1\nservice = \"a\"\n[program]\nbinary = \"otelcol\"\n[store]\npath = \"{store}\"\n\
                 [source]\nkind = \"directory\"\npath = \"/x\"\n[trust.pins]\n\"9.9.9\" = \"{}\"\n\
                 [restart]\nkind = \"systemd\"\nunit = \"a\"\n[probe]\nhttp = \"http://127.0.0.1:1/\"\n",
                "0".repeat(64)
            )
        };
        std::fs::write(&path, text("/opt/b")).unwrap();
        assert_eq!(words(reads_this_store(&path, store)), "expected the store /opt/a, found /opt/b");
        std::fs::write(&path, text("/opt/a")).unwrap();
        assert_eq!(reads_this_store(&path, store), Ok(()));
    }
}
