//! One call of one of systemd's commands: in plain words, without a pager or questions back, bounded in time and
//! in what is read of it.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
    time::timeout,
};

use crate::error::{Action, SystemdError};

/// What is read of an answer at the most, in bytes: a machine with thousands of units stays far below.
const LONGEST: u64 = 4 * 1024 * 1024;

/// An answer, whatever it says.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    /// What it said, in one line.
    pub(crate) fn said(&self) -> String {
        let said = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let lines: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() { self.status.to_string() } else { lines.join(" ") }
    }
}

/// Asks, and waits for the answer until `deadline`.
pub(crate) async fn ask<A: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = A>,
    action: Action,
    deadline: Duration,
) -> Result<Answer, SystemdError> {
    let unknown = |error: &io::Error| SystemdError::Unknown { action, said: error.to_string() };
    let mut child = Command::new(program)
        .args(args)
        // Its words are read, so that they must be the untranslated ones.
        .env("LC_ALL", "C")
        .env("SYSTEMD_COLORS", "0")
        .env("SYSTEMD_PAGER", "")
        .env_remove("SYSTEMD_LOG_LEVEL")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| SystemdError::NoSystemctl { program: PathBuf::from(program), source })?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let answered = timeout(deadline, async {
        let (stdout, stderr) = tokio::join!(read(&mut out), read(&mut err));
        Ok(Answer { status: child.wait().await?, stdout: stdout?, stderr: stderr? })
    })
    .await;
    answered.map_err(|_| SystemdError::TimedOut { action, after: deadline })?.map_err(|error| unknown(&error))
}

async fn read(pipe: &mut Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = vec![];
    if let Some(pipe) = pipe {
        pipe.take(LONGEST).read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
