//! A host with a real systemd: a container whose first process is it, on the network of this machine, so that
//! servers of the kit on loopback can be reached from inside.
//!
//! `cargo xtask host` makes the image that all of them start from; `HOST_BASE` names where it is kept. What a
//! test changes inside stays over a reboot and is gone with the container. Tests on it are named `on_host_…` and lie
//! in targets named `host_*`: by that the tier `host` finds them, and all others leave them out.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{self, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use crate::{built, machine::words, programs, shared};

/// How long systemd may take to come up on a busy machine.
const BOOT: Duration = Duration::from_mins(2);

/// The label that tells which process a container belongs to.
const OWNER: &str = "myriarch-owner";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// The host. Removed with all that runs on it when dropped.
#[derive(Debug)]
pub struct Host {
    name: String,
    base: PathBuf,
}

impl Host {
    /// A host that has booted, with the updater in its `PATH` and the real programs, where they were built,
    /// below `/real`. `None`, after saying that `test` is skipped, where there is no image.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub fn start(test: &str) -> Option<Self> {
        let Some(base) = std::env::var_os("HOST_BASE").map(PathBuf::from) else {
            shared::skip(test, "set HOST_BASE to what `cargo xtask host` prints");
            return None;
        };
        remove_left_over(&base);
        let owner = process::id();
        let name = format!("myriarch-{owner}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let host = Self { name, base };
        let mut command = podman(&host.base);
        command.args(["run", "--detach", "--name", &host.name, "--label", &format!("{OWNER}={owner}")]);
        command.args(["--network", "host", "--systemd", "always", "--hostname", "host"]);
        // Root of a host sees which file another user's process runs.
        command.args(["--cap-add", "SYS_PTRACE"]);
        command.arg("--volume").arg(mounted(&built::updater(), "/usr/local/bin/myriarch-updater"));
        if let Some(real) = programs::real() {
            command.arg("--volume").arg(mounted(real.directory(), "/real"));
        }
        let output = command.args(["localhost/myriarch-host", "/sbin/init"]).output().expect("podman runs");
        assert!(output.status.success(), "podman run: {}", words(&output));
        host.wait_booted();
        Some(host)
    }

    /// Runs a program inside.
    pub fn exec(&self, argv: &[&str]) -> Output {
        let mut command = podman(&self.base);
        command.args(["exec", &self.name]).args(argv).stdin(Stdio::null());
        command.output().expect("podman runs")
    }

    /// Runs a verb of the updater inside.
    pub fn verb(&self, arguments: &[&str]) -> Output {
        self.exec(&[&["myriarch-updater"], arguments].concat())
    }

    /// Starts a program inside that this process can wait for.
    pub fn spawn(&self, argv: &[&str]) -> process::Child {
        let mut command = podman(&self.base);
        command.args(["exec", &self.name]).args(argv).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("podman runs")
    }

    /// What a shell prints on stdout when it runs `script` inside.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn sh(&self, script: &str) -> String {
        let output = self.exec(&["sh", "-euc", script]);
        assert!(output.status.success(), "`{script}` ended with {}: {}", output.status, words(&output));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Whether a shell ends `script` with success inside.
    pub fn holds(&self, script: &str) -> bool {
        self.exec(&["sh", "-uc", script]).status.success()
    }

    /// Puts a file in place, its directories with it.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>, mode: u32) {
        let script = "set -eu; mkdir -p \"$(dirname \"$1\")\"; cat >\"$1.new\"; chmod \"$2\" \"$1.new\"; mv \"$1.new\" \"$1\"";
        let mut command = podman(&self.base);
        command.args(["exec", "--interactive", &self.name, "sh", "-c", script, "sh", path]);
        let mut child = command.arg(format!("{mode:o}")).stdin(Stdio::piped()).spawn().expect("podman runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(content.as_ref()).expect("podman reads");
        drop(stdin);
        assert!(child.wait().expect("podman ends").success(), "{path} cannot be written");
    }

