//! `doctor`: looks at everything that an update needs, and at everything that goes wrong without a sign.
//!
//! Nothing is written, nothing is started and no lock is taken, so it may be run at any time by anybody; what a user
//! may not see is said and counts for nothing. Each check has its time, since a dead network mount answers never.

mod program;
mod store;
mod supervisor;
mod time;
mod unit;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use myriarch_cli::{
    Config, DoctorDocument,
    config::{ConfigError, Restart as RestartKind},
    doctor::Finding,
};
use myriarch_probe::exec::Credentials;
use myriarch_store::{Slot, Store};
use myriarch_systemd::{LoadState, Systemd, SystemdError, Unit};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    accounts, compose,
    import::program::{Program, supervisor_configuration},
};

/// How long one check may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// What one check makes of it.
type Check = fn(&Host) -> Vec<Finding>;

/// What the checks look at, gathered once.
#[derive(Debug)]
pub(crate) struct Host {
    config: Config,
    unit: Option<Result<Unit, SystemdError>>,
    /// None where it is not there or cannot be looked at.
    store: Option<Store>,
    current: Option<Slot>,
    /// The collector that the unit runs.
    program: Option<Program>,
    /// Where the supervisor's configuration is, if there is a supervisor.
    supervisor: Option<PathBuf>,
    /// The units that watch over a trial, as systemd knows them; none where it does not answer.
    watchdogs: Vec<(String, Option<LoadState>)>,
    /// Whom the collector runs as, where that is known.
    user: Option<Credentials>,
}

/// Looks at everything.
pub(crate) async fn document(path: &Path, loaded: Result<Config, ConfigError>) -> DoctorDocument {
    let config = match loaded {
        Ok(config) => config,
        Err(error) => {
            let hint = error
                .hint()
                .unwrap_or_else(|| "mend it; without it nothing else can be looked at".to_owned());
            return DoctorDocument::new(vec![Finding::problem(
                "configuration",
                crate::words::with_causes(&error),
                hint,
            )]);
        }
    };
    let mut findings = vec![Finding::ok("configuration", format!("{} is valid", path.display()))];
    findings.extend(composed(&config));
    let host = Arc::new(Host::of(config).await);
    let checks: [(&str, Check); 12] = [
        ("unit", unit::findings),
        ("supervisor", supervisor::findings),
        ("store", store::directory),
        ("free space", store::space),
        ("access", store::access),
        ("run directory", store::run_directory),
        ("clock", time::clock),
        ("trusted root", time::trusted_roots),
        ("effective config", program::effective),
        ("processes", program::processes),
        ("updater", program::updater),
        ("package", program::package),
    ];
    for (name, check) in checks {
        findings.extend(bounded(name, &host, check).await);
    }
    let health = timeout(PATIENCE, program::health(&host));
    findings.push(health.await.unwrap_or_else(|_| no_answer("health")));
    DoctorDocument::new(findings)
}

/// What reads well and cannot be carried out.
fn composed(config: &Config) -> Option<Finding> {
    let error = compose::parts(config).err()?;
    let denied = crate::words::with_causes(&error).contains("Permission denied");
    if denied && !rustix::process::geteuid().is_root() {
        return Some(Finding::unseen("configuration", crate::words::with_causes(&error)));
    }
    let hint = match &error {
        compose::ComposeError::Unusable { hint, .. } => hint.clone(),
        _ => "mend the configuration".to_owned(),
    };
    Some(Finding::problem("configuration", crate::words::with_causes(&error), hint))
}

/// On a thread of its own, which is left behind where it hangs: the process ends all the same.
async fn bounded(name: &str, host: &Arc<Host>, check: Check) -> Vec<Finding> {
    let (tell, told) = oneshot::channel();
    let host = host.clone();
    std::thread::spawn(move || tell.send(check(&host)));
    match timeout(PATIENCE, told).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(_)) | Err(_) => vec![no_answer(name)],
    }
}

fn no_answer(name: &str) -> Finding {
    Finding::problem(
        name,
        format!("no answer within {} s", PATIENCE.as_secs()),
        "something hangs: see `dmesg` and the network mounts of this machine",
    )
}

impl Host {
    async fn of(config: Config) -> Self {
        let unit = match compose::unit(&config) {
            Some((name, _)) => Some(Systemd::new().unit(&name).await),
            None => None,
        };
        let loaded = unit.as_ref().and_then(|unit| unit.as_ref().ok());
        let program = loaded.and_then(|unit| Program::of(unit).ok());
        let supervisor = match (&config.restart, loaded) {
            (RestartKind::Child(child), _) => named_by_child(&child.command),
            (_, Some(unit)) => supervisor_configuration(unit).ok().flatten(),
            _ => None,
        };
        let store = Store::open(&config.store.path).ok();
        let current = store.as_ref().and_then(|store| store.current_slot().ok().flatten());
        let user = loaded.and_then(user_of);
        let mut watchdogs = Vec::new();
        // Nobody watches before an import.
        for name in
            unit::watchdogs(&config.service).into_iter().filter(|_| loaded.is_some() && current.is_some())
        {
            let answer = match name.parse() {
                Ok(name) => Systemd::new().unit(&name).await.ok(),
                Err(_) => None,
            };
            watchdogs.push((name, answer.map(|unit| unit.load_state)));
        }
        Self { config, unit, store, current, program, supervisor, watchdogs, user }
    }

    fn loaded_unit(&self) -> Option<&Unit> {
        self.unit.as_ref().and_then(|unit| unit.as_ref().ok())
    }

    /// The program's path through `current`.
    fn through_current(&self) -> PathBuf {
        self.config.store.path.join("current/bin").join(&self.config.program.binary)
    }
}

/// The configuration of the supervisor that `run` starts.
fn named_by_child(command: &[String]) -> Option<PathBuf> {
    let name = Path::new(command.first()?).file_name()?.to_string_lossy().into_owned();
    let named = crate::import::program::named_by(command);
    named.filter(|_| name.contains("opampsupervisor")).map(PathBuf::from)
}

/// Whom a unit's program runs as: as its process tells, or as the machine's files do.
fn user_of(unit: &Unit) -> Option<Credentials> {
    let running = unit.main_pid.and_then(|pid| myriarch_probe::process::Process::with_pid(pid).ok());
    if let Some(credentials) = running.and_then(|process| process.credentials().ok()) {
        return Some(credentials);
    }
    let account = &unit.account;
    match (&account.user, account.dynamic_user) {
        // It exists only while it runs.
        (None, true) => None,
        (None, false) if account.group.is_none() && account.supplementary_groups.is_empty() => {
            Some(Credentials { uid: 0, gid: 0, groups: vec![0] })
        }
        _ => accounts::of_unit(unit).ok().flatten(),
    }
}
