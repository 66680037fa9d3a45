//! From what the file says to what the program uses: defaults, and every rule about single values and about
//! values together. Each section is judged on its own, so that one section's fault does not hide another's.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use myriarch_systemd::UnitName;

use super::{
    CONFIG_SCHEMA, CheckInterval, ChildRestart, CommandRestart, Components, Config, IdentityCheck, Keyless,
    Pin, Policy, Prerelease, Probe, Program, Restart, Run, ServiceName, Source, SourceKind, StopSignal,
    Store, SystemdRestart, Templates, Trial, Trust, Validate, connection,
    file::{
        self, File, KeylessTable, PolicyTable, ProbeTable, ProgramTable, RestartKind, RestartTable, RunTable,
        SourceTable, StoreTable, TrialTable, TrustTable, ValidateTable,
    },
    problem::{Position, Problems},
    section::Said,
    template,
    url::{hiding, is_url},
};
use crate::duration::DurationText;

const DEFAULT_KEEP: u32 = 2;
const DEFAULT_CHECK: Duration = Duration::from_hours(1);
const DEFAULT_MAX_ARCHIVE: u64 = 1 << 30;
/// Longer than the ten seconds that the supervisor gives its collector.
const DEFAULT_STOP: Duration = Duration::from_secs(15);
const DEFAULT_COMMAND: Duration = Duration::from_secs(90);
const DEFAULT_MINUTE: Duration = Duration::from_mins(1);
const DEFAULT_READING: Duration = Duration::from_secs(2);
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
const DEFAULT_TOLERATE: u32 = 2;
const DEFAULT_TRIES: u8 = 2;
/// Where the collector's `health_check` extension answers unless told otherwise.
const DEFAULT_HTTP: &str = "http://127.0.0.1:13133/";
/// A Unix socket's path has at most 107 bytes (unix(7)); the rest is for the socket's name.
const MAX_RUN_DIRECTORY: usize = 90;

/// The validated configuration; none when something needed is missing or wrong, which is then a problem.
pub(crate) fn config(file: File, problems: &mut Problems<'_>) -> Option<Config> {
    if file.schema.is_none() && !problems.mention("schema") {
        problems.add_with_hint(None, "`schema` is missing", format!("schema = {CONFIG_SCHEMA}"));
    }
    let service = service(file.service, problems);
    // A stand-in lets the other sections be judged; a problem is already told.
    let name = service.as_ref().map_or("-", ServiceName::as_str);
    let store = store(file.store, name, problems);
    let run = run(file.run, name, problems);
    let program = program(file.program, problems);
    let source = source(file.source, problems);
    let trust = trust(file.trust, problems);
    let policy = policy(file.policy, problems);
    let restart = restart(file.restart, problems);
    let validate = validate(file.validate, restart.as_ref(), problems);
    let probe = probe(file.probe, problems);
    let trial = trial(file.trial, problems);
    Some(Config {
        service: service?,
        program: program?,
        store,
        run,
        source: source?,
        trust,
        policy,
        restart: restart?,
        validate,
        probe,
        trial,
    })
}

fn service(said: Option<Said<String>>, problems: &mut Problems<'_>) -> Option<ServiceName> {
    let Some(said) = said else {
        if !problems.mention("service") {
            let hint = "service = \"otelcol\", above the first section";
            problems.add_with_hint(None, "`service` is missing", hint);
        }
        return None;
    };
    said.value.parse().map_err(|error| problems.add(said.at, format!("`service`: {error}"))).ok()
}

fn program(table: ProgramTable, problems: &mut Problems<'_>) -> Option<Program> {
    let binary = required(table.binary, "program.binary", problems)?;
    let at = binary.at;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '_' | '-');
    let binary = binary.value;
    if binary.is_empty() || binary.len() > 128 || binary.starts_with('.') || !binary.chars().all(allowed) {
        let message = format!("`program.binary`: expected a file name of [0-9A-Za-z.+_-], found {binary:?}");
        problems.add(at, message);
    }
    let distribution = table.distribution.map_or_else(|| binary.clone(), |said| said.value);
    Some(Program { binary, distribution })
}

fn store(table: StoreTable, service: &str, problems: &mut Problems<'_>) -> Store {
    let path = absolute(table.path, "store.path", problems);
    Store {
        path: path.unwrap_or_else(|| PathBuf::from(format!("/opt/myriarch/{service}"))),
        keep: value(table.keep, DEFAULT_KEEP),
    }
}

