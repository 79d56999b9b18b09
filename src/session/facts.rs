//! The facts of a lock object, and its nodes.

use super::table::Key;
use crate::base::kind::LockKind;
use crate::base::options::LockOptions;
use crate::base::path::LockPath;

/// The values that are the same in each call of a lock object. Its holds share them.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The path that the user passed.
    pub(crate) lock: LockPath,
    /// The directory of the nodes: the lock's path, a directory below it, or the one above it.
    pub(crate) directory: LockPath,
    pub(crate) kind: LockKind,
    pub(crate) options: LockOptions,
}

impl Facts {
    /// Returns whether this is the turn of a semaphore: the lock that a call holds while it waits
    /// for permits. Its owner does not hold any permits yet.
    pub(crate) fn is_turn(&self) -> bool {
        self.kind == LockKind::Exclusive && self.directory != self.lock
    }

    /// Returns whether two lock objects can use the same nodes: the nodes contain the same
    /// identity, and the options for their end are equal.
    pub(crate) fn can_share_nodes(&self, other: &Facts) -> bool {
        let (own, other) = (&self.options, &other.options);
        own.identity == other.identity
            && own.background_release == other.background_release
            && own.hold_at_least == other.hold_at_least
            && own.margin == other.margin
    }

    pub(crate) fn path_of(&self, node: &Node) -> String {
        self.directory.child(&node.name)
    }
}

/// A node of this client.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Its number in the table.
    pub(crate) key: Key,
    pub(crate) name: String,
    /// The id of the transaction that created it.
    pub(crate) czxid: i64,
    /// The fencing token: its czxid. For a read under a write, this is the token of the write.
    pub(crate) token: u64,
    /// The directory is deleted together with the node, unless it has other nodes at that time.
    /// This is true if this client created the directory, and the node was alone when it was
    /// granted.
    pub(crate) takes_directory: bool,
}
