//! Running a program that is not trusted to behave, for an answer.
//!
//! A candidate may hang, flood its pipes, ignore signals or leave children behind that hold the pipes open. None
//! of this may hang or harm the one who asks: it runs in its own process group with nothing on stdin, its output
//! is drained and bounded, at the deadline the whole group is killed, and it is always reaped.
//!
//! A freshly written file can be "busy" for a moment: any other thread that forks at the wrong time holds our
//! write descriptor until its own exec (a third of all tries, on a busy machine). That is tried again for a
//! bounded time.

use std::{
    ffi::OsString,
    fmt, io,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

pub use crate::credentials::Credentials;
use crate::{
    capture::Capture,
    credentials::{Failure, spawn},
    ended::ended,
};

/// For how long a busy executable is tried again.
const BUSY_FOR: Duration = Duration::from_secs(2);
/// Between two tries at a busy executable.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// How long the pipes of a program that is gone are read on, where somebody outside its group holds them open.
const DRAIN: Duration = Duration::from_millis(250);
/// How long a killed program is waited for. Longer means stuck in the kernel, on a dead network mount for one.
const REAP: Duration = Duration::from_secs(5);

/// A program to run for its answer.
#[derive(Debug, Clone)]
pub struct Exec {
    /// The executable file.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<OsString>,
    /// Its environment.
    pub env: Environment,
    /// Its working directory; our own where `None`.
    pub cwd: Option<PathBuf>,
    /// Whom it runs as; as ourselves where `None`.
    pub credentials: Option<Credentials>,
    /// When its group is killed.
    pub deadline: Duration,
    /// How many bytes of each of stdout and stderr are kept: the first half and the last.
    pub output_limit: usize,
}

/// A program's environment. Its values may be secrets: the debug form shows names alone.
#[derive(Clone, PartialEq, Eq)]
pub enum Environment {
    /// Ours.
    Inherit,
    /// These variables and no other.
    Exactly(Vec<(OsString, OsString)>),
}

/// What a program answered.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to stdout, bounded.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr, bounded.
    pub stderr: Vec<u8>,
    /// Whether something was left out of either.
    pub truncated: bool,
}

/// A program that gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It could not be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The executable file.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// We may not run it as the user asked for; it was not run.
    #[error("cannot start {} as user {} and group {}", program.display(), credentials.uid, credentials.gid)]
    Credentials {
        /// The executable file.
        program: PathBuf,
        /// Whom it was to run as.
        credentials: Credentials,
        /// What the system said.
        source: io::Error,
    },
    /// It did not end in time and was killed.
    #[error("{} did not end within {after:?} and was killed", program.display())]
    Deadline {
        /// The executable file.
        program: PathBuf,
        /// The deadline.
        after: Duration,
        /// What it had written to stdout.
        stdout: Vec<u8>,
        /// What it had written to stderr.
        stderr: Vec<u8>,
    },
    /// It ran, but its status could not be collected.
    #[error("cannot learn how {} ended", program.display())]
    Status {
        /// The executable file.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Exec {
    /// `program` with `args`, as ourselves and with our environment, for at most 10 s and 64 KiB per stream.
    pub fn new<A: Into<OsString>>(program: impl Into<PathBuf>, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Environment::Inherit,
            cwd: None,
            credentials: None,
            deadline: Duration::from_secs(10),
            output_limit: 64 * 1024,
        }
    }

    /// Runs it to its end. Dropping the future kills the group.
    ///
    /// What the program leaves running in its group is killed when it ends.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not end in time. A status other than 0 is an answer, not an error.
    pub async fn run(&self) -> Result<Output, ExecError> {
        let mut group = Group::of(self.start().await?);
        let (mut stdout, mut stderr) = (Capture::new(self.output_limit), Capture::new(self.output_limit));
        let (mut out_pipe, mut err_pipe) = (group.child.stdout.take(), group.child.stderr.take());
        let mut drained = false;

        let in_time = {
            let drain = async {
                tokio::join!(
                    async {
                        if let Some(pipe) = &mut out_pipe {
                            stdout.drain(pipe).await;
                        }
                    },
                    async {
                        if let Some(pipe) = &mut err_pipe {
                            stderr.drain(pipe).await;
                        }
                    }
                );
            };
            tokio::pin!(drain);
            let end = timeout(self.deadline, group.ended());
            tokio::pin!(end);
            let in_time = loop {
                tokio::select! {
                    () = &mut drain, if !drained => drained = true,
                    ended = &mut end => break ended.is_ok(),
                }
            };
            group.kill();
            if !drained {
                // The group is dead; only a holder outside of it can keep the pipes open now.
                let _ = timeout(DRAIN, drain).await;
            }
            in_time
        };

        let status = group.reap().await;
        let ((stdout, cut_out), (stderr, cut_err)) = (stdout.finish(), stderr.finish());
        let program = || self.program.clone();
        if !in_time {
            return Err(ExecError::Deadline { program: program(), after: self.deadline, stdout, stderr });
        }
        match status {
            Ok(status) => Ok(Output { status, stdout, stderr, truncated: cut_out || cut_err }),
            Err(source) => Err(ExecError::Status { program: program(), source }),
        }
    }

    async fn start(&self) -> Result<Child, ExecError> {
        let mut command = self.command();
        let until = Instant::now() + BUSY_FOR;
        loop {
            let program = self.program.clone();
            match (spawn(&mut command, self.credentials.as_ref()), &self.credentials) {
                (Ok(child), _) => return Ok(child),
                (Err(Failure::Start(source)), _)
                    if source.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() < until =>
                {
                    sleep(BUSY_PAUSE).await;
                }
                (Err(Failure::Credentials(source)), Some(credentials)) => {
                    return Err(ExecError::Credentials { program, credentials: credentials.clone(), source });
                }
                (Err(Failure::Start(source) | Failure::Credentials(source)), _) => {
                    return Err(ExecError::Start { program, source });
                }
            }
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Environment::Exactly(variables) = &self.env {
            command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
        }
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inherit => f.write_str("Inherit"),
            Self::Exactly(variables) => {
                f.debug_list().entries(variables.iter().map(|(name, _)| name)).finish()
            }
        }
    }
}

/// A child that leads its own group, killed as a whole for as long as the leader's status is not collected.
struct Group {
    child: Child,
    leader: Option<Pid>,
}

impl Group {
    fn of(child: Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { child, leader }
    }

    async fn ended(&self) {
        if let Some(leader) = self.leader {
            ended(leader).await;
        }
    }

    fn kill(&self) {
        if let Some(leader) = self.leader {
            // Nobody left to kill is what is wanted.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }

    async fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = timeout(REAP, self.child.wait())
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "killed, and still not gone after 5 s"))?;
        self.leader = None;
        status
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
