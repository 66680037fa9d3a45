//! A stop is over when nothing that came from the child is alive.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    time::{Duration, Instant},
};

use myriarch_supervise::{Child, End, Output, Process, Signal, Spec, Stop};

fn sh(script: &str) -> Spec {
    Spec::new("/bin/sh", ["-c", script])
}

fn spawn(script: &str) -> Child {
    Child::spawn(&sh(script)).unwrap()
}

fn within(ms: u64) -> Stop {
    Stop { signal: Signal::INT, grace: Duration::from_millis(ms) }
}

/// The process ids that the children write into a directory.
fn written(dir: &Path, count: usize) -> Vec<Process> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let found: Vec<Process> = fs::read_dir(dir)
            .unwrap()
            .flatten()
            .filter_map(|entry| fs::read_to_string(entry.path()).ok()?.trim().parse().ok())
            .filter_map(|pid| Process::with_pid(pid).ok())
            .collect();
        if found.len() >= count {
            return found;
        }
        assert!(Instant::now() < until, "the children did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn a_child_that_stops_in_time_is_not_killed() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let child = spawn(&format!("trap 'exit 3' INT; echo $$ > {at}/a; while :; do sleep 0.01; done"));
    written(dir.path(), 1);
    let stopped = child.stop(&within(10_000)).await;
    assert_eq!(stopped.end, End::InTime);
    assert_eq!(stopped.status.unwrap().code(), Some(3));
    assert!(stopped.left.is_empty() && stopped.took < Duration::from_secs(2), "{stopped}");
}

#[tokio::test]
async fn a_child_that_ignores_sigint_is_killed_with_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let child = spawn(&format!(
        "trap '' INT; (echo $(exec sh -c 'echo $PPID') > {at}/a; exec sleep 60) & echo $$ > {at}/b; wait"
    ));
    let processes = written(dir.path(), 2);
    let stopped = child.stop(&within(300)).await;
    assert_eq!(stopped.end, End::Killed);
    assert_eq!(stopped.status.unwrap().signal(), Some(9));
    assert!(stopped.took >= Duration::from_millis(300));
    assert!(processes.iter().all(|process| !process.is_alive()), "{stopped}");
}

#[tokio::test]
async fn what_left_the_group_is_gone_before_stop_returns() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    // One in a session of its own, with a child of its own; the leader obeys the signal and leaves both.
    let child = spawn(&format!(
        "trap 'exit 0' INT; setsid sh -c 'echo $$ > {at}/a; sleep 60 & echo $! > {at}/b; wait' & while :; do sleep 0.01; done"
    ));
    let processes = written(dir.path(), 2);
    let stopped = child.stop(&within(10_000)).await;
    assert_eq!(stopped.end, End::InTime);
    assert_eq!(stopped.killed, 2, "{stopped}");
    assert!(processes.iter().all(|process| !process.is_alive()), "{stopped}");
}

#[tokio::test]
async fn what_is_started_while_it_stops_is_gone_too() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let late = format!("setsid sh -c 'echo $$ > {at}/late; exec sleep 60' & sleep 0.5; exit 0");
    let child = spawn(&format!(
        "trap \"{}\" INT; echo $$ > {at}/up; while :; do sleep 0.01; done",
        late.replace('$', "\\$")
    ));
    written(dir.path(), 1);
    let stopped = child.stop(&within(10_000)).await;
    assert_eq!((stopped.end, stopped.killed), (End::InTime, 1), "{stopped}");
    let pid = fs::read_to_string(dir.path().join("late")).unwrap().trim().parse().unwrap();
    assert!(!Process::with_pid(pid).is_ok_and(|process| process.is_alive()));
}

#[tokio::test]
async fn what_a_dead_child_left_in_its_group_is_gone_before_stop_returns() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn(&format!("sleep 60 & echo $! > {}/a; exit 5", dir.path().display()));
    let status = child.wait().await;
    assert_eq!(status.code(), Some(5));
    assert_eq!(child.wait().await, status, "the status stays");
    let processes = written(dir.path(), 1);
    let stopped = child.stop(&within(10_000)).await;
    assert_eq!((stopped.end, stopped.killed), (End::Before, 1), "{stopped}");
    assert!(processes.iter().all(|process| !process.is_alive()), "{stopped}");
}

#[tokio::test]
async fn how_a_child_ended_is_read_right() {
    for (script, code, signal) in
        [("exit 0", Some(0), None), ("exit 255", Some(255), None), ("kill -TERM $$", None, Some(15))]
    {
        let mut child = spawn(script);
        let status = child.wait().await;
        assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
        assert_eq!(child.stop(&within(0)).await.status, Some(status));
    }
}

#[tokio::test]
async fn waiting_can_be_given_up_and_taken_up_again() {
    let mut child = spawn("sleep 0.3; exit 4");
    assert!(tokio::time::timeout(Duration::from_millis(50), child.wait()).await.is_err());
    assert_eq!(child.wait().await.code(), Some(4));
}

#[tokio::test]
async fn an_end_is_noticed_within_ten_milliseconds() {
    let mut waits = Vec::new();
    for _ in 0..15 {
        let mut child = spawn("exec sleep 60");
        let process = child.process();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let pid = child.pid().to_string();
        let killed = std::process::Command::new("/bin/kill").args(["-9", &pid]).status().unwrap();
        assert!(killed.success());
        let begin = Instant::now();
        child.wait().await;
        waits.push(begin.elapsed());
        assert!(!process.is_alive());
        child.stop(&within(0)).await;
    }
    waits.sort();
    assert!(waits[7] < Duration::from_millis(10), "{waits:?}");
}

#[tokio::test]
async fn the_child_leads_its_group_and_gets_what_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let spec = Spec {
        env: vec![("GIVEN".into(), "a b".into())],
        cwd: Some(dir.path().into()),
        output: Output::File(log.clone()),
        ..sh("echo $$ $(ps -o pgid= -p $$); echo \"$GIVEN\"; pwd >&2; cat")
    };
    fs::write(&log, "before\n").unwrap();
    let mut child = Child::spawn(&spec).unwrap();
    assert!(child.wait().await.success());
    let pid = child.pid();
    let dir = dir.path().canonicalize().unwrap();
    let expected = format!("before\n{pid} {pid}\na b\n{}\n", dir.display());
    assert_eq!(fs::read_to_string(&log).unwrap(), expected);
}

#[test]
fn a_program_that_cannot_start_is_named_with_the_shells_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    fs::write(&plain, "").unwrap();
    for (program, code) in [(Path::new("/nowhere/supervisor"), 127), (&plain, 126)] {
        let error = Child::spawn(&Spec::new(program, [] as [&str; 0])).unwrap_err();
        assert_eq!(error.exit_code(), code);
        assert!(error.to_string().contains(&program.display().to_string()), "{error}");
    }
}
