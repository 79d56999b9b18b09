//! The lock objects of a client, of every kind, and the calls that acquire and release locks. The torture run compiles
//! this file as well, with the real library.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use zoolock::{
    CancelToken, Client, DistributedLock, DistributedReentrantLock, DistributedRwLock,
    DistributedSemaphore, EphemeralLock, Guard, Hold, Lock, LockOptions, MultiGuard, MultiLock,
    ReadLock, ReentrantGuard, Result, WriteLock,
};
use zoolock_checker::Mode;

use super::shuffle;
use crate::monitor::{self, limit};
use crate::plan::{End, Kind, ObjectPlan, Wait};

pub(super) enum Object {
    Exclusive(DistributedLock),
    Reentrant(DistributedReentrantLock),
    Single(EphemeralLock),
    Read(ReadLock),
    Write(WriteLock, ReadLock),
    Several(MultiLock),
    Semaphore(DistributedSemaphore),
    Leadership,
}

pub(super) enum Taken {
    Lock,
    Guard(Guard),
    Own(ReentrantGuard),
    Several(MultiGuard),
    Permits(Guard),
}

/// Calls a method that most kinds of locks have.
macro_rules! on_lock {
    ($object:expr, $lock:ident => $act:expr, $else:expr) => {
        match $object {
            Object::Exclusive($lock) => $act,
            Object::Reentrant($lock) => $act,
            Object::Single($lock) => $act,
            Object::Read($lock) => $act,
            Object::Write($lock, _) => $act,
            Object::Several(_) | Object::Semaphore(_) | Object::Leadership => $else,
        }
    };
}

/// Acquires permits, or a guard of any type. A multi-lock also returns which member is busy; `$ok` discards that.
macro_rules! acquire {
    ($lock:expr, $wait:expr, $token:expr, $taken:path $(, $permits:expr)? $(; $ok:ident)?) => {
        match $wait {
            Wait::Forever if $token.is_none() => {
                $lock.acquire($($permits)?).map(|taken| Some($taken(taken)))
            }
            Wait::Try if $token.is_none() => {
                $lock.try_acquire($($permits)?).map(|taken| taken$(.$ok())?.map($taken))
            }
            wait => {
                let taken = $lock.acquire_within($($permits,)? within(wait, $token));
                taken.map(|taken| taken$(.$ok())?.map($taken))
            }
        }
    };
}

pub(super) fn options(ObjectPlan { kind, options: plan, .. }: &ObjectPlan) -> LockOptions {
    // The other kinds of locks reject this option.
    let takes_handoffs = !matches!(kind, Kind::Single | Kind::Semaphore | Kind::Leadership);
    let mut options = LockOptions::new()
        .local_handoffs(if takes_handoffs { plan.local_handoffs } else { 0 })
        .background_release(plan.background_release);
    if let Some(time) = plan.hold_at_least {
        options = options.hold_at_least(time);
    }
    if let Some(time) = plan.hold_at_most {
        options = options.hold_at_most(time);
    }
    if let Some(time) = plan.margin {
        options = options.margin(time);
    }
    if let Some(number) = plan.identity {
        options = options.identity(monitor::identity(number));
    }
    options
}

pub(super) fn make(client: &Client, plan: &ObjectPlan) -> Object {
    let (path, options) = (plan.place.path(), options(plan));
    let made = match plan.kind {
        Kind::Exclusive => {
            DistributedLock::with_options(client, path, options).map(Object::Exclusive)
        }
        Kind::Reentrant => {
            DistributedReentrantLock::with_options(client, path, options).map(Object::Reentrant)
        }
        Kind::Single => EphemeralLock::with_options(client, path, options).map(Object::Single),
        Kind::Read => DistributedRwLock::with_options(client, path, options)
            .map(|lock| Object::Read(lock.reader())),
        Kind::Write => DistributedRwLock::with_options(client, path, options)
            .map(|lock| Object::Write(lock.writer(), lock.reader())),
        Kind::Semaphore => {
            DistributedSemaphore::with_options(client, path, limit(plan.place), options)
                .map(Object::Semaphore)
        }
        Kind::Several => several(client, path, options).map(Object::Several),
        Kind::Leadership => Ok(Object::Leadership),
    };
    made.unwrap_or_else(|error| panic!("{plan:?}: {error}"))
}

