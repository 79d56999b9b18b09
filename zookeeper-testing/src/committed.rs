//! The transactions on which a quorum has agreed, for checkers of clients.

use std::sync::Arc;
use std::time::Instant;

/// A transaction.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Its id. Later transactions have higher ids.
    pub zxid: i64,
    /// When it was committed.
    pub at: Instant,
    /// The session that caused it, or 0.
    pub session: i64,
    /// Whether it ends its session.
    pub is_close: bool,
    /// The changes, in order.
    pub changes: Vec<Change>,
}

/// A change of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The node's path.
    pub path: Arc<str>,
    /// What happened to it.
    pub kind: ChangeKind,
}

/// What can happen to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created.
    Created {
        /// The initial data.
        data: Arc<[u8]>,
        /// The session that owns the node, or 0.
        owner: i64,
    },
    /// It was deleted.
    Deleted,
    /// Its data were replaced by these.
    DataSet(Arc<[u8]>),
    /// Its ACL was changed.
    AclSet,
}
