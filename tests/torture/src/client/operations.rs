//! Picks an operation from a [`mix`](crate::client::mix) for a worker, with its arguments.

use std::time::Duration;

use fastrand::Rng;

use crate::client::granted::Response;
use crate::client::locks::Locks;
use crate::kinds::Kind;
use crate::paths::{self, Mode, Traffic, Use};
use crate::settings::{ANSWER_WITHIN, TIMEOUT};

/// When the call has to be back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Forever,
    /// As long as it was given.
    Given,
    /// As long as an answer may take.
    Answer,
}

/// What is done with the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A few writes.
    Short,
    /// Writes, work for a time that is longer than some faults, and more writes.
    Long,
    /// Guarded writes.
    Guard,
    /// The process kills itself.
    Die,
}

/// One line of a table.
pub(crate) struct Op {
    weight: u32,
    pub(crate) name: &'static str,
    pub(crate) patience: Wait,
    pub(crate) work: Work,
    /// It asks for a read lock.
    reads: bool,
    pub(crate) get: for<'a> fn(&'a [Locks], &Arguments) -> Response<'a>,
}

/// What a call is to be made with; not every op needs all of it.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// Where; of several members the first.
    pub(crate) path: usize,
    pub(crate) time: Duration,
    pub(crate) permits: u32,
    /// In the order of giving, which is not that of the paths, and which of them are reentrant.
    pub(crate) members: Vec<(usize, bool)>,
}

use Wait::{Answer, Forever, Given};
use Work::{Die, Guard, Long};

pub(crate) const fn op(
    weight: u32,
    name: &'static str,
    patience: Wait,
    work: Work,
    get: for<'a> fn(&'a [Locks], &Arguments) -> Response<'a>,
) -> Op {
    Op { weight, name, patience, work, reads: false, get }
}

impl Op {
    pub(crate) const fn reads(self) -> Op {
        Op { reads: true, ..self }
    }

    /// How it wants to hold the lock; none of several locks.
    pub(crate) fn mode(&self, kind: Kind, arguments: &Arguments) -> Option<Mode> {
        match kind {
            Kind::Multi => None,
            Kind::Semaphore => Some(Mode::Permits(arguments.permits)),
            _ if self.reads => Some(Mode::Shared),
            _ => Some(Mode::Exclusive),
        }
    }

    /// One of a mix.
    pub(crate) fn pick(mix: &'static [Op], rng: &mut Rng, deaths: bool) -> &'static Op {
        let sum = mix.iter().map(|op| op.weight).sum();
        let mut left = rng.u32(0..sum);
        for op in mix {
            if left < op.weight && (deaths || op.work != Die) {
                return op;
            }
            left = left.saturating_sub(op.weight);
        }
        &mix[0]
    }

    /// What the call is made with.
    pub(crate) fn arguments(&self, kind: Kind, rng: &mut Rng) -> Arguments {
        let members = match kind {
            Kind::Multi => self.pick_members(rng),
            _ => Vec::new(),
        };
        let path = match members.first() {
            Some(&(first, _)) => first,
            None => self.pick_path(kind, rng),
        };
        let most = if matches!(self.work, Guard | Long) { 1000 } else { 150 };
        Arguments {
            path,
            time: Duration::from_millis(rng.u64(1..=most)),
            permits: pick_permits(path, rng),
            members,
        }
    }

    /// Long holds have paths of their own, where others look in now and then.
    fn pick_path(&self, kind: Kind, rng: &mut Rng) -> usize {
        if self.work == Guard {
            return paths::pick_any(rng, kind);
        }
        let forever = self.patience == Forever;
        let traffic = match rng.u32(0..100) {
            _ if self.work == Long => Traffic::Slow,
            0..40 => Traffic::Hot,
            40..48 if !forever => Traffic::Slow,
            _ => Traffic::Usual,
        };
        paths::pick(rng, kind, traffic)
    }

    fn pick_members(&self, rng: &mut Rng) -> Vec<(usize, bool)> {
        let count = rng.usize(2..=3);
        let mut members: Vec<(usize, bool)> = Vec::new();
        while members.len() < count {
            let path = self.pick_path(Kind::Multi, rng);
            if members.iter().all(|&(member, _)| member != path) {
                members.push((path, rng.bool()));
            }
        }
        members
    }

    /// The time in which the call has to be back, if there is any.
    pub(crate) fn bound(&self, arguments: &Arguments) -> Option<Duration> {
        // Each member may be asked once the time is over, and all that were taken given back.
        let members = arguments.members.len() as u32;
        match self.patience {
            Forever => None,
            Given => Some(arguments.time + ANSWER_WITHIN * members),
            Answer => Some(ANSWER_WITHIN * members.saturating_mul(2).max(1)),
        }
    }
}

impl Arguments {
    pub(crate) fn alone(&self) -> (usize, Mode) {
        (self.path, Mode::Exclusive)
    }

    pub(crate) fn shared(&self) -> (usize, Mode) {
        (self.path, Mode::Shared)
    }

    /// How long giving it back may take.
    pub(crate) fn release_within(&self) -> Duration {
        ANSWER_WITHIN * self.members.len().max(1) as u32
    }
}

/// Mostly few, now and then all.
fn pick_permits(path: usize, rng: &mut Rng) -> u32 {
    let Use::Semaphore(limit) = paths::at(path).what else {
        return 1;
    };
    match rng.u32(0..10) {
        0 => limit,
        1..4 => rng.u32(1..=limit),
        _ => rng.u32(1..=2),
    }
}

/// How long a [`Work::Long`] takes.
pub(crate) fn long_work(rng: &mut Rng) -> Duration {
    TIMEOUT.mul_f64(0.2 + rng.f64() * 2.8)
}
