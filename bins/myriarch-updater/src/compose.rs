//! From the configuration to the parts: the one place that names both a port and its implementation.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use myriarch_cli::config::{
    self, Config, IdentityCheck, Prerelease, Requirement, SourceKind, StopSignal, with_program,
};
use myriarch_fetch::{
    Directory, DirectorySettings, Http, HttpSettings, Limits, Proxy, Templates, Timeouts, host_arch,
};
use myriarch_policy::Bounds;
use myriarch_probe::{Identity, Probe, ProbeSettings, exec::Credentials};
use myriarch_store::{LockError, Store, StoreError, Writer};
use myriarch_supervise::{Output, Signal, Spec, Stop};
use myriarch_systemd::{Systemd, UnitName};
use myriarch_update::{
    AtRest, Observe, Ports, ProgramLog, Redactor, Restart, Settings, StartedBy, Updater, Validation,
};
use myriarch_verify::{KeylessRule, KeylessSpec, Pins, Rule, TrustPolicy, TrustPolicyError, TrustedRoot};

use crate::{
    accounts::{self, Unknown},
    clock::SystemClock,
    program_log::{FileLog, UnitLog},
    restart::{ChildRestart, CommandRestart, SystemdRestart},
    source::ReleaseSource,
    words::with_causes,
};

