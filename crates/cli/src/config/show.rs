//! The effective configuration as a file would say it.

use super::{
    Components, Config, Keyless, Proxy, Requirement, Restart, SourceKind,
    file::{
        self, ComponentsTable, File, KeylessTable, PolicyTable, ProbeTable, ProgramTable, RestartKind,
        RestartTable, RunTable, SourceTable, StoreTable, TrialTable, TrustTable, ValidateTable,
    },
    interval::CheckIntervalText,
    section::Said,
    url::hiding,
};
use crate::{duration::DurationText, size::Size};

pub(crate) fn toml(config: &Config) -> String {
    // Every value is a string, a number or a list of them, which TOML can always say; paths came from UTF-8.
    toml::to_string(&file(config)).unwrap_or_else(|error| format!("# cannot be shown: {error}\n"))
}

fn file(config: &Config) -> File {
    let (run, policy, trial) = (&config.run, &config.policy, &config.trial);
    File {
        schema: Said::anew(super::CONFIG_SCHEMA),
        service: Said::anew(config.service.to_string()),
        program: ProgramTable {
            binary: Said::anew(config.program.binary.clone()),
            distribution: Said::anew(config.program.distribution.clone()),
        },
        store: StoreTable {
            path: Said::anew(config.store.path.clone()),
            keep: Said::anew(config.store.keep),
        },
        run: RunTable {
            directory: Said::anew(run.directory.clone()),
            check_interval: Said::anew(CheckIntervalText(run.check_interval)),
        },
        source: source(config),
        trust: TrustTable {
            keyless: config.trust.keyless.iter().map(keyless).filter_map(Said::anew).collect(),
            pins: config
                .trust
                .pins
                .iter()
                .filter_map(|pin| Said::anew(pin.version.to_string()).zip(Said::anew(pin.archive)))
                .collect(),
        },
        policy: PolicyTable {
            min_version: policy.min_version.clone().and_then(Said::anew),
            prerelease: Said::anew(policy.prerelease),
        },
        restart: restart(&config.restart),
        validate: validate(config),
        probe: probe(config),
        trial: TrialTable { tries: Said::anew(trial.tries), log: trial.log.clone().and_then(Said::anew) },
    }
}

fn source(config: &Config) -> SourceTable {
    let table =
        SourceTable { max_archive: Said::anew(Size(config.source.max_archive)), ..SourceTable::default() };
    match config.source.kind.clone() {
        SourceKind::Http { index, templates, connection } => {
            let (checksum, bundle) = templates
                .as_ref()
                .map_or((None, None), |files| (files.checksum.clone(), files.bundle.clone()));
            let url = |text: String| Said::anew(hiding(&text));
            SourceTable {
                kind: Said::anew(file::SourceKind::Http),
                index: index.and_then(url),
                archive: templates.and_then(|files| url(files.archive)),
                checksum: checksum.and_then(url),
                bundle: bundle.and_then(url),
                ca: connection.ca.and_then(Said::anew),
                proxy: Said::anew(match connection.proxy {
                    Proxy::Environment => "environment".to_owned(),
                    Proxy::None => "none".to_owned(),
                    Proxy::Url(url) => hiding(&url),
                }),
                credentials: connection.credentials.and_then(Said::anew),
                connect_timeout: Said::anew(DurationText(connection.connect_timeout)),
                first_byte_timeout: Said::anew(DurationText(connection.first_byte_timeout)),
                stall_timeout: Said::anew(DurationText(connection.stall_timeout)),
                ..table
            }
        }
        SourceKind::Directory { path } => {
            SourceTable { kind: Said::anew(file::SourceKind::Directory), path: Said::anew(path), ..table }
        }
    }
}

fn keyless(rule: &Keyless) -> KeylessTable {
    // What is always demanded is shown as demanded.
    let mut require = rule.require.clone();
    if !require.contains(&Requirement::InclusionProof) {
        require.insert(0, Requirement::InclusionProof);
    }
    KeylessTable {
        issuer: Said::anew(rule.issuer.clone()),
        identity: Said::anew(rule.identity.clone()),
        trusted_root: rule.trusted_root.clone().and_then(Said::anew),
        require: Said::anew(require),
        claims: Some(rule.claims.clone()).filter(|claims| !claims.is_empty()).and_then(Said::anew),
    }
}

fn restart(restart: &Restart) -> RestartTable {
    match restart.clone() {
        Restart::Child(child) => RestartTable {
            kind: Said::anew(RestartKind::Child),
            command: Said::anew(child.command),
            environment: Said::anew(child.environment),
            working_directory: Said::anew(child.working_directory),
            stop_signal: Said::anew(child.stop_signal),
            stop_timeout: Said::anew(DurationText(child.stop_timeout)),
            ..RestartTable::default()
        },
        Restart::Command(commands) => RestartTable {
            kind: Said::anew(RestartKind::Command),
            command: Said::anew(commands.command),
            stop_command: Said::anew(commands.stop_command),
            timeout: Said::anew(DurationText(commands.timeout)),
            ..RestartTable::default()
        },
        Restart::Systemd(systemd) => RestartTable {
            kind: Said::anew(RestartKind::Systemd),
            unit: Said::anew(systemd.unit.to_string()),
            timeout: systemd.timeout.map(DurationText).and_then(Said::anew),
            ..RestartTable::default()
        },
    }
}

fn validate(config: &Config) -> ValidateTable {
    let validate = config.validate.clone();
    let Components { receivers, processors, exporters, connectors, extensions } = validate.components;
    ValidateTable {
        effective: validate.effective.and_then(Said::anew),
        configuration: validate.configuration.and_then(Said::anew),
        timeout: Said::anew(DurationText(validate.timeout)),
        arguments: Said::anew(validate.arguments),
        user: validate.user.and_then(Said::anew),
        group: validate.group.and_then(Said::anew),
        working_directory: validate.working_directory.and_then(Said::anew),
        environment: Some(validate.environment).filter(|map| !map.is_empty()).and_then(Said::anew),
        components: Some(ComponentsTable {
            receivers: Said::anew(receivers),
            processors: Said::anew(processors),
            exporters: Said::anew(exporters),
            connectors: Said::anew(connectors),
            extensions: Said::anew(extensions),
        }),
    }
}

fn probe(config: &Config) -> ProbeTable {
    let probe = config.probe.clone();
    ProbeTable {
        http: probe.http.and_then(|url| Said::anew(hiding(&url))),
        command: Some(probe.command).filter(|command| !command.is_empty()).and_then(Said::anew),
        identity: Said::anew(probe.identity),
        timeout: Said::anew(DurationText(probe.timeout)),
        interval: Said::anew(DurationText(probe.interval)),
        settle: Said::anew(DurationText(probe.settle)),
        soak: Said::anew(DurationText(probe.soak)),
        tolerate: Said::anew(probe.tolerate),
    }
}