fn run(table: RunTable, service: &str, problems: &mut Problems<'_>) -> Run {
    let at = table.directory.as_ref().and_then(|said| said.at);
    let directory = absolute(table.directory, "run.directory", problems)
        .unwrap_or_else(|| PathBuf::from(format!("/run/myriarch/{service}")));
    let length = directory.as_os_str().len();
    if length > MAX_RUN_DIRECTORY {
        let message = format!(
            "`run.directory`: expected at most {MAX_RUN_DIRECTORY} bytes, as the control socket's path is limited, found {length}"
        );
        problems.add(at, message);
    }
    let check_interval =
        table.check_interval.map_or(CheckInterval::Every(DEFAULT_CHECK), |said| said.value.0);
    Run { directory, check_interval }
}

fn source(mut table: SourceTable, problems: &mut Problems<'_>) -> Option<Source> {
    let kind = required(table.kind.take(), "source.kind", problems)?;
    let kind = match kind.value {
        file::SourceKind::Http => {
            foreign(table.path.as_ref(), "source.path", "kind = \"directory\"", problems);
            let index = table.index.take().inspect(|index| {
                url(index, "source.index", problems);
                placeholders(index, "source.index", &[], problems);
            });
            let checksum = released_file(table.checksum.take(), "source.checksum", problems);
            let bundle = released_file(table.bundle.take(), "source.bundle", problems);
            let templates = match table.archive.take() {
                Some(archive) => {
                    archive_template(&archive, problems);
                    Some(Templates { archive: archive.value, checksum, bundle })
                }
                None if checksum.is_some() || bundle.is_some() => {
                    let message = "`source.archive` is missing, but `checksum` or `bundle` is there";
                    problems.add(problems.section_of("source"), message);
                    None
                }
                None => None,
            };
            if index.is_none() && templates.is_none() {
                problems.add_with_hint(
                    problems.section_of("source"),
                    "`source`: expected `index` or `archive` for kind = \"http\", found neither",
                    "without an index nothing can be listed; with an archive template alone, `update --to VERSION` works",
                );
            }
            let index = index.map(|said| said.value);
            let urls = urls(index.as_ref(), templates.as_ref());
            let connection = connection::connection(&mut table, &urls, problems);
            SourceKind::Http { index, templates, connection }
        }
        file::SourceKind::Directory => {
            for (said, key) in [
                (&table.index, "source.index"),
                (&table.archive, "source.archive"),
                (&table.checksum, "source.checksum"),
                (&table.bundle, "source.bundle"),
            ] {
                foreign(said.as_ref(), key, "kind = \"http\"", problems);
            }
            connection::none(&table, problems);
            let path = required(table.path, "source.path", problems)?;
            SourceKind::Directory { path: absolute(Some(path), "source.path", problems)? }
        }
    };
    let max_archive = table.max_archive.map_or(DEFAULT_MAX_ARCHIVE, |said| {
        if said.value.0 == 0 {
            problems.add(said.at, "`source.max_archive`: expected more than nothing, found 0");
        }
        said.value.0
    });
    Some(Source { kind, max_archive })
}

/// The URLs that a source is told, by their keys.
fn urls(index: Option<&String>, templates: Option<&Templates>) -> Vec<(&'static str, String)> {
    let files = templates.map(|files| {
        [
            ("source.archive", Some(&files.archive)),
            ("source.checksum", files.checksum.as_ref()),
            ("source.bundle", files.bundle.as_ref()),
        ]
    });
    let files = files.into_iter().flatten();
    let urls = files.chain([("source.index", index)]).filter_map(|(key, url)| Some((key, url?)));
    // What begins with the archive's URL is where the archive is.
    urls.filter(|(_, url)| !url.starts_with("{archive}")).map(|(key, url)| (key, url.clone())).collect()
}

fn archive_template(archive: &Said<String>, problems: &mut Problems<'_>) {
    url(archive, "source.archive", problems);
    placeholders(archive, "source.archive", &["version", "os", "arch"], problems);
    if !archive.value.contains("{version}") {
        let message =
            format!("`source.archive`: expected {{version}} in it, found {:?}", hiding(&archive.value));
        problems.add(archive.at, message);
    }
}

fn released_file(said: Option<Said<String>>, key: &str, problems: &mut Problems<'_>) -> Option<String> {
    said.map(|said| {
        if !said.value.starts_with("{archive}") {
            url(&said, key, problems);
        }
        placeholders(&said, key, &["archive", "version", "os", "arch"], problems);
        said.value
    })
}