/// A configuration that reads well and cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ComposeError {
    /// Something in the configuration cannot be used.
    #[error("{what}: {reason}")]
    Unusable {
        /// The section.
        what: &'static str,
        /// Expected and found.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another run holds the store.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// The largest program accepted inside an archive, as a multiple of the largest archive: Go programs compress
/// to a quarter, so that eight times leaves room and a bomb none.
const LARGEST_EXPANSION: u64 = 8;

/// How long a unit's restart may take where neither the configuration nor the caller says.
const UNIT_TIMEOUT: Duration = Duration::from_mins(3);

/// A build that was healthy before needs no soak when it is gone back to: one moment of health is enough.
const RETURN_SOAK: Duration = Duration::ZERO;

/// The store, made if it is not there.
pub(crate) fn store(config: &Config) -> Result<Store, StoreError> {
    Store::create(&config.store.path)
}

/// The store for those who only look: a mistyped path makes none.
pub(crate) fn existing_store(config: &Config) -> Result<Store, StoreError> {
    // Making the layout syncs directories, which takes long on a busy disk: only where something is missing.
    Store::open(&config.store.path)
        .or_else(|error| if config.store.path.is_dir() { store(config) } else { Err(error) })
}

/// What the configuration says, ready to be put together. Making it touches nothing.
#[derive(Debug)]
pub(crate) struct Parts {
    settings: Settings,
    source: Arc<ReleaseSource>,
    log: Arc<dyn ProgramLog>,
}

/// The parts, or what in the configuration cannot be used.
pub(crate) fn parts(config: &Config) -> Result<Parts, ComposeError> {
    let files = FileLog::new(config.trial.log.clone());
    let log: Arc<dyn ProgramLog> = match &config.restart {
        config::Restart::Systemd(restart) => {
            Arc::new(UnitLog::new(files, Systemd::new(), restart.unit.clone()))
        }
        config::Restart::Child(_) | config::Restart::Command(_) => Arc::new(files),
    };
    Ok(Parts { settings: settings(config)?, source: Arc::new(source(config)?), log })
}

/// The updater of this service, the one writer of its store.
pub(crate) fn updater(
    parts: Parts,
    store: Writer,
    restart: Arc<dyn Restart>,
    observe: Arc<dyn Observe>,
) -> Updater {
    let Parts { settings, source, log } = parts;
    Updater::new(store, settings, Ports { source, restart, log, observe, clock: Arc::new(SystemClock) })
}

fn settings(config: &Config) -> Result<Settings, ComposeError> {
    Ok(Settings {
        binary: config.program.binary.clone(),
        distribution: config.program.distribution.clone(),
        bounds: Bounds {
            min_version: config.policy.min_version.clone(),
            allow_prerelease: match config.policy.prerelease {
                Prerelease::Skip => myriarch_policy::Prerelease::Skip,
                Prerelease::Allow => myriarch_policy::Prerelease::Allow,
            },
        },
        trust: trust(config)?,
        validation: validation(config)?,
        probe: probe(&config.probe, config.probe.soak)?,
        return_probe: probe(&config.probe, RETURN_SOAK)?,
        keep: usize::try_from(config.store.keep).unwrap_or(usize::MAX),
        tries: config.trial.tries,
        largest_program: config.source.max_archive.saturating_mul(LARGEST_EXPANSION),
        redactor: redactor(config),
    })
}

/// Knows the secrets of the environment that the program is started in, as far as it is told here. The program may
/// quote them in whatever it says.
pub(crate) fn redactor(config: &Config) -> Redactor {
    let child = match &config.restart {
        config::Restart::Child(child) => Some(&child.environment),
        config::Restart::Command(_) | config::Restart::Systemd(_) => None,
    };
    let told = child.into_iter().chain([&config.validate.environment]).flatten();
    let told = told.map(|(name, value)| (name.into(), value.into()));
    Redactor::default().with_environment(std::env::vars_os().chain(told))
}

/// What the configuration trusts.
pub(crate) fn trust(config: &Config) -> Result<TrustPolicy, ComposeError> {
    let mut rules = vec![];
    for keyless in &config.trust.keyless {
        let root = match &keyless.trusted_root {
            None => TrustedRoot::BuiltIn,
            Some(path) => TrustedRoot::Json(fs::read_to_string(path).map_err(|error| {
                ComposeError::Unusable {
                    what: "trust.keyless.trusted_root",
                    reason: format!("{}: {error}", path.display()),
                    hint: "name a readable trusted_root.json, or leave the key out for the built-in root"
                        .to_owned(),
                }
            })?),
        };
        let mut claims = BTreeMap::new();
        for (name, value) in &keyless.claims {
            let claim = name.parse().map_err(|error| ComposeError::Unusable {
                what: "trust.keyless.claims",
                reason: with_causes(&error),
                hint: "claims are named as in docs/configuration.md".to_owned(),
            })?;
            claims.insert(claim, value.clone());
        }
        let require: BTreeSet<_> = keyless
            .require
            .iter()
            .map(|requirement| match requirement {
                Requirement::InclusionProof => myriarch_verify::Requirement::InclusionProof,
                Requirement::Timestamp => myriarch_verify::Requirement::Timestamp,
                Requirement::Sct => myriarch_verify::Requirement::Sct,
            })
            .collect();
        let (issuer, identity) = (keyless.issuer.clone(), keyless.identity.clone());
        let spec = KeylessSpec { issuer, identity, claims, root, require };
        let rule = KeylessRule::new(spec).map_err(|error| match &keyless.trusted_root {
            Some(path) if matches!(error, TrustPolicyError::Root(_)) => ComposeError::Unusable {
                what: "trust.keyless.trusted_root",
                reason: format!("{}: {}", path.display(), with_causes(&error)),
                hint: error.hint().to_owned(),
            },
            _ => untrustworthy(&error),
        });
        rules.push(Rule::Keyless(rule?));
    }
    if !config.trust.pins.is_empty() {
        let pins = config.trust.pins.iter().map(|pin| (pin.version.bare().to_owned(), pin.archive));
        rules.push(Rule::Pins(Pins::new(pins).map_err(|error| untrustworthy(&error))?));
    }
    TrustPolicy::new(rules).map_err(|error| untrustworthy(&error))
}

fn untrustworthy(error: &myriarch_verify::TrustPolicyError) -> ComposeError {
    ComposeError::Unusable { what: "trust", reason: with_causes(error), hint: error.hint().to_owned() }
}

fn source(config: &Config) -> Result<ReleaseSource, ComposeError> {
    let limits = Limits { archive: config.source.max_archive, ..Limits::default() };
    let (os, arch) = ("linux".to_owned(), host_arch().to_owned());
    let source = match &config.source.kind {
        SourceKind::Http { index, templates, connection } => {
            let templates = templates.as_ref().map(|templates| Templates {
                archive: templates.archive.clone(),
                checksum: templates.checksum.clone(),
                bundle: templates.bundle.clone(),
            });
            let settings = HttpSettings {
                index: index.clone(),
                templates,
                os,
                arch,
                limits,
                timeouts: Timeouts {
                    connect: connection.connect_timeout,
                    first_byte: connection.first_byte_timeout,
                    stall: connection.stall_timeout,
                    ..Timeouts::default()
                },
                proxy: match &connection.proxy {
                    config::Proxy::Environment => Proxy::FromEnvironment,
                    config::Proxy::None => Proxy::Direct,
                    config::Proxy::Url(url) => Proxy::Through(url.clone()),
                },
                authorities: connection.ca.clone(),
                credentials: connection.credentials.clone(),
                ..HttpSettings::default()
            };
            Http::new(settings).map(|source| ReleaseSource::Http(Box::new(source)))
        }
        SourceKind::Directory { path } => {
            Directory::new(DirectorySettings { path: path.clone(), templates: None, os, arch, limits })
                .map(ReleaseSource::Directory)
        }
    };
    source.map_err(|error| ComposeError::Unusable {
        what: "source",
        reason: with_causes(&error),
        hint: error.hint(),
    })
}

/// How a program is judged that was healthy before: it has only to come up again.
pub(crate) fn return_probe(config: &Config) -> Result<Probe, ComposeError> {
    probe(&config.probe, RETURN_SOAK)
}

/// The unit that runs the program, and how long its jobs may take; none where no unit does.
pub(crate) fn unit(config: &Config) -> Option<(UnitName, Duration)> {
    match &config.restart {
        config::Restart::Systemd(systemd) => {
            Some((systemd.unit.clone(), systemd.timeout.unwrap_or(UNIT_TIMEOUT)))
        }
        config::Restart::Child(_) | config::Restart::Command(_) => None,
    }
}

fn probe(probe: &config::Probe, soak: Duration) -> Result<Probe, ComposeError> {
    let settings = ProbeSettings {
        http: probe.http.clone(),
        exec: (!probe.command.is_empty()).then(|| probe.command.clone()),
        identity: match probe.identity {
            IdentityCheck::Listener => Identity::Listener,
            IdentityCheck::Skip => Identity::Skip,
        },
        timeout: probe.timeout,
        interval: probe.interval,
        settle: probe.settle,
        soak,
        tolerate: probe.tolerate,
    };
    Probe::new(settings).map_err(|error| ComposeError::Unusable {
        what: "probe",
        reason: with_causes(&error),
        hint: "see [probe] in docs/configuration.md".to_owned(),
    })
}

fn validation(config: &Config) -> Result<Validation, ComposeError> {
    let validate = &config.validate;
    // A unit tells the environment that its program gets; ours says nothing about that.
    let inherited = !matches!(config.restart, config::Restart::Systemd(_));
    let config::Components { receivers, processors, exporters, connectors, extensions } =
        &validate.components;
    let components = [
        ("receivers", receivers),
        ("processors", processors),
        ("exporters", exporters),
        ("connectors", connectors),
        ("extensions", extensions),
    ];
    Ok(Validation {
        components: components.into_iter().map(|(kind, names)| (kind.to_owned(), names.clone())).collect(),
        effective: validate.effective.clone(),
        timeout: validate.timeout,
        at_rest: AtRest {
            configuration: validate.configuration.clone(),
            arguments: validate.arguments.iter().map(OsString::from).collect(),
            environment: (!validate.environment.is_empty()).then(|| {
                let told = validate.environment.iter().map(|(name, value)| (name.into(), value.into()));
                std::env::vars_os().filter(|_| inherited).chain(told).collect()
            }),
            working_directory: validate.working_directory.clone(),
            credentials: credentials(validate)?,
            unknown_account: None,
            started_by: StartedBy::Keeper,
        },
    })
}

/// User and group as numbers, with the user's supplementary groups.
fn credentials(validate: &config::Validate) -> Result<Option<Credentials>, ComposeError> {
    let Some(user) = &validate.user else {
        return match &validate.group {
            None => Ok(None),
            Some(_) => Err(ComposeError::Unusable {
                what: "validate.group",
                reason: "expected validate.user beside it, found none".to_owned(),
                hint: "name the user that the collector runs as, too".to_owned(),
            }),
        };
    };
    let unknown = |what: &'static str, found: String| ComposeError::Unusable {
        what,
        reason: format!("expected an account of this machine, found {found:?}"),
        hint: "getent passwd and getent group list them".to_owned(),
    };
    accounts::credentials(user, validate.group.as_ref(), &[]).map(Some).map_err(|missing| match missing {
        Unknown::User(name) => unknown("validate.user", name),
        Unknown::Group(name) => unknown("validate.group", name),
    })
}

