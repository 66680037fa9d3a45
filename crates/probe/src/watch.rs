//! Settle and soak, as a function of what was seen and when.
//!
//! ```text
//!           good answer              soak over, last answer good
//! Settling ────────────► Soaking ───────────────────────────────► Healthy
//!    │                     │ │ └── another process ─────────────► Restarted, WrongProcess
//!    │                     │ └──── too many bad in a row ───────► BecameUnhealthy
//!    └─ time over ─────────┴─────────────────────────────────────► NeverReady, WrongProcess
//! ```
//!
//! While settling anything may be seen: nobody, "503", the old process that has not let go of the port yet. Only
//! what is seen when the time is over counts then. In the soak a few bad answers in a row are forgiven (a busy
//! machine), another process is not.

use std::time::Duration;

use crate::{
    process::Process,
    reading::Reading,
    verdict::{Phase, Verdict},
};

/// What one look saw, and who answered where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) reading: Reading,
    pub(crate) who: Option<Process>,
}

/// How long, and how much is forgiven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) settle: Duration,
    pub(crate) soak: Duration,
    pub(crate) tolerate: u32,
}

/// A watch in progress.
#[derive(Debug)]
pub(crate) struct Watch {
    terms: Terms,
    state: State,
}

#[derive(Debug)]
enum State {
    Settling,
    Soaking { since: Duration, who: Option<Process>, bad_in_a_row: u32 },
}

/// What follows from a look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Go(Option<Phase>),
    Done(Verdict),
}

impl Watch {
    pub(crate) fn new(terms: Terms) -> Self {
        Self { terms, state: State::Settling }
    }

