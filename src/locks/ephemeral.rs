//! The lock that is a single node.

use crate::base::kind::LockKind;
use crate::locks::handle::{AtPath, LockHandle, SingleNode};

/// The simplest lock: a single ephemeral node at the lock's path. The client that creates the node
/// holds the lock.
///
/// A lock and an unlock take two requests. [`DistributedLock`] takes two as well while there are no
/// rivals, one more where another client has made its directory, and more behind others. The price
/// of a single node:
///
/// - There is no queue. A release wakes all waiters, and each tries to create the node. So the work
///   of a release grows with their number: with five contenders or more, prefer
///   [`DistributedLock`]. The bench `benches/herd.rs` measures hand-overs between clients. On two
///   processors shared with the server (`forceSync=no`), the single node had 1.1 to 1.4 times as
///   many as the queue with two to four contenders, 0.85 times as many with eight, and 0.2 times
///   with 64. Where each transaction is forced to disk, both are equal up to about eight.
/// - Finding the lock taken costs two requests. One of them is a refused create, which the server
///   counts as a transaction.
/// - The node's name does not say which client created it. If it is deleted by hand while the lock
///   is held, the next contender gets the lock. A holder that has held for a quarter of the session
///   timeout learns of that at once, and any other holder by the end of that quarter. An earlier
///   unlock deletes the node that it finds. If the answer to a deletion is lost, the client first
///   looks whose node is there, and only then deletes it again. One window is left: if a server of
///   an ensemble stands still with a deletion, the session goes on elsewhere and comes back to that
///   server, and this passes the deletion on only then, it can hit the node of the next holder.
/// - The node's data say whose it is after a lost answer, so nobody may write to it: if somebody
///   does before its creator has read it, it can stay until the session ends. So its holder cannot
///   be [asked](crate::Client::revoke) to release it, and [`Hold::revocation`](crate::Hold::revocation)
///   tells nothing but the end of the hold. Nor can it be [broken](crate::Client::break_lock), or
///   [guard a write](crate::Hold::transaction).
///
/// A lock object has at most one hold, which belongs to the object, as with [`DistributedLock`].
/// Any thread may unlock it, and threads of one client take turns in the order of their calls,
/// whichever [objects at the path](crate::DistributedLock#several-objects-at-one-path) they use.
///
/// The node's data are an id, new for every hold, and the identity of the client. Missing parent
/// directories are created as containers.
///
/// # Guarantees
/// Those of [`DistributedLock`](crate::DistributedLock#guarantees), unless the node is deleted by
/// hand, as described above. Here, too, a later hold has a higher fencing token.
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
/// [`InvalidPath`](crate::Error::InvalidPath) also if there is a persistent node at the path, such
/// as the directory of another lock, since it would never be released.
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
