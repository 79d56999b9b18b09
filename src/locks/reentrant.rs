//! The exclusive lock whose hold belongs to a thread.

use crate::base::kind::LockKind;
use crate::held::guard::ThisThread;
use crate::locks::handle::{AtPath, Exclusive, LockHandle};

/// A fair exclusive lock that belongs to a thread, which may lock it again.
///
/// The lock has two queues: the in-process queue of the client's threads at this path, and the
/// queue in ZooKeeper. They are released in reverse order, which spares the waiting threads of one
/// process most of the network requests. [Objects at one
/// path](crate::DistributedLock#several-objects-at-one-path) share the in-process queue, and each
/// has its own holds: only the thread and the object that locked can lock again. Re-entry costs no
/// request, and the node is deleted at the outermost unlock. A clone is the same object. If a
/// thread ends while it holds the lock, the lock stays held until the client is closed or the last
/// clone of the object is dropped.
///
/// # Guarantees
/// Those of [`DistributedLock`](crate::DistributedLock#guarantees). In addition, only the owning
/// thread can lock again and unlock. Threads are identified by their
/// [`ThreadId`](std::thread::ThreadId), which is never reused. All nested holds share one fencing
/// token.
///
/// # Fairness
/// First come, first served, both among the clients and among the threads of one client. A client
/// has one queue position at a path, however many threads and objects wait there, and queues anew
/// for each thread. The owner locks again ahead of all waiters.
///
/// # When the session dies
/// As for [`DistributedLock`](crate::DistributedLock#when-the-session-dies). After a loss at depth
/// n, the owner's next `lock()` and each of its n unlocks return
/// [`Error::Lost`](crate::Error::Lost). After the last unlock the lock can be used again.
///
/// # Errors
/// Those of [`DistributedLock`](crate::DistributedLock#errors), and:
/// - [`NotOwner`](crate::Error::NotOwner) if another thread unlocks.
/// - [`WouldDeadlock`](crate::Error::WouldDeadlock) if this thread holds the path through another
///   object of the same client, and would wait for itself. Calls that only try return `Ok(false)`
///   instead.
/// - [`Lost`](crate::Error::Lost) if the owner locks again after it has lost the lock.
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Client, DistributedReentrantLock};
///
/// fn transfer(lock: &DistributedReentrantLock) -> zoolock::Result<()> {
///     let _guard = lock.acquire()?;
///     debit(lock)
/// }
///
/// fn debit(lock: &DistributedReentrantLock) -> zoolock::Result<()> {
///     let _guard = lock.acquire()?; // the same thread: no request, no waiting
///     assert!(lock.hold_count() >= 1);
///     Ok(())
/// }
///
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::connect("127.0.0.1:2181", Duration::from_secs(10))?;
/// transfer(&DistributedReentrantLock::new(&client, "/locks/accounts")?)
/// # }
/// ```
#[doc(alias("InterProcessMutex", "RLock"))]
pub type DistributedReentrantLock = LockHandle<Exclusive, ThisThread>;

impl AtPath for DistributedReentrantLock {
    const KIND: LockKind = LockKind::Reentrant;
}
