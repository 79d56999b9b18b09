//! The mix of operations: what a worker may do, and how often. A further kind of lock needs a
//! field in [`Locks`] and some lines in [`MIX`].

use std::time::Duration;

use fastrand::Rng;
use zoolock::{Client, DistributedLock, DistributedReentrantLock, Error, Guard, Hold, Lock};

use crate::setting::{PATHS, SLOW_PATHS, TIMEOUT, lock_path};

/// The lock objects of one process at one path. They contend with each other.
#[derive(Debug)]
pub(crate) struct Locks {
    plain: DistributedLock,
    reentrant: DistributedReentrantLock,
}

impl Locks {
    pub(crate) fn new(client: &Client, path: usize) -> zoolock::Result<Locks> {
        Ok(Locks {
            plain: DistributedLock::new(client, lock_path(path))?,
            reentrant: DistributedReentrantLock::new(client, lock_path(path))?,
        })
    }

    /// Enters the lock once more and leaves it again.
    pub(crate) fn re_enter(&self) -> zoolock::Result<u32> {
        let _again = self.reentrant.acquire()?;
        Ok(self.reentrant.hold_count())
    }
}

/// A lock that was granted, and how it is given back.
pub(crate) struct Held<'a> {
    pub(crate) hold: Hold,
    release: Box<dyn FnOnce() -> Option<zoolock::Result<()>> + 'a>,
}

impl Held<'_> {
    /// None if nothing is said about it.
    pub(crate) fn release(self) -> Option<zoolock::Result<()>> {
        (self.release)()
    }
}

type Got<'a> = zoolock::Result<Option<Held<'a>>>;

/// When the call has to be back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    Forever,
    /// As long as it was given.
    Given,
    /// As long as an answer may take.
    Answer,
}

/// What is done with the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// A few writes.
    Short,
    /// Writes, work for a time that is longer than some faults, and more writes.
    Long,
    /// The lock is entered again in between.
    Again,
    /// The process kills itself.
    Die,
}

/// One line of the mix.
pub(crate) struct Op {
    weight: u32,
    pub(crate) name: &'static str,
    pub(crate) patience: Patience,
    pub(crate) stay: Stay,
    pub(crate) get: for<'a> fn(&'a Locks, Duration) -> Got<'a>,
}

use Patience::{Answer, Forever, Given};
use Stay::{Again, Die, Long, Short};

#[rustfmt::skip]
const MIX: &[Op] = &[
    op(300, "lock",                   Forever, Short, |on, _| called(&on.plain, on.plain.lock().map(|()| true))),
    op(250, "reentrant lock",         Forever, Short, |on, _| called(&on.reentrant, on.reentrant.lock().map(|()| true))),
    op(100, "reentrant lock, twice",  Forever, Again, |on, _| called(&on.reentrant, on.reentrant.lock().map(|()| true))),
    op(250, "try_lock_for",           Given,   Short, |on, time| called(&on.plain, on.plain.try_lock_for(time))),
    op(200, "reentrant try_lock_for", Given,   Short, |on, time| called(&on.reentrant, on.reentrant.try_lock_for(time))),
    op(150, "try_lock",               Answer,  Short, |on, _| called(&on.plain, on.plain.try_lock())),
    op(100, "reentrant try_lock",     Answer,  Short, |on, _| called(&on.reentrant, on.reentrant.try_lock())),
    op(150, "acquire, release",       Forever, Short, |on, _| on.plain.acquire().map(released)),
    op(100, "acquire, drop",          Forever, Short, |on, _| on.plain.acquire().map(dropped)),
    op(150, "reentrant acquire",      Forever, Short, |on, _| on.reentrant.acquire().map(dropped)),
    op(100, "try_acquire_for",        Given,   Short, |on, time| Ok(on.plain.try_acquire_for(time)?.and_then(released))),
    op(  4, "long lock",              Forever, Long,  |on, _| called(&on.plain, on.plain.lock().map(|()| true))),
    op( 80, "long try_lock_for",      Given,   Long,  |on, time| called(&on.reentrant, on.reentrant.try_lock_for(time))),
    op(  2, "lock, then die",         Forever, Die,   |on, _| called(&on.plain, on.plain.lock().map(|()| true))),
];

const fn op(
    weight: u32,
    name: &'static str,
    patience: Patience,
    stay: Stay,
    get: for<'a> fn(&'a Locks, Duration) -> Got<'a>,
) -> Op {
    Op {
        weight,
        name,
        patience,
        stay,
        get,
    }
}

impl Op {
    pub(crate) fn pick(rng: &mut Rng, deaths: bool) -> &'static Op {
        let sum = MIX.iter().map(|op| op.weight).sum();
        let mut left = rng.u32(0..sum);
        for op in MIX {
            if left < op.weight && (deaths || op.stay != Die) {
                return op;
            }
            left = left.saturating_sub(op.weight);
        }
        &MIX[0]
    }

    /// Long holds have paths of their own, where others look in now and then.
    pub(crate) fn pick_path(&self, rng: &mut Rng) -> usize {
        let slow = PATHS - SLOW_PATHS;
        let forever = self.patience == Forever;
        match rng.u32(0..100) {
            _ if self.stay == Long => rng.usize(slow..PATHS),
            0..40 => 0,
            40..48 if !forever => rng.usize(slow..PATHS),
            _ => rng.usize(1..slow),
        }
    }

    /// The time that is given to the call.
    pub(crate) fn pick_patience(&self, rng: &mut Rng) -> Duration {
        let most = if self.stay == Long { 1000 } else { 150 };
        Duration::from_millis(rng.u64(1..=most))
    }
}

/// How long a [`Stay::Long`] takes.
pub(crate) fn long_stay(rng: &mut Rng) -> Duration {
    TIMEOUT.mul_f64(0.2 + rng.f64() * 2.8)
}

fn called(lock: &dyn Lock, got: zoolock::Result<bool>) -> Got<'_> {
    if !got? {
        return Ok(None);
    }
    let path = lock.path().to_owned();
    let hold = lock.holds().pop().ok_or(Error::NotHeld { path })?;
    let release = Box::new(|| Some(lock.unlock()));
    Ok(Some(Held { hold, release }))
}

fn released<'a, O: 'a>(guard: Guard<O>) -> Option<Held<'a>> {
    let hold = guard.hold();
    let release = Box::new(|| Some(guard.release()));
    Some(Held { hold, release })
}

fn dropped<'a, O: 'a>(guard: Guard<O>) -> Option<Held<'a>> {
    let hold = guard.hold();
    let release = Box::new(|| {
        drop(guard);
        None
    });
    Some(Held { hold, release })
}
