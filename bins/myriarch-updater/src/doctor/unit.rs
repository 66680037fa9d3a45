//! The unit that runs the program: whether systemd can start it, whether it follows `current`, and who watches it.

use myriarch_cli::doctor::Finding;
use myriarch_systemd::{LoadState, Unit};

use super::Host;
use crate::import::sandbox::{Sight, sight};

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

/// The watchdog that outlives the updater.
fn watched(host: &Host, unit: &Unit) -> Option<Finding> {
    host.current.as_ref()?;
    let service = &host.config.service;
    let (recover, boot) =
        (format!("myriarch-recover@{service}.service"), format!("myriarch-boot@{service}.service"));
    let mut missing = Vec::new();
    if !unit.on_failure.contains(&recover) {
        missing.push(format!("OnFailure={recover}"));
    }
    if !(unit.wants.contains(&boot) && unit.after.contains(&boot)) {
        missing.push(format!("Wants= and After={boot}"));
    }
    Some(if missing.is_empty() {
        Finding::ok("watchdog", format!("{recover} and {boot} watch over a trial when no updater does"))
    } else {
        Finding::warning(
            "watchdog",
            format!(
                "{} has no {}: a trial that an updater did not survive is not gone back on by itself",
                unit.name,
                missing.join(", no ")
            ),
            "`import` writes them; see docs/systemd.md",
        )
    })
}
