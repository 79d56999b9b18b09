//! The lock that is a single node.

use crate::base::kind::LockKind;
use crate::locks::handle::{AtPath, LockHandle, SingleNode};

/// The simplest lock: a single ephemeral node at the lock's path. The client that creates the node
/// holds the lock.
///
/// A lock and an unlock take two requests. [`DistributedLock`] also takes two while there are no
/// other contenders, one more if another client created its directory, and more when it queues
/// behind others. A single node has these disadvantages:
///
/// - There is no queue. A release wakes all waiters, and each tries to create the node. Therefore
///   the work of a release grows with their number: with five contenders or more, prefer
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
///   it unlocks before that, it deletes whatever node is there. If the answer to a deletion is
///   lost, the client checks whose node is there before it deletes it again. One window is left.
///   Suppose that a server of an ensemble is paused while it has a deletion, and that the session
///   continues on another server and later returns to the paused one. If that server forwards the
///   deletion only then, it can delete the node of the next holder.
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
/// The node's data consist of an id, new for every hold, and the identity of the client. Missing
/// parent nodes are created as containers.
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
