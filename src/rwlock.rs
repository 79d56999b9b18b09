//! The read-write lock.

use std::sync::Arc;

use crate::client::Client;
use crate::error::Result;
use crate::exclusive::exclusive_methods;
use crate::guard::ReentrantGuard;
use crate::local::Ownership;
use crate::node::Kind;
use crate::options::LockOptions;
use crate::readers::Readers;
use crate::site::Site;
use crate::two_level::TwoLevel;

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
/// # Fairness
/// First come, first served among all clients: a reader waits for writers that came before it and
/// for no later one, so neither side starves. A release wakes only those it lets in: one writer,
/// or the readers that waited for that very writer.
///
/// # When the session dies
/// As for [`DistributedReentrantLock`](crate::DistributedReentrantLock), on both sides.
///
/// # On one path with other locks
/// A [`DistributedLock`](crate::DistributedLock) on the same path counts as a writer.
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

impl DistributedRwLock {
    /// A lock at `path`, an absolute path below the client's chroot. No I/O.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath) with the rule that the path breaks.
    pub fn new(client: &Client, path: impl Into<String>) -> Result<DistributedRwLock> {
        DistributedRwLock::with(client, path, LockOptions::new())
    }

    /// [`new`](Self::new), with other settings.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath),
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an identity that is too long.
    pub fn with(
        client: &Client,
        path: impl Into<String>,
        options: LockOptions,
    ) -> Result<DistributedRwLock> {
        let site = Site::new(client, &path.into(), options)?;
        let write = TwoLevel::at(site, Kind::Write, Ownership::ThisThread);
        let read = Readers::new(Arc::clone(&write));
        Ok(DistributedRwLock { read, write })
    }

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

/// The reading side of a [`DistributedRwLock`].
///
/// # Errors beside the common ones
/// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock) when this thread holds the write through
/// another object of the same client and would wait for itself. Unlocking what another thread has
/// read-locked is [`Error::NotHeld`](crate::Error::NotHeld). A thread that ends while it holds a
/// read keeps it until the client is closed or the object's last handle is dropped.
#[derive(Debug, Clone)]
#[must_use = "does nothing until lock() or acquire()"]
pub struct ReadLock {
    inner: Arc<Readers>,
}

/// The writing side of a [`DistributedRwLock`].
///
/// # Errors beside the common ones
/// [`Error::NotOwner`](crate::Error::NotOwner) to another thread's unlock, and
/// [`Error::WouldDeadlock`](crate::Error::WouldDeadlock) when this thread holds a read, or the
/// write through another object of the same client, and would wait for itself. A thread that ends
/// while it holds the write keeps it until the client is closed or the object's last handle is
/// dropped.
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
