//! A lock object of any type: the ways to lock it, and the guards of its holds.

use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zoolock::{
    DistributedLock, DistributedReentrantLock, DistributedSemaphore, EphemeralLock, Error, Guard,
    Hold, Lock, Locker, MultiLock, Permits, ReadLock, Result, Wait, WriteLock,
};

/// The way in which a call locks.
#[derive(Debug, Clone, Copy)]
pub enum Ask {
    Wait,
    Try,
    For(Duration),
    Until(Instant),
}

impl Ask {
    /// Returns all ways, with this timeout.
    pub fn each(patience: Duration) -> [Ask; 4] {
        [Ask::Wait, Ask::Try, Ask::For(patience), Ask::Until(Instant::now() + patience)]
    }

    /// Returns whether the call would wait for other contenders.
    pub fn waits(self) -> bool {
        !matches!(self, Ask::Try)
    }
}

/// The guard of any lock type.
pub trait Guarding {
    fn holds(&self) -> Vec<Hold>;
    fn release(self: Box<Self>) -> Result<()>;
}

impl<O> Guarding for Guard<O> {
    fn holds(&self) -> Vec<Hold> {
        vec![self.hold()]
    }

    fn release(self: Box<Self>) -> Result<()> {
        Guard::release(*self)
    }
}

impl Guarding for Permits {
    fn holds(&self) -> Vec<Hold> {
        Permits::holds(self)
    }

    fn release(self: Box<Self>) -> Result<()> {
        Permits::release(*self)
    }
}

impl Guarding for Locker<'_> {
    fn holds(&self) -> Vec<Hold> {
        Locker::holds(self)
    }

    fn release(self: Box<Self>) -> Result<()> {
        Locker::release(*self)
    }
}

type Guarded<'l> = Option<Box<dyn Guarding + 'l>>;

/// The methods of lock types that are not in [`Lock`].
pub(crate) trait Guards: Send + Sync {
    fn guard(&self, ask: Ask) -> Result<Guarded<'_>>;
    fn hold_count(&self) -> Option<u32>;
}

macro_rules! guards {
    ($lock:ty, ($($permits:expr)?), $count:expr) => {
        impl Guards for $lock {
            fn guard(&self, ask: Ask) -> Result<Guarded<'_>> {
                let guard = match ask {
                    Ask::Wait => Some(self.acquire($($permits)?)?),
                    Ask::Try => self.try_acquire($($permits)?)?,
                    Ask::For(time) => self.try_acquire_for($($permits,)? time)?,
                    Ask::Until(deadline) => self.try_acquire_until($($permits,)? deadline)?,
                };
                Ok(guard.map(|guard| Box::new(guard) as Box<dyn Guarding>))
            }

            fn hold_count(&self) -> Option<u32> {
                let count: fn(&Self) -> Option<u32> = $count;
                count(self)
            }
        }
    };
}

guards!(DistributedLock, (), |_| None);
guards!(DistributedReentrantLock, (), |lock| Some(lock.hold_count()));
guards!(WriteLock, (), |lock| Some(lock.hold_count()));
guards!(ReadLock, (), |lock| Some(lock.hold_count()));
guards!(EphemeralLock, (), |_| None);
guards!(MultiLock, (), |_| None);
guards!(DistributedSemaphore, (1), |_| None);

/// A lock object of any type. Its clones are the same object.
#[derive(Clone)]
pub struct Object {
    pub(crate) lock: Arc<dyn Lock>,
    pub(crate) guards: Arc<dyn Guards>,
    pub(crate) cancel: Arc<dyn Fn() + Send + Sync>,
    pub(crate) path: Arc<str>,
}

impl Object {
    /// Returns the path that the object was created with. A `MultiLock` names all of its members'
    /// paths.
    pub fn base(&self) -> &str {
        &self.path
    }

    pub fn cancel_waiters(&self) {
        (self.cancel)();
    }

    /// Returns the first of its holds.
    #[track_caller]
    pub fn hold(&self) -> Hold {
        let holds = self.holds();
        holds.into_iter().next().unwrap_or_else(|| panic!("{:?} is not held", self.lock))
    }

    /// Returns this thread's number of entries, if the type allows re-entry.
    pub fn hold_count(&self) -> Option<u32> {
        self.guards.hold_count()
    }

    /// Locks without a guard.
    pub fn enter(&self, ask: Ask) -> Result<bool> {
        match ask {
            Ask::Wait => self.lock().map(|()| true),
            Ask::Try => self.try_lock(),
            Ask::For(time) => self.try_lock_for(time),
            Ask::Until(deadline) => self.try_lock_until(deadline),
        }
    }

    /// Locks with the guard of its type.
    pub fn guard(&self, ask: Ask) -> Result<Guarded<'_>> {
        self.guards.guard(ask)
    }

    /// Makes a call in every way, passes each result to `says`, and asserts that the lock is not
    /// held.
    pub fn is_refused(&self, patience: Duration, mut says: impl FnMut(Ask, Result<bool>)) {
        for ask in Ask::each(patience) {
            says(ask, self.enter(ask));
            says(ask, self.guard(ask).map(|guard| guard.is_some()));
        }
        assert!(!self.is_held(), "{self:?}");
    }
}

impl Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl Deref for Object {
    type Target = dyn Lock;

    fn deref(&self) -> &(dyn Lock + 'static) {
        &*self.lock
    }
}

impl From<Object> for Box<dyn Lock> {
    fn from(object: Object) -> Box<dyn Lock> {
        Box::new(object.lock)
    }
}

/// A semaphore of one permit, used as a lock that any thread may unlock.
#[derive(Debug, Clone)]
pub(crate) struct OnePermit {
    semaphore: DistributedSemaphore,
    permits: Arc<Mutex<Option<Permits>>>,
}

impl OnePermit {
    pub(crate) fn of(semaphore: DistributedSemaphore) -> OnePermit {
        OnePermit { semaphore, permits: Arc::default() }
    }

    fn keep(&self, permits: Option<Permits>) -> bool {
        let taken = permits.is_some();
        if taken {
            *self.permits.lock().unwrap() = permits;
        }
        taken
    }
}

impl Lock for OnePermit {
    fn path(&self) -> &str {
        self.semaphore.path()
    }

    fn lock_within(&self, patience: Wait) -> Result<bool> {
        let permits = match patience {
            Wait::Try => self.semaphore.try_acquire(1)?,
            Wait::Until(None) => Some(self.semaphore.acquire(1)?),
            Wait::Until(Some(deadline)) => self.semaphore.try_acquire_until(1, deadline)?,
        };
        Ok(self.keep(permits))
    }

    fn unlock(&self) -> Result<()> {
        let permits = self.permits.lock().unwrap().take();
        match permits {
            Some(permits) => permits.release(),
            None => Err(Error::NotHeld { path: self.path().to_owned() }),
        }
    }

    fn is_held(&self) -> bool {
        self.permits.lock().unwrap().as_ref().is_some_and(Permits::is_held)
    }

    fn holds(&self) -> Vec<Hold> {
        self.permits.lock().unwrap().as_ref().map_or_else(Vec::new, Permits::holds)
    }
}