/// Returns a multi-lock. Its members are a lock at this path, and a lock and a read lock that all multi-locks share.
fn several(client: &Client, path: &str, options: LockOptions) -> Result<MultiLock> {
    let own = DistributedLock::with_options(client, path, options.clone())?;
    let other = DistributedLock::with_options(client, monitor::SECOND, options.clone())?;
    let read = DistributedRwLock::with_options(client, monitor::READ, options)?.reader();
    let mut all: [Box<dyn Lock>; 3] = [own.into(), other.into(), read.into()];
    shuffle(&mut all);
    MultiLock::new(all)
}

pub(super) fn mode(kind: Kind, permits: u32) -> Mode {
    match kind {
        Kind::Read => Mode::Shared,
        Kind::Semaphore => Mode::Permits(permits),
        _ => Mode::Exclusive,
    }
}

fn within(wait: Wait, token: Option<&CancelToken>) -> zoolock::Wait {
    let limited =
        |time: Option<Duration>| time.map_or(zoolock::Wait::FOREVER, zoolock::Wait::within);
    let wait = match wait {
        Wait::Forever => limited(None),
        Wait::Try => zoolock::Wait::TRY,
        Wait::For(time) => limited(Some(time)),
        Wait::Connected(time, limit) => limited(time).for_connection(limit),
    };
    match token {
        Some(token) => wait.cancelled_by(token),
        None => wait,
    }
}

impl Object {
    pub(super) fn lock(&self) -> Option<&dyn Lock> {
        match self {
            Object::Several(lock) => Some(lock),
            lock => on_lock!(lock, lock => Some(lock), None),
        }
    }

    pub(super) fn take(
        &self,
        wait: Wait,
        token: Option<&CancelToken>,
        permits: u32,
        guard: bool,
    ) -> Result<Option<Taken>> {
        match self {
            Object::Semaphore(semaphore) => {
                acquire!(semaphore, wait, token, Taken::Permits, permits)
            }
            Object::Exclusive(lock) if guard => acquire!(lock, wait, token, Taken::Guard),
            Object::Single(lock) if guard => acquire!(lock, wait, token, Taken::Guard),
            Object::Reentrant(lock) if guard => acquire!(lock, wait, token, Taken::Own),
            Object::Read(lock) if guard => acquire!(lock, wait, token, Taken::Own),
            Object::Write(lock, _) if guard => acquire!(lock, wait, token, Taken::Own),
            Object::Several(lock) if guard => acquire!(lock, wait, token, Taken::Several; ok),
            _ => {
                let Some(lock) = self.lock() else { return Ok(None) };
                let has = match wait {
                    Wait::Forever if token.is_none() => lock.lock().map(|()| true),
                    Wait::Try if token.is_none() => lock.try_lock(),
                    wait => lock.lock_within(within(wait, token)),
                };
                has.map(|has| has.then_some(Taken::Lock))
            }
        }
    }

    pub(super) fn holds(&self, taken: &Taken) -> Vec<Hold> {
        match taken {
            Taken::Permits(permits) => permits.holds(),
            _ => self.lock().map_or_else(Vec::new, Lock::holds),
        }
    }
}

impl Taken {
    fn release(self) -> Result<()> {
        match self {
            Taken::Lock => Ok(()),
            Taken::Guard(guard) => guard.release(),
            Taken::Own(guard) => guard.release(),
            Taken::Several(guard) => guard.release(),
            Taken::Permits(permits) => permits.release(),
        }
    }
}

pub(super) fn release(object: &Object, taken: Taken, end: End) -> Result<()> {
    match (taken, end) {
        (Taken::Lock, _) => object.lock().map_or(Ok(()), Lock::unlock),
        (taken, End::Drop) => {
            drop(taken);
            Ok(())
        }
        (taken, End::Panic) => {
            let _ = catch_unwind(AssertUnwindSafe(move || {
                let _taken = taken;
                resume_unwind(Box::new("as planned"));
            }));
            Ok(())
        }
        (taken, _) => taken.release(),
    }
}
