//! Lines for a terminal, with one moving bar below them: the download, the wait for health, the soak.
//!
//! At any time at most one bar is drawn, since the chain does one thing at a time. What a bar showed is said
//! again by the line that ends it, so nothing is lost when the terminal scrolls.

use std::{fmt::Write as _, io::Write, sync::Mutex, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use myriarch_update::{Event, Observe};

use super::{Sink, lock};
use crate::{describe, duration, escape};

const TICK: Duration = Duration::from_millis(200);
/// Cells of a bar.
const WIDTH: u64 = 30;

/// Lines of words, and below them what is going on.
#[derive(Debug)]
pub struct Bars {
    out: Sink,
    drawn: MultiProgress,
    current: Mutex<Option<Activity>>,
}

#[derive(Debug)]
enum Activity {
    Download(ProgressBar),
    Wait(ProgressBar),
}

impl Bars {
    /// Lines on `out`, bars on `target`; both are the same terminal.
    pub fn new(out: impl Write + Send + 'static, target: ProgressDrawTarget) -> Self {
        Self {
            out: Sink::new(out),
            drawn: MultiProgress::with_draw_target(target),
            current: Mutex::new(None),
        }
    }

    fn download(&self, version: &str, received: u64, total: Option<u64>) {
        let mut current = lock(&self.current);
        if !matches!(*current, Some(Activity::Download(_))) {
            clear(current.take());
            let style = styled("{prefix}: {amount} {bytes_per_sec}").with_key("amount", amount);
            let bar = self.drawn.add(ProgressBar::no_length().with_style(style));
            bar.set_prefix(format!("downloading {}", escape::line(version)));
            *current = Some(Activity::Download(bar));
        }
        if let Some(Activity::Download(bar)) = &*current {
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_position(received);
        }
    }

    fn wait(&self, style: ProgressStyle) {
        let bar = self.drawn.add(ProgressBar::no_length().with_style(style));
        bar.enable_steady_tick(TICK);
        *lock(&self.current) = Some(Activity::Wait(bar));
    }
}

impl Observe for Bars {
    fn observe(&self, event: &Event) {
        if let Event::Downloading { version, received, total } = event {
            self.download(version.as_str(), *received, *total);
            return;
        }
        clear(lock(&self.current).take());
        let line = describe::event(event);
        self.drawn.suspend(|| self.out.line(&line));
        match event {
            Event::Restarting { .. } => {
                self.wait(styled("waiting for health, {waited} so far").with_key("waited", waited));
            }
            Event::Healthy { soak_ms, .. } => {
                let soak = *soak_ms;
                let countdown = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                    let _ = out.write_str(&countdown(duration::millis(state.elapsed()), soak));
                };
                self.wait(styled("soaking {countdown}").with_key("countdown", countdown));
            }
            _ => {}
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        clear(lock(&self.current).take());
    }
}

fn clear(activity: Option<Activity>) {
    if let Some(Activity::Download(bar) | Activity::Wait(bar)) = activity {
        bar.finish_and_clear();
    }
}

fn styled(template: &str) -> ProgressStyle {
    // The templates are constants, and a test draws each.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn amount(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    if let Some(total) = state.len() {
        let _ = write!(out, "{} ", cells(state.pos(), total));
    }
    let _ = out.write_str(&describe::progress(state.pos(), state.len()));
}

fn waited(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    let _ = out.write_str(&duration::rough(duration::millis(state.elapsed())));
}

/// How much of the soak is over; whole seconds, rounded up, so that it begins with the soak itself.
fn countdown(elapsed: u64, soak: u64) -> String {
    let left = soak.saturating_sub(elapsed);
    format!("{} {} left", cells(soak - left, soak), duration::rough(left.div_ceil(1000) * 1000))
}

/// `[####----]`, readable without colour and in any font.
fn cells(done: u64, total: u64) -> String {
    let full = describe::percent(done, total) * WIDTH / 100;
    let cells = |n: u64, cell: &str| cell.repeat(usize::try_from(n).unwrap_or(0));
    let mut bar = String::from("[");
    let _ = write!(bar, "{}{}]", cells(full, "#"), cells(WIDTH - full, "-"));
    bar
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc, time::Instant};

    use indicatif::TermLike;

    use super::*;

    /// A terminal that remembers everything drawn.
    #[derive(Debug, Clone, Default)]
    struct Drawn(Arc<Mutex<String>>);

    impl Drawn {
        fn push(&self, text: &str) {
            lock(&self.0).push_str(text);
        }
    }

    impl Write for Drawn {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.push(&String::from_utf8_lossy(bytes));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl TermLike for Drawn {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.push(text);
            self.push("\n");
            Ok(())
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.push(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.push("<clear>");
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Tells `events` and waits after each until what it must draw is drawn.
    fn drawn_by(events: &[(Event, &str)], target: impl Fn(Drawn) -> ProgressDrawTarget) -> String {
        let terminal = Drawn::default();
        let bars = Bars::new(terminal.clone(), target(terminal.clone()));
        for (event, expected) in events {
            bars.observe(event);
            let patience = Instant::now() + Duration::from_secs(20);
            while !lock(&terminal.0).contains(expected) {
                assert!(Instant::now() < patience, "{expected} in {}", lock(&terminal.0));
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        drop(bars);
        let text = lock(&terminal.0);
        text.clone()
    }

    fn story() -> [Event; 4] {
        let version: myriarch_policy::Version = "0.165.1".parse().unwrap();
        [
            Event::Downloading { version, received: 30 << 20, total: Some(60 << 20) },
            Event::Staged { slot: "s".to_owned() },
            Event::Restarting { slot: "s".to_owned() },
            Event::Healthy { downtime_ms: 900, soak_ms: 60_000 },
        ]
    }

    #[test]
    fn bars_show_the_download_the_wait_and_the_soak() {
        let [download, staged, restarting, healthy] = story();
        let events = [
            (download, "downloading 0.165.1: [###############---------------] 30.0 MiB of 60.0 MiB (50 %)"),
            (staged, "staged s: complete and on disk\n"),
            (restarting, "waiting for health, "),
            (healthy, "soaking [------------------------------] "),
        ];
        let text =
            drawn_by(&events, |terminal| ProgressDrawTarget::term_like_with_hz(Box::new(terminal), 255));
        assert!(text.contains("healthy after 900 ms of downtime; must stay so for 1m\n"), "{text}");
    }

    #[test]
    fn the_soak_counts_down_to_nothing() {
        for (elapsed, expected) in [
            (0, "[------------------------------] 1m left"),
            (1, "[------------------------------] 1m left"),
            (1000, "[------------------------------] 59s left"),
            (30_000, "[###############---------------] 30s left"),
            (59_500, "[#############################-] 1.0 s left"),
            (60_000, "[##############################] 0 ms left"),
            (90_000, "[##############################] 0 ms left"),
        ] {
            assert_eq!(countdown(elapsed, 60_000), expected, "{elapsed}");
        }
        assert_eq!(countdown(0, 0), "[------------------------------] 0 ms left");
    }

    #[test]
    fn words_are_not_lost_where_bars_cannot_be_drawn() {
        let text = drawn_by(&story().map(|event| (event, "")), |_| ProgressDrawTarget::hidden());
        assert_eq!(
            text,
            "staged s: complete and on disk\nrestarting as s\nhealthy after 900 ms of downtime; must stay so for 1m\n"
        );
    }
}
