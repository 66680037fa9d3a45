//! `run`: own the program, look for offers, answer the other verbs, until told to end. A program that is a unit of
//! systemd's is not owned: it is left as it is found, and only an open trial is brought to its end.
//!
//! One updater does one thing at a time; whoever asks while it is busy is told so. A signal ends the waiting,
//! never a synchronous step: before `activate` an update is simply dropped, after it the trial stays open in
//! the journal and the next start decides.

use std::{ffi::OsString, fs, path::PathBuf, sync::Arc, time::Duration};

use myriarch_cli::{
    Config, ExitCode,
    config::{CheckInterval, Restart as RestartKind},
};
use myriarch_probe::process::Process;
use myriarch_store::{Store, Writer, running};
use myriarch_supervise::{become_subreaper, leftover, orphans::Reaper};
use myriarch_update::{Event, Observe, Outcome, Request, Restart, Resumed, Updater, without_updating};
use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    compose::{self, ComposeError},
    conduct::{hint, update},
    control, look,
    observers::Fanout,
    signals::Signals,
    status,
    turn::Turns,
    words::with_causes,
};

/// Before a start or a first installation that came to nothing is tried again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(10);
/// The longest pause between two looks for offers after failed trials.
const LONGEST_LOOK: Duration = Duration::from_hours(24);

/// What the updater is busy with first.
const START: &str = "the start of `run`";

/// What `run` and all who ask it share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) events: Arc<Fanout>,
    pub(crate) turns: Turns,
    restart: Arc<dyn Restart>,
}

impl Service {
    /// Stops what is ours. A trial that is open stays open, and an orderly stop costs it no try.
    async fn end(&self) {
        if let Err(error) = self.turns.wait_for("the end of `run`").await.stopped_in_order() {
            self.say(format!("the open trial: {}", with_causes(&error)));
        }
        if let RestartKind::Child(_) = self.config.restart {
            let _ = self.restart.stop().await;
            // A stop that the shutdown itself interrupted is brought to its end.
            end_leftovers(&self.config, &self.store).await;
        }
        control::forget(&self.config.run.directory);
    }

    /// Whether the program that `current` names runs already.
    fn runs(&self) -> bool {
        let current = self.store.current_slot().ok().flatten();
        let file = current.and_then(|slot| slot.file_id().ok());
        file.is_some_and(|file| running::processes_running(file).is_ok_and(|pids| !pids.is_empty()))
    }

    fn is_unit(&self) -> bool {
        matches!(self.config.restart, RestartKind::Systemd(_))
    }

    /// Whether the program is a unit that does not run although nothing is wrong with it, and was installed before.
    async fn is_stopped_unit(&self) -> bool {
        let is_installed = self.store.current_slot().is_ok_and(|slot| slot.is_some());
        is_installed && self.is_unit() && self.restart.is_stopped().await
    }

    fn program(&self) -> PathBuf {
        self.store.program(&self.config.program.binary)
    }
}

