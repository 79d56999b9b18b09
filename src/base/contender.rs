//! The holders and waiters of a lock, as the servers list them to any client, and what they
//! request. This module is plain data.

use std::time::SystemTime;

use crate::base::kind::LockKind;

/// One node in a lock's directory: a holder of the lock or a waiter.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// The lock's path.
    pub path: String,
    /// The node's name below the lock's path. It is empty for an
    /// [`EphemeralLock`](crate::EphemeralLock), whose only node is at the lock's path itself.
    pub node: String,
    /// The number at the end of the node's name, if the name ends in one.
    pub sequence: Option<i64>,
    /// The kind of the lock, as the node shows it: a
    /// [`DistributedReentrantLock`](crate::DistributedReentrantLock) looks like a
    /// [`DistributedLock`](crate::DistributedLock), and so does a node that another program created.
    pub kind: LockKind,
    /// Whether the contender holds the lock. Otherwise, it waits.
    pub holds: bool,
    /// The identity in the node's data. It is `None` if the data are not text, or if they are a
    /// revocation request that the contender has not received yet.
    pub identity: Option<String>,
    /// The limit of the semaphore object that took this permit. `None` for all other locks, and for
    /// other libraries' permits.
    pub limit: Option<u32>,
    /// Whether a client has [requested](crate::Client::revoke) that the contender release the lock.
    pub asked: bool,
    /// The id of the contender's session, which ZooKeeper's logs and four-letter words print in
    /// hexadecimal. It is 0 if the node is not ephemeral.
    pub session: i64,
    /// When the node was created, by the server's clock.
    pub since: SystemTime,
    /// The [`Hold::fencing_token`](crate::Hold::fencing_token) of the contender's current hold, or
    /// of the hold that it will get.
    pub token: u64,
}

impl Contender {
    /// Returns the path of the node.
    pub(crate) fn znode(&self) -> String {
        match self.node.as_str() {
            "" => self.path.clone(),
            node => format!("{}/{node}", self.path),
        }
    }
}
