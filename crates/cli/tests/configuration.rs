//! What the configuration file promises: understood completely or refused with every reason.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use myriarch_cli::config::{
    Account, CheckInterval, Config, ConfigError, IdentityCheck, Prerelease, Problem, Proxy, Restart,
    SourceKind, StopSignal,
};

const MINIMAL: &str = r#"
schema = 1
service = "otelcol"
[program]
binary = "otelcol-contrib"
[source]
kind = "directory"
path = "/srv/releases"
[trust.pins]
"0.149.0" = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
[restart]
kind = "child"
command = ["/usr/bin/opampsupervisor", "--config", "/etc/otelcol/supervisor.yaml"]
"#;

const PATH: &str = "/etc/myriarch/otelcol.toml";

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new(PATH))
}

fn problems(text: &str) -> Vec<Problem> {
    match parse(text) {
        Err(ConfigError::Invalid { problems, .. }) => problems,
        other => panic!("expected problems, found {other:?}"),
    }
}

/// The only problem of `MINIMAL` with `from` replaced by `to`, as `line:column message (hint)`.
fn problem_after(from: &str, to: &str) -> String {
    assert!(MINIMAL.contains(from), "{from}");
    let problems = problems(&MINIMAL.replacen(from, to, 1));
    assert_eq!(problems.len(), 1, "{problems:#?}");
    let Problem { at, message, hint } = &problems[0];
    let at = at.map(|at| format!("{at} ")).unwrap_or_default();
    let hint = hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{at}{message}{hint}")
}

#[test]
fn the_least_file_gets_every_documented_default() {
    let config = parse(MINIMAL).unwrap();
    assert_eq!(config.service.as_str(), "otelcol");
    assert_eq!(config.program.distribution, "otelcol-contrib");
    assert_eq!(config.store.path, Path::new("/opt/myriarch/otelcol"));
    assert_eq!(config.store.keep, 2);
    assert_eq!(config.run.directory, Path::new("/run/myriarch/otelcol"));
    assert_eq!(config.run.check_interval, CheckInterval::Every(Duration::from_hours(1)));
    assert_eq!(config.source.max_archive, 1 << 30);
    assert_eq!(config.policy.prerelease, Prerelease::Skip);
    assert_eq!(config.policy.min_version, None);
    let Restart::Child(child) = &config.restart else { panic!("{:?}", config.restart) };
    assert_eq!(child.stop_signal, StopSignal::Interrupt);
    assert_eq!(child.stop_timeout, Duration::from_secs(15));
    assert_eq!(child.working_directory, Path::new("/"));
    assert_eq!(config.validate.components.extensions, ["opamp"]);
    assert_eq!(config.validate.timeout, Duration::from_mins(1));
    assert_eq!(config.probe.http.as_deref(), Some("http://127.0.0.1:13133/"));
    assert_eq!(config.probe.identity, IdentityCheck::Listener);
    assert_eq!(
        (config.probe.timeout, config.probe.interval),
        (Duration::from_secs(2), Duration::from_secs(1))
    );
    assert_eq!((config.probe.settle, config.probe.soak), (Duration::from_mins(1), Duration::from_mins(1)));
    assert_eq!((config.probe.tolerate, config.trial.tries), (2, 2));
}

#[test]
fn the_example_is_valid_and_its_commented_defaults_are_the_defaults() {
    let example = parse(Config::example()).unwrap();
    assert_eq!(Config::default_path(&example.service), Path::new(PATH));

    // Uncommenting every `# key = value` whose text gives it as the default must change nothing.
    let no_default = [
        "index",
        "ca =",
        "credentials",
        "path = \"/srv",
        "trusted_root",
        "\"0.149.0\"",
        "min_version",
        "stop_command",
        "unit",
        "arguments",
        "environment",
        "user",
        "group",
        "working_directory = \"/\"\n\n# Components",
        "components",
        "command = [\"/usr",
        "timeout = \"90s\"",
        "log",
    ];
    let mut after_example = Config::example().to_owned();
    for line in Config::example().lines() {
        let Some(setting) = line.strip_prefix("# ").filter(|rest| is_setting(rest)) else { continue };
        if no_default.iter().any(|skip| setting.starts_with(skip)) {
            continue;
        }
        after_example = after_example.replacen(&format!("\n{line}\n"), &format!("\n{setting}\n"), 1);
    }
    assert!(after_example.contains("\nkeep = 2\n") && after_example.contains("\nsoak = \"60s\"\n"));
    let mut uncommented = parse(&after_example).unwrap();
    // The one key whose shown value is an example in the section where nothing runs.
    uncommented.validate.working_directory = None;
    assert_eq!(uncommented, example);
}

