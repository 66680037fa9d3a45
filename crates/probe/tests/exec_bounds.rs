//! A program that is asked cannot hang, flood or outlive the one who asks.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use myriarch_probe::{
    exec::{Credentials, Environment, Exec, ExecError},
    process::Process,
};

fn sh(script: &str) -> Exec {
    Exec { deadline: Duration::from_secs(20), ..Exec::new("/bin/sh", ["-c", script]) }
}

/// An argument for `sleep` that no other run of any test has: a minute and a bit.
fn minute(mark: u32) -> String {
    format!("60.{}{mark}", std::process::id())
}

/// Whether a process with `argument` among its arguments runs.
fn runs(argument: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let is = |pid| {
            Process::with_pid(pid)
                .is_ok_and(|p| p.is_alive() && p.args().is_ok_and(|a| a.iter().any(|x| x == argument)))
        };
        entry.file_name().to_str().and_then(|name| name.parse().ok()).is_some_and(is)
    })
}

fn gone(argument: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while runs(argument) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    !runs(argument)
}

#[tokio::test]
async fn status_and_both_streams_come_back() {
    let output = sh("echo out; echo err >&2; exit 7").run().await.unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert!(!output.truncated);
}

#[tokio::test]
async fn stdin_is_empty_and_the_group_is_its_own() {
    let output = sh("cat; ps -o pgid= -p $$; echo $$").run().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let ids: Vec<_> = text.split_whitespace().collect();
    assert_eq!(ids.first(), ids.get(1), "{text}");
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_with_its_group_at_the_deadline() {
    let (first, second) = (minute(1), minute(2));
    let exec = Exec {
        deadline: Duration::from_millis(400),
        ..sh(&format!("trap '' INT TERM; echo begun; sleep {first} & sleep {second}"))
    };
    let begin = Instant::now();
    let error = exec.run().await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    let ExecError::Deadline { stdout, .. } = &error else { panic!("{error}") };
    assert_eq!(stdout, b"begun\n");
    assert!(gone(&first) && gone(&second));
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipes_hangs_nothing_and_is_killed() {
    let (begin, sleeper) = (Instant::now(), minute(3));
    let output = sh(&format!("sleep {sleeper} & echo done")).run().await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert_eq!(output.stdout, b"done\n");
    assert!(gone(&sleeper));
}

#[tokio::test]
async fn a_grandchild_in_a_session_of_its_own_hangs_nothing() {
    let begin = Instant::now();
    let output = sh("setsid sleep 2.5 & echo done").run().await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(output.stdout, b"done\n");
}

#[tokio::test]
async fn a_flood_is_read_on_but_not_kept() {
    let exec = Exec {
        output_limit: 1000,
        ..sh("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo last; head -c 3000000 /dev/zero >&2")
    };
    let output = exec.run().await.unwrap();
    assert!(output.status.success() && output.truncated);
    assert!(output.stdout.starts_with(b"first\nxxx") && output.stdout.ends_with(b"xxxlast\n"));
    assert!(output.stdout.len() < 1100 && output.stderr.len() < 1100);
}

#[tokio::test]
async fn an_asker_that_goes_away_leaves_nothing_running() {
    let (first, second) = (minute(4), minute(5));
    let exec = sh(&format!("sleep {first} & sleep {second}"));
    let asking = tokio::time::timeout(Duration::from_millis(300), exec.run());
    assert!(asking.await.is_err());
    assert!(gone(&first) && gone(&second));
}

#[tokio::test]
async fn the_environment_is_exactly_the_one_given() {
    let env = Environment::Exactly(vec![("A".into(), "1 2".into()), ("SECRET".into(), "hush".into())]);
    let exec = Exec { env: env.clone(), cwd: Some("/".into()), ..Exec::new("/usr/bin/env", [] as [&str; 0]) };
    let output = exec.run().await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "A=1 2\nSECRET=hush\n");
    let debug = format!("{env:?}");
    assert!(debug.contains("SECRET") && !debug.contains("hush"), "{debug}");
}

#[tokio::test]
async fn a_program_that_cannot_start_is_named() {
    let error = Exec::new("/nowhere/otelcol", ["--version"]).run().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot start /nowhere/otelcol");
    assert!(matches!(error, ExecError::Start { .. }));
}

#[tokio::test]
async fn a_freshly_written_file_starts_while_others_fork() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = fs::read("/bin/true").unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let forking: Vec<_> = (0..2)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    Command::new("/bin/true").status().unwrap();
                }
            })
        })
        .collect();
    for index in 0..150 {
        let path = dir.path().join(format!("fresh-{index}"));
        let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o755).open(&path).unwrap();
        file.write_all(&bytes).unwrap();
        drop(file);
        let output = Exec::new(&path, [] as [&str; 0]).run().await.unwrap();
        assert!(output.status.success(), "{index}");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for thread in forking {
        thread.join().unwrap();
    }
}

#[tokio::test]
async fn a_file_held_open_for_writing_is_refused_after_a_bounded_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("busy");
    fs::copy("/bin/true", &path).unwrap();
    let held = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let begin = Instant::now();
    let error = Exec::new(&path, [] as [&str; 0]).run().await.unwrap_err();
    assert!(matches!(error, ExecError::Start { .. }), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(6));
    drop(held);
}

#[tokio::test]
async fn our_own_credentials_need_no_privilege() {
    let exec = Exec { credentials: Some(Credentials::own().unwrap()), ..sh("id -u") };
    let output = exec.run().await.unwrap();
    let uid = Credentials::own().unwrap().uid;
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), uid.to_string());
}

#[tokio::test]
async fn other_credentials_are_taken_on_in_full_or_refused() {
    let wanted = Credentials { uid: 10_001, gid: 10_002, groups: vec![10_003, 10_004] };
    let exec = Exec {
        credentials: Some(wanted),
        cwd: Some("/".into()),
        ..sh("echo $(id -u) $(id -g) $(id -G); grep CapEff /proc/self/status")
    };
    if Credentials::own().unwrap().uid != 0 {
        assert!(matches!(exec.run().await, Err(ExecError::Credentials { .. })));
        return;
    }
    let output = exec.run().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("10001 10002 10002 10003 10004\nCapEff:\t0000000000000000"), "{text}");
    // And we are who we were.
    assert_eq!(Credentials::own().unwrap().uid, 0);
}

#[tokio::test]
async fn a_private_file_of_roots_is_not_readable_as_the_collectors_user() {
    if Credentials::own().unwrap().uid != 0 {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, "x").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let cat = |credentials| Exec {
        credentials,
        cwd: Some(Path::new("/").into()),
        ..Exec::new("/bin/cat", [&secret])
    };
    assert!(cat(None).run().await.unwrap().status.success());
    let other = Credentials { uid: 10_001, gid: 10_001, groups: vec![] };
    assert!(!cat(Some(other)).run().await.unwrap().status.success());
}
