//! The program that runs: whether it answers, by which configuration it runs, what else runs beside it, and who might
//! replace it behind our back.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use myriarch_cli::doctor::Finding;
use myriarch_probe::{Reading, process::Process};
use myriarch_store::{FileId, running};
use myriarch_update::{does_nothing, installed_program, regular};

use super::Host;
use crate::{compose, detect::Supervisor, import::program};

/// Where Debian's package system says that it installs by itself.
const AUTOMATIC: &str = "/etc/apt/apt.conf.d/20auto-upgrades";

/// Whether the health endpoint answers, and who does.
pub(crate) async fn health(host: &Host) -> Finding {
    const CHECK: &str = "health";
    let asked = host.config.probe.http.clone().unwrap_or_else(|| host.config.probe.command.join(" "));
    let Ok(probe) = compose::return_probe(&host.config) else {
        return Finding::unseen(CHECK, "the probe cannot be composed");
    };
    let installed = host.program.as_ref().map(|program| program.path.clone());
    let (file, what) = match (&host.current, installed) {
        (Some(slot), _) => (slot.program(), slot.name().to_string()),
        (None, Some(path)) => (path.clone(), path.display().to_string()),
        (None, None) => (host.through_current(), "the program".to_owned()),
    };
    match probe.once(file).await {
        Reading::Ready => Finding::ok(CHECK, format!("{asked}: {what} answers and is healthy")),
        Reading::Impostor(who) | Reading::Restarted(who) => Finding::problem(
            CHECK,
            format!("{asked}: somebody else than {what} answers: {who}"),
            "see who that is; if it is a collector that was left behind, end it",
        ),
        Reading::NotReady(words) if words.contains("no process that we may look at") => {
            Finding::unseen(CHECK, format!("{asked}: it answers; who does may not be seen by this user"))
        }
        Reading::NotReady(words) => Finding::problem(
            CHECK,
            if words.starts_with(&asked) { words } else { format!("{asked}: {words}") },
            "start the program, or see [probe] in the configuration and the collector's health_check extension",
        ),
    }
}

/// Whether a candidate can be asked about the configuration that runs.
pub(crate) fn effective(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "effective config";
    let (validate, unit) = (&host.config.validate, host.loaded_unit());
    let supervised = host.supervisor.as_ref().map(|path| {
        let variable = |name: &str| {
            unit.and_then(|unit| program::variable(unit, name)).or_else(|| std::env::var(name).ok())
        };
        Supervisor::read(path, variable).effective
    });
    let told = validate.effective.clone().or(supervised);
    let told =
        told.or_else(|| unit.and_then(program::configuration_of)).or_else(|| validate.configuration.clone());
    let Some(path) = told else {
        return vec![Finding::unseen(CHECK, "which one it is, only the running program tells")];
    };
    let shown = path.display();
    vec![match regular::text(&path) {
        Ok(text) if does_nothing(&text) && host.supervisor.is_none() => Finding::warning(
            CHECK,
            format!("{shown} has no pipelines: the collector does nothing"),
            "a candidate that accepts it has proved little: give it pipelines",
        ),
        Ok(text) if does_nothing(&text) => Finding::warning(
            CHECK,
            format!("{shown} has no pipelines: it is what a supervisor writes while it starts"),
            "wait until the collector is healthy; if it stays so, see the supervisor's log",
        ),
        Ok(_) => Finding::ok(CHECK, format!("{shown} is there and has pipelines")),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Finding::unseen(CHECK, format!("{shown}: may not be read by this user"))
        }
        Err(error) => Finding::problem(
            CHECK,
            format!("{shown}: {error}"),
            "set validate.effective to the file that the collector runs with",
        ),
    }]
}

/// Collectors of ours that nobody looks after hold the ports that the next one needs.
pub(crate) fn processes(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "processes";
    let mut files: Vec<PathBuf> = Vec::new();
    if let Some(store) = &host.store {
        let slots = store.slots().unwrap_or_default();
        files.extend(slots.into_iter().filter_map(|(_, slot)| slot.ok()).map(|slot| slot.program()));
    }
    files.extend(host.program.as_ref().map(|program| program.path.clone()));
    let ids: BTreeSet<FileId> = files
        .iter()
        .filter_map(|path| fs::metadata(path).ok())
        .map(|metadata| FileId::from(&metadata))
        .collect();
    let pids = ids.into_iter().flat_map(|file| running::processes_running(file).unwrap_or_default());
    let ours = host.loaded_unit().map(|unit| unit.name.to_string());
    // Before an import several units may run the same file; what another one runs is not ours to speak of.
    let pids: BTreeSet<u32> = pids.filter(|pid| !is_anothers(*pid, ours.as_deref())).collect();
    let main = host.loaded_unit().and_then(|unit| unit.main_pid);
    let orphans: Vec<u32> =
        pids.iter().copied().filter(|pid| Some(*pid) != main && parent(*pid) == Some(1)).collect();
    if orphans.is_empty() {
        return vec![match pids.len() {
            0 if main.is_some() && !rustix::process::geteuid().is_root() => {
                Finding::unseen(CHECK, "which programs run for other users is not told to this one")
            }
            0 => Finding::warning(CHECK, "no collector of this service runs", "start it before an update"),
            1 => Finding::ok(CHECK, "one collector runs, and somebody looks after it"),
            count => Finding::warning(
                CHECK,
                format!("{count} collectors run: {pids:?}"),
                "one is enough; they may hold each other's ports",
            ),
        }];
    }
    let words = |pid: &u32| {
        let exe = Process::with_pid(*pid).and_then(|process| process.exe());
        format!("{pid} ({})", exe.map_or_else(|error| error.to_string(), |exe| exe.display().to_string()))
    };
    let list: Vec<_> = orphans.iter().map(words).collect();
    let kill: Vec<_> = orphans.iter().map(ToString::to_string).collect();
    vec![Finding::problem(
        CHECK,
        format!("collectors that nobody looks after run, and hold their ports: {}", list.join(", ")),
        format!("`kill {}`", kill.join(" ")),
    )]
}

