//! After a crash of the updater its children are found and ended, and nobody else is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use myriarch_supervise::{
    Process, Signal, Stop,
    leftover::{Ended, end_leftover, forget, record},
};

/// A process of the test's own, as an updater that died would have left it.
struct Left(Child);

impl Left {
    fn sh(script: &str) -> Self {
        use std::os::unix::process::CommandExt as _;
        Self(Command::new("/bin/sh").args(["-c", script]).process_group(0).spawn().unwrap())
    }

    fn process(&self) -> Process {
        Process::with_pid(self.0.id()).unwrap()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn stop() -> Stop {
    Stop { signal: Signal::INT, grace: Duration::from_millis(400) }
}

fn pid_in(path: &Path) -> Process {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let found = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        if let Some(process) = found.and_then(|pid| Process::with_pid(pid).ok()) {
            return process;
        }
        assert!(Instant::now() < until, "the child did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn the_recorded_child_gets_the_signal_and_ends_with_all_that_came_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, at) = (dir.path().join("child"), dir.path().display());
    let left = Left::sh(&format!(
        "trap 'echo caught > {at}/caught; exit 0' INT; \
         setsid sh -c 'echo $$ > {at}/apart; exec sleep 60' & sleep 61 & echo $! > {at}/in; \
         while :; do sleep 0.01; done"
    ));
    let (apart, within) = (pid_in(&dir.path().join("apart")), pid_in(&dir.path().join("in")));
    let child = left.process();
    record(&path, child.pid(), child.start_time()).unwrap();
    let ended = end_leftover(&path, &stop(), &[]).await.unwrap();
    assert_eq!(ended.recorded, Some(child));
    assert!(dir.path().join("caught").exists(), "it was asked before it was killed");
    assert!(!child.is_alive() && !apart.is_alive() && !within.is_alive(), "{ended:?}");
    assert!(ended.left.is_empty() && !path.exists());
}

#[tokio::test]
async fn a_child_that_ignores_the_signal_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("child");
    let left = Left::sh(&format!(
        "trap '' INT; echo $$ > {}/up; while :; do sleep 0.01; done",
        dir.path().display()
    ));
    let child = pid_in(&dir.path().join("up"));
    record(&path, child.pid(), child.start_time()).unwrap();
    let begin = Instant::now();
    end_leftover(&path, &stop(), &[]).await.unwrap();
    assert!(!left.process().is_alive());
    assert!(begin.elapsed() >= Duration::from_millis(400));
}

#[tokio::test]
async fn a_recycled_pid_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("child");
    let stranger = Left::sh("exec sleep 60");
    let process = stranger.process();
    record(&path, process.pid(), process.start_time() - 1).unwrap();
    let ended = end_leftover(&path, &stop(), &[]).await.unwrap();
    assert_eq!(ended.recorded, None);
    assert!(process.is_alive());
    assert!(!path.exists(), "a record that names nobody is forgotten");
}

#[tokio::test]
async fn a_record_of_another_boot_names_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("child");
    let stranger = Left::sh("exec sleep 60");
    let process = stranger.process();
    record(&path, process.pid(), process.start_time()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let boot = text.split_whitespace().last().unwrap();
    fs::write(&path, text.replace(boot, "4711/1")).unwrap();
    assert_eq!(end_leftover(&path, &stop(), &[]).await.unwrap().recorded, None);
    assert!(process.is_alive());
}

#[tokio::test]
async fn no_content_of_the_record_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("child");
    let long = "9".repeat(100_000);
    for content in
        ["", "\n", "child-1", "child-1 1", "child-1 -1 0 x", "child-2 1 1 x", "\0\u{ff}", long.as_str()]
    {
        fs::write(&path, content).unwrap();
        assert_eq!(end_leftover(&path, &stop(), &[]).await.unwrap(), Ended::default());
    }
    fs::write(&path, [0xff, 0xfe]).unwrap();
    end_leftover(&path, &stop(), &[]).await.unwrap();
    end_leftover(&path, &stop(), &[]).await.unwrap();
    forget(&path).unwrap();
}

#[tokio::test]
async fn whoever_runs_from_our_directories_is_ended_even_when_its_file_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("versions/1/bin");
    fs::create_dir_all(&bin).unwrap();
    let program: PathBuf = bin.join("collector");
    fs::copy("/bin/sleep", &program).unwrap();
    let run = |path: &Path| {
        // A freshly copied file may be busy for a moment.
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            match Command::new(path).arg("60").spawn() {
                Ok(child) => break Left(child),
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
        }
    };
    let (orphan, stranger) = (run(&program), run(Path::new("/bin/sleep")));
    fs::remove_file(&program).unwrap();
    let dirs = [dir.path().join("versions"), dir.path().join("none")];
    let ended = end_leftover(&dir.path().join("child"), &stop(), &dirs).await.unwrap();
    assert_eq!(ended.others.iter().map(Process::pid).collect::<Vec<_>>(), [orphan.0.id()]);
    assert!(!orphan.process().is_alive() && stranger.process().is_alive());
}

#[test]
fn this_program_itself_is_never_ended() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("updater");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let run = || {
        Command::new(&copy)
            .args(["--exact", "updater_among_its_programs"])
            .env("AMONG_ITS_PROGRAMS", "1")
            .output()
    };
    let until = Instant::now() + Duration::from_secs(5);
    let output = loop {
        match run() {
            Ok(output) => break output,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Run by another test, from a directory of its own.
#[tokio::test]
async fn updater_among_its_programs() {
    if std::env::var_os("AMONG_ITS_PROGRAMS").is_none() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let dir = own.parent().unwrap();
    let kill = Stop { signal: Signal::KILL, grace: Duration::ZERO };
    assert_eq!(end_leftover(&dir.join("child"), &kill, &[dir.to_owned()]).await.unwrap(), Ended::default());
}
