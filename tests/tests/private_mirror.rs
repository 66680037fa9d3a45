//! A mirror with a CA of its own, behind a proxy, that wants a password: through the real binary, and the secrets
//! are nowhere afterwards.
#![expect(clippy::expect_used, reason = "a test says what it expects by panicking")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use myriarch_tests::{
    collector::StandIn,
    machine::{Machine, Plan, words},
    programs::Programs,
    proxy::Proxy,
    server::Lie,
    tls,
    untouched::Untouched,
};

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";
const SECRETS: [&str; 4] = ["hush-mirror", "hush-proxy", "aHVzaC1taXJyb3I", "bWU6aHVzaC"];

/// A machine that runs [`OLD`] and is not running now.
fn machine() -> Machine {
    let plan = Plan { soak: Duration::from_millis(200), ..Plan::default() };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    machine.start_with(OLD, &StandIn::version(OLD).build());
    assert_eq!(machine.stop(), Some(0));
    machine
}

fn write_secret(path: &Path, content: &str, mode: u32) {
    fs::write(path, content).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

fn begin(machine: &mut Machine, source: &str) {
    machine.set_source(source);
    machine.start();
    machine.wait_idle();
    machine.wait(Duration::from_secs(30), "the old version to be healthy", |machine| {
        machine.running_version().as_deref() == Some(OLD)
    });
}

/// Refused with nothing touched, in these words.
fn is_refused(machine: &Machine, expected: &[&str]) {
    let before = Untouched::of(machine);
    let output = machine.verb(&["update"]);
    let said = words(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in expected {
        assert!(said.contains(word), "expected {word:?} in {said}");
    }
    assert_eq!(Untouched::of(machine), before, "{said}");
}

fn updates(machine: &Machine) {
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(0), "{}\n--- run\n{}", words(&output), machine.log());
    assert_eq!(machine.running_version().as_deref(), Some(NEW));
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path()),
            Ok(kind) if kind.is_file() => vec![entry.path()],
            _ => vec![],
        })
        .collect()
}

/// No verb says it, no file has it but the two that were given, no command line shows it.
fn the_secrets_are_nowhere(machine: &Machine, given: &[PathBuf]) {
    let clean = |place: &str, bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} is in {place}:\n{text}");
        }
    };
    for verb in [
        &["status"][..],
        &["status", "--json"],
        &["history"],
        &["config", "show"],
        &["config", "check"],
        &["check"],
        &["update"],
    ] {
        clean(&verb.join(" "), words(&machine.verb(verb)).as_bytes());
    }
    let mut seen = 0;
    for path in files_below(machine.path()).iter().filter(|path| !given.contains(path)) {
        // Another process may remove it, and programs are no place for it.
        if !path.components().any(|part| part.as_os_str() == "bin") {
            clean(&path.to_string_lossy(), &fs::read(path).unwrap_or_default());
            seen += 1;
        }
    }
    assert!(seen > 5, "logs, journal, manifests and status were looked at");
    for pid in machine.processes() {
        for name in ["cmdline", "environ"] {
            clean(name, &fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default());
        }
    }
}

#[test]
fn a_private_ca_a_proxy_and_a_password_are_enough_and_the_secrets_are_nowhere_afterwards() {
    let mut machine = machine();
    let url = tls::before(machine.server().address());
    let host = url.trim_start_matches("https://").to_owned();
    let proxy = Proxy::with_key(&[(&host, host.parse().expect("an address"))], "Basic bWU6aHVzaC1wcm94eQ==");
    let secret = machine.path().join("mirror.credentials");
    write_secret(&secret, "me:hush-mirror\n", 0o644);
    machine.offer_program(NEW, &StandIn::version(NEW).build());
    let source = format!(
        "kind = \"http\"\nindex = \"{url}/index.json\"\nca = \"{}\"\nproxy = \"http://me:hush-proxy@{}\"\ncredentials = \"{}\"",
        tls::ca().display(),
        proxy.address(),
        secret.display()
    );
    begin(&mut machine, &source);

    let hint = format!("hint: chmod 600 {}", secret.display());
    is_refused(&machine, &["refused at select", "expected mode 0600 or less, found mode 0644", &hint]);
    write_secret(&secret, "hush-mirror\n", 0o600);
    is_refused(&machine, &["expected `Bearer <token>` or `<user>:<password>` as its first line"]);

    // What was mended counts without a restart.
    write_secret(&secret, "me:hush-mirror\n", 0o600);
    machine.server().lie_times("/index.json", 1, Lie::Status { code: 401, retry_after: None });
    is_refused(&machine, &["expected status 200, found 401", "hint: the server wants other credentials"]);
    let before = machine.server().requests().len();
    updates(&machine);

    let asked = machine.server().requests().split_off(before);
    let expected = Some("Basic bWU6aHVzaC1taXJyb3I=");
    assert!(asked.len() >= 4 && asked.iter().all(|request| request.header("authorization") == expected));
    assert!(proxy.asked().iter().all(|asked| asked.starts_with(&format!("CONNECT {host} "))));
    // The index was sent once, and then asked after.
    let index: Vec<_> = asked.iter().filter(|request| request.path == "/index.json").collect();
    let conditions: Vec<_> = index.iter().map(|request| request.header("if-none-match").is_some()).collect();
    assert!(conditions.len() > 1 && !conditions[0] && conditions[1..].iter().all(|known| *known));

    the_secrets_are_nowhere(&machine, &[secret, machine.configuration()]);
}

#[test]
fn a_ca_that_is_not_known_is_refused_with_the_way_out() {
    let mut machine = machine();
    let url = tls::before(machine.server().address());
    machine.offer_program(NEW, &StandIn::version(NEW).build());
    let ca = machine.path().join("ca.pem");
    fs::copy(tls::other_ca(), &ca).expect("a file");
    let source =
        format!("kind = \"http\"\nindex = \"{url}/index.json\"\nca = \"{}\"\nproxy = \"none\"", ca.display());
    begin(&mut machine, &source);
    let expected =
        ["expected a server that this machine trusts", "UnknownIssuer", "name its file in `source.ca`"];
    is_refused(&machine, &expected);

    assert_eq!(machine.stop(), Some(0));
    fs::write(&ca, "no certificate").expect("a file");
    begin(&mut machine, &source);
    let found = format!("{}: expected certificates of authorities in PEM form, found none", ca.display());
    is_refused(&machine, &[&found, "from BEGIN to END CERTIFICATE"]);

    // A file that is mended counts at the next look.
    fs::copy(tls::ca(), &ca).expect("a file");
    updates(&machine);
}

#[test]
fn a_password_in_a_url_is_nowhere_afterwards() {
    let mut machine = machine();
    machine.offer_program(NEW, &StandIn::version(NEW).build());
    let index = format!("http://me:hush-mirror@{}/index.json", machine.server().address());
    begin(&mut machine, &format!("kind = \"http\"\nindex = \"{index}\""));
    machine.server().lie_times("/index.json", 1, Lie::Status { code: 403, retry_after: None });
    is_refused(&machine, &["refused at select", "expected status 200, found 403"]);
    updates(&machine);
    let asked = machine.server().requests().pop().expect("a request");
    assert_eq!(asked.header("authorization"), Some("Basic bWU6aHVzaC1taXJyb3I="));
    the_secrets_are_nowhere(&machine, &[machine.configuration()]);
}
