//! What the stand-in collector can be told to do wrong.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use myriarch_tests::{
    collector::{End, Grandchild, Health, Signals, StandIn, Validate, VersionFlag},
    ports,
    supervisor::collector_config,
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

/// A stand-in on disk, with a configuration on ports of its own.
struct Built {
    dir: TempDir,
    port: u16,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The status is collected here alone, so the group's id is still its own.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

impl Built {
    fn new(stand_in: &StandIn) -> Self {
        let dir = tempfile::tempdir().unwrap();
        stand_in.write_to(&dir.path().join("collector")).unwrap();
        let [port, otlp] = ports::free();
        fs::write(dir.path().join("c.yaml"), collector_config(port, otlp)).unwrap();
        Self { dir, port }
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("collector")
    }

    fn ask(&self, args: &[&str]) -> Output {
        retry(|| Command::new(self.program()).args(args).current_dir(self.dir.path()).output())
    }

    fn validate(&self) -> Output {
        self.ask(&["validate", "--config", "c.yaml"])
    }

    fn run(&self) -> Running {
        let spawn = || {
            Command::new(self.program())
                .args(["--config", "c.yaml"])
                .current_dir(self.dir.path())
                .process_group(0)
                .stdout(Stdio::null())
                .spawn()
        };
        Running(retry(spawn))
    }

    fn health(&self) -> Option<u16> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(300))).ok()?;
        write!(stream, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split(' ').nth(1)?.parse().ok()
    }

    fn becomes(&self, wanted: Option<u16>) {
        until(|| (self.health() == wanted).then_some(()));
    }
}

fn retry<T>(mut start: impl FnMut() -> std::io::Result<T>) -> T {
    until(|| match start() {
        Ok(started) => Some(started),
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ExecutableFileBusy);
            None
        }
    })
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "waited in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn v1() -> StandIn {
    StandIn::version("1.0.0")
}

#[test]
fn every_script_is_another_build_of_an_elf_file_and_the_same_script_the_same() {
    let builds = [v1(), v1().salt("again"), StandIn::version("1.0.1"), v1().health(Health::Never)];
    let bytes: Vec<_> = builds.iter().map(StandIn::build).collect();
    assert!(bytes.iter().all(|bytes| bytes.starts_with(b"\x7fELF")));
    assert_eq!(bytes.iter().collect::<BTreeSet<_>>().len(), builds.len());
    assert_eq!(v1().build(), bytes[0]);
    assert!(bytes[0].len() < 8_000_000, "{}", bytes[0].len());
}

#[test]
fn the_version_flag_can_lie_be_missing_or_crash() {
    let said = |flag| Built::new(&v1().version_flag(flag)).ask(&["--version"]);
    assert_eq!(said(VersionFlag::Says("otelcol version 9".into())).stdout, b"otelcol version 9\n");
    assert_eq!(said(VersionFlag::Missing).status.code(), Some(1));
    assert_eq!(said(VersionFlag::Crashes).status.signal(), Some(6));
}

#[test]
fn validate_can_reject_by_the_configuration_and_its_surroundings() {
    let reject = |validate| Built::new(&v1().validate(validate));
    let by_text = reject(Validate::RejectsContaining("level: none".into()));
    assert_eq!(by_text.validate().status.code(), Some(1));
    // What rejects a configuration does not run with it either.
    assert_eq!(by_text.run().0.wait().unwrap().code(), Some(1));
    assert_eq!(reject(Validate::RejectsContaining("level: max".into())).validate().status.code(), Some(0));
    assert_eq!(reject(Validate::NeedsEnv("NOT_SET_ANYWHERE".into())).validate().status.code(), Some(1));
    assert_eq!(reject(Validate::NeedsEnv("PATH".into())).validate().status.code(), Some(0));
    assert_eq!(reject(Validate::NeedsFile("c.yaml".into())).validate().status.code(), Some(0));
    assert_eq!(reject(Validate::NeedsFile("d.yaml".into())).validate().status.code(), Some(1));
    assert!(reject(Validate::Floods).validate().stdout.len() >= 8 << 20);
    let rejected = reject(Validate::Rejects("no".into())).validate();
    assert_eq!((rejected.status.code(), rejected.stderr.as_slice()), (Some(1), &b"Error: no\n"[..]));
}

#[test]
fn health_comes_late_goes_away_never_comes_or_says_nothing() {
    let late = Built::new(&v1().health(Health::ReadyAfter { ms: 500 }));
    let _late = late.run();
    late.becomes(Some(503));
    late.becomes(Some(200));
    let ill = Built::new(&v1().health(Health::UnhealthyAfter { ms: 1500 }));
    let _ill = ill.run();
    ill.becomes(Some(200));
    ill.becomes(Some(503));
    let mute = Built::new(&v1().health(Health::Mute));
    let _mute = mute.run();
    until(|| TcpStream::connect(("127.0.0.1", mute.port)).ok());
    assert_eq!(mute.health(), None);
}

#[test]
fn another_process_can_answer_in_its_place_and_ends_with_it() {
    let built = Built::new(&v1().health(Health::OtherProcess));
    let mut running = built.run();
    built.becomes(Some(200));
    kill_process(Pid::from_child(&running.0), Signal::KILL).unwrap();
    until(|| running.0.try_wait().unwrap());
    built.becomes(None);
}

#[test]
fn it_ends_as_it_is_told() {
    let end = |end| Built::new(&v1().end(end)).run().0.wait().unwrap();
    assert_eq!(end(End::Exit { ms: 50, code: 0 }).code(), Some(0));
    assert_eq!(end(End::Exit { ms: 50, code: 2 }).code(), Some(2));
    assert_eq!(end(End::Abort { ms: 50 }).signal(), Some(6));
}

#[test]
fn signals_can_be_ignored() {
    let built = Built::new(&v1().signals(Signals::Ignore));
    let mut running = built.run();
    built.becomes(Some(200));
    for signal in [Signal::INT, Signal::TERM] {
        kill_process(Pid::from_child(&running.0), signal).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(running.0.try_wait().unwrap().is_none());
}

#[test]
fn a_grandchild_outlives_it() {
    let built = Built::new(&v1().grandchild(Grandchild::OtherGroup).end(End::Exit { ms: 500, code: 1 }));
    let mut running = built.run();
    until(|| running.0.try_wait().unwrap());
    let left = until(|| {
        fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let runs = fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == built.program());
            entry.file_name().to_str().filter(|_| runs)?.parse().ok().and_then(Pid::from_raw)
        })
    });
    kill_process(left, Signal::KILL).unwrap();
}

#[test]
fn the_program_is_found_where_it_is_built() {
    assert!(Path::new(&myriarch_tests::supervisor::executable()).is_file());
}
