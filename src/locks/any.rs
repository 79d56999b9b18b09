//! The trait of all locks, the id of a lock, and the guard of a lock of any type.

use std::fmt::Debug;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::panics::{caught, log_drop};
use crate::base::wait::{Wait, surely};
use crate::held::hold::Hold;
use crate::held::transaction::Transaction;
use crate::process::Site;

/// A lock of any type, for code that works with all of them, such as a
/// [`MultiLock`](crate::MultiLock). It can be used as a trait object.
///
/// Each lock type documents what the methods mean for it. `&L`, `Box<L>` and `Arc<L>` are locks as
/// well. A lock type of your own must implement five methods.
///
/// [`is_held`](Lock::is_held) and [`holds`](Lock::holds) read the clocks. They send no request and
/// never block.
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

    /// Returns the id of the lock: its [place](LockId), and its object there. Sends no request.
    ///
    /// The default identifies the lock by its path alone, which is enough for a lock type of your
    /// own. A lock that wraps another one should return the other lock's id as well as its path,
    /// because a [`MultiLock`](crate::MultiLock) orders its members and finds duplicates by id.
    fn id(&self) -> LockId {
        LockId::new(self.path())
    }

    /// Acquires the lock. Waits as long as `wait` allows; with several locks, [`Wait::TRY`] applies
    /// to each member. Returns false if another contender is ahead until the wait is over. Without
    /// a limit, returns true or an error. All other calls that lock call this method.
    ///
    /// A lock type of your own should return [`Error::cancelled`](crate::Error::cancelled) when the
    /// [token](Wait::cancel_token) of `wait` is cancelled, even if it was cancelled before the
    /// call.
    ///
    /// # Errors
    /// See the lock's type. If the wait has a limit, also
    /// [`Error::Disconnected`](crate::Error::Disconnected) when the client could not find out in
    /// time whether the lock is free.
    fn lock_within(&self, wait: Wait) -> Result<bool>;

    /// Acquires the lock without a guard. Nothing but [`unlock`](Lock::unlock) releases it, not
    /// even a panic. To get a guard, call the method `acquire` of a `dyn Lock`. Waits without a
    /// limit, including for a connection.
    ///
    /// # Errors
    /// As [`lock_within`](Lock::lock_within).
    fn lock(&self) -> Result<()> {
        let locked = self.lock_within(Wait::FOREVER)?;
        surely(locked.then_some(()), self.path())
    }

    /// Acquires the lock if it is free. Waits only for the servers' answers, for at most a third of
    /// the session timeout. With several locks, that is a third for each member.
    ///
    /// # Errors
    /// As [`lock_within`](Lock::lock_within).
    fn try_lock(&self) -> Result<bool> {
        self.lock_within(Wait::TRY)
    }

    /// Releases the lock. Waits for the answer for at most a third of the session timeout. With
    /// several locks, that is a third for each member.
    ///
    /// # Errors
    /// [`Error::Lost`](crate::Error::Lost) if the hold was lost,
    /// [`Error::NotHeld`](crate::Error::NotHeld) if there is none.
    fn unlock(&self) -> Result<()>;

    /// Returns whether the lock is held. If holds of this lock belong to threads, returns whether
    /// the calling thread holds it.
    fn is_held(&self) -> bool;

    /// Returns the holds behind [`is_held`](Lock::is_held): none, one, or (for a `MultiLock`) one
    /// for each member. A lost hold is returned until the unlock that reports the loss.
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
/// Ids are ordered by place: first by the servers, then by the path from the root of ZooKeeper,
/// which includes the client's chroot. Neither the order of the servers nor an explicit default
/// port matters. Programs that take locks in this order cannot deadlock each other.
///
/// Clones of a lock of this crate have equal ids. Two objects at one path have different ids, and
/// so do locks on the same servers if those are listed under different names. Once a lock is gone,
/// its id is meaningless.
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
    // The order of these fields determines the order of locks, because the comparison is derived.
    /// The servers in normal form; empty if unknown.
    servers: String,
    /// The path from the root.
    path: String,
    object: Object,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Object {
    /// The object is not known: it may be any object at the path.
    Unknown,
    /// The object whose clones share the data at this memory address.
    At(usize),
    /// Several locks as one, that is, a `MultiLock`.
    Several,
}

impl LockId {
    /// Creates the id of a lock type of your own, from its path alone. This is what [`Lock::id`]
    /// returns by default. It differs from the id of a lock of this crate at the same path.
    pub fn new(path: impl AsRef<str>) -> LockId {
        LockId { servers: String::new(), path: path.as_ref().to_owned(), object: Object::Unknown }
    }

