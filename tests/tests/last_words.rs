//! What a build said before its trial failed is told and kept, and no secret of it is told anywhere.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use std::{
    fs,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use myriarch_tests::{
    collector::{End, StandIn, Validate},
    machine::{Machine, Plan, Supervised, words},
    programs::Programs,
};
use serde_json::Value;

const OLD: &str = "1.0.0";
const NEW: &str = "1.1.0";

/// A secret that nobody has seen before, and that is only known by where it stands: a word like another.
fn secret() -> String {
    let mut random = [0; 20];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
    random.iter().map(|byte| char::from(b'a' + byte % 26)).collect()
}

/// A machine that runs [`OLD`] under the supervisor, with a secret in its environment and another in the
/// collector's configuration.
fn machine(in_environment: &str, in_configuration: &str) -> Machine {
    let plan = Plan {
        settle: Duration::from_secs(3),
        soak: Duration::from_secs(1),
        environment: vec![("TESTBED_TOKEN".to_owned(), in_environment.to_owned())],
        ..Plan::default()
    };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    let path = machine.collector_configuration();
    let text = fs::read_to_string(&path).unwrap();
    let exporter = format!(
        "exporters:\n  otlp_grpc:\n    endpoint: 127.0.0.1:1\n    headers:\n      x-scope: {in_configuration}\n"
    );
    fs::write(&path, text.replace("exporters:\n", &exporter)).unwrap();
    machine.start_with(OLD, &StandIn::version(OLD).build());
    machine
}

/// Sees that none of `secrets` is in anything that anybody is told: by the verbs, the socket, `run` and the files of
/// the store. The programs themselves and the copy of their configuration are theirs.
fn assert_untold(machine: &Machine, secrets: &[String]) {
    let mut told = vec![("run".to_owned(), machine.log())];
    for verb in [&["status"][..], &["status", "--json"], &["history"], &["history", "--json"], &["check"]] {
        told.push((verb.join(" "), words(&machine.verb(verb))));
    }
    told.push(("socket".to_owned(), machine.ask(b"{\"schema\":1,\"verb\":\"status\"}\n")));
    let theirs = ["versions", "current", "partial", "effective.yaml"];
    let mut left = vec![machine.store(), machine.path().join("run")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let inside = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            left.extend(inside.filter(|path| !theirs.iter().any(|theirs| path.ends_with(theirs))));
        } else if path.is_file() {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            told.push((path.display().to_string(), text));
        }
    }
    assert!(told.iter().any(|(by, _)| by.ends_with("journal.jsonl")), "the files are read");
    for (by, text) in told {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is told by {by}: {text}");
        }
    }
}

fn kept(machine: &Machine) -> Vec<PathBuf> {
    let listed = fs::read_dir(machine.store().join("logs")).into_iter().flatten();
    listed.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_a_failed_build_said_last_is_told_and_kept_without_its_secrets() {
    let secrets: [String; 6] = std::array::from_fn(|_| secret());
    let [env, header, bearer, password, query, block] = &secrets;
    let mut machine = machine(env, header);
    let says = format!(
        "info: logging in with {env}\n\
         {{\"level\":\"error\",\"msg\":\"no\",\"headers\":{{\"x-scope\":\"{header}\"}}}}\n\
         the scope {header} is unknown\n\
         Authorization: Bearer {bearer}\n\
         GET https://user:{password}@host/path?sig={query}: 403\n\
         -----BEGIN PRIVATE KEY-----\n{block}\n-----END PRIVATE KEY-----\n\
         panic: cannot log in as {env} at https://user:{password}@host/"
    );
    let dies = StandIn::version(NEW).says(&says).end(End::Exit { ms: 50, code: 2 });
    machine.offer_program(NEW, &dies.build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    let said = words(&output);
    let panic = "panic: cannot log in as <redacted> at https://<redacted>@host/";
    assert!(said.contains(&format!("it said: {panic}")), "{said}");
    let [log] = &kept(&machine)[..] else { panic!("{:?}", kept(&machine)) };
    assert!(said.contains(&format!("log kept: {}", log.display())), "{said}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(log), mode(log.parent().unwrap())), (0o600, 0o700));
    let text = fs::read_to_string(log).unwrap();
    for line in ["info: logging in with <redacted>", "the scope <redacted> is unknown", panic] {
        assert!(text.lines().any(|found| found == line), "{line:?}: {text}");
    }

    for screen in ["status", "history"] {
        let screen = words(&machine.verb(&[screen]));
        assert!(screen.contains(panic) && screen.contains(&log.display().to_string()), "{screen}");
    }
    let journaled = machine.entries().into_iter().find(|entry| entry["entry"] == "rolled-back").unwrap();
    assert_eq!(journaled["excerpt"]["line"], panic, "{journaled}");
    assert!(!secrets.iter().any(|secret| said.contains(secret)), "{said}");
    assert_untold(&machine, &secrets);
}

#[test]
fn a_refusal_quotes_the_candidate_without_its_secrets() {
    let (env, header, named) = (secret(), secret(), secret());
    let mut machine = machine(&env, &header);
    let objection = format!("scope {header} of {env} is bad, client_secret: \"{named}\"");
    let rejects = StandIn::version(NEW).validate(Validate::Rejects(objection));
    machine.offer_program(NEW, &rejects.build());
    let output = machine.verb(&["update"]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    let said = words(&output);
    assert!(said.contains("scope <redacted> of <redacted> is bad"), "{said}");
    let secrets = [env, header, named];
    assert!(!secrets.iter().any(|secret| said.contains(secret)), "{said}");
    assert_untold(&machine, &secrets);
}

#[test]
fn a_log_that_is_named_is_read_from_the_trial_on() {
    let plan = Plan {
        settle: Duration::from_secs(3),
        soak: Duration::from_millis(300),
        supervised: Supervised::ByUpdater,
        ..Plan::default()
    };
    let mut machine = Machine::new(Programs::stand_ins(), plan);
    // The child's own words go where `run`'s go.
    let log = machine.path().join("run.log");
    let text = fs::read_to_string(machine.configuration()).unwrap();
    let text = text.replace("[trial]\n", &format!("[trial]\nlog = \"{}\"\n", log.display()));
    fs::write(machine.configuration(), text).unwrap();
    machine.start_with(OLD, &StandIn::version(OLD).says("panic: of long ago").build());
    let dies = StandIn::version(NEW).says("panic: crash on trial").end(End::Exit { ms: 50, code: 2 });
    machine.offer_program(NEW, &dies.build());
    let output = machine.verb(&["update", "--json"]);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    let ending: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(ending["excerpt"]["line"], "panic: crash on trial", "{ending}");
    let [kept] = &kept(&machine)[..] else { panic!("{:?}", kept(&machine)) };
    assert!(!fs::read_to_string(kept).unwrap().contains("long ago"));
}
