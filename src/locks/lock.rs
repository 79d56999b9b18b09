//! The exclusive lock whose hold belongs to the lock object.

use crate::base::kind::LockKind;
use crate::locks::handle::{AtPath, Exclusive, LockHandle};

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
///   [lease](crate#loss) ends before the servers can admit the next contender. The exception is a
///   node that is deleted from outside, which admits the next contender at once. An event notifies
///   the holder of that. A hold younger than a quarter of the session timeout gets no such event:
///   its holder finds out at the end of that quarter, or when it unlocks.
/// - A later hold of the path, by any client, has a higher [fencing
///   token](crate::Hold::fencing_token).
/// - An unlock never deletes another holder's node. If the request to delete its own node is not
///   answered, the client repeats it in the background until the node is known to be gone.
/// - The lock of a process that dies is free one session timeout later, give or take a server tick.
///
/// With [`local_handoffs`](crate::LockOptions::local_handoffs), consecutive holds of one process
/// may share a token. The section on [fencing](crate#fencing) describes what no lock can promise.
///
/// # Fairness
/// First come, first served among all clients, in the order in which the servers received their
/// requests. A release wakes the next contender. It also notifies the client after that one, which
/// lets the next release admit that client without listing the queue. No other client is woken. The
/// threads of one client that use a path have one queue position among the clients, whichever
/// objects they use. The client queues anew for each of them, in the order of their calls.
///
/// # When the session dies
/// A hold outlives its connection while its certified lease runs, because the client resumes its
/// session on the next connection; see [`Hold`](crate::Hold). If there is no connection in time,
/// the hold is lost: `is_held()` is false, `ended()` is ready, and
/// [`unlock`](DistributedLock::unlock) or the guard's release returns
/// [`Error::Lost`](crate::Error::Lost). Until that call the object counts as in use, because the
/// code that lost the lock may still be running. A waiting call continues to wait and keeps its
/// queue position. If the session ended before the next connection, the call queues again at the
/// end.
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
/// match lock.try_acquire_for(Duration::from_secs(5))? {
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
