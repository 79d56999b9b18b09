//! What a client keeps account of: what is held, what may yet appear, and counts. Data alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

use zookeeper::LeaseKeeper;

use super::nodes::Nodes;
use crate::path::LockPath;

/// All nodes that are held, or kept for the next thread.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// Those of one directory beside each other: a call that has to wait looks at them alone.
    pub(super) nodes: BTreeMap<(LockPath, u64), Arc<Nodes>>,
    pub(super) next: u64,
    pub(super) is_closed: bool,
    /// Has the lease renewed while anything is held, and a little longer: to take and drop it for each
    /// hold would wake the client's timer each time.
    pub(super) keeper: Option<LeaseKeeper>,
    /// When `Session::attend` is called next.
    pub(super) due: Option<Instant>,
}

/// A node that may appear.
///
/// The leader refuses what comes by a server that the session has left. But what waits in a server that
/// the session comes back to may be carried out late: a session timeout after the cut at most, since
/// that server was then without a leader for longer than leaders wait.
#[derive(Debug, Clone)]
pub(crate) struct Orphan {
    /// It goes with this session.
    pub(crate) session: i64,
    pub(crate) directory: LockPath,
    /// What its create carried.
    pub(crate) id: String,
    /// Of a single node: its name, which does not carry the id.
    pub(crate) single: Option<String>,
    /// A look after this that does not see it is the last.
    pub(crate) until: Instant,
}

#[derive(Debug)]
pub(super) struct Counters {
    pub(super) sessions: AtomicU64,
    pub(super) resumed: AtomicU64,
    pub(super) holds_lost: AtomicU64,
    pub(super) waiting: AtomicUsize,
    pub(super) deleting: AtomicUsize,
    pub(super) path_bytes: Arc<AtomicUsize>,
}
