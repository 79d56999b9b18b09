//! The lock that is a single znode.

use std::sync::Arc;

use crate::exclusive::{constructors, exclusive_methods};
use crate::guard::Guard;
use crate::level::{Ownership, TwoLevel};

/// The simplest lock: a single ephemeral node, at the lock's path. Who makes it holds the lock.
///
/// It takes two requests to lock and unlock. So does [`DistributedLock`] while nobody else comes, but it
/// takes one more where the last turn was another client's, and more behind others. The price of that:
///
/// - There is no queue. A release wakes all who wait, each tries to make the node, and whoever comes
///   first has it, so that the work of a release grows with their number: from about five
///   contenders on, prefer [`DistributedLock`]. Hand-overs between clients, measured by
///   `benches/herd.rs` on two processors that the server shared (`forceSync=no`): 1.1 to 1.4 times
///   as many as with the queue for two to four contenders, 0.85 for eight, 0.2 for 64. Where each
///   transaction is forced to disk the two are level up to about eight.
/// - To find the lock taken costs two requests, of which one is a create that is refused: the
///   server counts it as a transaction.
/// - The node's name does not say who made it. Somebody who deletes it by hand while the lock is held
///   lets the next one in. The holder is told at once if it has held for a quarter of the session
///   timeout, and else by then; an unlock that comes before deletes the node that it
///   finds. A deletion whose answer was lost is not sent again before a look at whose node is there.
///
/// An object has one hold at most, and it is the object's, as with [`DistributedLock`]: any thread
/// may unlock it, and threads that share the object take turns in the order of their calls.
///
/// The node's data are an id, new for every hold, and the maker's identity. The lock's parent
/// directories are made when they are missing, as containers.
///
/// # Guarantees
/// Those of [`DistributedLock`](crate::DistributedLock#guarantees) as long as nobody deletes the node
/// by hand: for what may come of that, see above. A later hold has a higher fencing token here, too.
///
/// # Fairness
/// None among clients. Among the threads that share the object, first come, first served.
///
/// # When the session dies
/// As for [`DistributedLock`](crate::DistributedLock#when-the-session-dies). Nobody has a place in a
/// queue: a call that waits goes on when the client has connected again.
///
/// # Errors
/// Those of [`DistributedLock`](crate::DistributedLock#errors);
/// [`InvalidPath`](crate::Error::InvalidPath) also if there is a persistent node at the path,
/// such as the directory of another lock: nobody would ever release it.
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
#[derive(Debug, Clone)]
pub struct EphemeralLock {
    inner: Arc<TwoLevel>,
}

constructors!(EphemeralLock, |mut site| {
    // None of these makes sense without a queue.
    site.options = site.options.without_queue();
    let (directory, _) = site.path.split();
    let inner = TwoLevel::new(site, directory, None, Ownership::AnyThread);
    EphemeralLock { inner }
});

exclusive_methods!(EphemeralLock, Guard);
