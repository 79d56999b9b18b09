//! Holders and waiters, from the view of other clients, and what they request. This module is plain
//! data.

use std::time::SystemTime;

/// What a contender requests.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Exclusive access. A read-write lock at the same path treats it as a write.
    Exclusive,
    /// Read access, together with other readers.
    Read,
    /// Write access, alone.
    Write,
    /// A permit of a semaphore. Permits are counted and have no order.
    Permit,
    /// Leadership, together with the participants of Curator's `LeaderLatch`
    /// ([`Leadership::start_in_latch`](crate::Leadership::start_in_latch)), which ignore all other
    /// contenders.
    Latch,
}

impl Kind {
    /// Returns the text that precedes the sequence in a name of this library.
    pub(crate) fn marker(self) -> &'static str {
        match self {
            Kind::Exclusive => "lock-",
            Kind::Read => "__READ__",
            Kind::Write => "__WRIT__",
            Kind::Permit => "lease-",
            Kind::Latch => "latch-",
        }
    }

    /// Returns whether this contender must let a lower `other` go first.
    pub(crate) fn waits_for(self, other: Kind) -> bool {
        !self.is_apart_from(other) && (self != Kind::Read || other != Kind::Read)
    }

    /// Returns whether the two ignore each other. In that case, both would be granted.
    pub(crate) fn is_apart_from(self, other: Kind) -> bool {
        (self == Kind::Latch) != (other == Kind::Latch)
    }
}

/// One node in a lock's directory: a holder of the lock or a waiter.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// The lock's path.
    pub path: String,
    /// The node's name below that path. It is empty for an [`EphemeralLock`](crate::EphemeralLock),
    /// whose path is the node.
    pub node: String,
    /// The number at the end of the name, if the name ends in a number.
    pub sequence: Option<i64>,
    /// What the contender requests.
    pub kind: Kind,
    /// Whether the contender holds the lock. Otherwise, it waits.
    pub holds: bool,
    /// The identity in the node's data. It is `None` if the data are not text, or if they are a
    /// revocation request that the contender has not received yet.
    pub identity: Option<String>,
    /// The limit of the semaphore object that took this permit. `None` for everything else, and for
    /// other libraries' permits.
    pub limit: Option<u32>,
    /// Whether a client has [requested](crate::Client::revoke) that the contender release the lock.
    pub asked: bool,
    /// The id of the contender's session, which ZooKeeper's logs and four-letter words print in
    /// hexadecimal. It is 0 if the node is not ephemeral.
    pub session: i64,
    /// When the node was created, by the server's clock.
    pub since: SystemTime,
    /// The [`Hold::fencing_token`](crate::Hold::fencing_token) of its current hold, or of the hold
    /// that it will get.
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
