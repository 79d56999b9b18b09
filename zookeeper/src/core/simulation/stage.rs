//! What every part of a run shares: the time, what comes next, chance, and what is found out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::chance::Rng;
use super::figures::Figures;
use super::world::World;

/// Microseconds of real time since the run began.
pub(super) type Time = u64;
/// Later than anything that happens.
pub(super) const NEVER: Time = Time::MAX;

/// What a run is to keep; see `simulation.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Property {
    Lease,
    OnceAndInTime,
    NotDoneIsCertain,
    /// What is repeated is repeated until the session is over.
    Repeats,
    OwnAnswer,
    Watches,
    NeverGivenUp,
    Liveness,
    SessionEvents,
    /// A connection ends, or a credential is missing, for no reason.
    NoHarm,
}

/// Something that will happen.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// Bytes arrive at the server, or at the client.
    Up(usize),
    Down(usize),
    /// Servers among themselves. Those of a reign that the server has left are void.
    Applied {
        server: usize,
        reign: usize,
        upto: usize,
    },
    Pinged {
        server: usize,
        reign: usize,
    },
    Heard {
        server: usize,
        reign: usize,
        touched: Vec<(i64, Time)>,
    },
    Forwarded {
        server: usize,
        reign: usize,
        write: Box<super::tree::Write>,
    },
    Revalidate {
        server: usize,
        reign: usize,
        conn: usize,
    },
    Revalidated {
        server: usize,
        reign: usize,
        conn: usize,
        lives: bool,
    },
    Commit {
        reign: usize,
    },
    Expiry {
        reign: usize,
        session: i64,
    },
    Leave {
        server: usize,
        reign: usize,
    },
    Join {
        server: usize,
    },
    Start {
        server: usize,
    },
    Elect,
    /// Somebody else writes something.
    Other,
    Fault,
    Heal,
    Calm,
    LastCalls,
    /// The system clock is set by so much.
    SetClock(i64),
    // The client.
    Tick(u64),
    Round,
    Dial,
    Dialed {
        server: usize,
        accepted: bool,
    },
    /// The reader finds that the connection was shut down on this side.
    Woken(usize),
    Call,
    Close,
    Look,
}

#[derive(Debug)]
struct Entry(Reverse<(Time, u64)>, Event);

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.0 == other.0
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// See the head of this file.
pub(super) struct Stage {
    pub(super) now: Time,
    pub(super) rng: Rng,
    pub(super) world: World,
    pub(super) figures: Figures,
    pub(super) failure: Option<(Property, String)>,
    /// The newest last; none are kept unless somebody is going to read them.
    pub(super) trace: Option<VecDeque<String>>,
    /// Faults happen until then.
    pub(super) healed: bool,
    /// Everything has to work from now on.
    pub(super) calm: bool,
    /// Nobody asks for anything any more.
    pub(super) last_calls: bool,
    queue: BinaryHeap<Entry>,
    pushed: u64,
}

impl Stage {
    pub(super) fn new(rng: Rng, world: World, traced: bool) -> Stage {
        Stage {
            now: 0,
            rng,
            world,
            figures: Figures::default(),
            failure: None,
            trace: traced.then(VecDeque::new),
            healed: false,
            calm: false,
            last_calls: false,
            queue: BinaryHeap::new(),
            pushed: 0,
        }
    }

    pub(super) fn at(&mut self, time: Time, event: Event) {
        self.pushed += 1;
        self.queue.push(Entry(Reverse((time.max(self.now), self.pushed)), event));
    }

    pub(super) fn after(&mut self, delay: Time, event: Event) {
        self.at(self.now.saturating_add(delay), event);
    }

    /// The next event; the time is then its.
    pub(super) fn next(&mut self) -> Option<Event> {
        let Entry(Reverse((time, _)), event) = self.queue.pop()?;
        self.now = time;
        Some(event)
    }

    /// How many events there have been.
    pub(super) fn steps(&self) -> u64 {
        self.pushed
    }

    /// Microseconds, up to `most`.
    pub(super) fn some(&mut self, most: Time) -> Time {
        self.rng.below(most.max(1))
    }

    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.rng.chance(probability)
    }

    /// The first thing that goes wrong counts.
    pub(super) fn fail(&mut self, property: Property, what: impl FnOnce() -> String) {
        if self.failure.is_none() {
            let what = what();
            self.note(|| format!("!! {property:?}: {what}"));
            self.failure = Some((property, what));
        }
    }

    pub(super) fn check(&mut self, holds: bool, property: Property, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(property, what);
        }
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push_back(format!(
                "{:>12.6} s  {}",
                now as f64 / 1e6,
                what().replace("xxxxxxxxxx", "")
            ));
        }
    }
}