    /// Copies a file of this machine to `path`.
    ///
    /// # Panics
    ///
    /// When it cannot be read or written.
    pub fn install(&self, from: &Path, path: &str, mode: u32) {
        self.write(path, std::fs::read(from).expect("a file of this machine"), mode);
    }

    /// A property of a unit, as systemd tells it.
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.sh(&format!("systemctl show --value --property={name} {unit}"))
    }

    /// The main process of a unit; 0 where none runs.
    pub fn main_pid(&self, unit: &str) -> u32 {
        self.property(unit, "MainPID").parse().unwrap_or(0)
    }

    /// What a unit and the manager said of it, since the host was made.
    pub fn log(&self, unit: &str) -> String {
        self.sh(&format!("journalctl --no-pager --output=short-monotonic --unit={unit} || true"))
    }

    /// The operator's `systemctl reboot`, and the next boot.
    ///
    /// # Panics
    ///
    /// When it does not come up again.
    pub fn reboot(&self) {
        // The connection ends with the machine.
        let _ = self.exec(&["systemctl", "reboot"]);
        let is_down = || {
            let mut inspect = podman(&self.base);
            inspect.args(["inspect", "--format", "{{.State.Running}}", &self.name]);
            inspect.output().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == "false")
        };
        let began = Instant::now();
        while !is_down() {
            assert!(began.elapsed() < BOOT, "the host does not go down");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.boot();
    }

    /// All processes are gone at once, then the next boot. What was written to files stays: it is a kill of
    /// everything, not a loss of the disk's cache.
    ///
    /// # Panics
    ///
    /// When it does not come up again.
    pub fn power_cut(&self) {
        let output = podman(&self.base).args(["kill", "--signal", "KILL", &self.name]).output();
        assert!(output.is_ok_and(|output| output.status.success()), "podman kill");
        let _ = podman(&self.base).args(["wait", &self.name]).output();
        self.boot();
    }

    /// Waits until `holds`, or panics with what the host says.
    ///
    /// # Panics
    ///
    /// When the deadline passes.
    pub fn wait(&self, deadline: Duration, what: &str, holds: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            if began.elapsed() >= deadline {
                let said = self.exec(&["journalctl", "--no-pager", "--lines=80"]);
                panic!("waited {deadline:?} for {what}\n{}", words(&said));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn boot(&self) {
        let output = podman(&self.base).args(["start", &self.name]).output().expect("podman runs");
        assert!(output.status.success(), "podman start: {}", words(&output));
        self.wait_booted();
    }

    fn wait_booted(&self) {
        // Also a host with a failed unit has booted; what failed is for the test to see.
        let began = Instant::now();
        loop {
            let output = self.exec(&["systemctl", "is-system-running"]);
            let state = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if state == "running" || state == "degraded" {
                return;
            }
            assert!(began.elapsed() < BOOT, "the host did not boot: {state:?} {}", words(&output));
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        remove(&self.base, &self.name);
    }
}

/// Podman with a storage of its own: nothing of the machine's other containers is seen or touched.
fn podman(base: &Path) -> Command {
    let mut command = Command::new("podman");
    command.env("CONTAINERS_CONF", base.join("containers.conf"));
    command.arg("--root").arg(base.join("storage")).arg("--runroot").arg(base.join("run"));
    command.args(["--cgroup-manager", "cgroupfs", "--events-backend", "none"]);
    command
}

fn mounted(path: &Path, at: &str) -> String {
    format!("{}:{at}:ro", path.display())
}

fn remove(base: &Path, name: &str) {
    let _ = podman(base).args(["rm", "--force", "--time", "0", name]).output();
}

/// Containers of tests that were killed before they could remove them.
fn remove_left_over(base: &Path) {
    let format = format!("{{{{.Names}}}} {{{{index .Labels \"{OWNER}\"}}}}");
    let Ok(output) = podman(base).args(["ps", "--all", "--format", &format]).output() else { return };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some((name, owner)) = line.split_once(' ')
            && !Path::new("/proc").join(owner).exists()
        {
            remove(base, name);
        }
    }
}
