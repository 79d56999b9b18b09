//! The lock object, for every kind of lock with a single hold. The methods are written once, for
//! all of these kinds.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::base::contender::Contender;
use crate::base::error::Result;
use crate::base::kind::LockKind;
use crate::base::options::LockOptions;
use crate::base::wait::{Wait, surely};
use crate::client::Client;
use crate::held::guard::{AnyThread, Guard, ThisThread};
use crate::held::hold::Hold;
use crate::locks::any::{Lock, LockId};
use crate::process::{RawLock, Readers, Site, TwoLevel};

/// An exclusive lock: a queue with one holder at a time.
#[derive(Debug)]
pub enum Exclusive {}

/// A lock of one node, without a queue.
#[derive(Debug)]
pub enum SingleNode {}

/// The reading side of a read-write lock.
#[derive(Debug)]
pub enum Read {}

/// The writing side of a read-write lock.
#[derive(Debug)]
pub enum Write {}

/// A lock object. The following lock types are aliases of it, each for one kind of lock:
/// [`DistributedLock`](crate::DistributedLock),
/// [`DistributedReentrantLock`](crate::DistributedReentrantLock),
/// [`EphemeralLock`](crate::EphemeralLock), [`ReadLock`](crate::ReadLock) and
/// [`WriteLock`](crate::WriteLock).
///
/// The documentation of each lock type describes what it guarantees. This page describes the
/// methods, which mean the same for all of them. Programs use the names of the lock types; code for
/// locks of any type takes a [`dyn Lock`](Lock). The type parameters only distinguish the types:
/// `K` is the kind of lock, and `O` determines who may unlock it, any thread or only the thread
/// that locked it.
///
/// A clone is the same lock object. Another thread can end a waiting call with a
/// [`CancelToken`](crate::CancelToken) or with [`Client::close`].
///
/// [`is_held`](Self::is_held), [`hold`](Self::hold) and `hold_count` read the clocks. They send no
/// request and never block.
pub struct LockHandle<K, O = AnyThread> {
    raw: Arc<dyn RawLock>,
    /// Keeps the reading side alive: a read hold can last as long as there is a handle to either
    /// side.
    reads: Option<Arc<Readers>>,
    kind: PhantomData<fn() -> (K, O)>,
}

/// A lock that is created at a path, and is not a side of another lock.
pub(crate) trait AtPath {
    const KIND: LockKind;
}

impl<K, O> LockHandle<K, O> {
    pub(crate) fn of(raw: Arc<dyn RawLock>) -> Self {
        LockHandle { raw, reads: None, kind: PhantomData }
    }

    /// Keeps the reading side alive for as long as the handle exists.
    pub(crate) fn beside(self, reads: Arc<Readers>) -> Self {
        LockHandle { reads: Some(reads), ..self }
    }
}

#[expect(private_bounds, reason = "only the kinds of this crate are made at a path")]
impl<K, O> LockHandle<K, O>
where
    Self: AtPath,
{
    /// Creates a lock at `path`, an absolute path below the client's chroot. Sends no request.
    /// Handles of a read-write lock are returned by their
    /// [`DistributedRwLock`](crate::DistributedRwLock) instead.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath), which contains the rule that the path
    /// breaks.
    pub fn new(client: &Client, path: impl AsRef<str>) -> Result<Self> {
        Self::with_options(client, path, LockOptions::new())
    }

    /// Creates a lock like [`new`](Self::new), with these options. Sends no request.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath).
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an identity that is too long
    ///   or would be read as a revocation request, and for a value that this type of lock does not
    ///   accept; see each [option](LockOptions).
    pub fn with_options(
        client: &Client,
        path: impl AsRef<str>,
        options: LockOptions,
    ) -> Result<Self> {
        let site = Site::new(client, path.as_ref(), Self::KIND, options)?;
        Ok(LockHandle::of(TwoLevel::new(site)))
    }
}

