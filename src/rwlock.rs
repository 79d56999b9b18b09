//! The read-write lock.

use std::sync::Arc;

use crate::exclusive::{constructors, exclusive_methods};
use crate::guard::ReentrantGuard;
use crate::level::{Ownership, Readers, TwoLevel};
use crate::names::Mode;

/// A fair read-write lock: any number of readers, or one writer alone.
///
/// [`read_lock`](DistributedRwLock::read_lock) and [`write_lock`](DistributedRwLock::write_lock)
/// are handles to the two sides, each a [`Lock`](crate::Lock). Clones, and all handles made from
/// them, belong to the same object.
///
/// # Who owns a hold
/// A thread, on both sides, which may enter again, without a request, and has to unlock as often.
/// Readers of one process do not share a node: each thread has its own place in the queue. Writers
/// of one object queue in the process first, and only the first of them in ZooKeeper.
///
/// # Write, then read
/// A thread that holds the write may take the read as well, and gets it at once, in the same place
/// of the queue. When it then unlocks the write it goes on as a reader, without a gap: no writer
/// that waits comes between. The read has the [fencing token](crate::Hold::fencing_token) of the
/// write.
///
/// The other way round would wait for itself: taking the write while holding a read is
/// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock), and `Ok(false)` from `try_lock`.
///
/// # On one path with other locks
/// A [`DistributedLock`](crate::DistributedLock) on the same path counts as a writer.
///
/// # Guarantees
/// - While a write is held nobody else of the path writes or reads but its own thread; while a read
///   is held nobody writes. What "held" means is told at
///   [`DistributedLock`](crate::DistributedLock#guarantees).
/// - The fencing token of a write is higher than that of all holds before. Readers that share have
///   tokens in no order among themselves.
/// - Between a write and the read that its thread took under it, no other writer comes.
///
/// # Fairness
/// First come, first served among all clients: a reader waits for writers that came before it and
/// for no later one, so neither side starves. A release wakes only those it lets in: one writer,
/// or the readers that waited for that very writer.
///
/// # When the session dies
/// As for [`DistributedReentrantLock`](crate::DistributedReentrantLock#when-the-session-dies), on
/// both sides.
///
/// # Errors
/// Those of [`DistributedReentrantLock`](crate::DistributedReentrantLock#errors), with what
/// [`ReadLock`](ReadLock#errors) and [`WriteLock`](WriteLock#errors) say of them.
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
#[derive(Debug, Clone)]
pub struct DistributedRwLock {
    read: Arc<Readers>,
    write: Arc<TwoLevel>,
}

constructors!(DistributedRwLock, |site| {
    let write = TwoLevel::at(site, Mode::Write, Ownership::ThisThread);
    let read = Readers::new(Arc::clone(&write));
    DistributedRwLock { read, write }
});

impl DistributedRwLock {
    /// The lock's path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.write.path()
    }

    /// The reading side. No I/O.
    pub fn read_lock(&self) -> ReadLock {
        let inner = Arc::clone(&self.read);
        ReadLock { inner }
    }

    /// The writing side. No I/O.
    pub fn write_lock(&self) -> WriteLock {
        let (inner, _read) = (Arc::clone(&self.write), Arc::clone(&self.read));
        WriteLock { inner, _read }
    }
}

/// The reading side of a [`DistributedRwLock`]; a handle, of which there may be many. A thread that
/// ends while it holds a read keeps it until the client is closed or the object's last handle is
/// dropped.
///
/// # Guarantees
/// While a read is held, no other client and no other thread writes; see
/// [`DistributedRwLock`](DistributedRwLock#guarantees).
///
/// # Fairness
/// A read waits for the writers that came before it. A thread that reads, or writes, enters again
/// past all who wait.
///
/// # When the session dies
/// Each thread's read ends for itself; else as for
/// [`DistributedReentrantLock`](crate::DistributedReentrantLock#when-the-session-dies).
///
/// # Errors
/// Those of [`DistributedLock`](crate::DistributedLock#errors);
/// [`WouldDeadlock`](crate::Error::WouldDeadlock) when this thread holds the write through another
/// object of the same client and would wait for itself; [`Lost`](crate::Error::Lost) when it reads
/// again, or under its write, what it has lost. Unlocking what another thread has read-locked is
/// [`NotHeld`](crate::Error::NotHeld).
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
#[derive(Debug, Clone)]
#[must_use = "does nothing until lock() or acquire()"]
pub struct ReadLock {
    inner: Arc<Readers>,
}

/// The writing side of a [`DistributedRwLock`]; a handle, of which there may be many. A thread that
/// ends while it holds the write keeps it until the client is closed or the object's last handle is
/// dropped.
///
/// # Guarantees
/// While the write is held, nobody else writes or reads; see
/// [`DistributedRwLock`](DistributedRwLock#guarantees).
///
/// # Fairness
/// A write waits for all who came before it. The writers of one object queue in the process first.
///
/// # When the session dies
/// As for [`DistributedReentrantLock`](crate::DistributedReentrantLock#when-the-session-dies).
///
/// # Errors
/// Those of [`DistributedReentrantLock`](crate::DistributedReentrantLock#errors);
/// [`WouldDeadlock`](crate::Error::WouldDeadlock) also when this thread holds a read, which it would
/// wait for: unlock the read first.
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
#[derive(Debug, Clone)]
#[must_use = "does nothing until lock() or acquire()"]
pub struct WriteLock {
    inner: Arc<TwoLevel>,
    /// The rest of the object: a read lasts for as long as a handle to either side.
    _read: Arc<Readers>,
}

impl ReadLock {
    /// How often the calling thread has read-locked and not unlocked; a lost hold counts until its
    /// unlocks have reported it. No I/O.
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.inner.depth()
    }
}

impl WriteLock {
    /// How often the calling thread has write-locked and not unlocked; a lost hold counts until
    /// its unlocks have reported it. No I/O.
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.inner.depth()
    }
}

exclusive_methods!(ReadLock, ReentrantGuard);
exclusive_methods!(WriteLock, ReentrantGuard);
