//! What every lock of the crate can do, whatever it is; which lock it is; and a guard over any of
//! them.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use log::warn;

use crate::error::Result;
use crate::hold::Hold;
use crate::level::Site;
use crate::sys;

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

    /// Which lock this is: where it lives, and which object it is. No I/O.
    ///
    /// By default it is told by its path alone, which will do for a lock that is all one's own. A
    /// lock that wraps another one should hand on that one's id, as it does with its path: a
    /// [`MultiLock`](crate::MultiLock) has its order from it, and what is there twice.
    fn id(&self) -> LockId {
        LockId::new(self.path())
    }

    /// Locks, waiting for as long as it takes, also for a connection.
    ///
    /// # Errors
    /// See the lock's type.
    fn lock(&self) -> Result<()>;

    /// Locks if nobody else holds the lock. Waits for the servers' answers only, for at most a third
    /// of the session timeout (and of each member's, if it is several locks).
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
        match sys::now().checked_add(timeout) {
            Some(deadline) => self.try_lock_until(deadline),
            None => self.lock().map(|()| true),
        }
    }

    /// Unlocks. Waits for the answer for at most a third of the session timeout.
    ///
    /// # Errors
    /// [`Error::Lost`](crate::Error::Lost) if the hold was lost,
    /// [`Error::NotHeld`](crate::Error::NotHeld) if there is none.
    fn unlock(&self) -> Result<()>;

    /// Is the lock held, by the calling thread where a thread owns it? Reads the clocks; no I/O.
    fn is_held(&self) -> bool;

    /// The holds behind [`is_held`](Lock::is_held): none or one, or one of each member. A lost one is
    /// still there, until the unlock that reports it. No I/O.
    fn holds(&self) -> Vec<Hold>;
}

macro_rules! lock_through_pointer {
    ($($pointer:ty),*) => {$(
        impl<L: Lock + ?Sized> Lock for $pointer {
            fn path(&self) -> &str {
                (**self).path()
            }
            fn id(&self) -> LockId {
                (**self).id()
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

/// Which lock a [`Lock`] is: the place where it lives, and which object it is there.
///
/// Ids sort by place: first by the servers, which are the same in whatever order and with or
/// without the default port they were given, then by the path below the root of ZooKeeper, the
/// client's chroot included. Programs that take locks in this order do not wait for each other in
/// a circle.
///
/// The clones of a lock of this crate have equal ids. Two objects on one path do not, and neither
/// do the locks of another server list that leads to the same servers under other names. An id
/// means nothing any more when its lock is gone.
///
/// ```no_run
/// # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
/// use zoolock::{DistributedLock, Lock};
///
/// let lock = DistributedLock::new(client, "/locks/a")?;
/// assert_eq!(lock.clone().id(), lock.id());
/// assert_ne!(DistributedLock::new(client, "/locks/a")?.id(), lock.id());
/// assert!(DistributedLock::new(client, "/locks/b")?.id() > lock.id());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId {
    // The order of the fields is the order of the locks.
    address: Address,
    object: Object,
}

/// What two contenders have in common that can exclude each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Address {
    /// In their normal form; empty where they are not known.
    servers: String,
    /// From the root.
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Object {
    /// Any of those at the place.
    Unknown,
    /// The one whose clones share what is at this address.
    At(usize),
    /// Several locks as one.
    Several,
}

impl LockId {
    /// The id of a lock of one's own that is told by its path alone: what [`Lock::id`] returns by
    /// default. It is not that of a lock of this crate at the same path.
    pub fn new(path: impl Into<String>) -> LockId {
        let servers = String::new();
        LockId::at(servers, path.into(), Object::Unknown)
    }

    /// Of a lock of this crate. `object` is what its clones share with each other, and with nobody
    /// else.
    pub(crate) fn of<T>(site: &Site, object: &T) -> LockId {
        let (servers, root) = site.session().address();
        let path = format!("{root}{}", site.path);
        LockId::at(servers, path, Object::At(std::ptr::from_ref(object).addr()))
    }

    /// Of several locks as one; `path` names them all.
    pub(crate) fn several(path: &str) -> LockId {
        LockId::at(String::new(), path.to_owned(), Object::Several)
    }

    fn at(servers: String, path: String, object: Object) -> LockId {
        let address = Address { servers, path };
        LockId { address, object }
    }

    /// The lock's path from the root.
    pub(crate) fn full_path(&self) -> &str {
        &self.address.path
    }

    pub(crate) fn is_several(&self) -> bool {
        self.object == Object::Several
    }

    /// Would two holds of these exclude each other?
    pub(crate) fn is_at_place_of(&self, other: &LockId) -> bool {
        self.address == other.address
    }

    /// Are these certainly one object? Equal ids are not enough where the object is not known.
    pub(crate) fn is_clone_of(&self, other: &LockId) -> bool {
        matches!(self.object, Object::At(_)) && self == other
    }
}

/// Any lock, locked; unlocked when this is dropped, which waits as [`Lock::unlock`] does. A drop that
/// fails writes to the log.
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

    /// Locks, waiting until `deadline` at most.
    ///
    /// # Errors
    /// As [`Lock::try_lock_until`].
    pub fn try_acquire_until(lock: &'l L, deadline: Instant) -> Result<Option<Locker<'l, L>>> {
        let locked = lock.try_lock_until(deadline)?;
        Ok(locked.then(|| Locker { lock: Some(lock) }))
    }

    /// What is held, for its fencing tokens and its loss, as [`Lock::holds`] has it.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        self.lock.map_or_else(Vec::new, L::holds)
    }

    /// Unlocks and says how that went. Waits as [`Lock::unlock`] does.
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

    /// Locks until the returned guard is dropped, waiting for `timeout` at most.
    ///
    /// # Errors
    /// As [`Lock::try_lock_for`].
    pub fn try_acquire_for(&self, timeout: Duration) -> Result<Option<Locker<'_, Self>>> {
        Locker::try_acquire_for(self, timeout)
    }

    /// Locks until the returned guard is dropped, waiting until `deadline` at most.
    ///
    /// # Errors
    /// As [`Lock::try_lock_until`].
    pub fn try_acquire_until(&self, deadline: Instant) -> Result<Option<Locker<'_, Self>>> {
        Locker::try_acquire_until(self, deadline)
    }
}
