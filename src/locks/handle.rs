//! The lock object of every kind with one hold: its methods, written once.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::base::contender::Contender;
use crate::base::error::Result;
use crate::base::kind::LockKind;
use crate::base::options::LockOptions;
use crate::base::wait::{Wait, surely};
use crate::client::Client;
use crate::held::guard::{AnyThread, Guard, ThisThread};
use crate::held::hold::Hold;
use crate::locks::locker::{Lock, LockId};
use crate::process::{RawLock, Readers, Site, TwoLevel};

/// An exclusive lock: a queue for one holder.
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
/// The documentation of each lock type says what it guarantees. This page has the methods, which
/// mean the same for all of them. Programs use the names of the lock types; code for locks of any
/// type takes a [`dyn Lock`](Lock). The parameters only tell the types apart: `K` is the kind of
/// lock, and `O` says who may unlock, any thread or only the thread that locked.
///
/// A clone is the same lock object. Another thread can end a waiting call, with
/// [`cancel_waiters`](Self::cancel_waiters) or [`Client::close`].
pub struct LockHandle<K, O = AnyThread> {
    raw: Arc<dyn RawLock>,
    /// Keeps the reading side alive: a read lasts as long as a handle to either side.
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

    /// Keeps the reading side alive as long as the handle.
    pub(crate) fn beside(self, reads: Arc<Readers>) -> Self {
        LockHandle { reads: Some(reads), ..self }
    }
}

#[expect(private_bounds, reason = "only the kinds of this crate are made at a path")]
impl<K, O> LockHandle<K, O>
where
    Self: AtPath,
{
    /// Creates a lock at `path`, an absolute path below the client's chroot. No I/O. Handles of a
    /// read-write lock come from their [`DistributedRwLock`](crate::DistributedRwLock) instead.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath), which says which rule the path breaks.
    pub fn new(client: &Client, path: impl AsRef<str>) -> Result<Self> {
        Self::with_options(client, path, LockOptions::new())
    }

    /// Creates a lock like [`new`](Self::new), with these options. No I/O.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath).
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an identity that is too long
    ///   or would be read as a revocation request, and for a value that the type of lock does not
    ///   take; each [option](LockOptions) says which.
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

    /// Acquires the lock. Waits without a limit, also for a connection.
    ///
    /// # Errors
    /// [`Cancelled`](crate::Error::Cancelled), [`Closed`](crate::Error::Closed),
    /// [`PermissionDenied`](crate::Error::PermissionDenied),
    /// [`LimitExceeded`](crate::Error::LimitExceeded), and the errors that the lock type's
    /// documentation adds.
    pub fn lock(&self) -> Result<()> {
        surely(self.raw.acquire(Wait::FOREVER)?, self.path()).map(drop)
    }

    /// Acquires the lock if it is free, in this process and all others. Waits for the servers'
    /// answers only, for at most a third of the session timeout. Returns false if another contender
    /// is ahead.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`Disconnected`](crate::Error::Disconnected) if the client
    /// cannot find out whether the lock is free.
    pub fn try_lock(&self) -> Result<bool> {
        self.lock_within(Wait::TRY)
    }

    /// Acquires the lock. Waits for at most `timeout`, which includes the wait for a connection. A
    /// timeout too large for the clock waits forever. A zero timeout is the same as
    /// [`try_lock`](Self::try_lock). Returns false if another contender was ahead until then.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`Disconnected`](crate::Error::Disconnected) if the client has
    /// not found out by then whether the lock is free.
    pub fn try_lock_for(&self, timeout: Duration) -> Result<bool> {
        self.lock_within(timeout)
    }

    /// Acquires the lock. Waits as long as `wait` says: a [`Wait`], a `Duration`, or an `Instant`.
    /// Returns false if another contender was ahead until then.
    ///
    /// # Errors
    /// As [`try_lock_for`](Self::try_lock_for).
    pub fn lock_within(&self, wait: impl Into<Wait>) -> Result<bool> {
        self.raw.acquire(wait.into()).map(|got| got.is_some())
    }

    /// Unlocks the lock once. Waits for the answer for at most a third of the session timeout. A
    /// deletion without an answer by then is completed in the background.
    ///
    /// # Errors
    /// - [`Lost`](crate::Error::Lost) if the hold was lost. No other holder's node was touched, and
    ///   the lock can be used again.
    /// - [`NotHeld`](crate::Error::NotHeld) if the lock is not locked.
    /// - [`PermissionDenied`](crate::Error::PermissionDenied) if the server refuses to delete the
    ///   node, which then ends with the session.
    /// - The errors that the lock type's documentation adds.
    pub fn unlock(&self) -> Result<()> {
        self.raw.release_once(None)
    }

    /// Acquires the lock until the returned guard is dropped. Waits like [`lock`](Self::lock).
    /// Where a thread owns the hold, the guard is a [`ReentrantGuard`](crate::ReentrantGuard).
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub fn acquire(&self) -> Result<Guard<O>> {
        surely(self.acquire_within(Wait::FOREVER)?, self.path())
    }

    /// Like [`try_lock`](Self::try_lock), with a guard.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    pub fn try_acquire(&self) -> Result<Option<Guard<O>>> {
        self.acquire_within(Wait::TRY)
    }

    /// Like [`try_lock_for`](Self::try_lock_for), with a guard.
    ///
    /// # Errors
    /// As [`try_lock_for`](Self::try_lock_for).
    pub fn try_acquire_for(&self, timeout: Duration) -> Result<Option<Guard<O>>> {
        self.acquire_within(timeout)
    }

    /// Like [`lock_within`](Self::lock_within), with a guard.
    ///
    /// # Errors
    /// As [`try_lock_for`](Self::try_lock_for).
    pub fn acquire_within(&self, wait: impl Into<Wait>) -> Result<Option<Guard<O>>> {
        let got = self.raw.acquire(wait.into())?;
        Ok(got.map(|grant| Guard::new(self.raw.hold_of(grant), Arc::clone(&self.raw) as _)))
    }

    /// Returns whether the lock is held. Where a thread owns the hold, returns whether the calling
    /// thread holds it. Reads the clocks; no I/O, never blocks.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold().is_some_and(|hold| hold.is_held())
    }

    /// Returns the hold, for its token, loss and state after `lock()`. Where a thread owns the
    /// hold, returns the hold of the calling thread. Returns a lost hold until the unlock that
    /// reports its loss. No I/O, never blocks.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        self.raw.hold()
    }

    /// Returns the holders and waiters of the lock, in order, like [`Client::contenders`]. Blocks
    /// for at most a session timeout.
    ///
    /// # Errors
    /// [`Disconnected`](crate::Error::Disconnected) without a connection or an answer within a
    /// session timeout, [`Closed`](crate::Error::Closed),
    /// [`PermissionDenied`](crate::Error::PermissionDenied).
    pub fn contenders(&self) -> Result<Vec<Contender>> {
        self.raw.site().contenders()
    }

    /// Cancels all calls that wait on this object or a clone of it. They return
    /// [`Cancelled`](crate::Error::Cancelled), and their nodes are deleted. Later calls are not
    /// affected. Does not block.
    pub fn cancel_waiters(&self) {
        self.raw.cancel_waiters();
    }
}

impl<K> LockHandle<K, ThisThread> {
    /// Returns how many times the calling thread has locked without unlocking. A lost hold counts
    /// until its unlocks have reported the loss. No I/O, never blocks.
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
