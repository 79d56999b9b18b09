//! The trait of all locks, the id of a lock, and the guard of a lock of any type.

use std::fmt::Debug;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::Result;
use crate::base::panics::log_drop;
use crate::base::wait::{Wait, surely};
use crate::held::hold::Hold;
use crate::process::Site;

/// A lock of any type, for code that works with all of them, such as a
/// [`MultiLock`](crate::MultiLock). It can be used as a trait object.
///
/// The documentation of each type says what the methods mean there. `&L`, `Box<L>` and `Arc<L>` are
/// locks, too. A lock type of your own has five methods to write.
///
/// ```no_run
/// use zoolock::Lock;
///
/// fn run_alone(lock: &dyn Lock, work: impl FnOnce()) -> zoolock::Result<()> {
///     let _locked = lock.acquire()?;
///     work();
///     Ok(())
/// }
/// ```
pub trait Lock: Debug + Send + Sync {
    /// Returns the lock's path.
    fn path(&self) -> &str;

    /// Returns the id of the lock: its place, and its object there. No I/O.
    ///
    /// The default identifies the lock by its path alone, which is enough for a lock type of your
    /// own. A lock that wraps another one should return the id of that one, as well as its path: a
    /// [`MultiLock`](crate::MultiLock) orders its members and finds duplicates by id.
    fn id(&self) -> LockId {
        LockId::new(self.path())
    }

    /// Acquires the lock. Waits as long as `wait` says; with several locks, [`Wait::TRY`] applies
    /// to each member. Returns false if another contender is ahead until then; without a limit, it
    /// returns true or an error. The other ways to lock all call this.
    ///
    /// # Errors
    /// See the lock's type. With a limit also [`Error::Disconnected`](crate::Error::Disconnected),
    /// if the client has not found out by then whether the lock is free.
    fn lock_within(&self, wait: Wait) -> Result<bool>;

    /// Acquires the lock. Waits without a limit, also for a connection.
    ///
    /// # Errors
    /// As [`lock_within`](Lock::lock_within).
    fn lock(&self) -> Result<()> {
        let locked = self.lock_within(Wait::FOREVER)?;
        surely(locked.then_some(()), self.path())
    }

    /// Acquires the lock if it is free. Waits for the servers' answers only, for at most a third of
    /// the session timeout. With several locks, that is a third for each member.
    ///
    /// # Errors
    /// As [`lock_within`](Lock::lock_within).
    fn try_lock(&self) -> Result<bool> {
        self.lock_within(Wait::TRY)
    }

    /// Acquires the lock. Waits for at most `timeout`. A timeout too large for the clock waits
    /// forever.
    ///
    /// # Errors
    /// As [`lock_within`](Lock::lock_within).
    fn try_lock_for(&self, timeout: Duration) -> Result<bool> {
        self.lock_within(Wait::within(timeout))
    }

    /// Releases the lock. Waits for the answer for at most a third of the session timeout. With
    /// several locks, that is a third for each member.
    ///
    /// # Errors
    /// [`Error::Lost`](crate::Error::Lost) if the hold was lost,
    /// [`Error::NotHeld`](crate::Error::NotHeld) if there is none.
    fn unlock(&self) -> Result<()>;

    /// Returns whether the lock is held. Where a thread owns the hold, returns whether the calling
    /// thread holds it. Reads the clocks; no I/O, never blocks.
    fn is_held(&self) -> bool;

