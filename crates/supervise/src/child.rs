//! Starting a child, and what is known of it until its status is collected.
//!
//! The status of a dead child is looked at and left where it is until [`Child::stop`]: as long as it is not
//! collected, the id of the child and of the group that it led cannot be used again, and what is left of the
//! group can be killed without a doubt about who is meant.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};

use crate::{orphans::own, process::Process};

/// For how long a busy executable is tried again: a thread that forks elsewhere may hold it open for a moment.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// Between two tries at a busy executable.
const BUSY_PAUSE: Duration = Duration::from_millis(2);
/// How often is looked where no signal says so.
const LOOK: Duration = Duration::from_millis(50);

/// What to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The executable file.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<OsString>,
    /// Variables added to our own environment.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory; our own where `None`.
    pub cwd: Option<PathBuf>,
    /// Where stdout and stderr go.
    pub output: Output,
}

/// Where a child's stdout and stderr go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Where ours go.
    Inherit,
    /// To the end of this file, which is made if it is not there.
    File(PathBuf),
}

/// A child that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {}", program.display())]
pub struct SpawnError {
    program: PathBuf,
    source: io::Error,
}

/// A running child, leader of its own process group.
///
/// Dropping it stops nothing.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    process: Process,
    status: Option<ExitStatus>,
}

impl Spec {
    /// `program` with `args`, with our environment, directory and output.
    pub fn new<A: Into<OsString>>(program: impl Into<PathBuf>, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: None,
            output: Output::Inherit,
        }
    }

    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .process_group(0);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        if let Output::File(path) = &self.output {
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            command.stdout(file.try_clone()?).stderr(file);
        }
        Ok(command)
    }
}

impl SpawnError {
    /// The exit code that a shell would give: 127 for a program that is not there, 126 for one that cannot be
    /// executed.
    pub fn exit_code(&self) -> u8 {
        if self.source.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

impl Child {
    /// Starts `spec` in a process group of its own, with nothing on stdin.
    ///
    /// A busy executable is tried again for up to a second, in which the thread is blocked.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn spawn(spec: &Spec) -> Result<Self, SpawnError> {
        let failed = |source| SpawnError { program: spec.program.clone(), source };
        hear_interrupts();
        let mut command = spec.command().map_err(failed)?;
        let until = Instant::now() + BUSY_FOR;
        loop {
            let error = match Self::spawn_known(&mut command) {
                Ok(child) => return Ok(child),
                Err(error) => error,
            };
            if error.kind() != io::ErrorKind::ExecutableFileBusy || Instant::now() >= until {
                return Err(failed(error));
            }
            thread::sleep(BUSY_PAUSE);
        }
    }

    /// Its process id, which is that of its group too.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// When it started, in clock ticks since boot.
    pub fn start_time(&self) -> u64 {
        self.process.start_time()
    }

    /// The process that it is.
    pub fn process(&self) -> Process {
        self.process
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = peek(&self.inner);
        }
        self.status
    }

    /// Waits until it ends. Can be dropped and called again; the status is collected by [`stop`](Self::stop) or
    /// when the child is dropped.
    pub async fn wait(&mut self) -> ExitStatus {
        let mut children = signal(SignalKind::child()).ok();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            match &mut children {
                Some(children) => _ = timeout(LOOK, children.recv()).await,
                None => sleep(LOOK).await,
            }
        }
    }

    /// Collects the status of a child that has ended.
    pub(crate) fn collect(mut self) -> Option<ExitStatus> {
        self.ended()
    }

    /// Under the register's lock, so that whoever collects orphans knows the child before it can die.
    fn spawn_known(command: &mut Command) -> io::Result<Self> {
        let mut own = own();
        let inner = command.spawn()?;
        own.insert(inner.id());
        // Nobody collects its status but us, so it is there, dead or alive. Where even so nothing is to be read
        // (no /proc), no process matches: nothing is ever killed by mistake.
        let process = Process::with_pid(inner.id()).unwrap_or_else(|_| Process::new(inner.id(), u64::MAX));
        Ok(Self { inner, process, status: None })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !matches!(self.inner.try_wait(), Ok(Some(_))) {
            // Still running, and nobody's from now on: an orphan in all but name.
            self.inner.stdin = None;
        }
        own().remove(&self.process.pid());
    }
}

/// Makes sure that the child can be interrupted.
///
/// A program started in the background by a shell script has SIGINT ignored, and that is inherited by all that it
/// starts. The OpAMP Supervisor then loses the SIGINT by which it ends its bootstrap run, and hangs. A handler,
/// unlike "ignored", is not inherited; one that does nothing changes nothing for ourselves.
fn hear_interrupts() {
    if is_ignored(Signal::INT) && Handle::try_current().is_ok() {
        // Where no handler can be installed, the child is no worse off than without this.
        drop(signal(SignalKind::interrupt()));
    }
}

fn is_ignored(wanted: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (wanted.as_raw() - 1)) != 0
}

/// How `child` ended, its status left to be collected.
fn peek(child: &std::process::Child) -> Option<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(Pid::from_child(child)), options) {
        Ok(status) => status.as_ref().map(exit_status),
        Err(rustix::io::Errno::INTR) => None,
        // Against the rules somebody else has collected it. How it ended is lost; that it ended is not, and an
        // unknown end is no good one.
        Err(_) => Some(ExitStatus::from_raw(255 << 8)),
    }
}

fn exit_status(status: &WaitIdStatus) -> ExitStatus {
    let dumped = if status.dumped() { 0x80 } else { 0 };
    let raw = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code & 0xff) << 8,
        (None, Some(signal)) => signal | dumped,
        (None, None) => 255 << 8,
    };
    ExitStatus::from_raw(raw)
}
