//! The exclusive locks: one whose hold belongs to the lock object, one whose hold belongs to a
//! thread, and one that is a single node.

use crate::base::kind::LockKind;
use crate::held::guard::ThisThread;
use crate::locks::handle::{AtPath, Exclusive, LockHandle, SingleNode};

/// A fair exclusive lock that any thread may unlock.
///
/// A lock object has at most one hold, which belongs to the object and not to a thread. A thread
/// that locks an object in use waits in this process, first come, first served. If the thread that
/// locked the object locks it again, it deadlocks (until another thread unlocks it). A clone is the
/// same object.
///
/// # Several objects at one path
/// Objects of one client at one path share a queue of threads in the process. A separate object for
/// each call therefore costs no more requests than a shared object. The objects share nothing else:
/// - Each object has its own hold. Another object does not detect it, and its `unlock` returns
///   [`NotHeld`](crate::Error::NotHeld). A call through another object waits, and a call that only
///   tries finds the lock taken. This is true even for the same thread.
/// - A lost hold keeps only its own object in use. Other objects may lock as soon as the client has
///   detected the loss.
/// - Dropping the last handle of an object releases its hold, and admits the next thread.
///
/// [`LockOptions`](crate::LockOptions#several-objects-at-one-path) describes which options apply if
/// they differ.
///
/// The lock holds no data and is never poisoned: if a thread panics, its guards are released as
/// usual. The guide [compares it](crate::guide::from_parking_lot) with `parking_lot::Mutex`.
///
/// # Guarantees
/// - While [`is_held`](DistributedLock::is_held) is true, no other client has the lock: the hold's
///   [lease](crate#loss) ends before the servers can admit the next contender. The exception: if
///   the node is deleted from outside, the next contender is admitted at once. An event notifies
///   the holder of the deletion. A hold younger than a quarter of the session timeout gets no such
///   event: its holder finds out at the end of that quarter, or when it unlocks.
/// - A later hold of the path, by any client, has a higher [fencing
///   token](crate::Hold::fencing_token).
/// - An unlock never deletes another holder's node. If the request to delete its own node is not
///   answered, the client repeats it in the background until the node is known to be gone.
/// - If a process dies, its lock is free one session timeout later, give or take a server tick.
///
/// With [`local_handoffs`](crate::LockOptions::local_handoffs), consecutive holds of one process
/// may share a token. The section on [fencing](crate#fencing) describes what no lock can promise.
///
/// # Fairness
/// First come, first served among all clients, in the order in which the servers received their
/// requests. A release wakes the next contender. It also notifies the client behind that contender,
/// so that the next release can admit this client without listing the queue. No other client is
/// woken. The threads of one client that use a path have one queue position among the clients,
/// whichever objects they use. The client queues anew for each of them, in the order of their
/// calls.
///
/// # When the session dies
/// A hold outlives its connection while its certified lease runs, because the client resumes its
/// session on the next connection; see [`Hold`](crate::Hold). If there is no connection in time,
/// the hold is lost: `is_held()` is false, `ended()` is ready, and
/// [`unlock`](DistributedLock::unlock) or the guard's release returns
/// [`Error::Lost`](crate::Error::Lost). Until then, the object counts as in use, because the code
/// that lost the lock may still be running. A waiting call continues to wait and keeps its queue
/// position. If the session ended before the next connection, the call queues again at the end.
///
/// # Errors
/// Finding the lock taken is not an error.
///
/// Calls that lock return:
/// - [`Cancelled`](crate::Error::Cancelled) if the [token](crate::CancelToken) of their
///   [`Wait`](crate::Wait) is cancelled.
/// - [`LimitExceeded`](crate::Error::LimitExceeded) and
///   [`PermissionDenied`](crate::Error::PermissionDenied).
/// - [`WouldDeadlock`](crate::Error::WouldDeadlock) if this thread holds a re-entrant or a
///   read-write lock at the same path.
/// - [`InvalidPath`](crate::Error::InvalidPath) if a node above the lock is ephemeral.
/// - [`InvalidArgument`](crate::Error::InvalidArgument) for an ACL that the server refuses.
/// - [`ZooKeeper`](crate::Error::ZooKeeper) for any other refusal.
/// - [`Disconnected`](crate::Error::Disconnected), if they have a deadline or only try.
///
/// Calls that unlock return [`Lost`](crate::Error::Lost), [`NotHeld`](crate::Error::NotHeld) and
/// [`PermissionDenied`](crate::Error::PermissionDenied). All calls return
/// [`Closed`](crate::Error::Closed).
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Client, DistributedLock};
///
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::connect("127.0.0.1:2181", Duration::from_secs(10))?;
/// let lock = DistributedLock::new(&client, "/locks/report")?;
/// match lock.acquire_within(Duration::from_secs(5))? {
///     Some(guard) => {
///         println!("writing with token {}", guard.fencing_token());
///         guard.release()?;
///     }
///     None => println!("another client has it"),
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias("InterProcessSemaphoreMutex", "Lock", "Mutex"))]
pub type DistributedLock = LockHandle<Exclusive>;

