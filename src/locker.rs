//! What every lock of the crate can do, whatever it is, and a guard over any of them.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::warn;

use crate::error::Result;
use crate::hold::Hold;

/// A lock of any type, for code that works with all of them. Object safe.
///
/// The calls of each type say what they mean there. `&L`, `Box<L>` and `Arc<L>` are locks, too.
///
/// ```no_run
/// use zoolock::{Client, DistributedLock, DistributedReentrantLock, Lock, Locker};
///
/// fn run_alone(lock: &dyn Lock, work: impl FnOnce()) -> zoolock::Result<()> {
///     let _locked = Locker::acquire(lock)?;
///     work();
///     Ok(())
/// }
/// ```
pub trait Lock: Debug + Send + Sync {
    /// The lock's path.
    fn path(&self) -> &str;

    /// Locks, waiting for as long as it takes.
    ///
    /// # Errors
    /// See the lock's type.
    fn lock(&self) -> Result<()>;

    /// Locks if nobody else holds the lock. Waits for the server's answers only.
    ///
    /// # Errors
    /// [`Error::Disconnected`](crate::Error::Disconnected) if that is not known.
    fn try_lock(&self) -> Result<bool>;

    /// Locks, waiting until `deadline` at most.
    ///
    /// # Errors
    /// [`Error::Disconnected`](crate::Error::Disconnected) if there is no connection then.
    fn try_lock_until(&self, deadline: Instant) -> Result<bool>;

    /// Locks, waiting for `timeout` at most; one that the clock cannot hold is no deadline.
    ///
    /// # Errors
    /// [`Error::Disconnected`](crate::Error::Disconnected) if there is no connection then.
    fn try_lock_for(&self, timeout: Duration) -> Result<bool> {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.try_lock_until(deadline),
            None => self.lock().map(|()| true),
        }
    }

    /// Unlocks.
    ///
    /// # Errors
    /// [`Error::Lost`](crate::Error::Lost) if the hold was lost,
    /// [`Error::NotHeld`](crate::Error::NotHeld) if there is none.
    fn unlock(&self) -> Result<()>;

    /// Is the lock held, by the calling thread where a thread owns it? Reads the clocks; no I/O.
    fn is_held(&self) -> bool;

    /// The holds behind [`is_held`](Lock::is_held).
    fn holds(&self) -> Vec<Hold>;
}

macro_rules! lock_through_pointer {
    ($($pointer:ty),*) => {$(
        impl<L: Lock + ?Sized> Lock for $pointer {
            fn path(&self) -> &str {
                (**self).path()
            }
            fn lock(&self) -> Result<()> {
                (**self).lock()
            }
            fn try_lock(&self) -> Result<bool> {
                (**self).try_lock()
            }
            fn try_lock_until(&self, deadline: Instant) -> Result<bool> {
                (**self).try_lock_until(deadline)
            }
            fn try_lock_for(&self, timeout: Duration) -> Result<bool> {
                (**self).try_lock_for(timeout)
            }
            fn unlock(&self) -> Result<()> {
                (**self).unlock()
            }
            fn is_held(&self) -> bool {
                (**self).is_held()
            }
            fn holds(&self) -> Vec<Hold> {
                (**self).holds()
            }
        }
    )*};
}

lock_through_pointer!(&L, Box<L>, Arc<L>);

/// Any lock, locked; unlocked when this is dropped. A drop that fails writes to the log.
#[derive(Debug)]
#[must_use = "if unused the lock is released at once"]
pub struct Locker<'l, L: Lock + ?Sized> {
    lock: Option<&'l L>,
}

impl<'l, L: Lock + ?Sized> Locker<'l, L> {
    /// Locks, waiting for as long as it takes.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    pub fn acquire(lock: &'l L) -> Result<Locker<'l, L>> {
        lock.lock().map(|()| Locker { lock: Some(lock) })
    }

    /// Locks if nobody else holds the lock.
    ///
    /// # Errors
    /// As [`Lock::try_lock`].
    pub fn try_acquire(lock: &'l L) -> Result<Option<Locker<'l, L>>> {
        Ok(lock.try_lock()?.then(|| Locker { lock: Some(lock) }))
    }

    /// Locks, waiting for `timeout` at most.
    ///
    /// # Errors
    /// As [`Lock::try_lock_for`].
    pub fn try_acquire_for(lock: &'l L, timeout: Duration) -> Result<Option<Locker<'l, L>>> {
        let locked = lock.try_lock_for(timeout)?;
        Ok(locked.then(|| Locker { lock: Some(lock) }))
    }

    /// Unlocks and says how that went.
    ///
    /// # Errors
    /// As [`Lock::unlock`].
    pub fn release(mut self) -> Result<()> {
        self.lock.take().map_or(Ok(()), L::unlock)
    }
}

impl<L: Lock + ?Sized> Drop for Locker<'_, L> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.lock.take().map(L::unlock) {
            warn!(target: "zoolock", "dropped a locker: {error}");
        }
    }
}

impl dyn Lock + '_ {
    /// Locks until the returned guard is dropped.
    ///
    /// # Errors
    /// As [`Lock::lock`].
    pub fn acquire(&self) -> Result<Locker<'_, Self>> {
        Locker::acquire(self)
    }

    /// Locks until the returned guard is dropped, if nobody else holds the lock.
    ///
    /// # Errors
    /// As [`Lock::try_lock`].
    pub fn try_acquire(&self) -> Result<Option<Locker<'_, Self>>> {
        Locker::try_acquire(self)
    }
}
