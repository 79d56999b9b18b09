//! The lock objects of a client, of every kind, and the calls that take them and give them back. The torture run
//! compiles this file, too, with the library as users have it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, Guard, Hold, Lock, LockOptions, Locker, MultiLock, Permits, ReadLock,
    ReentrantGuard, Result, WriteLock,
};
use zoolock_judge::Mode;

use super::shuffle;
use crate::plan::{End, Kind, ObjectPlan, Wait};
use crate::witness::{self, limit};

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

pub(super) enum Taken<'a> {
    Lock,
    Guard(Guard),
    Own(ReentrantGuard),
    Several(Locker<'a>),
    Permits(Permits),
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

/// Takes permits, or a guard of any type.
macro_rules! acquire {
    ($lock:expr, $wait:expr, $taken:path $(, $permits:expr)?) => {
        match $wait {
            Wait::Forever => $lock.acquire($($permits)?).map(|taken| Some($taken(taken))),
            Wait::Try => $lock.try_acquire($($permits)?).map(|taken| taken.map($taken)),
            Wait::For(time) => {
                $lock.try_acquire_for($($permits,)? time).map(|taken| taken.map($taken))
            }
            Wait::Connected(time, limit) => {
                let taken = $lock.acquire_within($($permits,)? connected(time, limit));
                taken.map(|taken| taken.map($taken))
            }
        }
    };
}

pub(super) fn options(ObjectPlan { kind, options: plan, .. }: &ObjectPlan) -> LockOptions {
    // The others refuse it.
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
        options = options.identity(witness::identity(number));
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
            .map(|lock| Object::Read(lock.read_lock())),
        Kind::Write => DistributedRwLock::with_options(client, path, options)
            .map(|lock| Object::Write(lock.write_lock(), lock.read_lock())),
        Kind::Semaphore => {
            DistributedSemaphore::with_options(client, path, limit(plan.place), options)
                .map(Object::Semaphore)
        }
        Kind::Several => several(client, path, options).map(Object::Several),
        Kind::Leadership => Ok(Object::Leadership),
    };
    made.unwrap_or_else(|error| panic!("{plan:?}: {error}"))
}

/// Returns a multi-lock, in any order, of the lock at the place and of a lock and a read that all multi-locks share.
fn several(client: &Client, path: &str, options: LockOptions) -> Result<MultiLock> {
    let own = DistributedLock::with_options(client, path, options.clone())?;
    let other = DistributedLock::with_options(client, witness::SECOND, options.clone())?;
    let read = DistributedRwLock::with_options(client, witness::READ, options)?.read_lock();
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

/// Returns a wait that is limited without a connection.
fn connected(time: Option<Duration>, limit: Duration) -> zoolock::Wait {
    time.map_or(zoolock::Wait::FOREVER, zoolock::Wait::within).for_connection(limit)
}

impl Object {
    pub(super) fn lock(&self) -> Option<&dyn Lock> {
        match self {
            Object::Several(lock) => Some(lock),
            lock => on_lock!(lock, lock => Some(lock), None),
        }
    }

    pub(super) fn cancel_waiters(&self) {
        match self {
            Object::Semaphore(semaphore) => semaphore.cancel_waiters(),
            lock => on_lock!(lock, lock => lock.cancel_waiters(), ()),
        }
    }

    pub(super) fn take(&self, wait: Wait, permits: u32, guard: bool) -> Result<Option<Taken<'_>>> {
        match self {
            Object::Semaphore(semaphore) => acquire!(semaphore, wait, Taken::Permits, permits),
            Object::Exclusive(lock) if guard => acquire!(lock, wait, Taken::Guard),
            Object::Single(lock) if guard => acquire!(lock, wait, Taken::Guard),
            Object::Reentrant(lock) if guard => acquire!(lock, wait, Taken::Own),
            Object::Read(lock) if guard => acquire!(lock, wait, Taken::Own),
            Object::Write(lock, _) if guard => acquire!(lock, wait, Taken::Own),
            Object::Several(lock) if guard => acquire!(lock, wait, Taken::Several),
            _ => {
                let Some(lock) = self.lock() else { return Ok(None) };
                let has = match wait {
                    Wait::Forever => lock.lock().map(|()| true),
                    Wait::Try => lock.try_lock(),
                    Wait::For(time) => lock.try_lock_for(time),
                    Wait::Connected(time, limit) => lock.lock_within(connected(time, limit)),
                };
                has.map(|has| has.then_some(Taken::Lock))
            }
        }
    }

    pub(super) fn holds(&self, taken: &Taken<'_>) -> Vec<Hold> {
        match taken {
            Taken::Permits(permits) => permits.holds(),
            _ => self.lock().map_or_else(Vec::new, Lock::holds),
        }
    }
}

impl Taken<'_> {
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

pub(super) fn release(object: &Object, taken: Taken<'_>, end: End) -> Result<()> {
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
