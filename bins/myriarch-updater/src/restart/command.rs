//! Restart by a command, such as `systemctl restart otelcol`: what it starts is not ours to watch.

use std::{ffi::OsString, future::pending, path::Path, time::Duration};

use async_trait::async_trait;
use myriarch_probe::exec::{Environment, Exec, ExecError};
use myriarch_update::{Ended, Redactor, Restart, RestartError};

/// A command that restarts the program, and one that stops it.
#[derive(Debug)]
pub(crate) struct CommandRestart {
    restart: Vec<String>,
    stop: Vec<String>,
    timeout: Duration,
    /// What it says may be the program's words.
    redactor: Redactor,
}

impl CommandRestart {
    pub(crate) fn new(
        restart: Vec<String>,
        stop: Vec<String>,
        timeout: Duration,
        redactor: Redactor,
    ) -> Self {
        Self { restart, stop, timeout, redactor }
    }

    async fn run(&self, argv: &[String], program: &Path) -> Result<(), RestartError> {
        let program = program.to_string_lossy();
        let argv: Vec<OsString> =
            argv.iter().map(|argument| argument.replace("{program}", &program).into()).collect();
        let shown = argv.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let shown = self.redactor.redact(&shown);
        let Some((first, rest)) = argv.split_first() else {
            return Err(RestartError::Surroundings { reason: "expected a command, found none".to_owned() });
        };
        let exec = Exec {
            program: first.into(),
            args: rest.to_vec(),
            env: Environment::Inherit,
            cwd: None,
            credentials: None,
            deadline: self.timeout,
            output_limit: 16 * 1024,
        };
        let output = exec.run().await.map_err(|error| {
            let reason = format!("`{shown}`: {error}");
            match error {
                // It waited for the program, which did not come up.
                ExecError::Deadline { .. } => RestartError::Program { reason },
                _ => RestartError::Surroundings { reason },
            }
        })?;
        if output.status.success() {
            return Ok(());
        }
        let said = self.redactor.redact(&String::from_utf8_lossy(&output.stderr));
        Err(RestartError::Program {
            reason: format!("`{shown}`: {}, saying {:?}", output.status, said.trim()),
        })
    }
}

#[async_trait]
impl Restart for CommandRestart {
    async fn restart(&self, program: &Path) -> Result<(), RestartError> {
        self.run(&self.restart, program).await
    }

    async fn stop(&self) -> Result<(), RestartError> {
        if self.stop.is_empty() {
            return Ok(());
        }
        self.run(&self.stop, Path::new("")).await
    }

    async fn ended(&self) -> Ended {
        pending().await
    }
}