/// The restart port, and how the child is stopped where there is one.
pub(crate) fn restart(config: &Config, observe: Arc<dyn Observe>) -> Arc<dyn Restart> {
    match &config.restart {
        config::Restart::Child(child) => {
            let spec = spec(config, child);
            Arc::new(ChildRestart::new(spec, stop(child), child_record(config), observe))
        }
        config::Restart::Command(command) => {
            let (restart, stop) = (command.command.clone(), command.stop_command.clone());
            Arc::new(CommandRestart::new(restart, stop, command.timeout, redactor(config)))
        }
        config::Restart::Systemd(systemd) => {
            let (unit, timeout) = (systemd.unit.clone(), systemd.timeout);
            Arc::new(SystemdRestart::new(Systemd::new(), unit, timeout, program(config), observe))
        }
    }
}

/// Where the child's pid is kept for the case that the updater is killed.
pub(crate) fn child_record(config: &Config) -> PathBuf {
    config.run.directory.join("child.json")
}

/// Where what is known of the slots' integrity is kept until the machine starts anew.
pub(crate) fn checked(config: &Config) -> PathBuf {
    config.run.directory.join("checked.json")
}

/// How the child is asked to stop.
pub(crate) fn stop(child: &config::ChildRestart) -> Stop {
    let signal = match child.stop_signal {
        StopSignal::Interrupt => Signal::INT,
        StopSignal::Terminate => Signal::TERM,
        StopSignal::Quit => Signal::QUIT,
    };
    Stop { signal, grace: child.stop_timeout }
}

/// The program's path through `current`.
fn program(config: &Config) -> PathBuf {
    config.store.path.join("current/bin").join(&config.program.binary)
}

/// The words that the child is started with, its program first.
pub(crate) fn child_words(config: &Config, child: &config::ChildRestart) -> Vec<OsString> {
    let Spec { program, args, .. } = spec(config, child);
    std::iter::once(program.into()).chain(args).collect()
}

fn spec(config: &Config, child: &config::ChildRestart) -> Spec {
    let program = program(config);
    let mut argv = child.command.iter().map(|argument| with_program(argument, &program));
    Spec {
        program: argv.next().unwrap_or_default().into(),
        args: argv.collect(),
        env: child
            .environment
            .iter()
            .map(|(name, value)| (name.into(), with_program(value, &program)))
            .collect(),
        cwd: Some(child.working_directory.clone()),
        output: Output::Inherit,
    }
}
