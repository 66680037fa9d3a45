//! A good answer counts only from the process that runs the right file, and only for as long as it lasts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::MetadataExt as _,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use myriarch_probe::{FileRef, Identity, Phase, Probe, ProbeSettings, Reading, Verdict};

/// A health endpoint inside this very test program, with a switch for its health.
struct Endpoint {
    port: u16,
    well: Arc<AtomicBool>,
}

impl Endpoint {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let well = Arc::new(AtomicBool::new(true));
        let answers = well.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 1024]);
                let status =
                    if answers.load(Ordering::SeqCst) { "200 OK" } else { "503 Service Unavailable" };
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwords"
                );
            }
        });
        Self { port, well }
    }
}

/// A child that is killed when the test is over.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn settings(port: u16) -> ProbeSettings {
    ProbeSettings {
        http: Some(format!("http://127.0.0.1:{port}/")),
        interval: Duration::from_millis(50),
        settle: Duration::from_millis(500),
        soak: Duration::from_millis(400),
        tolerate: 2,
        ..ProbeSettings::default()
    }
}

fn own_file() -> (u64, u64) {
    let file = std::fs::metadata(std::env::current_exe().unwrap()).unwrap();
    (file.dev(), file.ino())
}

#[tokio::test]
async fn the_right_file_is_ready_and_another_is_an_impostor() {
    let endpoint = Endpoint::start();
    let probe = Probe::new(settings(endpoint.port)).unwrap();
    assert_eq!(probe.once(own_file()).await, Reading::Ready);
    let Reading::Impostor(words) = probe.once(std::path::Path::new("/bin/sh")).await else { panic!() };
    assert!(words.contains(&std::process::id().to_string()) && words.contains("who_answers"), "{words}");
    let skip = Probe::new(ProbeSettings { identity: Identity::Skip, ..settings(endpoint.port) }).unwrap();
    assert_eq!(skip.once(std::path::Path::new("/bin/sh")).await, Reading::Ready);
}

#[tokio::test]
async fn a_missing_file_is_never_ready() {
    let endpoint = Endpoint::start();
    let probe = Probe::new(settings(endpoint.port)).unwrap();
    let reading = probe.once(std::path::Path::new("/nowhere/otelcol")).await;
    assert!(
        matches!(&reading, Reading::NotReady(words) if words.contains("/nowhere/otelcol")),
        "{reading:?}"
    );
    assert!(FileRef::from(std::path::Path::new("/nowhere")).id().is_err());
}

#[tokio::test]
async fn the_status_code_decides_and_the_body_is_words() {
    let endpoint = Endpoint::start();
    endpoint.well.store(false, Ordering::SeqCst);
    let reading = Probe::new(settings(endpoint.port)).unwrap().once(own_file()).await;
    let Reading::NotReady(words) = reading else { panic!("{reading:?}") };
    assert!(words.contains("503") && words.contains("words"), "{words}");
}

#[tokio::test]
async fn a_program_that_stays_well_is_healthy_after_the_whole_soak() {
    let endpoint = Endpoint::start();
    let begin = Instant::now();
    let mut phases = Vec::new();
    let verdict =
        Probe::new(settings(endpoint.port)).unwrap().watch(own_file(), &mut |p| phases.push(p)).await;
    assert_eq!(verdict, Verdict::Healthy);
    assert!(begin.elapsed() >= Duration::from_millis(400), "{:?}", begin.elapsed());
    assert!(matches!(phases.first(), Some(Phase::BecameReady { .. })), "{phases:?}");
}