fn is_setting(rest: &str) -> bool {
    let (key, value) = rest.split_once(" = ").unwrap_or(("", ""));
    !value.is_empty() && !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

#[test]
fn what_is_shown_reads_back_as_the_same() {
    let full = r#"
schema = 1
service = "edge-1"
[program]
binary = "col"
distribution = "otelcol \"quoted\" \u001b"
[store]
path = "/data/col"
keep = 0
[run]
directory = "/run/c"
check_interval = "off"
[source]
kind = "http"
index = "http://127.0.0.1:8080/index.json"
archive = "https://h/{version}/{os}-{arch}.tgz"
checksum = "https://h/{version}.sha256"
bundle = "{archive}.sigstore.json"
max_archive = "300MiB"
ca = "/etc/ca.pem"
proxy = "http://proxy:3128"
credentials = "/etc/secret"
connect_timeout = "3s"
first_byte_timeout = "4s"
stall_timeout = "5s"
[[trust.keyless]]
issuer = "https://issuer"
identity = "https://id/{version}"
require = ["sct", "inclusion-proof", "timestamp", "sct"]
claims = { build_config_uri = "x@{version}" }
[[trust.keyless]]
issuer = "https://other"
identity = "fixed"
trusted_root = "/etc/root.json"
[trust.pins]
"0.1.0+a" = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"dev" = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
[policy]
min_version = "0.1.0"
prerelease = "allow"
[restart]
kind = "command"
command = ["systemctl", "restart", "c"]
stop_command = ["systemctl", "stop", "c"]
timeout = "1m500ms"
[validate]
effective = "/v/e.yaml"
configuration = "/v/c.yaml"
components = { receivers = ["otlp"], exporters = [] }
arguments = ["--set=a=b"]
environment = { A = "{program}" }
user = 10001
group = "adm"
working_directory = "/v"
[probe]
command = ["/bin/true", "{program}"]
soak = "0s"
tolerate = 0
[trial]
tries = 0
log = "/var/log/col.log"
"#;
    for text in [MINIMAL, full, Config::example()] {
        let mut config = parse(text).unwrap();
        let shown = config.show();
        let again = parse(&shown).unwrap_or_else(|error| panic!("{error}\n{shown}"));
        // `show` names the inclusion proof, which is demanded with or without being named.
        for rule in &mut config.trust.keyless {
            rule.require.insert(0, myriarch_cli::config::Requirement::InclusionProof);
            rule.require.dedup();
        }
        assert_eq!(again, config, "{shown}");
        assert_eq!(again.show(), shown);
    }
    let config = parse(full).unwrap();
    assert_eq!(config.validate.user, Some(Account::Id(10001)));
    assert_eq!((config.probe.http, config.probe.identity), (None, IdentityCheck::Skip));
    assert!(config.validate.components.extensions.is_empty());
}

#[test]
fn every_problem_of_a_file_is_told_with_its_line() {
    let text = r#"schema = 1
service = "Otel Col"
[program]
binari = "otelcol"
[store]
keep = "two"
tries = 3
[source]
kind = "htp"
[trust]
keyless = 1
[restart]
kind = "child"
command = []
stop_timeout = 15
[probee]
[probe]
soak = "1 hour"
"#;
    let error = parse(text).unwrap_err();
    let expected = r#"/etc/myriarch/otelcol.toml:2:11: `service`: expected a service name of 1 to 64 characters of [a-z0-9-], found "Otel Col"
/etc/myriarch/otelcol.toml:3:2: `program.binary` is missing
/etc/myriarch/otelcol.toml:4:1: unknown key `binari` in [program] (did you mean `binary`?)
/etc/myriarch/otelcol.toml:6:8: `store.keep`: expected a number from 0 to 4294967295, found string "two"
/etc/myriarch/otelcol.toml:7:1: unknown key `tries` in [store] (`tries` belongs to [trial])
/etc/myriarch/otelcol.toml:9:8: `source.kind`: expected `http` or `directory`, found `htp`
/etc/myriarch/otelcol.toml:11:1: `trust.keyless`: expected an array of tables ([[trust.keyless]]), found integer
/etc/myriarch/otelcol.toml:14:11: `restart.command`: expected a program and its arguments, found no program
/etc/myriarch/otelcol.toml:15:16: `restart.stop_timeout`: expected a duration such as "90s", "5m", "1h30m" or "250ms", found integer `15`
/etc/myriarch/otelcol.toml:16:2: unknown key `probee` at the top of the file (did you mean `probe`?)
/etc/myriarch/otelcol.toml:18:8: `probe.soak`: expected a duration such as "90s", "5m", "1h30m" or "250ms", found "1 hour""#;
    assert_eq!(error.to_string(), expected);
}

#[test]
fn broken_grammar_is_told_with_its_line() {
    let found = problems("schema = 1\nservice = \"x\n[program\n");
    assert!(found.len() >= 2, "{found:?}");
    assert_eq!(found[0].at.unwrap().line, 2);
}

#[test]
fn a_schema_of_another_version_is_refused_not_guessed() {
    let problem = problem_after("schema = 1", "schema = 2\nnovelty = true");
    assert_eq!(
        problem,
        "2:10 `schema`: expected 1, the only one this version reads, found 2 (the file was written for another version of this program)"
    );
    assert_eq!(problem_after("schema = 1", ""), "`schema` is missing (schema = 1)");
}

#[test]
fn nothing_is_trusted_by_an_empty_trust_section() {
    let pin = "\"0.149.0\" = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"";
    assert!(problem_after(pin, "").contains("expected at least one [[trust.keyless]] rule"));
    assert!(problem_after(pin, "\"0.149.0\" = \"e3b0\"").contains("expected a SHA-256 digest"));
    let twice = format!("{pin}\n{}", pin.replace("0.149", "v0.149"));
    assert!(problem_after(pin, &twice).contains("expected each version once"));
}

#[test]
fn keys_of_another_kind_are_refused() {
    let source = "kind = \"directory\"\npath = \"/srv/releases\"";
    let refused = problem_after(source, &format!("{source}\nindex = \"https://h/i.json\""));
    assert_eq!(refused, "9:9 `source.index`: expected only with kind = \"http\"");
    assert!(problem_after("kind = \"child\"", "kind = \"child\"\ntimeout = \"1s\"").contains("only with"));
    let commands = "kind = \"command\"\nstop_timeout = \"1s\"\nstop_command = [\"x\"]";
    assert!(problem_after("kind = \"child\"", commands).contains("only with kind = \"child\""));
    assert_eq!(
        problem_after("kind = \"child\"", "kind = \"command\""),
        "11:2 `restart.stop_command` is missing"
    );
}

/// `MINIMAL` with a web server at `index` and `more` for a source.
fn with_server(index: &str, more: &str) -> String {
    let server = format!("kind = \"http\"\nindex = \"{index}\"\n{more}");
    MINIMAL.replacen("kind = \"directory\"\npath = \"/srv/releases\"", &server, 1)
}

#[test]
fn servers_are_reached_as_documented_unless_told_otherwise() {
    let SourceKind::Http { connection, .. } =
        parse(&with_server("https://h/i.json", "")).unwrap().source.kind
    else {
        panic!("another kind");
    };
    assert_eq!((connection.proxy, connection.ca, connection.credentials), (Proxy::Environment, None, None));
    let seconds = [connection.connect_timeout, connection.first_byte_timeout, connection.stall_timeout];
    assert_eq!(seconds.map(|time| time.as_secs()), [10, 30, 30]);
}

#[test]
fn a_way_to_a_server_that_cannot_work_is_refused() {
    for (index, more, words) in [
        ("https://h/i", "ca = \"ca.pem\"", "`source.ca`: expected an absolute path"),
        ("https://h/i", "credentials = \"secret\"", "`source.credentials`: expected an absolute path"),
        ("https://h/i", "proxy = \"proxy:3128\"", "expected \"environment\", \"none\" or an http:// URL"),
        ("https://h/i", "proxy = \"https://me:secret@proxy\"", "found \"https://***@proxy\""),
        ("https://h/i", "stall_timeout = \"0s\"", "`source.stall_timeout`: expected more than no time"),
        ("https://h/i", "connect_timeout = 3", "`source.connect_timeout`: expected a duration"),
        (
            "http://h/i",
            "credentials = \"/s\"",
            "`source.credentials`: expected https in `source.index`, found http://h/i (over plain http everybody \
             on the way could read them; only to loopback they may go so)",
        ),
        (
            "https://h/i",
            "credentials = \"/s\"\narchive = \"http://h/{version}\"",
            "expected https in `source.archive`, found http://h/{version}",
        ),
        (
            "https://me:secret@h/i",
            "credentials = \"/s\"",
            "expected no user in `source.index` beside it, found https://***@h/i",
        ),
    ] {
        let found = problems(&with_server(index, more));
        let [Problem { at: Some(_), message, hint }] = &found[..] else { panic!("{found:#?}") };
        let all = format!("{message} ({})", hint.clone().unwrap_or_default());
        assert!(all.contains(words) && !all.contains("secret@"), "{more}: {all}");
    }
    for good in ["http://127.0.0.1:8080/i", "http://[::1]/i", "http://localhost/i", "https://h/i"] {
        parse(&with_server(good, "credentials = \"/s\"")).unwrap();
    }
    for key in ["ca", "proxy", "credentials", "connect_timeout", "first_byte_timeout", "stall_timeout"] {
        let value = if key.ends_with("timeout") { "1s" } else { "/none" };
        let source = "path = \"/srv/releases\"";
        let refused = problem_after(source, &format!("{source}\n{key} = \"{value}\""));
        assert!(
            refused.contains(&format!("`source.{key}`: expected only with kind = \"http\"")),
            "{refused}"
        );
    }
}

#[test]
fn a_secret_in_a_url_is_never_printed() {
    let more = "proxy = \"http://me:hush@proxy\"\narchive = \"https://me:hush@h/{version}\"\n\
                checksum = \"https://me:hush@h/{version}.sum\"\nbundle = \"https://h/{version}.b?sig=hush\"";
    let shown = parse(&with_server("https://me:hush@h/i", more)).unwrap().show();
    assert!(!shown.contains("hush") && shown.contains("https://***@h/{version}.sum"), "{shown}");
    assert!(shown.contains("proxy = \"http://***@proxy\""), "{shown}");
    assert!(shown.contains("bundle = \"https://h/{version}.b?***\""), "{shown}");
    for index in [
        "ftp://me:hush@h/i",
        "ftp://h/i?sig=hush",
        "https://h/{i?sig=hush",
        "https://me:hush@h/{i",
        "https://me:hush@h/ i",
    ] {
        for archive in ["https://me:hush@h/x", "https://me:hush@h/{version", "s://me:hush@h/{version}"] {
            let text = with_server(index, &format!("archive = \"{archive}\""));
            let error = parse(&text).unwrap_err().to_string();
            assert!(!error.contains("hush"), "{error}");
        }
    }
}

/// The base with its `[restart]` section replaced.
fn with_restart(section: &str) -> Result<Config, ConfigError> {
    let before = MINIMAL.split_once("[restart]").map_or("", |(before, _)| before);
    parse(&format!("{before}[restart]\n{section}\n"))
}

#[test]
fn a_unit_is_named_once_and_made_whole() {
    let restart = |section: &str| with_restart(section).unwrap().restart;
    let Restart::Systemd(systemd) = restart("kind = \"systemd\"\nunit = \"otelcol\"") else {
        panic!("another kind")
    };
    assert_eq!((systemd.unit.as_str(), systemd.timeout), ("otelcol.service", None));
    let timed = restart("kind = \"systemd\"\nunit = \"otelcol.service\"\ntimeout = \"2m\"");
    let Restart::Systemd(systemd) = timed else { panic!("another kind") };
    assert_eq!(systemd.timeout, Some(Duration::from_mins(2)));
    let config = with_restart("kind = \"systemd\"\nunit = \"otelcol\"\ntimeout = \"2m\"").unwrap();
    assert_eq!(parse(&config.show()).unwrap(), config);
}

#[test]
fn a_unit_that_cannot_be_is_refused_with_its_line() {
    for (section, words) in [
        ("kind = \"systemd\"", "`restart.unit` is missing"),
        (
            "kind = \"systemd\"\nunit = \"otelcol.timer\"",
            "`restart.unit`: expected the name of a service unit, which ends in .service, found \"otelcol.timer\"",
        ),
        ("kind = \"systemd\"\nunit = \"otelcol@\"", "not a template"),
        (
            "kind = \"systemd\"\nunit = \"a\"\ncommand = [\"x\"]",
            "`restart.command`: expected only with kind = \"child\" or \"command\"",
        ),
        (
            "kind = \"systemd\"\nunit = \"a\"\nstop_command = [\"x\"]",
            "`restart.stop_command`: expected only with kind = \"command\"",
        ),
        (
            "kind = \"systemd\"\nunit = \"a\"\nstop_timeout = \"1s\"",
            "`restart.stop_timeout`: expected only with kind = \"child\"",
        ),
        ("kind = \"systemd\"\nunit = \"a\"\ntimeout = \"0s\"", "expected more than no time"),
        (
            "kind = \"child\"\ncommand = [\"x\"]\nunit = \"a\"",
            "`restart.unit`: expected only with kind = \"systemd\"",
        ),
    ] {
        let error = with_restart(section).unwrap_err().to_string();
        assert!(error.contains(words), "{section}: {error}");
    }
}

#[test]
fn values_that_cannot_work_are_refused() {
    for (from, to, words) in [
        ("\"otelcol-contrib\"", "\"../otelcol\"", "expected a file name"),
        ("\"otelcol-contrib\"", "\"\"", "expected a file name"),
        ("\"/srv/releases\"", "\"releases\"", "expected an absolute path"),
        ("\"/srv/releases\"", "\"/srv/../etc\"", "expected an absolute path without `..`"),
        ("\"/usr/bin/opampsupervisor\"", "\"bin/sup\"", "expected an absolute path or a bare name"),
        ("[restart]", "[probe]\ninterval = \"0s\"\n[restart]", "expected more than no time"),
        ("[restart]", "[probe]\nhttp = \"https://h/\"\n[restart]", "expected an http:// URL"),
        ("[restart]", "[probe]\ncommand = [\"x\"]\nidentity = \"listener\"\n[restart]", "found none"),
        ("[restart]", "[policy]\nmin_version = \"dev\"\n[restart]", "expected a semantic version"),
        ("[restart]", "[run]\ncheck_interval = \"0s\"\n[restart]", "or \"off\""),
        (
            "[restart]",
            "[trial]\ntries = 300\n[restart]",
            "expected a number from 0 to 255, found integer `300`",
        ),
        ("[restart]", "[validate]\nenvironment = { \"A=B\" = \"c\" }\n[restart]", "expected names without"),
        ("[restart]", "[validate]\ncomponents = { extension = [] }\n[restart]", "did you mean `extensions`?"),
        (
            "kind = \"directory\"\npath = \"/srv/releases\"",
            "kind = \"http\"",
            "expected `index` or `archive`",
        ),
        (
            "kind = \"directory\"\npath = \"/srv/releases\"",
            "kind = \"http\"\narchive = \"https://h/{os}\"",
            "expected {version} in it",
        ),
        (
            "kind = \"directory\"\npath = \"/srv/releases\"",
            "kind = \"http\"\narchive = \"https://h/{version}{arhc}\"",
            "did you mean {arch}?",
        ),
        (
            "kind = \"directory\"\npath = \"/srv/releases\"",
            "kind = \"http\"\nindex = \"ftp://h/\"",
            "expected an https:// or http:// URL",
        ),
    ] {
        let problem = problem_after(from, to);
        assert!(problem.contains(words), "{to}: {problem}");
    }
    let long = format!("[run]\ndirectory = \"/{}\"\n[restart]", "d".repeat(90));
    assert!(problem_after("[restart]", &long).contains("at most 90 bytes"));
}

#[test]
fn a_file_that_others_can_write_decides_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("otelcol.toml");
    fs::write(&path, MINIMAL).unwrap();
    for (mode, trusted) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false), (0o666, false)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        match Config::load(&path) {
            Ok(_) => assert!(trusted, "{mode:o}"),
            Err(error @ ConfigError::Untrusted { .. }) => {
                assert!(!trusted, "{mode:o}");
                assert!(error.to_string().contains(&format!("has mode {mode:04o}")), "{error}");
                assert_eq!(error.hint().unwrap(), format!("chmod go-w {}", path.display()));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn what_is_no_plain_file_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert!(matches!(Config::load(&fifo), Err(ConfigError::Unreadable { .. })));
    assert!(matches!(Config::load(directory.path()), Err(ConfigError::Unreadable { .. })));
    let absent = Config::load(&directory.path().join("absent")).unwrap_err();
    assert!(absent.hint().unwrap().contains("config example"));
}

#[test]
fn a_damaged_file_is_refused_or_means_what_it_shows() {
    let example = Config::example();
    let judge = |text: &str| {
        if let Ok(config) = parse(text) {
            let shown = config.show();
            assert_eq!(parse(&shown).unwrap().show(), shown, "{text}");
        }
    };
    for (at, _) in example.char_indices().step_by(5) {
        judge(&example[..at]);
        judge(&format!("{}\u{1b}ü{}", &example[..at], &example[at..]));
    }
    let lines: Vec<_> = example.lines().collect();
    for left_out in 0..lines.len() {
        let kept: Vec<_> = lines.iter().enumerate().filter(|(line, _)| *line != left_out).collect();
        judge(&kept.iter().map(|(_, line)| **line).collect::<Vec<_>>().join("\n"));
    }
}