    /// Whether the first good answer is still waited for.
    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.state, State::Settling)
    }

    /// Who answered first, where that is known.
    pub(crate) fn who(&self) -> Option<Process> {
        match &self.state {
            State::Settling => None,
            State::Soaking { who, .. } => *who,
        }
    }

    /// When the next decision by time alone is due, since the begin.
    pub(crate) fn due(&self) -> Duration {
        match &self.state {
            State::Settling => self.terms.settle,
            State::Soaking { since, .. } => *since + self.terms.soak,
        }
    }

    /// Takes what a look that ended at `at` since the begin has seen.
    pub(crate) fn saw(&mut self, at: Duration, seen: Seen) -> Step {
        match &mut self.state {
            State::Settling => self.saw_while_settling(at, seen),
            State::Soaking { since, who, bad_in_a_row } => {
                let over = at.saturating_sub(*since) >= self.terms.soak;
                let last = match (seen.reading, *who, seen.who) {
                    (Reading::Impostor(seen), ..) => return Step::Done(Verdict::WrongProcess { seen }),
                    (Reading::Restarted(seen), ..) => return Step::Done(Verdict::Restarted { seen }),
                    (_, Some(before), Some(now)) if before != now => {
                        let seen = format!("{before} answered first, {now} answers now");
                        return Step::Done(Verdict::Restarted { seen });
                    }
                    (Reading::Ready, ..) if over => return Step::Done(Verdict::Healthy),
                    (Reading::Ready, ..) => {
                        let phase = (*bad_in_a_row > 0).then_some(Phase::Recovered { after: at });
                        *bad_in_a_row = 0;
                        return Step::Go(phase);
                    }
                    (Reading::NotReady(last), ..) => last,
                };
                *bad_in_a_row += 1;
                if *bad_in_a_row > self.terms.tolerate {
                    return Step::Done(Verdict::BecameUnhealthy { after: at, last });
                }
                Step::Go(Some(Phase::Faltered { after: at, in_a_row: *bad_in_a_row, last }))
            }
        }
    }

    fn saw_while_settling(&mut self, at: Duration, seen: Seen) -> Step {
        let over = at >= self.terms.settle;
        match seen.reading {
            Reading::Ready => {
                if self.terms.soak.is_zero() {
                    return Step::Done(Verdict::Healthy);
                }
                self.state = State::Soaking { since: at, who: seen.who, bad_in_a_row: 0 };
                Step::Go(Some(Phase::BecameReady { after: at }))
            }
            Reading::Impostor(seen) if over => Step::Done(Verdict::WrongProcess { seen }),
            Reading::NotReady(last) | Reading::Restarted(last) if over => {
                Step::Done(Verdict::NeverReady { waited: at, last })
            }
            Reading::Impostor(_) | Reading::NotReady(_) | Reading::Restarted(_) => Step::Go(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TERMS: Terms = Terms { settle: Duration::from_secs(3), soak: Duration::from_secs(5), tolerate: 1 };

    fn own() -> Process {
        Process::with_pid(std::process::id()).unwrap()
    }

    fn other() -> Process {
        // Whoever is process 1, it is not us.
        Process::with_pid(1).unwrap()
    }

    fn seen(letter: char) -> Seen {
        let (reading, who) = match letter {
            'R' => (Reading::Ready, Some(own())),
            'O' => (Reading::Ready, Some(other())),
            'N' => (Reading::NotReady("HTTP 503".into()), None),
            _ => (Reading::Impostor("process 7".into()), Some(other())),
        };
        Seen { reading, who }
    }

    /// One look a second, the first after one second; the verdict's first word and when it fell.
    fn run(looks: &str) -> (String, usize) {
        let mut watch = Watch::new(TERMS);
        for (index, letter) in looks.chars().enumerate() {
            if let Step::Done(verdict) = watch.saw(Duration::from_secs(index as u64 + 1), seen(letter)) {
                let text = format!("{verdict:?}");
                return (text.split([' ', '{']).next().unwrap().to_owned(), index + 1);
            }
        }
        ("none".into(), looks.len())
    }

    #[test]
    fn the_verdict_follows_from_what_was_seen_and_when() {
        for (looks, verdict, at) in [
            ("RRRRRR", "Healthy", 6),
            ("NNRRRRRR", "Healthy", 8),
            ("NNN", "NeverReady", 3),
            ("IIR", "none", 3),
            ("III", "WrongProcess", 3),
            ("NIN", "NeverReady", 3),
            ("RRNRRR", "Healthy", 6),
            ("RRNN", "BecameUnhealthy", 4),
            ("RNRNRR", "Healthy", 6),
            ("RRRRRN", "none", 6),
            ("RRRRRNR", "Healthy", 7),
            ("RRRRRNN", "BecameUnhealthy", 7),
            ("RRO", "Restarted", 3),
            ("RNO", "Restarted", 3),
            ("RRI", "WrongProcess", 3),
        ] {
            assert_eq!(run(looks), (verdict.to_owned(), at), "{looks}");
        }
    }

    #[test]
    fn a_zero_soak_is_over_with_the_first_good_answer() {
        let mut watch = Watch::new(Terms { soak: Duration::ZERO, ..TERMS });
        assert_eq!(watch.saw(Duration::ZERO, seen('R')), Step::Done(Verdict::Healthy));
    }

    proptest! {
        /// Whatever is seen, healthy takes one whole soak without a stranger and with a good last answer.
        #[test]
        fn healthy_is_never_said_early_or_of_a_stranger(looks in "[RNIO]{0,20}") {
            let (verdict, at) = run(&looks);
            if verdict == "Healthy" {
                let watched = &looks[..at];
                let first = watched.find(['R', 'O']).unwrap();
                let soak = &watched[first..];
                prop_assert!(soak.len() > 5 && !soak.contains('I'));
                prop_assert!(!(soak.contains('R') && soak.contains('O')));
                prop_assert!(soak.ends_with(['R', 'O']) && !soak.contains("NN"));
            }
        }

        /// A watch ends: at the latest when the settle time and the soak and its tolerated end are over.
        #[test]
        fn every_watch_ends(looks in "[RNIO]{10}") {
            prop_assert_ne!(run(&looks).0, "none");
        }
    }
}
