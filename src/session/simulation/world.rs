//! What a run is about: a network, those who make requests, and a fault.

use std::collections::VecDeque;
use std::time::Duration;

use super::chance::Rng;

/// What does not change during a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct World {
    pub(super) timeout: Duration,
    pub(super) tick: Duration,
    /// The slowest round trip of a write; reads skip the way to the leader.
    pub(super) round_trip: Duration,
    /// One way between follower and leader.
    pub(super) to_leader: Duration,
    /// When the leader sends its first ping to the follower.
    pub(super) ping: Duration,
    pub(super) pattern: Pattern,
}

impl World {
    pub(super) fn random(rng: &mut Rng, slowest: f64) -> World {
        let timeout = Duration::from_secs(1).mul_f64(rng.between(1.0, 40.0));
        let ticks = if rng.chance(0.3) { 2.0 } else { rng.between(2.0, 20.0) };
        // Rounded down: two ticks are never more than the timeout.
        let tick = timeout.mul_f64(1.0 / ticks) - Duration::from_nanos(1);
        let round_trip = timeout.mul_f64(match rng.below(4) {
            0 => rng.between(0.001, 0.005),
            1 => rng.between(0.9, 1.0) * slowest,
            _ => rng.between(0.001, slowest),
        });
        World {
            timeout,
            tick,
            round_trip,
            to_leader: round_trip.mul_f64(rng.between(0.0, 0.4)),
            ping: rng.up_to(tick / 2),
            pattern: Pattern::ALL[rng.below(Pattern::ALL.len() as u64) as usize],
        }
    }

    pub(super) fn share(&self, duration: Duration) -> f64 {
        duration.as_secs_f64() / self.timeout.as_secs_f64()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// No caller at all.
    Nobody,
    Idle,
    BurstsOfReads,
    ShortLocks,
    SparseWrites,
    Mixed,
}

impl Pattern {
    const ALL: [Pattern; 5] = [
        Pattern::Idle,
        Pattern::BurstsOfReads,
        Pattern::ShortLocks,
        Pattern::SparseWrites,
        Pattern::Mixed,
    ];

    pub(super) fn callers(self, rng: &mut Rng) -> Vec<Habit> {
        use Habit::{Bursts, LongLocks, ShortLocks, SparseWrites};
        match self {
            Pattern::Nobody => vec![],
            Pattern::Idle => vec![LongLocks],
            Pattern::BurstsOfReads => vec![LongLocks, Bursts, Bursts],
            Pattern::ShortLocks if rng.chance(0.5) => vec![ShortLocks],
            Pattern::ShortLocks => vec![ShortLocks, LongLocks],
            Pattern::SparseWrites => vec![LongLocks, SparseWrites],
            Pattern::Mixed => vec![LongLocks, ShortLocks, Bursts, SparseWrites],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    LongLocks,
    ShortLocks,
    Bursts,
    SparseWrites,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Read,
    Write,
    Pause(Duration),
    Grant,
    Granted,
    Release,
}

/// A thread that makes one request after the other.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) habit: Habit,
    pub(super) script: VecDeque<Step>,
    /// When it goes on; never while it waits for an answer.
    pub(super) wakes: Duration,
}

impl Caller {
    pub(super) fn plan(&mut self, rng: &mut Rng, timeout: Duration) {
        let mut pause =
            |least: f64, most: f64| Step::Pause(timeout.mul_f64(rng.between(least, most)));
        let script = match self.habit {
            Habit::LongLocks => {
                let (idle, wait) = (pause(0.0, 3.0), pause(0.0, 3.0));
                let hold = [pause(0.0, 0.1), pause(0.0, 4.0)][rng.below(2) as usize];
                let mut script = vec![idle, Step::Write, Step::Read];
                if rng.chance(0.6) {
                    script.extend([wait, Step::Read]);
                }
                script.extend([Step::Grant, hold, Step::Release, Step::Write]);
                script
            }
            Habit::ShortLocks => {
                let (hold, gap, rest) = (pause(0.0, 0.02), pause(0.0, 0.05), pause(0.0, 1.5));
                let lock = [Step::Write, Step::Read, Step::Grant, hold, Step::Release];
                let mut script: Vec<Step> = lock.into_iter().chain([Step::Write, gap]).collect();
                if rng.chance(0.02) {
                    script.push(rest);
                }
                script
            }
            Habit::Bursts => {
                let (gap, rest) = (pause(0.0, 0.02), pause(0.0, 1.0));
                let reads = 1 + rng.below(30) as usize;
                let burst = [Step::Read, gap].into_iter().cycle().take(2 * reads);
                burst.chain([rest]).collect()
            }
            Habit::SparseWrites => vec![pause(0.0, 2.0), Step::Write],
        };
        self.script.extend(script);
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    None,
    /// No answer comes any more, from so far into the first hold granted at or after `armed`.
    Silence {
        armed: Duration,
        into_hold: f64,
    },
    /// The follower and its leader hear nothing of each other from then on. With `overtake`,
    /// reads are answered even behind a write that has no answer.
    Cut {
        at: Duration,
        overtake: bool,
    },
}

impl Fault {
    pub(super) fn silence(rng: &mut Rng, timeout: Duration) -> Fault {
        Fault::Silence {
            armed: timeout.mul_f64(rng.between(0.0, 6.0)),
            into_hold: [0.0, 0.02, 1.0][rng.below(3) as usize] * rng.fraction(),
        }
    }

    pub(super) fn cut(rng: &mut Rng, timeout: Duration) -> Fault {
        Fault::Cut { at: timeout.mul_f64(rng.between(1.0, 7.0)), overtake: rng.chance(0.5) }
    }
}