impl AtPath for DistributedLock {
    const KIND: LockKind = LockKind::Exclusive;
}

/// A fair exclusive lock that belongs to a thread, which may lock it again.
///
/// The lock has two queues: the in-process queue of the client's threads at this path, and the
/// queue in ZooKeeper. A thread enters the in-process queue first and leaves it last, which spares
/// the waiting threads of one process most of the network requests. [Objects at one
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

/// The simplest lock: a single ephemeral node at the lock's path. The client that creates the node
/// holds the lock.
///
/// Locking and unlocking together take two requests. [`DistributedLock`] also takes two while there
/// are no other contenders, one more if another client created the lock's directory, and more when
/// it queues behind others. A single node has these disadvantages:
///
/// - There is no queue. A release wakes all waiters, and each tries to create the node. Therefore,
///   a release causes more work the more contenders wait: with five contenders or more, prefer
///   [`DistributedLock`]. The bench `benches/herd.rs` measures how often a lock passes from one
///   client to another. On two processors shared with the server (`forceSync=no`), the single node
///   managed 1.1 to 1.4 times as many acquisitions as the queue with two to four contenders, 0.85
///   times as many with eight, and 0.2 times as many with 64. If each transaction is forced to
///   disk, both are equal up to about eight contenders.
/// - Finding the lock taken costs two requests. One of them is a create request that fails, which
///   the server counts as a transaction.
/// - The node's name does not say which client created it. If it is deleted by hand while the lock
///   is held, the next contender gets the lock. A holder that has held the lock for a quarter of
///   the session timeout is notified at once, and any other holder at the end of that quarter. If
///   such a holder unlocks before that, it deletes whatever node is there. If the answer to a
///   deletion is lost, the client checks whose node is there before it deletes it again. One risk
///   remains. Suppose that a server of an ensemble is paused before it forwards a deletion, and
///   that the session continues on another server and later returns to the paused one. If that
///   server forwards the deletion only then, it can delete the node of the next holder.
/// - After a lost answer, the client finds out from the node's data whether it created the node. No
///   other program may therefore write to the node: if one does before the creator has read it, the
///   node can remain until the session ends. For this reason the lock cannot be
///   [revoked](crate::Client::revoke) or [broken](crate::Client::break_lock), and cannot [guard a
///   write](crate::Hold::transaction). [`Hold::revocation`](crate::Hold::revocation) reports only
///   the end of the hold.
///
/// A lock object has at most one hold, which belongs to the object, as with [`DistributedLock`].
/// Any thread may unlock it, and the threads of one client acquire it in the order of their calls,
/// whichever [objects at the path](crate::DistributedLock#several-objects-at-one-path) they use.
///
/// The node's data consist of an id, which is new for every hold, and the identity of the client.
/// Missing parent nodes are created as containers.
///
/// # Guarantees
/// Those of [`DistributedLock`](crate::DistributedLock#guarantees), unless the node is deleted by
/// hand, as described above. A later hold has a higher fencing token here, too.
///
/// # Fairness
/// None among clients. First come, first served among the threads of one client.
///
/// # When the session dies
/// As for [`DistributedLock`](crate::DistributedLock#when-the-session-dies), without a queue
/// position: a waiting call continues when the client has connected again.
///
/// # Errors
/// Those of [`DistributedLock`](crate::DistributedLock#errors).
/// [`InvalidPath`](crate::Error::InvalidPath) is also returned if there is a persistent node at the
/// path, such as the directory of another lock, because that node would never be deleted.
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Client, EphemeralLock};
///
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::connect("127.0.0.1:2181", Duration::from_secs(10))?;
/// let leader = EphemeralLock::new(&client, "/scheduler/leader")?;
/// if let Some(_guard) = leader.try_acquire()? {
///     println!("this process is the one that runs the jobs");
/// }
/// # Ok(())
/// # }
/// ```
///
/// [`DistributedLock`]: crate::DistributedLock
pub type EphemeralLock = LockHandle<SingleNode>;

impl AtPath for EphemeralLock {
    const KIND: LockKind = LockKind::Ephemeral;
}