    /// Returns the holds behind [`is_held`](Lock::is_held): none or one, or one of each member. A
    /// lost hold is returned until the unlock that reports the loss. No I/O, never blocks.
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
            fn lock_within(&self, wait: Wait) -> Result<bool> {
                (**self).lock_within(wait)
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

/// Identifies a [`Lock`]: the place where it lives, and its object there.
///
/// Ids sort by place. The servers come first, regardless of their order and of whether the default
/// port was written. The path from the root of ZooKeeper comes second, with the client's chroot.
/// Programs that take locks in this order do not wait for each other in a circle.
///
/// Clones of a lock of this crate have equal ids. Two objects on one path have different ids, and
/// so have locks on the same servers under other names. An id is meaningless once its lock is gone.
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
    /// In normal form; empty where they are not known.
    servers: String,
    /// The path from the root.
    path: String,
    object: Object,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Object {
    /// Every object at the path.
    Unknown,
    /// The object whose clones share what is at this memory address.
    At(usize),
    /// Several locks as one.
    Several,
}

impl LockId {
    /// Creates the id of a lock type of your own, from its path alone. [`Lock::id`] returns this by
    /// default. It differs from the id of a lock of this crate at the same path.
    pub fn new(path: impl AsRef<str>) -> LockId {
        LockId { servers: String::new(), path: path.as_ref().to_owned(), object: Object::Unknown }
    }

    /// Returns the id of a lock of this crate. Its clones, and nothing else, share what is at the
    /// address of `object`.
    pub(crate) fn of(site: &Site, object: *const ()) -> LockId {
        let (servers, root) = site.requests().address();
        let path = format!("{root}{}", site.path());
        LockId { servers, path, object: Object::At(object.addr()) }
    }

    /// Returns the id of several locks as one; `path` names them all.
    pub(crate) fn several(path: &str) -> LockId {
        LockId { object: Object::Several, ..LockId::new(path) }
    }

    /// Returns the lock's path from the root.
    pub(crate) fn full_path(&self) -> &str {
        &self.path
    }

    pub(crate) fn is_several(&self) -> bool {
        self.object == Object::Several
    }

    /// Returns whether holds of the two locks would exclude each other.
    pub(crate) fn is_at_place_of(&self, other: &LockId) -> bool {
        (&self.servers, &self.path) == (&other.servers, &other.path)
    }

    /// Returns whether these are certainly one object. Equal ids are not enough where the object is
    /// unknown.
    pub(crate) fn is_clone_of(&self, other: &LockId) -> bool {
        matches!(self.object, Object::At(_)) && self == other
    }
}

/// A guard of a lock that is known as a [`dyn Lock`](Lock) only, or of several locks as one. It
/// unlocks the lock once when it is dropped. A drop waits as [`Lock::unlock`] does, and logs a
/// failure.
///
/// A lock whose type is known has a [`Guard`](crate::Guard), which is owned and releases only its
/// own hold. This one borrows the lock, and unlocks whatever is locked by then. Where a thread owns
/// the hold, only that thread can release it: on another one, the unlock fails.
#[derive(Debug)]
#[must_use = "if unused the lock is released at once"]
pub struct Locker<'l> {
    lock: &'l dyn Lock,
}

impl Locker<'_> {
    /// Returns the holds of the lock, as [`Lock::holds`] does, for their fencing tokens and their
    /// loss. No I/O, never blocks.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        self.lock.holds()
    }

    /// Releases the lock and returns the result. Waits as [`Lock::unlock`] does.
    ///
    /// # Errors
    /// As [`Lock::unlock`].
    pub fn release(self) -> Result<()> {
        let lock = self.lock;
        mem::forget(self);
        lock.unlock()
    }
}

impl Drop for Locker<'_> {
    fn drop(&mut self) {
        log_drop("locker", self.lock.unlock());
    }
}

impl dyn Lock + '_ {
    /// Acquires the lock until the returned guard is dropped. Waits like [`lock`](Lock::lock).
    ///
    /// # Errors
    /// As [`Lock::lock_within`].
    pub fn acquire(&self) -> Result<Locker<'_>> {
        surely(self.acquire_within(Wait::FOREVER)?, self.path())
    }

    /// Like [`try_lock`](Lock::try_lock), with a guard.
    ///
    /// # Errors
    /// As [`Lock::lock_within`].
    pub fn try_acquire(&self) -> Result<Option<Locker<'_>>> {
        self.acquire_within(Wait::TRY)
    }

    /// Like [`try_lock_for`](Lock::try_lock_for), with a guard.
    ///
    /// # Errors
    /// As [`Lock::lock_within`].
    pub fn try_acquire_for(&self, timeout: Duration) -> Result<Option<Locker<'_>>> {
        self.acquire_within(timeout)
    }

    /// Like [`lock_within`](Lock::lock_within), with a guard. `wait` may also be a `Duration` or an
    /// `Instant`.
    ///
    /// # Errors
    /// As [`Lock::lock_within`].
    pub fn acquire_within(&self, wait: impl Into<Wait>) -> Result<Option<Locker<'_>>> {
        Ok(self.lock_within(wait.into())?.then(|| Locker { lock: self }))
    }
}