fn trust(table: TrustTable, problems: &mut Problems<'_>) -> Trust {
    if table.keyless.is_empty() && table.pins.is_empty() && !problems.mention_within("trust") {
        problems.add_with_hint(
            problems.section_of("trust"),
            "`trust`: expected at least one [[trust.keyless]] rule or one of [trust.pins], found none",
            "nothing is trusted unless a rule says so",
        );
    }
    let keyless = table.keyless.into_iter().filter_map(|rule| keyless(rule, problems)).collect();
    let mut pins: Vec<Pin> = Vec::new();
    for (version, archive) in table.pins {
        let parsed = match version.value.parse::<myriarch_policy::Version>() {
            Ok(parsed) => parsed,
            Err(error) => {
                problems.add(version.at, format!("`trust.pins`: {error}"));
                continue;
            }
        };
        if let Some(twin) = pins.iter().find(|pin| pin.version.names_same(&parsed)) {
            let message =
                format!("`trust.pins`: expected each version once, found {} and {parsed}", twin.version);
            problems.add(version.at, message);
        }
        pins.push(Pin { version: parsed, archive: archive.value });
    }
    Trust { keyless, pins }
}

fn keyless(rule: Said<KeylessTable>, problems: &mut Problems<'_>) -> Option<Keyless> {
    let Said { value: table, at } = rule;
    let issuer = required_in(at, table.issuer, "trust.keyless.issuer", problems);
    let identity = required_in(at, table.identity, "trust.keyless.identity", problems);
    let trusted_root = absolute(table.trusted_root, "trust.keyless.trusted_root", problems);
    let claims = table.claims.map_or_else(BTreeMap::new, |said| {
        for (claim, expected) in &said.value {
            if let Err(reason) = template::check(expected, &["version"]) {
                problems.add(said.at, format!("`trust.keyless.claims.{claim}`: {reason}"));
            }
        }
        said.value
    });
    let mut require = table.require.map_or_else(Vec::new, |said| said.value);
    require.sort_unstable();
    require.dedup();
    let (issuer, identity) = (issuer?, identity?);
    placeholders(&issuer, "trust.keyless.issuer", &[], problems);
    placeholders(&identity, "trust.keyless.identity", &["version"], problems);
    for (said, key) in [(&issuer, "issuer"), (&identity, "identity")] {
        if said.value.trim().is_empty() {
            problems.add(said.at, format!("`trust.keyless.{key}`: expected a name, found nothing"));
        }
    }
    Some(Keyless { issuer: issuer.value, identity: identity.value, trusted_root, require, claims })
}

fn policy(table: PolicyTable, problems: &mut Problems<'_>) -> Policy {
    let min_version = table.min_version.map(|said| {
        if !said.value.is_semver() {
            problems.add(
                said.at,
                format!(
                    "`policy.min_version`: expected a semantic version, as others have no order, found {:?}",
                    said.value.as_str()
                ),
            );
        }
        said.value
    });
    Policy { min_version, prerelease: value(table.prerelease, Prerelease::Skip) }
}