    /// Returns the id of a lock of this crate. Only its clones share the data at the address of
    /// `object`.
    pub(crate) fn of(site: &Site, object: *const ()) -> LockId {
        let (servers, root) = site.requests().address();
        let path = format!("{root}{}", site.path());
        LockId { servers, path, object: Object::At(object.addr()) }
    }

    /// Returns the id of several locks as one; `path` contains the paths of all of them.
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

    /// Returns whether these are certainly one object. Equal ids do not prove that if the object is
    /// unknown.
    pub(crate) fn is_clone_of(&self, other: &LockId) -> bool {
        matches!(self.object, Object::At(_)) && self == other
    }
}

/// A guard of a lock whose type is unknown apart from its trait [`Lock`], or of several locks as
/// one. It unlocks the lock once when it is dropped. Dropping it waits as [`Lock::unlock`] does,
/// and logs a failure.
///
/// The guard owns the lock if `L` does: the guard of a [`MultiLock`](crate::MultiLock), a
/// [`MultiGuard`](crate::MultiGuard), can be stored, returned and sent to another thread. The guard
/// of a `&dyn Lock` borrows the lock.
///
/// A lock whose type is known has a [`Guard`](crate::Guard), which releases only its own hold. A
/// `LockGuard` unlocks whatever hold the lock has at that moment. If the hold belongs to a thread,
/// only that thread can release it: on another thread, the unlock fails with
/// [`NotOwner`](crate::Error::NotOwner) or [`NotHeld`](crate::Error::NotHeld), and the lock stays
/// locked.
#[derive(Debug)]
#[must_use = "if unused the lock is released at once"]
pub struct LockGuard<L: Lock> {
    lock: L,
    is_released: bool,
}

impl<L: Lock> LockGuard<L> {
    pub(crate) fn new(lock: L) -> LockGuard<L> {
        LockGuard { lock, is_released: false }
    }

    /// Returns the holds of the lock, as [`Lock::holds`] does, for their fencing tokens and their
    /// loss. Never blocks.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        self.lock.holds()
    }

    /// Returns whether the lock is held, as [`Lock::is_held`] does. Never blocks.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lock.is_held()
    }

    /// Returns an empty transaction, which the servers carry out only while all the
    /// [`holds`](LockGuard::holds) are held. All of them must belong to one client. Nothing is sent
    /// before [`commit`](Transaction::commit).
    ///
    /// ```no_run
    /// # fn f(both: &zoolock::MultiLock) -> zoolock::Result<()> {
    /// let locked = both.acquire()?;
    /// locked.transaction()?.set("/balances/17", "1", None).set("/balances/4", "9", None).commit()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotHeld`] if there is no hold, because the lock was unlocked without this guard, or
    /// its type has no holds.
    pub fn transaction(&self) -> Result<Transaction> {
        let mut holds = self.holds().into_iter();
        let first = holds.next();
        let first = first.ok_or_else(|| Error::not_held(self.lock.path()))?;
        Ok(holds.fold(first.transaction(), |transaction, hold| transaction.and_held(&hold)))
    }

    /// Releases the lock and returns the result. Waits as [`Lock::unlock`] does.
    ///
    /// # Errors
    /// As [`Lock::unlock`].
    pub fn release(mut self) -> Result<()> {
        self.is_released = true;
        self.lock.unlock()
    }
}

impl<L: Lock> Drop for LockGuard<L> {
    fn drop(&mut self) {
        // If `unlock` panics, that panic is caught: during another panic, it would end the process.
        // The panic hook has already reported it.
        if !self.is_released
            && let Some(released) = caught(|| self.lock.unlock())
        {
            log_drop("guard", released);
        }
    }
}

impl dyn Lock + '_ {
    /// Acquires the lock until the returned guard is dropped. Waits like [`lock`](Lock::lock).
    ///
    /// # Errors
    /// As [`Lock::lock_within`].
    pub fn acquire(&self) -> Result<LockGuard<&Self>> {
        surely(self.acquire_within(Wait::FOREVER)?, self.path())
    }

    /// Like [`try_lock`](Lock::try_lock), with a guard.
    ///
    /// # Errors
    /// As [`Lock::lock_within`].
    pub fn try_acquire(&self) -> Result<Option<LockGuard<&Self>>> {
        self.acquire_within(Wait::TRY)
    }

    /// Like [`lock_within`](Lock::lock_within), with a guard. `wait` may also be a `Duration` or an
    /// `Instant`.
    ///
    /// # Errors
    /// As [`Lock::lock_within`].
    pub fn acquire_within(&self, wait: impl Into<Wait>) -> Result<Option<LockGuard<&Self>>> {
        Ok(self.lock_within(wait.into())?.then(|| LockGuard::new(self)))
    }
}
