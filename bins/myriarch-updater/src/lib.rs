//! Host composition: the command line, the configuration, the parts, one verb.

mod accounts;
mod clock;
mod compose;
mod conduct;
mod control;
mod detect;
mod doctor;
mod import;
mod look;
mod observers;
mod program_log;
mod recover;
mod restart;
mod serve;
mod signals;
mod source;
mod status;
mod turn;
pub mod units;
mod verbs;
mod verify;
mod words;

use std::{
    io::{self, IsTerminal as _, Write as _},
    process,
    sync::Arc,
};

use clap::Parser as _;
use jiff::tz::TimeZone;
use myriarch_cli::{
    Config, Ending, ExitCode, PlanDocument, Reporter, config::Restart as RestartKind, control::Verb as Asked,
};
use myriarch_store::{LockError, StoreError};
use myriarch_systemd::Systemd;
use myriarch_update::{Observe, Updater};

use crate::{
    compose::ComposeError,
    import::Import,
    observers::{Fanout, LastWordsFollow},
    serve::ServeError,
    signals::Signals,
    verbs::{CommandLine, ConfigVerb, Verb},
};

/// Parses the command line and carries its verb out.
pub fn main() -> process::ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done }.into();
        }
    };
    // Without a provider of cryptography no TLS and no other verification of a connection exists.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(carry_out(&line)).into(),
        Err(error) => finish(&line, &Ending::failed(ExitCode::Failed, &error, None)).into(),
    }
}

async fn carry_out(line: &CommandLine) -> ExitCode {
    if let Verb::Config(ConfigVerb::Example { detect, unit }) = &line.verb {
        if !detect {
            return data(Config::example());
        }
        return match detect::detect(&Systemd::new(), unit.as_ref()).await {
            Ok(detected) => data(&detected.toml()),
            Err(error) => {
                let hint = error.hint.clone();
                finish(line, &Ending::failed(ExitCode::Failed, &error, Some(hint)))
            }
        };
    }
    if matches!(line.verb, Verb::Doctor) {
        let path = line.configuration();
        let document = doctor::document(&path, Config::load(&path)).await;
        data(&if line.json { json(&document) } else { document.human() });
        return document.exit_code;
    }
    let config = match Config::load(&line.configuration()) {
        Ok(config) => config,
        Err(error) => return finish(line, &Ending::from(&error)),
    };
    let reporter: Arc<dyn Observe> = match line.verb {
        Verb::Run => Arc::new(reporter(line)),
        _ => Arc::new(LastWordsFollow(reporter(line))),
    };
    match &line.verb {
        Verb::Run => {
            let events = Arc::new(Fanout::new(reporter));
            match serve::run(config, events).await {
                Ok(code) => code,
                Err(ServeError::Compose(error)) => finish(line, &composing(&error)),
                Err(error @ ServeError::Process(_)) => {
                    let hint = "see which limit or sandbox of the service manager forbids it".to_owned();
                    finish(line, &Ending::failed(ExitCode::Failed, &error, Some(hint)))
                }
            }
        }
        Verb::Status(asked) => match compose::existing_store(&config) {
            Ok(store) => {
                let document = status::asked(&config, &store, *asked).await;
                data(&if line.json { json(&document) } else { document.human(&TimeZone::system()) })
            }
            Err(error) => finish(line, &no_store(&error)),
        },
        Verb::History => match compose::existing_store(&config).map(|store| status::history(&store)) {
            Ok(Ok(history)) => {
                data(&if line.json { json(&history) } else { history.human(&TimeZone::system()) })
            }
            Ok(Err(error)) => {
                let hint = conduct::journal_hint(&error).to_owned();
                finish(line, &Ending::failed(ExitCode::Failed, &error, Some(hint)))
            }
            Err(error) => finish(line, &no_store(&error)),
        },
        Verb::Verify(asked) => finish(line, &verify::ending(&config, asked)),
        Verb::Config(ConfigVerb::Show) => data(&config.show()),
        // Told before a configuration was asked for.
        Verb::Doctor => ExitCode::Done,
        Verb::Config(_) => {
            finish(line, &Ending::done(format!("{} is valid", line.configuration().display())))
        }
        Verb::Recover(asked) => finish(line, &Box::pin(recover::ending(&config, asked, reporter)).await),
        Verb::Import(asked) => Box::pin(import(line, asked, &config, reporter)).await,
        Verb::Check => finish(line, &act(&config, Asked::Check {}, reporter).await),
        Verb::Update(to) => finish(line, &act(&config, Asked::Update { to: to.to.clone() }, reporter).await),
        Verb::Rollback(to) => {
            finish(line, &act(&config, Asked::Rollback { to: to.to.clone() }, reporter).await)
        }
        Verb::Release { version } => {
            finish(line, &act(&config, Asked::Release { version: version.clone() }, reporter).await)
        }
        Verb::Pin { version } => {
            finish(line, &act(&config, Asked::Pin { version: version.clone() }, reporter).await)
        }
        Verb::Unpin => finish(line, &act(&config, Asked::Unpin {}, reporter).await),
    }
}

