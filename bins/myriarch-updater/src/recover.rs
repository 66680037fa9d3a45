//! `recover`: what an interrupted run left, brought to its end.
//!
//! It is the watchdog that outlives the updater: the program's unit starts it when it fails, and at boot it runs
//! before the program does. It holds the store's lock like everybody else. Where `run` holds it, that one is asked to
//! recover: it may be idle. Where another verb does, that one is on it.

use std::{fs, io, sync::Arc};

use myriarch_cli::{Config, Ending, ExitCode, config::Restart as RestartKind, control::Verb};
use myriarch_probe::process::Process;
use myriarch_store::LockError;
use myriarch_update::{Build, Error, Observe, Outcome, Resumed, Updater};

use crate::{
    TRIAL_IS_OPEN, compose::ComposeError, compose_alone, composing, conduct, control, status,
    until_interrupted, verbs::Recover,
};

/// Another one at each boot of the kernel.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Names this boot. A container boots without a new kernel, but never without a new process 1.
fn boot() -> io::Result<String> {
    let init = Process::with_pid(1)?;
    Ok(format!("{} {}", fs::read_to_string(BOOT_ID)?.trim(), init.start_time()))
}

pub(crate) async fn ending(config: &Config, asked: &Recover, observe: Arc<dyn Observe>) -> Ending {
    let composed = match compose_alone(config, "recover", observe.clone()) {
        // At boot nobody may be waited for: the program's own start waits for us.
        Err(held @ ComposeError::Lock(LockError::Held { .. })) if is_unit(config) && !asked.before_start => {
            match control::ask(&config.run.directory, Verb::Recover {}, &*observe).await {
                Ok(Some(ending)) => return ending,
                // No `run` but another verb: it is on it.
                Ok(None) => Err(held),
                // It ended before it answered.
                Err(_) => compose_alone(config, "recover", observe),
            }
        }
        composed => composed,
    };
    let updater = match composed {
        Ok(updater) => updater,
        Err(error) => return composing(&error),
    };
    let ending = until_interrupted(&updater, TRIAL_IS_OPEN, async {
        match (&config.restart, asked.before_start) {
            (RestartKind::Systemd(_), true) => match boot() {
                Ok(boot) => without_a_start(updater.before_start(&boot)),
                Err(error) => Ending::failed(ExitCode::Failed, &error, None),
            },
            // The child is `run`'s, and it pays for its starts itself: only what it will start is put right here.
            (RestartKind::Child(_), false) => of(updater.put_right(), &updater).await,
            (RestartKind::Child(_) | RestartKind::Command(_), true) => without_a_start(updater.put_right()),
            (RestartKind::Command(_) | RestartKind::Systemd(_), false) => {
                of(updater.recover().await, &updater).await
            }
        }
    })
    .await;
    status::publish(config, updater.store());
    ending
}

fn is_unit(config: &Config) -> bool {
    matches!(config.restart, RestartKind::Systemd(_))
}

/// The ending of what was recovered. A program that failed for want of an intact one is started.
pub(crate) async fn of(recovered: Result<Resumed, Error>, updater: &Updater) -> Ending {
    match recovered {
        Ok(Resumed::Rescued { to: Some(build), reason }) => {
            let now = now_names(&build, &reason);
            match updater.start_failed().await {
                Ok(true) => Ending::done(format!("{now} and was started")),
                Ok(false) => Ending::done(format!("{now} and has to be started")),
                Err(error) => Ending::failed(ExitCode::NoHealthy, &error, Some(now)),
            }
        }
        other => without_a_start(other),
    }
}

fn now_names(build: &Build, reason: &str) -> String {
    format!("{reason}; `current` names {} now", build.name())
}

/// The ending where starting is left to whoever keeps the program.
fn without_a_start(recovered: Result<Resumed, Error>) -> Ending {
    match recovered {
        Ok(Resumed::Nothing) => Ending::done("nothing was interrupted; `current` names an intact build"),
        Ok(Resumed::Empty) => Ending::done("nothing is installed"),
        Ok(Resumed::LeftToRun(words)) => Ending::done(words),
        Ok(Resumed::Rescued { to: Some(build), reason }) => Ending::done(now_names(&build, &reason)),
        Ok(Resumed::Rescued { to: None, reason }) => {
            let error = io::Error::other(format!("{reason}; nothing intact is left"));
            let hint = "`update` brings a verified build from the source".to_owned();
            Ending::failed(ExitCode::NoHealthy, &error, Some(hint))
        }
        Ok(Resumed::Finished(outcome)) => match &*outcome {
            Outcome::Confirmed { build, .. } => {
                Ending::done(format!("the interrupted trial of {} is confirmed", build.name()))
            }
            outcome => outcome.into(),
        },
        Err(error) => conduct::failed(&error),
    }
}
