//! Holders and waiters, as others see them. Plain data.

use std::time::SystemTime;

/// What a contender requests.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Exclusive access.
    Exclusive,
    /// A read, together with other readers.
    Read,
    /// A write, alone.
    Write,
    /// A permit of a semaphore.
    Permit,
    /// Leadership, together with the participants of Curator's `LeaderLatch`
    /// ([`Leadership::start_in_latch`](crate::Leadership::start_in_latch)).
    Latch,
    /// Nothing: this is a node that another program created there for another purpose. It blocks no
    /// contender.
    Foreign,
}

/// One node in a lock's directory: a holder of the lock or a waiter.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// The lock's path.
    pub path: String,
    /// The node's name below that path. Empty for an [`EphemeralLock`](crate::EphemeralLock), whose
    /// path is the node.
    pub node: String,
    /// The number at the end of the name, if there is one.
    pub sequence: Option<i64>,
    /// What the contender asks for.
    pub kind: Kind,
    /// Whether the contender holds the lock. If not, it waits.
    pub holds: bool,
    /// The identity in the node's data. `None` if the data are something else, or a revocation
    /// request that the contender has not received yet.
    pub identity: Option<String>,
    /// The limit of the semaphore object that took this permit. `None` for everything else, and for
    /// other libraries' permits.
    pub limit: Option<u32>,
    /// Whether the contender was [asked](crate::Client::revoke) to release the lock.
    pub asked: bool,
    /// The id of its session, which ZooKeeper's logs and four-letter words show in hexadecimal. 0
    /// for a node that is not ephemeral.
    pub session: i64,
    /// When the node was created, by the server's clock.
    pub since: SystemTime,
    /// The [`Hold::fencing_token`](crate::Hold::fencing_token) of its hold, present or future.
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
