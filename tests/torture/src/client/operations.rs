//! How a worker picks an operation from a [`mix`](crate::client::mix), and its arguments.

use std::time::Duration;

use fastrand::Rng;

use crate::client::granted::Response;
use crate::client::locks::Locks;
use crate::kinds::Kind;
use crate::paths::{self, Mode, Traffic, Use};
use crate::settings::{ANSWER_WITHIN, TIMEOUT};

/// The deadline of a call's return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Forever,
    /// The given timeout.
    Given,
    /// The longest time of an answer.
    Answer,
}

/// The work under a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A few writes.
    Short,
    /// Writes, work for longer than some faults last, and more writes.
    Long,
    /// Guarded writes.
    Guard,
    /// The process kills itself.
    Die,
}

/// A line of a table.
pub(crate) struct Op {
    weight: u32,
    pub(crate) name: &'static str,
    pub(crate) patience: Wait,
    pub(crate) work: Work,
    /// Whether it asks for a read lock.
    reads: bool,
    pub(crate) get: for<'a> fn(&'a [Locks], &Arguments) -> Response<'a>,
}

/// Arguments of a call; not every op needs all of them.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// The path; the first one of several members.
    pub(crate) path: usize,
    pub(crate) time: Duration,
    pub(crate) permits: u32,
    /// In the given order, which is not that of the paths, with the reentrant ones marked.
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

    /// The wanted mode; `None` for several locks.
    pub(crate) fn mode(&self, kind: Kind, arguments: &Arguments) -> Option<Mode> {
        match kind {
            Kind::Multi => None,
            Kind::Semaphore => Some(Mode::Permits(arguments.permits)),
            _ if self.reads => Some(Mode::Shared),
            _ => Some(Mode::Exclusive),
        }
    }

    /// Picks one of a mix.
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

    /// The arguments of the call.
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

    /// Long holds have their own paths, which others visit now and then.
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

    /// The limit of the call's return, if any.
    pub(crate) fn bound(&self, arguments: &Arguments) -> Option<Duration> {
        // Each member may still be asked after the deadline, and all taken ones are released.
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

    /// The limit of the release.
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

/// The duration of a [`Work::Long`].
pub(crate) fn long_work(rng: &mut Rng) -> Duration {
    TIMEOUT.mul_f64(0.2 + rng.f64() * 2.8)
}