/// By the updater that runs if one does, else by ourselves.
async fn act(config: &Config, verb: Asked, observe: Arc<dyn Observe>) -> Ending {
    match control::ask(&config.run.directory, verb.clone(), &*observe).await {
        Ok(Some(ending)) => return ending,
        Ok(None) => {}
        Err(error) => {
            let hint = error.hint().to_owned();
            return Ending::failed(ExitCode::Failed, &error, Some(hint));
        }
    }
    let restarts = matches!(verb, Asked::Update { .. } | Asked::Rollback { .. });
    if restarts && matches!(config.restart, RestartKind::Child(_)) {
        let service = &config.service;
        let error = io::Error::other(format!(
            "no updater runs for {service}, and with restart.kind = \"child\" only it can restart the program"
        ));
        let hint = "start `myriarch-updater run`; it also brings a first installation about".to_owned();
        return Ending::failed(ExitCode::Failed, &error, Some(hint));
    }
    match compose_alone(config, &verb_words(&verb), observe) {
        Ok(updater) => {
            let ending =
                until_interrupted(&updater, TRIAL_IS_OPEN, Box::pin(conduct::conduct(&updater, verb))).await;
            status::publish(config, updater.store());
            ending
        }
        Err(error) => composing(&error),
    }
}

/// What becomes of an update that is interrupted.
pub(crate) const TRIAL_IS_OPEN: &str =
    "if a trial had begun it is open: `recover` brings it to its end, and so does the next update";

/// What becomes of an import, or its undo, that is interrupted.
const IMPORT_IS_RECORDED: &str = "if files were being changed it is written down: `import` begins anew, `import --undo` puts everything back";

/// A verb without a `run` ends in order when it is told to: what it was doing is dropped, never torn.
/// `hint` says what becomes of it.
pub(crate) async fn until_interrupted(
    updater: &Updater,
    hint: &str,
    work: impl Future<Output = Ending>,
) -> Ending {
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return Ending::failed(ExitCode::Failed, &error, None),
    };
    tokio::select! {
        ending = work => ending,
        () = signals.stop() => {
            // An orderly stop is no try of the build's; what cannot be written now costs one.
            let _ = updater.stopped_in_order();
            let error = io::Error::other("interrupted by a signal");
            Ending::failed(ExitCode::Failed, &error, Some(hint.to_owned()))
        }
    }
}