fn restart(table: RestartTable, problems: &mut Problems<'_>) -> Option<Restart> {
    let kind = required(table.kind, "restart.kind", problems)?;
    if kind.value != RestartKind::Systemd {
        foreign(table.unit.as_ref(), "restart.unit", "kind = \"systemd\"", problems);
    }
    if kind.value != RestartKind::Child {
        let only = "kind = \"child\"";
        foreign(table.environment.as_ref(), "restart.environment", only, problems);
        foreign(table.working_directory.as_ref(), "restart.working_directory", only, problems);
        foreign(table.stop_signal.as_ref(), "restart.stop_signal", only, problems);
        foreign(table.stop_timeout.as_ref(), "restart.stop_timeout", only, problems);
    }
    if kind.value != RestartKind::Command {
        foreign(table.stop_command.as_ref(), "restart.stop_command", "kind = \"command\"", problems);
    }
    match kind.value {
        RestartKind::Child => {
            let only = "kind = \"command\" or \"systemd\"";
            foreign(table.timeout.as_ref(), "restart.timeout", only, problems);
            let child = ChildRestart {
                environment: environment(table.environment, "restart.environment", problems),
                working_directory: absolute(table.working_directory, "restart.working_directory", problems)
                    .unwrap_or_else(|| PathBuf::from("/")),
                stop_signal: value(table.stop_signal, StopSignal::Interrupt),
                stop_timeout: some_time(
                    table.stop_timeout.as_ref(),
                    DEFAULT_STOP,
                    "restart.stop_timeout",
                    problems,
                ),
                command: command(
                    required(table.command, "restart.command", problems)?,
                    "restart.command",
                    problems,
                ),
            };
            Some(Restart::Child(child))
        }
        RestartKind::Command => {
            let timeout = some_time(table.timeout.as_ref(), DEFAULT_COMMAND, "restart.timeout", problems);
            let start = required(table.command, "restart.command", problems);
            let stop = required(table.stop_command, "restart.stop_command", problems);
            Some(Restart::Command(CommandRestart {
                command: command(start?, "restart.command", problems),
                stop_command: command(stop?, "restart.stop_command", problems),
                timeout,
            }))
        }
        RestartKind::Systemd => {
            let only = "kind = \"child\" or \"command\"";
            foreign(table.command.as_ref(), "restart.command", only, problems);
            let timeout = table.timeout.as_ref();
            let timeout =
                timeout.map(|said| some_time(Some(said), DEFAULT_COMMAND, "restart.timeout", problems));
            let unit = required(table.unit, "restart.unit", problems)?;
            match unit.value.parse::<UnitName>() {
                Ok(unit) => Some(Restart::Systemd(SystemdRestart { unit, timeout })),
                Err(error) => {
                    let hint = "`systemctl list-units --type=service` lists them";
                    problems.add_with_hint(unit.at, format!("`restart.unit`: {error}"), hint);
                    None
                }
            }
        }
    }
}

fn validate(table: ValidateTable, restart: Option<&Restart>, problems: &mut Problems<'_>) -> Validate {
    let list = |said: Option<Said<Vec<String>>>| value(said, Vec::new());
    let components = match table.components {
        Some(table) => Components {
            receivers: list(table.receivers),
            processors: list(table.processors),
            exporters: list(table.exporters),
            connectors: list(table.connectors),
            extensions: list(table.extensions),
        },
        // Under the supervisor a collector without the opamp extension hangs in bootstrap with an opaque message.
        None if restart.is_some_and(starts_supervisor) => {
            Components { extensions: vec!["opamp".to_owned()], ..Components::default() }
        }
        None => Components::default(),
    };
    Validate {
        effective: absolute(table.effective, "validate.effective", problems),
        configuration: absolute(table.configuration, "validate.configuration", problems),
        components,
        timeout: some_time(table.timeout.as_ref(), DEFAULT_MINUTE, "validate.timeout", problems),
        arguments: arguments(table.arguments, "validate.arguments", problems),
        environment: environment(table.environment, "validate.environment", problems),
        user: table.user.map(|said| said.value),
        group: table.group.map(|said| said.value),
        working_directory: absolute(table.working_directory, "validate.working_directory", problems),
    }
}

/// Whether the child is the OpAMP Supervisor, as its file name tells.
fn starts_supervisor(restart: &Restart) -> bool {
    let Restart::Child(child) = restart else { return false };
    let name = child.command.first().and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name.to_string_lossy().contains("opampsupervisor"))
}

fn probe(table: ProbeTable, problems: &mut Problems<'_>) -> Probe {
    let command = match table.command {
        Some(said) => command(said, "probe.command", problems),
        None => Vec::new(),
    };
    let http_at = table.http.as_ref().and_then(|said| said.at);
    let http = match table.http {
        Some(said) => Some(said.value),
        None if command.is_empty() => Some(DEFAULT_HTTP.to_owned()),
        None => None,
    };
    if let Some(url) = &http
        && !is_url(url, &["http"])
    {
        let message = format!("`probe.http`: expected an http:// URL, found {:?}", hiding(url));
        problems.add_with_hint(http_at, message, "the probe asks the collector on this machine, without TLS");
    }
    let identity = match table.identity {
        Some(Said { value: IdentityCheck::Listener, at }) if http.is_none() => {
            problems.add(at, "`probe.identity`: expected `probe.http` for \"listener\", found none");
            IdentityCheck::Listener
        }
        Some(said) => said.value,
        None if http.is_some() => IdentityCheck::Listener,
        None => IdentityCheck::Skip,
    };
    Probe {
        http,
        command,
        identity,
        timeout: some_time(table.timeout.as_ref(), DEFAULT_READING, "probe.timeout", problems),
        interval: some_time(table.interval.as_ref(), DEFAULT_INTERVAL, "probe.interval", problems),
        settle: some_time(table.settle.as_ref(), DEFAULT_MINUTE, "probe.settle", problems),
        soak: table.soak.map_or(DEFAULT_MINUTE, |said| said.value.0),
        tolerate: value(table.tolerate, DEFAULT_TOLERATE),
    }
}

