//! How long a health endpoint did not answer well, as somebody outside sees it who asks every millisecond.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use myriarch_tests::machine::health;

const EVERY: Duration = Duration::from_millis(1);
/// How long an answer is waited for before the measurement is given up.
const PATIENCE: Duration = Duration::from_mins(1);

/// A watch that began with a good answer.
#[derive(Debug)]
pub(crate) struct Outages {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Outages {
    /// Waits for a good answer and watches from then on.
    pub(crate) fn watch(port: u16) -> Self {
        until_well(port);
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let thread = thread::spawn(move || {
            let (mut outages, mut last_well) = (vec![], Instant::now());
            let mut is_down = false;
            // An outage that is on is watched to its end.
            while is_down || !ends.load(Ordering::Relaxed) {
                let asked = Instant::now();
                if health(port) == Some(200) {
                    if is_down {
                        outages.push(last_well.elapsed());
                    }
                    (is_down, last_well) = (false, asked);
                } else {
                    is_down = true;
                    assert!(last_well.elapsed() < PATIENCE, "nothing on port {port} became healthy again");
                }
                thread::sleep(EVERY);
            }
            outages
        });
        Self { over, thread }
    }

    /// Every time without a good answer, from the last good one to the next.
    pub(crate) fn end(self) -> Vec<Duration> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch ends")
    }
}

/// Waits for a good answer; how long that took.
pub(crate) fn until_well(port: u16) -> Duration {
    let began = Instant::now();
    while health(port) != Some(200) {
        assert!(began.elapsed() < PATIENCE, "nothing on port {port} became healthy within {PATIENCE:?}");
        thread::sleep(EVERY);
    }
    began.elapsed()
}