/// Runs until a signal says stop. All that can fail is made before anything that runs is touched.
pub(crate) async fn run(config: Config, events: Arc<Fanout>) -> Result<ExitCode, ServeError> {
    let mut signals = Signals::new().map_err(ServeError::Process)?;
    become_subreaper().map_err(ServeError::Process)?;
    let store = compose::store(&config).map_err(ComposeError::from)?;
    let writer = store.lock("run").map_err(ComposeError::from)?;
    let observe: Arc<dyn Observe> = events.clone();
    let restart = compose::restart(&config, observe.clone());
    let parts = match compose::parts(&config) {
        Ok(parts) => parts,
        Err(error) => {
            let words = format!("nothing can be updated: {}", with_causes(&error));
            observe.observe(&Event::Notice { words });
            keep_running(&config, &writer, &*restart, &mut signals).await;
            return Err(error.into());
        }
    };
    let updater = compose::updater(parts, writer, restart.clone(), observe.clone());
    // What is installed runs on: a mode or a mount is no reason to be without a program.
    if let Err(unfit) = store.fit() {
        let words = format!("nothing can be updated: {unfit}; hint: {}", unfit.hint());
        observe.observe(&Event::Notice { words });
    }
    // Without a socket other terminals are not answered, which is no reason to be without a program.
    let listener = control::listen(&config.run.directory).map_err(|error| {
        observe
            .observe(&Event::Notice { words: format!("no verb can be answered: {}", with_causes(&error)) });
    });
    end_leftovers(&config, &store).await;
    let service = Arc::new(Service { config, store, events, turns: Turns::of(updater), restart });

    let mut tasks = JoinSet::new();
    // The first task holds the updater before anybody can ask for it.
    let first = service.clone();
    let (taken, is_taken) = oneshot::channel();
    tasks.spawn(async move { begin(&first, taken).await });
    let _ = is_taken.await;
    if let Ok(listener) = listener {
        tasks.spawn(control::serve(service.clone(), listener));
    }
    tasks.spawn(async {
        // Without a reaper orphans stay zombies, which is untidy and no reason to end.
        let _ = Reaper::new().run().await;
    });
    look::next(&service.store, None);
    if let CheckInterval::Every(interval) = service.config.run.check_interval {
        let service = service.clone();
        tasks.spawn(async move { look_for_offers(&service, interval).await });
    }
    let code = until_told(&mut signals, &mut tasks).await;
    tasks.shutdown().await;
    service.end().await;
    Ok(code)
}

/// A configuration that cannot update anything is no reason to leave the machine without its program. The lock
/// is held all the while, so that nobody else owns the child as well.
async fn keep_running(config: &Config, store: &Writer, restart: &dyn Restart, signals: &mut Signals) {
    let RestartKind::Child(_) = config.restart else { return };
    if let Ok(Some(_)) = without_updating(store) {
        end_leftovers(config, store).await;
        let _ = restart.restart(&store.program(&config.program.binary)).await;
        signals.stop().await;
        let _ = restart.stop().await;
    }
}

/// A part that panics must not leave a `run` that looks alive: whoever manages us starts it again.
async fn until_told(signals: &mut Signals, tasks: &mut JoinSet<()>) -> ExitCode {
    loop {
        tokio::select! {
            () = signals.stop() => return ExitCode::Done,
            ended = tasks.join_next() => match ended {
                // What brings the program up ends when it has.
                Some(Ok(())) => {}
                Some(Err(_)) | None => return ExitCode::Failed,
            },
        }
    }
}

/// Brings what was interrupted to its end, starts what is installed, installs where nothing is. Between two
/// tries the updater is free for whoever asks.
async fn begin(service: &Service, taken: oneshot::Sender<()>) {
    let mut updater = service.turns.wait_for(START).await;
    let _ = taken.send(());
    let mut pause = FIRST_PAUSE;
    while !bring_up(service, &updater).await {
        drop(updater);
        status::publish(&service.config, &service.store);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        updater = service.turns.wait_for(START).await;
    }
    status::publish(&service.config, &service.store);
}

/// Whether a program was started: from then on it is kept by whoever restarts it.
async fn bring_up(service: &Service, updater: &Updater) -> bool {
    match updater.recover().await {
        // What runs well must not be stopped to be started, and a unit is systemd's to start.
        Ok(Resumed::Nothing) if service.runs() || service.is_unit() => true,
        Ok(Resumed::Rescued { to: Some(_), .. }) if service.is_unit() => start_failed(service, updater).await,
        Ok(Resumed::Nothing | Resumed::LeftToRun(_) | Resumed::Rescued { to: Some(_), .. }) => {
            start(service).await
        }
        Ok(Resumed::Finished(outcome)) => is_installed(&outcome),
        Ok(Resumed::Empty | Resumed::Rescued { to: None, .. }) => {
            match update(updater, &Request::default()).await {
                Ok(Outcome::NothingToDo { reason, .. }) => {
                    service.say(format!("nothing is installed: {reason}"));
                    false
                }
                Ok(outcome) => is_installed(&outcome),
                // Why was told as an event; what to do was not.
                Err(myriarch_update::Error::Refused(refusal)) => {
                    service.say(format!("nothing is installed; hint: {}", refusal.hint));
                    false
                }
                Err(error) => {
                    service.say(format!("nothing is installed: {}", with_causes(&error)));
                    false
                }
            }
        }
        // The journal or the disk is ill: what `current` names still runs, if it is intact. A unit is systemd's to
        // start; what it needs is looked at again.
        Err(error) => {
            service.say(format!("recovery: {}; hint: {}", with_causes(&error), hint(&error)));
            !service.is_unit() && updater.current_is_intact() && start(service).await
        }
    }
}

