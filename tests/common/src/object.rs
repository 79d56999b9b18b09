//! A lock object of any type: the ways to lock it, and its guards.

use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolock::{
    DistributedLock, DistributedReentrantLock, DistributedSemaphore, EphemeralLock, Error, Guard,
    Hold, Lock, MultiLock, ReadLock, Result, Wait, WriteLock,
};

use crate::Task;

/// A way to lock.
#[derive(Debug, Clone)]
pub enum Ask {
    Wait,
    Try,
    Within(Wait),
}

impl Ask {
    /// Returns each way to lock, the last with this timeout.
    pub fn each(patience: Duration) -> [Ask; 3] {
        [Ask::Wait, Ask::Try, Ask::Within(patience.into())]
    }

    /// Returns whether a call would wait for a holder.
    pub fn waits(&self) -> bool {
        match self {
            Ask::Within(wait) => !wait.is_try(),
            Ask::Try => false,
            Ask::Wait => true,
        }
    }
}

/// A guard of any type. Dropping this value drops the guard.
pub struct Guarded<'l> {
    pub holds: Vec<Hold>,
    release: Box<dyn FnOnce() -> Result<()> + 'l>,
}

impl Guarded<'_> {
    pub fn release(self) -> Result<()> {
        (self.release)()
    }
}

/// The methods of the lock types that [`Lock`] does not have.
pub(crate) trait Guards: Send + Sync {
    fn guard(&self, ask: &Ask) -> Result<Option<Guarded<'_>>>;
    /// Returns this thread's hold count, for reentrant types.
    fn hold_count(&self) -> Option<u32> {
        None
    }
}

macro_rules! guards {
    ($lock:ty, ($($permits:expr)?), $guard:ident has $holds:expr $(, $count:ident)? $(; $ok:ident)?) => {
        impl Guards for $lock {
            fn guard(&self, ask: &Ask) -> Result<Option<Guarded<'_>>> {
                let guard = match ask {
                    Ask::Wait => Some(self.acquire($($permits)?)?),
                    Ask::Try => self.try_acquire($($permits)?)?$(.$ok())?,
                    Ask::Within(wait) => self.acquire_within($($permits,)? wait.clone())?$(.$ok())?,
                };
                Ok(guard.map(|$guard| Guarded {
                    holds: $holds,
                    release: Box::new(|| $guard.release()),
                }))
            }

            $(fn hold_count(&self) -> Option<u32> {
                Some(self.$count())
            })?
        }
    };
}

guards!(DistributedLock, (), guard has vec![guard.hold()]);
guards!(DistributedReentrantLock, (), guard has vec![guard.hold()], hold_count);
guards!(WriteLock, (), guard has vec![guard.hold()], hold_count);
guards!(ReadLock, (), guard has vec![guard.hold()], hold_count);
guards!(EphemeralLock, (), guard has vec![guard.hold()]);
guards!(MultiLock, (), guard has guard.holds(); ok);
guards!(DistributedSemaphore, (1), guard has guard.holds());

/// A lock object of any type. A clone is a handle to the same object.
#[derive(Clone)]
pub struct Object {
    lock: Arc<dyn Lock>,
    guards: Arc<dyn Guards>,
}

impl Object {
    pub(crate) fn new(lock: impl Lock + 'static, guards: impl Guards + 'static) -> Object {
        Object { lock: Arc::new(lock), guards: Arc::new(guards) }
    }

    /// Returns the object's first hold.
    #[track_caller]
    pub fn hold(&self) -> Hold {
        let holds = self.holds();
        holds.into_iter().next().unwrap_or_else(|| panic!("{:?} is not held", self.lock))
    }

    /// Returns this thread's hold count, for reentrant types.
    pub fn hold_count(&self) -> Option<u32> {
        self.guards.hold_count()
    }

    /// Makes a call on another thread, which does not hold the lock.
    #[track_caller]
    pub fn elsewhere<R: Send + 'static>(
        &self,
        call: impl FnOnce(&Object) -> R + Send + 'static,
    ) -> R {
        let object = self.clone();
        Task::spawn(move || call(&object)).result("a call on another thread")
    }

    /// Locks without a guard.
    pub fn enter(&self, ask: &Ask) -> Result<bool> {
        match ask {
            Ask::Wait => self.lock().map(|()| true),
            Ask::Try => self.try_lock(),
            Ask::Within(wait) => self.lock_within(wait.clone()),
        }
    }

    /// Locks, and returns the guard of the object's type.
    pub fn guard(&self, ask: &Ask) -> Result<Option<Guarded<'_>>> {
        self.guards.guard(ask)
    }

    /// Locks in every way, and passes each result to `says`. None of the calls should be granted.
    pub fn is_refused(&self, patience: Duration, mut says: impl FnMut(&Ask, Result<bool>)) {
        for ask in Ask::each(patience) {
            says(&ask, self.enter(&ask));
            says(&ask, self.guard(&ask).map(|guard| guard.is_some()));
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

/// A semaphore with one permit, used as a lock that any thread may unlock.
#[derive(Debug, Clone)]
pub(crate) struct OnePermit {
    semaphore: DistributedSemaphore,
    permits: Arc<Mutex<Option<Guard>>>,
}

impl OnePermit {
    pub(crate) fn of(semaphore: DistributedSemaphore) -> OnePermit {
        OnePermit { semaphore, permits: Arc::default() }
    }
}

impl Lock for OnePermit {
    fn path(&self) -> &str {
        self.semaphore.path()
    }

    fn lock_within(&self, wait: Wait) -> Result<bool> {
        let Some(permits) = self.semaphore.acquire_within(1, wait)? else {
            return Ok(false);
        };
        *self.permits.lock().unwrap() = Some(permits);
        Ok(true)
    }

    fn unlock(&self) -> Result<()> {
        let permits = self.permits.lock().unwrap().take();
        match permits {
            Some(permits) => permits.release(),
            None => Err(Error::not_held(self.path())),
        }
    }

    fn is_held(&self) -> bool {
        self.permits.lock().unwrap().as_ref().is_some_and(|permits| permits.is_held())
    }

    fn holds(&self) -> Vec<Hold> {
        self.permits.lock().unwrap().as_ref().map_or_else(Vec::new, Guard::holds)
    }
}
