//! `recover`: what an interrupted run left, brought to its end.
//!
//! It is the watchdog that outlives the updater: the program's unit starts it when it fails, and at boot it runs
//! before the program does. It holds the store's lock like everybody else; where another updater holds it, that one
//! is on it.

use std::{fs, io, sync::Arc};

use myriarch_cli::{Config, Ending, ExitCode, config::Restart as RestartKind};
use myriarch_probe::process::Process;
use myriarch_update::{Observe, Outcome, Resumed};

use crate::{TRIAL_IS_OPEN, compose_alone, composing, conduct, status, until_interrupted, verbs::Recover};

/// Another one at each boot of the kernel.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Names this boot. A container boots without a new kernel, but never without a new process 1.
fn boot() -> io::Result<String> {
    let init = Process::with_pid(1)?;
    Ok(format!("{} {}", fs::read_to_string(BOOT_ID)?.trim(), init.start_time()))
}

pub(crate) async fn ending(config: &Config, asked: &Recover, observe: Arc<dyn Observe>) -> Ending {
    let updater = match compose_alone(config, "recover", observe) {
        Ok(updater) => updater,
        Err(error) => return composing(&error),
    };
    let ending = until_interrupted(
        &updater,
        TRIAL_IS_OPEN,
        Box::pin(async {
            let recovered = match (&config.restart, asked.before_start) {
                (RestartKind::Systemd(_), true) => match boot() {
                    Ok(boot) => updater.before_start(&boot),
                    Err(error) => return Ending::failed(ExitCode::Failed, &error, None),
                },
                // The child is `run`'s, and it pays for its starts itself: only what it will start is put right here.
                (RestartKind::Child(_), _) | (RestartKind::Command(_), true) => updater.put_right(),
                (RestartKind::Command(_) | RestartKind::Systemd(_), false) => updater.recover().await,
            };
            match recovered {
                Ok(Resumed::Nothing) => {
                    Ending::done("nothing was interrupted; `current` names an intact build")
                }
                Ok(Resumed::Empty) => Ending::done("nothing is installed"),
                Ok(Resumed::LeftToRun(words)) => Ending::done(words),
                Ok(Resumed::Rescued { to: Some(build), reason }) => {
                    let now = format!("{reason}; `current` names {} now", build.name());
                    if asked.before_start {
                        return Ending::done(now);
                    }
                    match updater.start_failed().await {
                        Ok(true) => Ending::done(format!("{now} and was started")),
                        Ok(false) => Ending::done(format!("{now} and has to be started")),
                        Err(error) => Ending::failed(ExitCode::NoHealthy, &error, Some(now)),
                    }
                }
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
        }),
    )
    .await;
    status::publish(config, updater.store());
    ending
}