impl<K, O> LockHandle<K, O> {
    /// Returns the lock's path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.raw.path()
    }

    /// Acquires the lock and returns a guard that releases it when dropped. Waits without a limit,
    /// including for a connection. If holds belong to threads, the guard is a
    /// [`ReentrantGuard`](crate::ReentrantGuard).
    ///
    /// # Errors
    /// [`Closed`](crate::Error::Closed), [`PermissionDenied`](crate::Error::PermissionDenied),
    /// [`LimitExceeded`](crate::Error::LimitExceeded), and the errors that the lock type's
    /// documentation adds.
    pub fn acquire(&self) -> Result<Guard<O>> {
        surely(self.acquire_within(Wait::FOREVER)?, self.path())
    }

    /// Acquires the lock if it is free, in this process and all others. Waits only for the servers'
    /// answers, for at most a third of the session timeout. Returns `None` if another contender is
    /// ahead.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Disconnected`](crate::Error::Disconnected) if the
    /// client cannot find out whether the lock is free.
    pub fn try_acquire(&self) -> Result<Option<Guard<O>>> {
        self.acquire_within(Wait::TRY)
    }

    /// Acquires the lock. Waits as long as `wait` allows: a [`Wait`], a `Duration`, or an
    /// `Instant`. The time includes the wait for a connection. If the time is too large for the
    /// clock, the call waits forever; if it is zero, the call only tries. Returns `None` if another
    /// contender was ahead until the wait was over.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), [`Disconnected`](crate::Error::Disconnected) if the client
    /// could not find out in time whether the lock is free, and
    /// [`Cancelled`](crate::Error::Cancelled) if the [token](crate::CancelToken) of `wait` is
    /// cancelled.
    pub fn acquire_within(&self, wait: impl Into<Wait>) -> Result<Option<Guard<O>>> {
        let got = self.raw.acquire(wait.into())?;
        Ok(got.map(|grant| Guard::new(self.raw.hold_of(grant), Arc::clone(&self.raw) as _)))
    }

    /// Acquires the lock like [`acquire`](Self::acquire), without a guard. Nothing but
    /// [`unlock`](Self::unlock) releases it, not even a panic.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub fn lock(&self) -> Result<()> {
        surely(self.raw.acquire(Wait::FOREVER)?, self.path()).map(drop)
    }

    /// Acquires the lock like [`try_acquire`](Self::try_acquire), without a guard. Returns false if
    /// another contender is ahead.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub fn try_lock(&self) -> Result<bool> {
        self.lock_within(Wait::TRY)
    }

    /// Acquires the lock like [`acquire_within`](Self::acquire_within), without a guard. Returns
    /// false if another contender was ahead until the wait was over.
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within).
    pub fn lock_within(&self, wait: impl Into<Wait>) -> Result<bool> {
        self.raw.acquire(wait.into()).map(|got| got.is_some())
    }

    /// Unlocks the lock once. Waits for the answer for at most a third of the session timeout. If
    /// no answer has come in that time, the node is deleted in the background.
    ///
    /// # Errors
    /// - [`Lost`](crate::Error::Lost) if the hold was lost. No other holder's node was touched, and
    ///   the lock can be used again.
    /// - [`NotHeld`](crate::Error::NotHeld) if the lock is not held.
    /// - [`PermissionDenied`](crate::Error::PermissionDenied) if the server refuses to delete the
    ///   node, which then ends with the session.
    /// - The errors that the lock type's documentation adds.
    pub fn unlock(&self) -> Result<()> {
        self.raw.release_once(None)
    }

    /// Returns whether the lock is held. If holds belong to threads, returns whether the calling
    /// thread holds it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold().is_some_and(|hold| hold.is_held())
    }

    /// Returns the hold, which has its token, state and loss. Use this after `lock()`, which
    /// returns no guard. If holds belong to threads, returns the hold of the calling thread.
    /// Returns a lost hold until the unlock that reports its loss.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        self.raw.hold()
    }

    /// Returns the holders and waiters of the lock, in order, like [`Client::contenders`]. Blocks
    /// for at most a session timeout.
    ///
    /// # Errors
    /// [`Disconnected`](crate::Error::Disconnected) without a connection or an answer within a
    /// session timeout; [`Closed`](crate::Error::Closed),
    /// [`PermissionDenied`](crate::Error::PermissionDenied).
    pub fn contenders(&self) -> Result<Vec<Contender>> {
        self.raw.site().contenders()
    }
}

impl<K> LockHandle<K, ThisThread> {
    /// Returns how many times the calling thread has locked without unlocking. A lost hold counts
    /// until its unlocks have reported the loss.
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.raw.depth()
    }
}

impl<K, O> Lock for LockHandle<K, O> {
    fn path(&self) -> &str {
        LockHandle::path(self)
    }

    fn id(&self) -> LockId {
        LockId::of(self.raw.site(), Arc::as_ptr(&self.raw).cast())
    }

    fn lock_within(&self, wait: Wait) -> Result<bool> {
        LockHandle::lock_within(self, wait)
    }

    fn unlock(&self) -> Result<()> {
        LockHandle::unlock(self)
    }

    fn is_held(&self) -> bool {
        LockHandle::is_held(self)
    }

    fn holds(&self) -> Vec<Hold> {
        self.hold().into_iter().collect()
    }
}

impl<K: 'static, O: 'static> From<LockHandle<K, O>> for Box<dyn Lock> {
    fn from(lock: LockHandle<K, O>) -> Box<dyn Lock> {
        Box::new(lock)
    }
}

// Not derived, because that would require `Clone` of the parameters.
impl<K, O> Clone for LockHandle<K, O> {
    fn clone(&self) -> Self {
        LockHandle { raw: Arc::clone(&self.raw), reads: self.reads.clone(), kind: PhantomData }
    }
}

impl<K, O> fmt::Debug for LockHandle<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockHandle").field(&self.raw).finish()
    }
}