/// A unit that failed for want of an intact program has one now. One that somebody stopped stays so.
async fn start_failed(service: &Service, updater: &Updater) -> bool {
    match updater.start_failed().await {
        Ok(_) => true,
        Err(error) => {
            service.say(format!("starting the program: {error}"));
            false
        }
    }
}

async fn start(service: &Service) -> bool {
    match service.restart.restart(&service.program()).await {
        Ok(()) => true,
        Err(error) => {
            service.say(format!("starting the program: {error}"));
            false
        }
    }
}

/// Whether an outcome leaves a build that was started, healthy or not.
fn is_installed(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Confirmed { .. } => true,
        Outcome::RolledBack(way) | Outcome::NothingHealthy(way) | Outcome::Withdrawn(way) => way.to.is_some(),
        Outcome::NothingToDo { .. } => false,
    }
}

/// A build that the surroundings failed is not quarantined, and is not tried at every look either: each failure in
/// a row doubles the pause, up to a day.
async fn look_for_offers(service: &Service, interval: Duration) {
    let mut pause = interval;
    loop {
        look::next(&service.store, Some(pause));
        status::publish(&service.config, &service.store);
        tokio::time::sleep(pause).await;
        let Ok(updater) = service.turns.take("a look for offers") else { continue };
        // A program that somebody stopped is not started by an update that nobody asked for.
        if service.is_stopped_unit().await {
            continue;
        }
        pause = match update(&updater, &Request::default()).await {
            Ok(Outcome::RolledBack(_) | Outcome::NothingHealthy(_)) => {
                (pause * 2).min(LONGEST_LOOK.max(interval))
            }
            // A refusal was told as an event by the chain itself; the next look may do better.
            Ok(_) | Err(myriarch_update::Error::Refused(_)) => interval,
            Err(error) => {
                service.say(format!("looking for offers: {}", with_causes(&error)));
                interval
            }
        };
    }
}

impl Service {
    fn say(&self, words: String) {
        self.events.observe(&Event::Notice { words });
    }
}

/// A killed updater leaves its child running: it holds the ports and must be gone before the next one starts.
async fn end_leftovers(config: &Config, store: &Store) {
    if let RestartKind::Child(child) = &config.restart {
        let record = compose::child_record(config);
        let end = async || {
            // What cannot be ended is seen when its port is taken: the trial and the status say so.
            let _ = leftover::end_leftover(&record, &compose::stop(child), &[store.versions_dir()]).await;
        };
        end().await;
        // Killed between a start and its record, there is none of it: an orphan with the child's very words is it.
        for orphan in orphans_of(&compose::child_words(config, child)) {
            if leftover::record(&record, orphan.pid(), orphan.start_time()).is_ok() {
                end().await;
            }
        }
    }
}

/// Processes that were started with exactly these words by somebody who is gone.
fn orphans_of(words: &[OsString]) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_orphan(*pid))
        .filter_map(|pid| Process::with_pid(pid).ok())
        .filter(|process| process.args().is_ok_and(|args| args == words))
        .collect()
}

fn is_orphan(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == "1"))
}

/// `run` could not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The parts could not be put together.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// The operating system refused signals or adoption.
    #[error("preparing to own a child")]
    Process(#[source] std::io::Error),
}
