//! What a quorum has agreed on, for those who judge what clients make of it.

use std::sync::Arc;
use std::time::Instant;

/// One transaction.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Its number. Later ones have greater ones.
    pub zxid: i64,
    /// When it was committed.
    pub at: Instant,
    /// On whose behalf, 0 for what is nobody's session's.
    pub session: i64,
    /// Whether the session is over by it.
    pub is_close: bool,
    /// In their order.
    pub changes: Vec<Change>,
}

/// What has become of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The node's path.
    pub path: Arc<str>,
    /// What has become of it.
    pub kind: ChangeKind,
}

/// What can become of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created.
    Created {
        /// With these data.
        data: Arc<[u8]>,
        /// The session that it belongs to, 0 for none.
        owner: i64,
    },
    /// It was deleted.
    Deleted,
    /// Its data are these now.
    DataSet(Arc<[u8]>),
    /// Another ACL was set.
    AclSet,
}
