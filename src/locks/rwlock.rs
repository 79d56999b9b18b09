//! The read-write lock.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::kind::LockKind;
use crate::base::options::LockOptions;
use crate::client::Client;
use crate::held::guard::ThisThread;
use crate::locks::handle::{LockHandle, Read, Write};
use crate::process::{RawLock, Readers, Site, TwoLevel};

/// A fair read-write lock: any number of readers, or one writer alone.
///
/// [`read_lock`](DistributedRwLock::read_lock) and [`write_lock`](DistributedRwLock::write_lock)
/// return handles to the two sides, each of which is a [`Lock`](crate::Lock). Clones, and all
/// handles made from them, belong to the same object.
///
/// # Who owns a hold
/// On both sides, a thread. It may lock again without a request, and must unlock as often. Readers
/// of one process do not share a node: each thread has its own queue position. Writers of one
/// client at one path queue in the process first, and only the first of them queues in ZooKeeper.
/// [Objects at one path](crate::DistributedLock#several-objects-at-one-path) share that queue, and
/// each has its own holds.
///
/// # Write, then read
/// A thread that holds the write may take the read as well. It gets the read at once, at the same
/// queue position. After it unlocks the write it continues as a reader, and no waiting writer comes
/// between. The read has the [fencing token](crate::Hold::fencing_token) of the write.
///
/// The reverse is impossible, because the thread would wait for itself. Taking the write while
/// holding a read returns [`Error::WouldDeadlock`](crate::Error::WouldDeadlock), or `Ok(false)`
/// from `try_lock`.
///
/// # On one path with other locks
/// A [`DistributedLock`](crate::DistributedLock) on the same path counts as a writer.
///
/// # Guarantees
/// - While a write is held, only its thread writes or reads. While a read is held, no thread
///   writes. [`DistributedLock`](crate::DistributedLock#guarantees) says what "held" means.
/// - The fencing token of a write is higher than those of all earlier holds. The tokens of readers
///   that share the lock are in no particular order.
/// - No other writer comes between a write and the read that its thread took under it.
///
/// # Fairness
/// First come, first served among all clients. A reader waits only for earlier writers, so neither
/// side starves. A release wakes only the contenders that it lets in: one writer, or the readers
/// that waited for that writer.
///
/// # When the session dies
/// As for [`DistributedReentrantLock`](crate::DistributedReentrantLock#when-the-session-dies), on
/// both sides.
///
/// # Errors
/// Those of [`DistributedReentrantLock`](crate::DistributedReentrantLock#errors).
/// [`ReadLock`](ReadLock#errors) and [`WriteLock`](WriteLock#errors) say when they occur.
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
///     let _reading = lock.read_lock().acquire()?; // beside other readers
///     load();
/// }
/// let writing = lock.write_lock().acquire()?; // alone
/// store();
/// let _reading = lock.read_lock().acquire()?; // still alone
/// writing.release()?; // other readers may come in, no writer did in between
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
    /// Creates a lock like [`DistributedLock::new`](crate::DistributedLock::new). No I/O.
    ///
    /// # Errors
    /// As that call.
    pub fn new(client: &Client, path: impl AsRef<str>) -> Result<DistributedRwLock> {
        DistributedRwLock::with_options(client, path, LockOptions::new())
    }

    /// Creates a lock like
    /// [`DistributedLock::with_options`](crate::DistributedLock::with_options). No I/O.
    ///
    /// # Errors
    /// As that call.
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

    /// Returns a handle to the reading side. No I/O.
    #[must_use = "does nothing until lock() or acquire()"]
    pub fn read_lock(&self) -> ReadLock {
        LockHandle::of(Arc::clone(&self.read) as _)
    }

    /// Returns a handle to the writing side. No I/O.
    #[must_use = "does nothing until lock() or acquire()"]
    pub fn write_lock(&self) -> WriteLock {
        LockHandle::of(Arc::clone(&self.write) as _).beside(Arc::clone(&self.read))
    }
}

/// The reading side of a [`DistributedRwLock`]. It is a handle, and an object may have many of
/// them.
///
/// A thread that ends while it holds a read keeps it until the client is closed or the last handle
/// of the object is dropped.
///
/// # Guarantees
/// While a read is held, no other client and no other thread writes; see
/// [`DistributedRwLock`](DistributedRwLock#guarantees).
///
/// # Fairness
/// A reader waits for earlier writers. A thread that holds a read or the write locks again ahead of
/// all waiters.
///
/// # When the session dies
/// Each thread's read ends separately. Otherwise as for
/// [`DistributedReentrantLock`](crate::DistributedReentrantLock#when-the-session-dies).
///
/// # Errors
/// Those of [`DistributedLock`](crate::DistributedLock#errors), and:
/// - [`WouldDeadlock`](crate::Error::WouldDeadlock) when this thread would wait for itself: it holds
///   the write through another object of the same client, or a read, and a writer is in between.
/// - [`Lost`](crate::Error::Lost) when the thread locks again, or reads under its write, after it
///   has lost that hold.
/// - [`NotHeld`](crate::Error::NotHeld) when a thread unlocks a read of another thread.
///
/// # Example
/// ```no_run
/// # fn load() {}
/// # fn f(config: &zoolock::DistributedRwLock) -> zoolock::Result<()> {
/// let _reading = config.read_lock().acquire()?; // beside other readers
/// load();
/// # Ok(())
/// # }
/// ```
pub type ReadLock = LockHandle<Read, ThisThread>;

/// The writing side of a [`DistributedRwLock`]. It is a handle, and an object may have many of
/// them.
///
/// A thread that ends while it holds the write keeps it until the client is closed or the last
/// handle of the object is dropped.
///
/// # Guarantees
/// While the write is held, no other thread writes or reads; see
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
/// [`WouldDeadlock`](crate::Error::WouldDeadlock) also when this thread holds a read, for which it
/// would wait: unlock the read first.
///
/// # Example
/// ```no_run
/// # fn store() {}
/// # fn f(config: &zoolock::DistributedRwLock) -> zoolock::Result<()> {
/// let writing = config.write_lock().acquire()?; // alone
/// store();
/// writing.release()?;
/// # Ok(())
/// # }
/// ```
pub type WriteLock = LockHandle<Write, ThisThread>;
