//! The claim of a call, and a node of it.

use std::sync::Arc;
use std::time::Duration;

use super::quota::Charge;
use crate::kind::LockKind;
use crate::path::LockPath;
use crate::sys::thread::ThreadId;

/// What a call requests, and for which thread.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// The path that users know.
    pub(crate) lock: LockPath,
    /// The directory of the nodes: the lock's path, below it, or above it.
    pub(crate) directory: LockPath,
    pub(crate) kind: LockKind,
    pub(crate) holder: Holder,
    /// The identity in the node.
    pub(crate) identity: Arc<str>,
    /// The lock's options chose the identity. Otherwise it is the client's, and may name the thread.
    pub(crate) is_chosen: bool,
    /// A release does not wait for its answer.
    pub(crate) background: bool,
    /// How long the lock stays busy after the grant, however early it is released.
    pub(crate) at_least: Duration,
    /// How long before the end of its lease a hold is lost, and how long its nodes then stay.
    pub(crate) margin: Duration,
}

/// Who takes a hold, and how that may end. Nodes that are left to another thread get another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder {
    /// The thread that makes the call.
    pub(crate) thread: ThreadId,
    /// How long the hold may last.
    pub(crate) at_most: Option<Duration>,
}

impl Claim {
    /// Returns whether this is the turn of a semaphore: its owner waits for permits and holds
    /// nothing yet.
    pub(crate) fn is_turn(&self) -> bool {
        self.kind == LockKind::Exclusive && self.directory != self.lock
    }

    /// Returns whether nodes of one claim serve the other one: they say the same of their owner, apart
    /// from its thread, and end in the same way.
    pub(crate) fn is_like(&self, other: &Claim) -> bool {
        let chosen = |claim: &Claim| claim.is_chosen.then(|| Arc::clone(&claim.identity));
        chosen(self) == chosen(other)
            && self.background == other.background
            && self.at_least == other.at_least
            && self.margin == other.margin
    }

    pub(crate) fn path_of(&self, node: &Node) -> String {
        self.directory.child(&node.name)
    }
}

/// A node of this client.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// The transaction that created it.
    pub(crate) czxid: i64,
    /// The fencing token: the czxid, or that of the write for a read under a write.
    pub(crate) token: u64,
    /// The directory is deleted with the node, unless it has others by then: this client made it,
    /// and the node was alone at the grant.
    pub(crate) takes_directory: bool,
    /// The node's part of the quota.
    pub(crate) charge: Charge,
}
