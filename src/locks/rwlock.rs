//! The read-write lock.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::kind::LockKind;
use crate::base::options::LockOptions;
use crate::base::wait::Wait;
use crate::client::Client;
use crate::held::guard::{ReentrantGuard, ThisThread};
use crate::locks::handle::{LockHandle, Read, Write};
use crate::process::{RawLock, Readers, Site, TwoLevel};

/// A fair read-write lock: any number of readers, or one writer alone.
///
/// [`read`](DistributedRwLock::read), [`write`](DistributedRwLock::write) and their variants return
/// guards. [`reader`](DistributedRwLock::reader) and [`writer`](DistributedRwLock::writer) return
/// handles to the two sides, each of which is a [`Lock`](crate::Lock). Clones, and all handles that
/// they return, belong to the same object.
///
/// # Who owns a hold
/// On both sides, a hold belongs to a thread. That thread may lock again without a request, and
/// must unlock as many times as it locked. Readers of one process do not share a node: each thread
/// has its own queue position. Writers of one client at one path queue in the process first, and
/// only the first of them queues in ZooKeeper. [Objects at one
/// path](crate::DistributedLock#several-objects-at-one-path) share that queue, and each has its own
/// holds.
///
/// # Write, then read
/// A thread that holds the write lock may also take the read lock. The thread gets the read lock at
/// once, at the same queue position. After it unlocks the write lock, it continues as a reader, and
/// no waiting writer is admitted in between. The read hold has the [fencing
/// token](crate::Hold::fencing_token) of the write hold.
///
/// The reverse is impossible, because the thread would wait for itself. Taking the write lock while
/// holding a read lock returns [`Error::WouldDeadlock`](crate::Error::WouldDeadlock), or
/// `Ok(false)` from `try_lock`.
///
/// # On one path with other locks
/// A [`DistributedLock`](crate::DistributedLock) on the same path counts as a writer.
///
/// # Guarantees
/// - While the write lock is held, only its thread writes or reads. While a read lock is held, no
///   thread writes. [`DistributedLock`](crate::DistributedLock#guarantees) defines "held".
/// - The fencing token of a write hold is higher than those of all earlier holds. The tokens of
///   readers that share the lock are in no particular order.
/// - If a thread takes the read lock while it holds the write lock, no other writer is admitted
///   between these two holds.
///
/// # Fairness
/// First come, first served among all clients. A reader waits only for earlier writers, so neither
/// side starves. A release wakes only the contenders that it admits: one writer, or the readers
/// that waited for that writer.
///
/// # When the session dies
/// As for [`DistributedReentrantLock`](crate::DistributedReentrantLock#when-the-session-dies), on
/// both sides.
///
/// # Errors
/// Those of [`DistributedReentrantLock`](crate::DistributedReentrantLock#errors).
/// [`ReadLock`](ReadLock#errors) and [`WriteLock`](WriteLock#errors) describe when they occur.
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Client, DistributedRwLock};
///
/// # fn load() {}
/// # fn store() {}
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::connect("127.0.0.1:2181", Duration::from_secs(10))?;
/// let lock = DistributedRwLock::new(&client, "/locks/config")?;
/// {
///     let _reading = lock.read()?; // alongside other readers
///     load();
/// }
/// let writing = lock.write()?; // alone
/// store();
/// let _reading = lock.read()?; // still alone
/// writing.release()?; // admits other readers; no writer was admitted in between
/// load();
/// # Ok(())
/// # }
/// ```
#[doc(alias("InterProcessReadWriteLock", "RReadWriteLock"))]
#[derive(Debug, Clone)]
pub struct DistributedRwLock {
    read: Arc<Readers>,
    write: Arc<TwoLevel>,
}

impl DistributedRwLock {
    /// Creates a lock like [`DistributedLock::new`](crate::DistributedLock::new). Sends no request.
    ///
    /// # Errors
    /// The same as for that call.
    pub fn new(client: &Client, path: impl AsRef<str>) -> Result<DistributedRwLock> {
        DistributedRwLock::with_options(client, path, LockOptions::new())
    }

    /// Creates a lock like [`DistributedLock::with_options`](crate::DistributedLock::with_options).
    /// Sends no request.
    ///
    /// # Errors
    /// The same as for that call.
    pub fn with_options(
        client: &Client,
        path: impl AsRef<str>,
        options: LockOptions,
    ) -> Result<DistributedRwLock> {
        let write = TwoLevel::new(Site::new(client, path.as_ref(), LockKind::Write, options)?);
        let read = Readers::new(Arc::clone(&write));
        Ok(DistributedRwLock { read, write })
    }

