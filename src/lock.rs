//! The exclusive lock whose hold belongs to the object.

use std::sync::Arc;

use crate::exclusive::{constructors, exclusive_methods};
use crate::guard::Guard;
use crate::level::{Ownership, TwoLevel};
use crate::names::Mode;

/// A fair exclusive lock that any thread may unlock.
///
/// An object has one hold at most, and it is the object's: a second thread that locks waits in
/// this process, first come, first served, and so does the first one if it locks again. A clone
/// is the same object; two objects on one path exclude each other like two processes. A thread
/// that locks what it has locked, and that no other thread will unlock, waits for ever.
///
/// It holds no data, and there is no poisoning: a panicking thread releases its guards as usual. For
/// those who know `parking_lot::Mutex` there is [a page](crate::guide::from_parking_lot).
///
/// # Guarantees
/// - While [`is_held`](DistributedLock::is_held) is true no other client has the lock: the hold's
///   [lease](crate#loss) ends before the servers can let the next one in.
///   Unless somebody deletes the hold's node from outside: then the next one is let in. This hold hears
///   of it by an event or, within its first quarter of the session timeout, at the end of that or at
///   the unlock.
/// - A later hold of the path, whoever has it, has a higher
///   [fencing token](crate::Hold::fencing_token).
/// - An unlock touches nothing that is somebody else's. A node whose deletion was not answered is
///   deleted in the background until it is known to be gone.
/// - What a process holds that dies is free one session timeout later, give or take a server tick.
///
/// With [`local_handoffs`](crate::LockOptions::local_handoffs) or
/// [`keep_idle`](crate::LockOptions::keep_idle) turns of one process that
/// follow on each other may have the same token. What no lock can promise is told
/// [here](crate#fencing).
///
/// # Fairness
/// First come, first served among all clients, by the order in which the servers took their
/// requests. A release wakes the next one in the queue and nobody else; the client of the one behind it
/// hears of it, too, so that the next release can let that one in without a look. The threads that share
/// this object have one place in that queue, and queue anew for each of them.
///
/// # When the session dies
/// A hold outlives its connection while its certified lease runs: the client resumes its session on the
/// next one; see [`Hold`](crate::Hold). If none comes in time the hold is lost: `is_held()` is false,
/// `lost()` is ready, and [`unlock`](DistributedLock::unlock) or the guard's release says
/// [`Error::Lost`](crate::Error::Lost). Until then the object counts as in use, since the code that
/// lost the lock may still be running. A call that waits goes on waiting and keeps its place, or
/// queues again at the end if the next connection comes after the session's end.
///
/// # Errors
/// That somebody else has the lock is none. Calls that lock:
/// [`Cancelled`](crate::Error::Cancelled); [`Limit`](crate::Error::Limit);
/// [`Denied`](crate::Error::Denied), [`InvalidPath`](crate::Error::InvalidPath) if a node above the
/// lock is ephemeral, [`InvalidArgument`](crate::Error::InvalidArgument) for an ACL that the server
/// refuses, and [`ZooKeeper`](crate::Error::ZooKeeper) for what else it may refuse; those with a
/// deadline and those that only try also [`Disconnected`](crate::Error::Disconnected). Calls that
/// unlock: [`Lost`](crate::Error::Lost), [`NotHeld`](crate::Error::NotHeld),
/// [`Denied`](crate::Error::Denied). All of them:
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
///         println!("writing with token {}", guard.fencing_token()?);
///         guard.release()?;
///     }
///     None => println!("somebody else is at it"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedLock {
    inner: Arc<TwoLevel>,
}

constructors!(DistributedLock, |site| {
    let inner = TwoLevel::at(site, Mode::Exclusive, Ownership::AnyThread);
    DistributedLock { inner }
});

exclusive_methods!(DistributedLock, Guard);