fn trial(table: TrialTable, problems: &mut Problems<'_>) -> Trial {
    Trial { tries: value(table.tries, DEFAULT_TRIES), log: absolute(table.log, "trial.log", problems) }
}

fn value<T>(said: Option<Said<T>>, default: T) -> T {
    said.map_or(default, |said| said.value)
}

fn required<T>(said: Option<Said<T>>, key: &str, problems: &mut Problems<'_>) -> Option<Said<T>> {
    let section = problems.section_of(key);
    required_in(section, said, key, problems)
}

fn required_in<T>(
    section: Option<Position>,
    said: Option<Said<T>>,
    key: &str,
    problems: &mut Problems<'_>,
) -> Option<Said<T>> {
    // A value of the wrong type is already a problem of its own; do not call it missing as well.
    if said.is_none() && !problems.mention(key) {
        problems.add(section, format!("`{key}` is missing"));
    }
    said
}

/// A key that another kind of its section has.
pub(super) fn foreign<T>(said: Option<&Said<T>>, key: &str, only: &str, problems: &mut Problems<'_>) {
    if let Some(said) = said {
        problems.add(said.at, format!("`{key}`: expected only with {only}"));
    }
}

pub(super) fn some_time(
    said: Option<&Said<DurationText>>,
    default: Duration,
    key: &str,
    problems: &mut Problems<'_>,
) -> Duration {
    let Some(&Said { value: DurationText(duration), at }) = said else { return default };
    if duration.is_zero() {
        problems.add(at, format!("`{key}`: expected more than no time, found \"0s\""));
    }
    duration
}

pub(super) fn absolute(
    said: Option<Said<PathBuf>>,
    key: &str,
    problems: &mut Problems<'_>,
) -> Option<PathBuf> {
    let Said { value: path, at } = said?;
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !plain || has_nul(&path.to_string_lossy()) {
        problems
            .add(at, format!("`{key}`: expected an absolute path without `..`, found {}", path.display()));
    }
    Some(path)
}

fn command(said: Said<Vec<String>>, key: &str, problems: &mut Problems<'_>) -> Vec<String> {
    let program = said.value.first().map_or("", String::as_str);
    if program.is_empty() {
        problems.add(said.at, format!("`{key}`: expected a program and its arguments, found no program"));
    } else if program.contains('/') && !program.starts_with('/') {
        let message = format!("`{key}`: expected an absolute path or a bare name, found {program:?}");
        problems.add(said.at, message);
    }
    arguments(Some(said), key, problems)
}

fn arguments(said: Option<Said<Vec<String>>>, key: &str, problems: &mut Problems<'_>) -> Vec<String> {
    let Some(said) = said else { return Vec::new() };
    if said.value.iter().any(|argument| has_nul(argument)) {
        problems.add(said.at, format!("`{key}`: expected arguments without NUL, found one"));
    }
    said.value
}

fn environment(
    said: Option<Said<BTreeMap<String, String>>>,
    key: &str,
    problems: &mut Problems<'_>,
) -> BTreeMap<String, String> {
    let Some(said) = said else { return BTreeMap::new() };
    for (name, value) in &said.value {
        if name.is_empty() || name.contains('=') || has_nul(name) || has_nul(value) {
            let message = format!("`{key}`: expected names without `=` and NUL, found {name:?}");
            problems.add(said.at, message);
        }
    }
    said.value
}

fn has_nul(text: &str) -> bool {
    text.contains('\0')
}

fn url(said: &Said<String>, key: &str, problems: &mut Problems<'_>) {
    if !is_url(&said.value, &["https", "http"]) {
        let found = hiding(&said.value);
        problems.add(said.at, format!("`{key}`: expected an https:// or http:// URL, found {found:?}"));
    }
}

fn placeholders(said: &Said<String>, key: &str, known: &[&str], problems: &mut Problems<'_>) {
    if known.is_empty() {
        if said.value.contains(['{', '}']) {
            let found = hiding(&said.value);
            problems.add(said.at, format!("`{key}`: expected no placeholders, found {found:?}"));
        }
    } else if let Err(reason) = template::check(&said.value, known) {
        problems.add(said.at, format!("`{key}`: {reason}"));
    }
}