    /// Returns the lock's path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.write.path()
    }

    /// Acquires the lock as a reader, alongside other readers. The guard releases it when dropped.
    /// Waits without a limit, including for a connection.
    ///
    /// # Errors
    /// As [`LockHandle::acquire`], and those of [`ReadLock`](ReadLock#errors).
    pub fn read(&self) -> Result<ReentrantGuard> {
        self.reader().acquire()
    }

    /// Acquires the lock as a reader if no writer has it or waits for it. Waits only for the
    /// servers' answers, for at most a third of the session timeout.
    ///
    /// # Errors
    /// As [`LockHandle::try_acquire`], and those of [`ReadLock`](ReadLock#errors).
    pub fn try_read(&self) -> Result<Option<ReentrantGuard>> {
        self.reader().try_acquire()
    }

    /// Acquires the lock as a reader. Waits as long as `wait` allows: a [`Wait`], a `Duration`, or
    /// an `Instant`.
    ///
    /// # Errors
    /// As [`LockHandle::acquire_within`], and those of [`ReadLock`](ReadLock#errors).
    pub fn read_within(&self, wait: impl Into<Wait>) -> Result<Option<ReentrantGuard>> {
        self.reader().acquire_within(wait)
    }

    /// Acquires the lock as the only writer, without readers. The guard releases it when dropped.
    /// Waits without a limit, including for a connection.
    ///
    /// # Errors
    /// As [`LockHandle::acquire`], and those of [`WriteLock`](WriteLock#errors).
    pub fn write(&self) -> Result<ReentrantGuard> {
        self.writer().acquire()
    }

    /// Acquires the lock as the only writer if no other contender has it or waits for it. Waits
    /// only for the servers' answers, for at most a third of the session timeout.
    ///
    /// # Errors
    /// As [`LockHandle::try_acquire`], and those of [`WriteLock`](WriteLock#errors).
    pub fn try_write(&self) -> Result<Option<ReentrantGuard>> {
        self.writer().try_acquire()
    }

    /// Acquires the lock as the only writer. Waits as long as `wait` allows: a [`Wait`], a
    /// `Duration`, or an `Instant`.
    ///
    /// # Errors
    /// As [`LockHandle::acquire_within`], and those of [`WriteLock`](WriteLock#errors).
    pub fn write_within(&self, wait: impl Into<Wait>) -> Result<Option<ReentrantGuard>> {
        self.writer().acquire_within(wait)
    }

    /// Returns a handle to the reading side, which is a [`Lock`](crate::Lock). Sends no request.
    #[must_use = "does nothing until lock() or acquire()"]
    pub fn reader(&self) -> ReadLock {
        LockHandle::of(Arc::clone(&self.read) as _)
    }

    /// Returns a handle to the writing side, which is a [`Lock`](crate::Lock). Sends no request.
    #[must_use = "does nothing until lock() or acquire()"]
    pub fn writer(&self) -> WriteLock {
        LockHandle::of(Arc::clone(&self.write) as _).beside(Arc::clone(&self.read))
    }
}

/// The reading side of a [`DistributedRwLock`]. This type is a handle, of which a lock object may
/// have many.
///
/// If a thread ends while it holds the read lock, the lock stays held until the client is closed or
/// the last handle of the object is dropped.
///
/// # Guarantees
/// While the read lock is held, no other client and no other thread writes; see
/// [`DistributedRwLock`](DistributedRwLock#guarantees).
///
/// # Fairness
/// A reader waits for earlier writers. A thread that already holds the read or the write lock is
/// ahead of all waiters when it locks again.
///
/// # When the session dies
/// Each thread's read hold ends separately. Otherwise as for
/// [`DistributedReentrantLock`](crate::DistributedReentrantLock#when-the-session-dies).
///
/// # Errors
/// Those of [`DistributedLock`](crate::DistributedLock#errors), and:
/// - [`WouldDeadlock`](crate::Error::WouldDeadlock) if this thread would wait for itself. This is
///   the case if it holds the write lock through another object of the same client, or if it holds
///   the read lock through another object and a writer waits in between.
/// - [`Lost`](crate::Error::Lost) if the thread has lost a read hold and locks again, or has lost a
///   write hold and takes the read lock.
/// - [`NotHeld`](crate::Error::NotHeld) if a thread unlocks a read hold of another thread.
///
/// # Example
/// ```no_run
/// # fn load() {}
/// # fn f(config: &zoolock::DistributedRwLock) -> zoolock::Result<()> {
/// let _reading = config.read()?; // alongside other readers
/// load();
/// # Ok(())
/// # }
/// ```
pub type ReadLock = LockHandle<Read, ThisThread>;

/// The writing side of a [`DistributedRwLock`]. This type is a handle, of which a lock object may
/// have many.
///
/// If a thread ends while it holds the write lock, the lock stays held until the client is closed
/// or the last handle of the object is dropped.
///
/// # Guarantees
/// While the write lock is held, no other thread writes or reads; see
/// [`DistributedRwLock`](DistributedRwLock#guarantees).
///
/// # Fairness
/// A writer waits for all earlier contenders. The writers of one client queue in the process first.
///
/// # When the session dies
/// As for [`DistributedReentrantLock`](crate::DistributedReentrantLock#when-the-session-dies).
///
/// # Errors
/// Those of [`DistributedReentrantLock`](crate::DistributedReentrantLock#errors).
/// [`WouldDeadlock`](crate::Error::WouldDeadlock) is also returned if this thread holds the read
/// lock, for which it would wait: unlock the read lock first.
///
/// # Example
/// ```no_run
/// # fn store() {}
/// # fn f(config: &zoolock::DistributedRwLock) -> zoolock::Result<()> {
/// let writing = config.write()?; // alone
/// store();
/// writing.release()?;
/// # Ok(())
/// # }
/// ```
pub type WriteLock = LockHandle<Write, ThisThread>;
