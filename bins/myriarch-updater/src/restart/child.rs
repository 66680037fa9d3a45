//! Restart of a child of ours. One keeper task owns it: it starts it again when it ends by itself, backing off,
//! until it is told to stop.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use myriarch_supervise::{Backoff, Child, SpawnError, Spec, Stop, leftover};
use myriarch_update::{Ended, Event, Observe, Restart, RestartError};
use tokio::{
    sync::{Mutex, mpsc, oneshot, watch},
    task::JoinHandle,
};

use crate::words::with_causes;

/// The child's life in the hands of the chain.
#[derive(Debug)]
pub(crate) struct ChildRestart {
    spec: Spec,
    stop: Stop,
    record: PathBuf,
    observe: Arc<dyn Observe>,
    keeper: Mutex<Option<Keeper>>,
    /// How the child that the last restart started ended, once it has.
    ended: watch::Sender<Option<String>>,
}

#[derive(Debug)]
struct Keeper {
    orders: mpsc::Sender<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl ChildRestart {
    /// `spec` is started as it is; `record` is where its pid is kept for the case that we are killed.
    pub(crate) fn new(spec: Spec, stop: Stop, record: PathBuf, observe: Arc<dyn Observe>) -> Self {
        Self { spec, stop, record, observe, keeper: Mutex::new(None), ended: watch::Sender::new(None) }
    }
}

#[async_trait]
impl Restart for ChildRestart {
    async fn restart(&self, _program: &Path) -> Result<(), RestartError> {
        let mut slot = self.keeper.lock().await;
        halt(slot.take()).await;
        self.ended.send_replace(None);
        let (orders, inbox) = mpsc::channel(1);
        let life = Life {
            spec: self.spec.clone(),
            stop: self.stop,
            record: self.record.clone(),
            observe: self.observe.clone(),
            ended: self.ended.clone(),
        };
        // A start that fails is told and made again: nobody else would.
        let (child, started) = match life.spawn() {
            Ok(child) => (Some(child), Ok(())),
            Err(error) => (None, Err(RestartError::Surroundings { reason: with_causes(&error) })),
        };
        *slot = Some(Keeper { orders, task: tokio::spawn(life.keep(child, inbox)) });
        started
    }

    async fn stop(&self) -> Result<(), RestartError> {
        halt(self.keeper.lock().await.take()).await;
        Ok(())
    }

    async fn ended(&self) -> Ended {
        let mut ended = self.ended.subscribe();
        // The sender lives as long as we do.
        let status = ended.wait_for(Option::is_some).await.ok().and_then(|status| status.clone());
        Ended::ByItself(status.unwrap_or_default())
    }

    async fn look(&self) -> Option<Ended> {
        self.ended.borrow().clone().map(Ended::ByItself)
    }
}

/// What the keeper task holds.
struct Life {
    spec: Spec,
    stop: Stop,
    record: PathBuf,
    observe: Arc<dyn Observe>,
    ended: watch::Sender<Option<String>>,
}

impl Life {
    fn spawn(&self) -> Result<Child, SpawnError> {
        let child = Child::spawn(&self.spec)?;
        // Without the record a killed updater leaves an unknown child: worth a word, not worth an outage.
        if let Err(error) = leftover::record(&self.record, child.pid(), child.start_time()) {
            let words = format!("the child's record {} failed: {error}", self.record.display());
            self.observe.observe(&Event::Notice { words });
        }
        Ok(child)
    }

    async fn keep(self, mut child: Option<Child>, mut orders: mpsc::Receiver<oneshot::Sender<()>>) {
        let mut backoff = Backoff::default();
        loop {
            let began = tokio::time::Instant::now();
            let (status, lived) = match child.take() {
                None => ("could not be started".to_owned(), Duration::ZERO),
                Some(mut child) => {
                    let status = tokio::select! {
                        order = orders.recv() => return self.end(child, order).await,
                        status = child.wait() => status.to_string(),
                    };
                    self.ended.send_replace(Some(status.clone()));
                    // Whatever it left behind still holds its ports.
                    child.stop(&self.stop).await;
                    let _ = leftover::forget(&self.record);
                    (status, began.elapsed())
                }
            };
            let pause = backoff.after(lived);
            let restart_in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            self.observe.observe(&Event::ChildExited { status, restart_in_ms });
            tokio::select! {
                order = orders.recv() => return acknowledge(order),
                () = tokio::time::sleep(pause) => {}
            }
            child = match self.spawn() {
                Ok(child) => Some(child),
                Err(error) => {
                    self.observe.observe(&Event::Notice { words: with_causes(&error) });
                    None
                }
            };
        }
    }

    async fn end(self, child: Child, order: Option<oneshot::Sender<()>>) {
        child.stop(&self.stop).await;
        let _ = leftover::forget(&self.record);
        acknowledge(order);
    }
}

fn acknowledge(order: Option<oneshot::Sender<()>>) {
    if let Some(done) = order {
        let _ = done.send(());
    }
}

/// Ends a keeper and its child, and waits until both are gone.
async fn halt(keeper: Option<Keeper>) {
    let Some(Keeper { orders, task }) = keeper else { return };
    let (done, gone) = oneshot::channel();
    if orders.send(done).await.is_ok() {
        let _ = gone.await;
    }
    let _ = task.await;
}