#[tokio::test]
async fn nobody_there_is_never_ready_after_the_settle_time() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let begin = Instant::now();
    let verdict = Probe::new(settings(unused)).unwrap().watch(own_file(), &mut |_| ()).await;
    let Verdict::NeverReady { last, .. } = &verdict else { panic!("{verdict}") };
    assert!(last.contains("refused"), "{last}");
    assert!((500..1500).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_program_that_falls_ill_in_the_soak_is_unhealthy() {
    let endpoint = Endpoint::start();
    let well = endpoint.well.clone();
    let mut fall_ill = move |phase: Phase| {
        if matches!(phase, Phase::BecameReady { .. }) {
            well.store(false, Ordering::SeqCst);
        }
    };
    let verdict = Probe::new(settings(endpoint.port)).unwrap().watch(own_file(), &mut fall_ill).await;
    assert!(matches!(verdict, Verdict::BecameUnhealthy { .. }), "{verdict}");
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mute = ProbeSettings {
        timeout: Duration::from_millis(100),
        settle: Duration::from_millis(300),
        ..settings(listener.local_addr().unwrap().port())
    };
    let begin = Instant::now();
    let verdict = Probe::new(mute).unwrap().watch(own_file(), &mut |_| ()).await;
    assert!(matches!(&verdict, Verdict::NeverReady { last, .. } if last.contains("no answer")), "{verdict}");
    assert!(begin.elapsed() < Duration::from_secs(2));
}

/// A server in another process, restarted underneath: the same file, and yet not the same process.
#[tokio::test]
async fn a_process_restarted_in_the_soak_is_noticed() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let serve = move || {
        let me = std::env::current_exe().unwrap();
        let child = Command::new(me)
            .args(["--exact", "serve_for_another_test"])
            .env("SERVE_PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Guard(child.unwrap())
    };
    let mut server = Some(serve());
    let generous = ProbeSettings {
        settle: Duration::from_secs(20),
        soak: Duration::from_secs(20),
        tolerate: 200,
        ..settings(port)
    };
    let probe = Probe::new(generous).unwrap();
    let mut restart = |phase: Phase| {
        if matches!(phase, Phase::BecameReady { .. }) {
            drop(server.take());
            server = Some(serve());
        }
    };
    let verdict = probe.watch(own_file(), &mut restart).await;
    assert!(matches!(verdict, Verdict::Restarted { .. }), "{verdict}");
}

#[test]
fn serve_for_another_test() {
    let Some(port) = std::env::var("SERVE_PORT").ok().and_then(|port| port.parse().ok()) else { return };
    let _: u16 = port;
    let until = Instant::now() + Duration::from_secs(20);
    let listener = loop {
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => break listener,
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("{error}"),
        }
    };
    for mut stream in listener.incoming().flatten() {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
}

#[tokio::test]
async fn a_health_command_decides_by_its_exit_code() {
    let by = |command: &[&str]| ProbeSettings {
        exec: Some(command.iter().map(ToString::to_string).collect()),
        identity: Identity::Skip,
        timeout: Duration::from_millis(300),
        ..ProbeSettings::default()
    };
    let look = async |command: &[&str]| Probe::new(by(command)).unwrap().once((0, 0)).await;
    assert_eq!(look(&["/bin/true"]).await, Reading::Ready);
    for (command, part) in [
        (&["/bin/sh", "-c", "echo no luck >&2; exit 3"][..], "no luck"),
        (&["/nowhere/health"], "No such file"),
        (&["/bin/sleep", "60"], "did not end within"),
    ] {
        let Reading::NotReady(words) = look(command).await else { panic!("{command:?}") };
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn settings_that_cannot_be_probed_by_are_refused() {
    let none = ProbeSettings::default();
    for (settings, part) in [
        (none.clone(), "neither"),
        (ProbeSettings { exec: Some(vec!["/bin/true".into()]), ..none.clone() }, "identity"),
        (ProbeSettings { exec: Some(vec![]), identity: Identity::Skip, ..none.clone() }, "empty list"),
        (ProbeSettings { interval: Duration::ZERO, ..settings(1) }, "interval"),
        (ProbeSettings { http: Some("https://127.0.0.1/".into()), ..none }, "https"),
    ] {
        let error = Probe::new(settings).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
