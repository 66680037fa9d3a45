//! Who is told: the reporter of this process, and everybody who asked over the control socket.

use std::sync::Arc;

use myriarch_cli::Reporter;
use myriarch_update::{Event, Observe};
use tokio::sync::broadcast;

/// How many events a slow listener may be behind before it misses some.
const BACKLOG: usize = 1024;

/// For a verb's own terminal: its last words say a refusal in full, so that it is not said twice.
#[derive(Debug)]
pub(crate) struct LastWordsFollow(pub(crate) Reporter);

impl Observe for LastWordsFollow {
    fn observe(&self, event: &Event) {
        match (&self.0, event) {
            (Reporter::Lines(_) | Reporter::Bars(_), Event::Refused { .. }) => {}
            (reporter, event) => reporter.observe(event),
        }
    }
}

/// Tells one observer and any number of listeners.
#[derive(Debug)]
pub(crate) struct Fanout {
    first: Arc<dyn Observe>,
    listeners: broadcast::Sender<Event>,
}

impl Fanout {
    pub(crate) fn new(first: Arc<dyn Observe>) -> Self {
        Self { first, listeners: broadcast::Sender::new(BACKLOG) }
    }

    /// Everything that is told from now on.
    pub(crate) fn listen(&self) -> broadcast::Receiver<Event> {
        self.listeners.subscribe()
    }
}

impl Observe for Fanout {
    fn observe(&self, event: &Event) {
        self.first.observe(event);
        // Nobody listening is no failure.
        let _ = self.listeners.send(event.clone());
    }
}
