//! The exclusive lock whose hold belongs to a thread.

use std::sync::Arc;

use crate::exclusive::{constructors, exclusive_methods};
use crate::guard::ReentrantGuard;
use crate::level::{Ownership, TwoLevel};
use crate::names::Mode;

/// A fair exclusive lock that its owner, a thread, may enter again.
///
/// Two levels: a local mutex first, the node in ZooKeeper second, released in reverse order. So
/// the threads of one process do not each pay for the network. Entering again costs no request;
/// the node goes at the outermost unlock. A clone is the same object. A thread that ends while it
/// holds the lock keeps it until the client is closed or the object's last clone is dropped.
///
/// # Guarantees
/// Those of [`DistributedLock`](crate::DistributedLock#guarantees), and: only the thread that has
/// locked enters again and unlocks. Threads are told apart by their
/// [`ThreadId`](std::thread::ThreadId), which is never given to another one. All entries of a nest
/// have one fencing token.
///
/// # Fairness
/// Among the clients, first come, first served; among the threads that share this object, too. A
/// process has one place in the queue per object, however many threads wait on it, and queues
/// anew for each of them. Its owner enters again past all who wait.
///
/// # When the session dies
/// As for [`DistributedLock`](crate::DistributedLock#when-the-session-dies). A nest of depth n that
/// was lost says [`Error::Lost`](crate::Error::Lost) to its owner's next `lock()` and to each of its
/// n unlocks; after the last of them the lock can be used again.
///
/// # Errors
/// Those of [`DistributedLock`](crate::DistributedLock#errors), and:
/// [`NotOwner`](crate::Error::NotOwner) to another thread's unlock;
/// [`WouldDeadlock`](crate::Error::WouldDeadlock) when this thread holds the path through another
/// object of the same client and would wait for itself (`Ok(false)` from calls that only try);
/// [`Lost`](crate::Error::Lost) to an owner that enters again what it has lost.
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
#[derive(Debug, Clone)]
pub struct DistributedReentrantLock {
    inner: Arc<TwoLevel>,
}

constructors!(DistributedReentrantLock, |site| {
    let inner = TwoLevel::at(site, Mode::Exclusive, Ownership::ThisThread);
    DistributedReentrantLock { inner }
});

impl DistributedReentrantLock {
    /// How often the calling thread has locked and not unlocked; a lost hold counts until its
    /// unlocks have reported it. No I/O.
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.inner.depth()
    }
}

exclusive_methods!(DistributedReentrantLock, ReentrantGuard);
