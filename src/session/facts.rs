//! What a lock object requests, and a node of it.

use super::table::Key;
use crate::base::kind::LockKind;
use crate::base::options::LockOptions;
use crate::base::path::LockPath;

/// What a lock object requests with each call. Its holds share this.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The path that users know.
    pub(crate) lock: LockPath,
    /// The directory of the nodes: the lock's path, below it, or above it.
    pub(crate) directory: LockPath,
    pub(crate) kind: LockKind,
    pub(crate) options: LockOptions,
}

impl Facts {
    /// Returns whether this is the turn of a semaphore: its owner waits for permits and holds
    /// nothing yet.
    pub(crate) fn is_turn(&self) -> bool {
        self.kind == LockKind::Exclusive && self.directory != self.lock
    }

    /// Returns whether nodes of one lock object serve the other one: they say the same of their
    /// owner, apart from its thread, and end in the same way.
    pub(crate) fn can_share_nodes(&self, other: &Facts) -> bool {
        let own = |facts: &Facts| {
            let options = &facts.options;
            (options.background_release, options.hold_at_least, options.margin)
        };
        self.options.identity == other.options.identity && own(self) == own(other)
    }

    pub(crate) fn path_of(&self, node: &Node) -> String {
        self.directory.child(&node.name)
    }
}

/// A node of this client.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its number in the table.
    pub(crate) key: Key,
    pub(crate) name: String,
    /// The transaction that created it.
    pub(crate) czxid: i64,
    /// The fencing token: the czxid, or that of the write for a read under a write.
    pub(crate) token: u64,
    /// The directory is deleted with the node, unless it has others by then: this client made it,
    /// and the node was alone at the grant.
    pub(crate) takes_directory: bool,
}
