//! A supervisor with its collector, started, watched and stopped as the updater does it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use myriarch_probe::{Probe, ProbeSettings, Verdict};
use myriarch_supervise::{Child, End as Ending, Output, Process, Signal, Spec, Stop};
use myriarch_tests::{
    collector::{End, Grandchild, Health, Signals, StandIn},
    ports,
    supervisor::{self, Bootstrap, Config, KNOBS, Knobs, collector_config},
};
use rustix::process::{Pid, kill_process_group};
use tempfile::TempDir;

struct Site {
    dir: TempDir,
    health: u16,
    opamp: u16,
    child: Option<Child>,
}

impl Site {
    fn start(collector: &StandIn, knobs: &Knobs) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [health, otlp, opamp] = ports::free();
        collector.write_to(&dir.path().join("collector")).unwrap();
        fs::write(dir.path().join("collector.yaml"), collector_config(health, otlp)).unwrap();
        let config = Config {
            executable: "${env:COLLECTOR_EXE}".into(),
            config_files: vec![dir.path().join("collector.yaml")],
            storage: dir.path().join("storage"),
            opamp_server_port: opamp,
            bootstrap_timeout: Duration::from_secs(20),
        };
        config.write_to(&dir.path().join("supervisor.yaml")).unwrap();
        let spec = Spec {
            env: vec![
                ("COLLECTOR_EXE".into(), dir.path().join("collector").into()),
                (KNOBS.into(), knobs.to_string().into()),
            ],
            output: Output::File(dir.path().join("supervisor.log")),
            ..Spec::new(supervisor::executable(), ["-config".into(), dir.path().join("supervisor.yaml")])
        };
        let child = Some(Child::spawn(&spec).unwrap());
        Self { dir, health, opamp, child }
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("collector")
    }

    async fn watch(&self) -> Verdict {
        let settings = ProbeSettings {
            http: Some(format!("http://127.0.0.1:{}/", self.health)),
            interval: Duration::from_millis(50),
            settle: Duration::from_secs(4),
            soak: Duration::from_secs(2),
            // More than the time in which the supervisor of this test starts a dead collector again.
            tolerate: 10,
            ..ProbeSettings::default()
        };
        let file = fs::metadata(self.program()).unwrap();
        Probe::new(settings).unwrap().watch((file.dev(), file.ino()), &mut |_| ()).await
    }

    /// What runs the collector's file.
    fn running(&self) -> Vec<Process> {
        let runs =
            |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == self.program());
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| runs(*pid))
            .filter_map(|pid| Process::with_pid(pid).ok())
            .filter(Process::is_alive)
            .collect()
    }

    /// Stops, and expects that nothing runs and that the next one could have the ports.
    async fn stop_clean(mut self, grace: Duration) -> (Ending, Duration) {
        let stopped = self.child.take().unwrap().stop(&Stop { signal: Signal::INT, grace }).await;
        assert!(stopped.left.is_empty(), "{stopped}");
        assert_eq!(self.running(), [], "{stopped}");
        for port in [self.health, self.opamp] {
            TcpListener::bind(("127.0.0.1", port)).unwrap();
        }
        (stopped.end, stopped.took)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Only where a test failed: the child's status is not collected, so the group is its own.
        if let Some(pid) = self.child.as_ref().and_then(|child| Pid::from_raw(child.pid().try_into().ok()?)) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

fn v1() -> StandIn {
    StandIn::version("1.0.0")
}

#[tokio::test]
async fn a_good_collector_is_healthy_and_stops_at_once() {
    let site = Site::start(&v1(), &Knobs::default());
    assert_eq!(site.watch().await, Verdict::Healthy);
    let (end, took) = site.stop_clean(Duration::from_secs(15)).await;
    assert_eq!(end, Ending::InTime);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn a_supervisor_deaf_in_its_bootstrap_is_killed_with_its_collector() {
    let site = Site::start(&v1(), &Knobs { bootstrap: Bootstrap::Deaf, ..Knobs::default() });
    let begin = Instant::now();
    while site.running().is_empty() && begin.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (end, took) = site.stop_clean(Duration::from_millis(500)).await;
    assert_eq!(end, Ending::Killed);
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn a_collector_that_ignores_signals_is_gone_when_the_stop_is_over() {
    let site = Site::start(
        &v1().signals(Signals::Ignore),
        &Knobs { kill_after: Duration::from_millis(300), ..Knobs::default() },
    );
    assert_eq!(site.watch().await, Verdict::Healthy);
    let (end, _) = site.stop_clean(Duration::from_secs(15)).await;
    assert_eq!(end, Ending::InTime);
}

#[tokio::test]
async fn a_grandchild_in_a_group_of_its_own_is_gone_when_the_stop_is_over() {
    let site = Site::start(&v1().grandchild(Grandchild::OtherGroup), &Knobs::default());
    assert_eq!(site.watch().await, Verdict::Healthy);
    assert_eq!(site.running().len(), 2);
    site.stop_clean(Duration::from_secs(15)).await;
}

#[tokio::test]
async fn what_goes_wrong_on_trial_is_seen_for_what_it_is() {
    let quick = || Knobs { restart_after: Duration::from_millis(100), ..Knobs::default() };
    let cases = [
        ("never", v1().health(Health::Never), "NeverReady"),
        ("ill", v1().health(Health::UnhealthyAfter { ms: 1000 }), "BecameUnhealthy"),
        ("mute", v1().health(Health::Mute), "NeverReady"),
        ("other", v1().health(Health::OtherProcess), "WrongProcess"),
        ("crash", v1().end(End::Abort { ms: 800 }), "Restarted"),
        ("exit", v1().end(End::Exit { ms: 800, code: 0 }), "Restarted"),
        ("no opamp", v1().extensions(&["health_check"]), "NeverReady"),
    ];
    for (name, collector, expected) in cases {
        let site = Site::start(&collector, &quick());
        let verdict = site.watch().await;
        assert!(format!("{verdict:?}").starts_with(expected), "{name}: {verdict}");
        site.stop_clean(Duration::from_secs(2)).await;
    }
}
