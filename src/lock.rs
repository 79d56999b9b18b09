//! The exclusive lock whose hold belongs to the object.

use std::sync::Arc;

use crate::client::Client;
use crate::error::Result;
use crate::exclusive::exclusive_methods;
use crate::guard::Guard;
use crate::local::Ownership;
use crate::node::Kind;
use crate::options::LockOptions;
use crate::site::Site;
use crate::two_level::TwoLevel;

/// A fair exclusive lock that any thread may unlock.
///
/// An object has one hold at most, and it is the object's: a second thread that locks waits in
/// this process, first come, first served, and so does the first one if it locks again. A clone
/// is the same object; two objects on one path exclude each other like two processes. A thread
/// that locks what it has locked, and that no other thread will unlock, waits for ever.
///
/// # Fairness
/// First come, first served among all clients, by the order in which the servers took their
/// requests. A release wakes the next one in the queue and nobody else.
///
/// # When the session dies
/// A hold outlives its connection while its certified lease runs, and moves to the next one; see
/// [`Hold`](crate::Hold). If none comes in time the hold is lost: `is_held()` is false,
/// `lost()` is ready, and [`unlock`](DistributedLock::unlock) or the guard's release says
/// [`Error::Lost`](crate::Error::Lost). Until then the object counts as in use, since the code that
/// lost the lock may still be running. A call that waits goes on waiting and keeps its place, or
/// queues again at the end if the next connection comes after the session's end.
///
/// # Differences from `parking_lot::Mutex`
/// It holds no data, every call can fail, and a panicking thread releases its guards as usual:
/// there is no poisoning.
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

impl DistributedLock {
    /// A lock at `path`, an absolute path below the client's chroot. No I/O.
    ///
    /// # Errors
    /// [`Error::InvalidPath`](crate::Error::InvalidPath) with the rule that the path breaks.
    pub fn new(client: &Client, path: impl Into<String>) -> Result<DistributedLock> {
        DistributedLock::with(client, path, LockOptions::new())
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
    ) -> Result<DistributedLock> {
        let site = Site::new(client, &path.into(), options)?;
        let inner = TwoLevel::at(site, Kind::Exclusive, Ownership::AnyThread);
        Ok(DistributedLock { inner })
    }
}

exclusive_methods!(DistributedLock, Guard);