async fn import(
    line: &CommandLine,
    asked: &verbs::Import,
    config: &Config,
    observe: Arc<dyn Observe>,
) -> ExitCode {
    let show = |plan: &PlanDocument| {
        data(&if line.json { json(plan) } else { plan.human() });
    };
    let import = match Import::new(config, asked, line.called(), observe.clone()) {
        Ok(import) => import,
        Err(ending) => return finish(line, &ending),
    };
    if asked.dry_run {
        return match import.dry_run().await {
            Ok(plan) => {
                show(&plan);
                ExitCode::Done
            }
            Err(ending) => finish(line, &ending),
        };
    }
    // Undoing what was never done makes no store.
    if asked.undo && !config.store.path.is_dir() {
        return finish(
            line,
            &Ending::done(format!("nothing to undo: no store at {}", config.store.path.display())),
        );
    }
    let purpose = if asked.undo { "import --undo" } else { "import" };
    let updater = match compose_alone(config, purpose, observe) {
        Ok(updater) => updater,
        Err(error) => return finish(line, &composing(&error)),
    };
    let ending = if asked.undo {
        until_interrupted(&updater, IMPORT_IS_RECORDED, import.undo(&updater)).await
    } else {
        until_interrupted(&updater, IMPORT_IS_RECORDED, import.carry_out(&updater, show)).await
    };
    status::publish(config, updater.store());
    finish(line, &ending)
}

/// The updater of this process, for a verb without a running `run`.
pub(crate) fn compose_alone(
    config: &Config,
    purpose: &str,
    observe: Arc<dyn Observe>,
) -> Result<Updater, ComposeError> {
    let parts = compose::parts(config)?;
    let writer = compose::store(config)?.lock(purpose)?;
    let restart = compose::restart(config, observe.clone());
    Ok(compose::updater(parts, writer, restart, observe))
}

fn no_store(error: &StoreError) -> Ending {
    let hint = "`run`, or the first `update`, makes the store that store.path names".to_owned();
    Ending::failed(ExitCode::Failed, error, Some(hint))
}

pub(crate) fn composing(error: &ComposeError) -> Ending {
    match error {
        ComposeError::Lock(held @ LockError::Held { .. }) => {
            let hint = "wait for it to end, or stop it; `status` says who holds the lock".to_owned();
            Ending::failed(ExitCode::Locked, held, Some(hint))
        }
        ComposeError::Unusable { hint, .. } => Ending::failed(ExitCode::Usage, error, Some(hint.clone())),
        ComposeError::Lock(_) | ComposeError::Store(_) => {
            let hint = "check the path, owner and permissions of store.path".to_owned();
            Ending::failed(ExitCode::Failed, error, Some(hint))
        }
    }
}

pub(crate) fn verb_words(verb: &Asked) -> String {
    match verb {
        Asked::Update { .. } => "update",
        Asked::Rollback { .. } => "rollback",
        Asked::Status {} => "status",
        Asked::Release { .. } => "release",
        Asked::Pin { .. } => "pin",
        Asked::Unpin {} => "unpin",
        Asked::Check {} => "check",
        Asked::Recover {} => "recover",
    }
    .to_owned()
}

/// Bars on a terminal, lines elsewhere, JSON lines when asked for.
fn reporter(line: &CommandLine) -> Reporter {
    if line.json {
        Reporter::json(io::stderr())
    } else if io::stderr().is_terminal() {
        Reporter::bars_on_stderr(io::stderr())
    } else {
        Reporter::lines(io::stderr())
    }
}

fn json(document: &impl serde::Serialize) -> String {
    // Strings, numbers and lists, which JSON can always say.
    serde_json::to_string(document).unwrap_or_default() + "\n"
}

/// Data goes to stdout. A reader that has gone away is its own affair.
fn data(text: &str) -> ExitCode {
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::Done
}

/// The last word: a document on stdout, or words on the stream they belong to.
fn finish(line: &CommandLine, ending: &Ending) -> ExitCode {
    let _ = if line.json {
        writeln!(io::stdout(), "{}", ending.json())
    } else if ending.is_failure() {
        write!(io::stderr(), "{}", ending.human())
    } else {
        write!(io::stdout(), "{}", ending.human())
    };
    ending.exit_code
}
