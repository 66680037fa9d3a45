//! The control socket: what a second terminal may do, sees, and cannot break.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use myriarch_tests::{
    collector::{End, Health, StandIn},
    machine::{Machine, Plan, Supervised},
    programs::Programs,
};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(30);

/// A machine with 1.0.0 confirmed and `candidate` on offer.
fn machine_with(candidate: &StandIn) -> Machine {
    let plan = Plan {
        settle: Duration::from_secs(6),
        soak: Duration::from_millis(500),
        supervised: Supervised::ByUpdater,
        ..Plan::default()
    };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    machine.start_with("1.0.0", &StandIn::version("1.0.0").build());
    machine.offer_program("2.0.0", &candidate.build());
    machine
}

fn good() -> StandIn {
    StandIn::version("2.0.0")
}

/// A trial of it takes its time.
fn slow() -> StandIn {
    good().health(Health::ReadyAfter { ms: 2000 })
}

fn begin_trial(machine: &Machine) -> Child {
    let mut command = machine.command(&["update"]);
    let update = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // While it is validated its program runs as well, but `current` does not name it.
    machine.wait(SOON, "the trial to begin", |machine| {
        machine.current_version().as_deref() == Some("2.0.0") && !machine.collectors_of("2.0.0").is_empty()
    });
    update
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// It answers and carries out what it is asked.
fn assert_unharmed(machine: &Machine) {
    assert_eq!(machine.running_version().as_deref(), Some("1.0.0"));
    let output = machine.verb(&["check"]);
    assert_eq!(output.status.code(), Some(100), "{output:?}");
}

#[test]
fn the_second_terminal_shows_the_progress_that_run_shows() {
    for (candidate, code) in [(good(), 0), (good().end(End::Exit { ms: 50, code: 1 }), 3)] {
        let machine = machine_with(&candidate);
        let before = machine.log().len();
        let output = machine.verb(&["update"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let told = stderr(&output);
        let shared: Vec<_> = told.lines().take_while(|line| !line.starts_with("rolled back: ")).collect();
        let by_run = machine.log()[before..].to_owned();
        assert_eq!(shared, by_run.lines().take(shared.len()).collect::<Vec<_>>());
        for step in ["selected 2.0.0", "verified 2.0.0", "staged 2.0.0-", "activated 2.0.0-", "restarting as"]
        {
            assert!(shared.iter().any(|line| line.starts_with(step)), "{step}: {told}");
        }
        let last = if code == 0 { "confirmed 2.0.0" } else { "rolled back from 2.0.0" };
        assert!(shared.iter().any(|line| line.starts_with(last)), "{told}");
    }
}

#[test]
fn progress_and_ending_in_json_are_documents_of_a_schema() {
    let machine = machine_with(&good());
    let output = machine.verb(&["update", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let events = documents(&stderr(&output));
    assert!(events.iter().all(|event| event["schema"] == 1), "{events:?}");
    let kinds: Vec<_> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(kinds.len(), events.len(), "{events:?}");
    for kind in
        ["selected", "downloading", "verified", "staged", "baseline", "activated", "healthy", "confirmed"]
    {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let [ending] = &documents(&stdout(&output))[..] else { panic!("expected one document: {output:?}") };
    assert_eq!((&ending["schema"], &ending["result"]), (&1.into(), &"confirmed".into()));
    assert_eq!((&ending["exit_code"], &ending["build"]["version"]), (&0.into(), &"2.0.0".into()));
}

#[test]
fn while_one_update_is_carried_out_another_is_told_so() {
    let machine = machine_with(&slow());
    let update = begin_trial(&machine);
    for verb in [&["update"][..], &["rollback"], &["pin", "1.0.0"], &["check"]] {
        let output = machine.verb(verb);
        assert_eq!(output.status.code(), Some(6), "{verb:?}: {output:?}");
        assert!(stderr(&output).contains("found it busy with `update`, asked for by process"), "{output:?}");
        assert_eq!(stdout(&output), "");
    }
    assert_eq!(machine.status()["trial"]["to"].as_str().unwrap().split('-').next(), Some("2.0.0"));
    let output = update.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(machine.count("pinned"), 0);
}

#[test]
fn an_update_goes_on_when_its_terminal_is_killed() {
    let machine = machine_with(&slow());
    let mut update = begin_trial(&machine);
    update.kill().unwrap();
    update.wait().unwrap();
    machine.wait(SOON, "the confirmation", |machine| machine.count("confirmed") == 2);
    machine.wait_idle();
    assert_eq!(machine.running_version().as_deref(), Some("2.0.0"));
}

#[test]
fn an_update_goes_on_when_its_terminal_reads_nothing() {
    let machine = machine_with(&slow());
    let mut stream = UnixStream::connect(machine.socket()).unwrap();
    stream.write_all(b"{\"schema\":1,\"verb\":\"update\"}\n").unwrap();
    machine.wait(SOON, "the confirmation", |machine| machine.count("confirmed") == 2);
    machine.wait_idle();
    assert_eq!(machine.running_version().as_deref(), Some("2.0.0"));
    drop(stream);
}

#[test]
fn the_socket_is_for_its_owner_alone_and_is_removed_at_the_end() {
    let mut machine = machine_with(&good());
    let metadata = fs::symlink_metadata(machine.socket()).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(machine.stop(), Some(0));
    assert!(!machine.socket().exists());
}

#[test]
fn another_user_is_refused_by_the_socket_and_by_the_updater_itself() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    let machine = machine_with(&good());
    // The other user can reach everything but what is kept from it on purpose.
    let program = machine.path().join("myriarch-updater");
    fs::copy(machine.programs().updater(), &program).unwrap();
    fs::set_permissions(machine.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ask = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command.arg("--config").arg(machine.configuration()).args(["pin", "1.0.0"]).output().unwrap()
    };
    let output = ask();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("Permission denied"), "{output:?}");
    // Even where somebody opens the socket to all, the kernel says who asks.
    fs::set_permissions(machine.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let output = ask();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let refused = "expected user 0 or 0 on the control socket, found user 65534";
    assert!(stderr(&output).contains(refused), "{output:?}");
    assert_eq!(machine.count("pinned"), 0);
    assert_unharmed(&machine);
}

#[test]
fn what_is_no_request_gets_a_clear_error_and_harms_nothing() {
    let machine = machine_with(&good());
    let long = format!("{{\"schema\":1,\"verb\":\"update\",\"to\":\"{}\"}}\n", "9".repeat(20 << 10));
    let endless = vec![b'x'; 4 << 20];
    let cases: [(&[u8], &str); 9] = [
        (b"\xff\xfe\0garbage\n", "expected a request as one line of JSON"),
        (b"GET / HTTP/1.1\r\n\r\n", "expected a request as one line of JSON"),
        (b"\n", "expected a request as one line of JSON"),
        (b"[]\n", "expected a request with a `schema` number"),
        (b"{\"schema\":99,\"verb\":\"update\"}\n", "expected a request of schema 1, found schema 99"),
        (b"{\"schema\":1,\"verb\":\"upgrade\"}\n", "unknown variant `upgrade`"),
        (b"{\"schema\":1,\"verb\":\"update\",\"too\":\"1.0.0\"}\n", "unknown field `too`"),
        (long.as_bytes(), "expected a line of at most 16384 bytes"),
        (&endless, "expected a line of at most 16384 bytes"),
    ];
    let journal = machine.journal();
    for (request, expected) in cases {
        let answer = machine.ask(request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(60)]).into_owned();
        let [reply] = &documents(&answer)[..] else { panic!("{shown}: expected one reply: {answer}") };
        assert_eq!(reply["reply"], "error", "{shown}: {answer}");
        assert!(reply["message"].as_str().unwrap().contains(expected), "{shown}: {answer}");
        assert!(!reply["hint"].as_str().unwrap().is_empty(), "{shown}: {answer}");
    }
    assert_eq!(machine.journal(), journal);
    assert_unharmed(&machine);
}

#[test]
fn clients_that_say_nothing_keep_nobody_else_from_being_answered() {
    let machine = machine_with(&good());
    let silent: Vec<_> = (0..200).map(|_| UnixStream::connect(machine.socket()).unwrap()).collect();
    let mut half = UnixStream::connect(machine.socket()).unwrap();
    half.write_all(b"{\"schema\":1,\"verb\":\"upd").unwrap();
    let began = Instant::now();
    assert_unharmed(&machine);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop(silent);
    half.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut rest = vec![];
    half.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    let told = "expected one line of JSON within 10s, found 23 bytes and no line feed";
    assert!(rest.contains(told), "a client that never ends its line is told so and let go of: {rest}");
}

#[test]
fn a_status_can_be_asked_for_while_an_update_is_carried_out() {
    let machine = machine_with(&slow());
    let update = begin_trial(&machine);
    let answer = machine.ask(b"{\"schema\":1,\"verb\":\"status\"}\n");
    let [reply] = &documents(&answer)[..] else { panic!("expected one reply: {answer}") };
    assert_eq!((&reply["reply"], &reply["document"]["schema"]), (&"done".into(), &2.into()));
    assert!(reply["document"]["trial"].is_object(), "{answer}");
    assert_eq!(update.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn a_stale_socket_is_replaced() {
    let mut machine = machine_with(&good());
    machine.kill_updater();
    assert!(machine.socket().exists(), "a killed updater leaves its socket");
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("no updater runs for testbed"), "{output:?}");
    machine.start();
    machine.wait_idle();
    machine.wait(SOON, "1.0.0", |machine| machine.running_version().as_deref() == Some("1.0.0"));
    assert_unharmed(&machine);
    // Neither a file nor a socket that somebody else listens on is an obstacle: the lock says who is the updater.
    for make in [(|machine| fs::write(machine.socket(), "no socket").unwrap()) as fn(&Machine), |machine| {
        drop(UnixListener::bind(machine.socket()).unwrap());
    }] {
        assert_eq!(machine.stop(), Some(0));
        make(&machine);
        machine.start();
        machine.wait_idle();
        machine.wait(SOON, "1.0.0", |machine| machine.running_version().as_deref() == Some("1.0.0"));
        assert_unharmed(&machine);
    }
}