/// Whether a process belongs to another unit than `ours`.
fn is_anothers(pid: u32, ours: Option<&str>) -> bool {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    // What an updater of ours left behind is nobody's.
    service_of(&groups).is_some_and(|unit| Some(unit) != ours && !unit.starts_with("myriarch-"))
}

/// The service whose control group a process is in, by its `/proc/PID/cgroup`; none in a session of a user's.
fn service_of(groups: &str) -> Option<&str> {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let kind = |unit: &str| unit.rsplit_once('.').map(|(_, kind)| kind.to_owned());
    let units = paths.filter_map(|path| {
        path.split('/').rfind(|part| matches!(kind(part).as_deref(), Some("service" | "scope")))
    });
    let mut services = units.filter(|unit| kind(unit).as_deref() == Some("service"));
    services.find(|unit| !unit.starts_with("user@"))
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// Who updates: one `run` at the most.
pub(crate) fn updater(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "updater";
    let Some(store) = &host.store else { return vec![] };
    let Ok(holder) = store.holder() else {
        let lock = store.lock_path();
        return vec![Finding::unseen(CHECK, format!("{} may not be asked by this user", lock.display()))];
    };
    let holding = holder.as_ref().map(|holder| holder.pid);
    let mut found = vec![match holder {
        None => Finding::ok(CHECK, "none runs; `update` and the other verbs do their work themselves"),
        Some(holder) => Finding::ok(CHECK, format!("{holder} holds the lock")),
    }];
    let config = host.config.store.path.as_path();
    for pid in others_that_run(config) {
        if Some(pid) != holding {
            found.push(Finding::warning(
                CHECK,
                format!("process {pid} is another `run` for the same service, without the lock"),
                "stop one of them: two would undo each other's work",
            ));
        }
    }
    found
}

/// Processes of this very program that are `run` for the store.
fn others_that_run(store: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_ours = |pid: &u32| {
        let args = Process::with_pid(*pid).and_then(|process| process.args()).unwrap_or_default();
        let args: Vec<String> = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let named = args.first().is_some_and(|program| program.ends_with("myriarch-updater"));
        if !named || !args.iter().any(|word| word == "run") {
            return false;
        }
        let value =
            |names: [&str; 2]| args.iter().skip_while(|word| !names.contains(&word.as_str())).nth(1).cloned();
        let path = match (value(["--config", "-c"]), value(["--service", "-s"])) {
            (Some(path), _) => PathBuf::from(path),
            (None, Some(service)) => PathBuf::from(format!("/etc/myriarch/{service}.toml")),
            (None, None) => return false,
        };
        myriarch_cli::Config::load(&path).is_ok_and(|config| config.store.path == store)
    };
    pids.filter(is_ours).collect()
}

/// Whether somebody else's tool would replace the installed file, and whether a copy of it would do the same.
pub(crate) fn package(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "installed file";
    let imported = host.current.is_some();
    let Some(program) = host.program.as_ref().filter(|_| !imported) else { return vec![] };
    let shown = program.path.display();
    let mut found = Vec::new();
    match installed_program(&program.path, &BTreeSet::new()) {
        Ok(_) => found.push(Finding::ok(CHECK, format!("{shown} can be imported"))),
        Err(refusal) => found.push(Finding::problem(CHECK, refusal.reason, refusal.hint)),
    }
    if let Some(package) = owner(&program.path) {
        let automatic = fs::read_to_string(AUTOMATIC).unwrap_or_default();
        let automatic =
            automatic.lines().any(|line| line.contains("Unattended-Upgrade") && line.contains("\"1\""));
        found.push(if automatic {
            Finding::warning(
                CHECK,
                format!("{shown} belongs to the package {package}, and packages are upgraded by themselves here"),
                format!("after the import that changes nothing that runs; `apt-mark hold {package}` keeps the two from differing"),
            )
        } else {
            Finding::ok(CHECK, format!("it belongs to the package {package}; after an import the package's file no longer runs"))
        });
    }
    found
}

/// The package that a file belongs to, where a package system knows.
fn owner(path: &Path) -> Option<String> {
    let ask = |program: &str, option: &[&str]| {
        let output = Command::new(program)
            .args(option)
            .arg(path)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let debian = ask("dpkg", &["-S"]).and_then(|said| Some(said.split_once(": ")?.0.to_owned()));
    debian.or_else(|| ask("rpm", &["-qf"])).filter(|package| !package.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_that_a_process_belongs_to_is_told_by_its_control_group() {
        for (groups, expected) in [
            ("0::/system.slice/other.service\n", Some("other.service")),
            ("0::/system.slice/system-a.slice/a@1.service/sub\n", Some("a@1.service")),
            ("12:pids:/x\n1:name=systemd:/system.slice/other.service\n0::/\n", Some("other.service")),
            ("0::/user.slice/user-0.slice/session-3.scope\n", None),
            ("0::/user.slice/user-1.slice/user@1.service/app.slice/run-1.scope\n", None),
            ("0::/user.slice/user-1.slice/user@1.service/app.slice/a.service\n", Some("a.service")),
            ("0::/\n", None),
            ("", None),
        ] {
            assert_eq!(service_of(groups), expected, "{groups}");
        }
    }
}
