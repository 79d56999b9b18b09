//! What a client keeps account of: what is held, and counts. It asks for nothing itself; but the nodes in it have a
//! mutex each, and its keeper has the lease renewed by being there.

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
    /// The calls that may have a single node at this path which is not in `nodes`: those that make one have a number
    /// of their own, later ones a higher one; those that delete theirs have none, 0.
    pub(super) busy: BTreeMap<LockPath, Vec<u64>>,
    pub(super) is_closed: bool,
    /// Has the lease renewed while anything is held, and a little longer: to take and drop it for each
    /// hold would wake the client's timer each time.
    pub(super) keeper: Option<LeaseKeeper>,
    /// When `Session::attend` is called next.
    pub(super) due: Option<Instant>,
}

impl Registry {
    /// Is the single node that this transaction has made held, or kept?
    pub(super) fn holds_single(&self, path: &LockPath, czxid: i64) -> bool {
        let (directory, _) = path.split();
        let mut there = self.nodes.range((directory.clone(), 0)..=(directory, u64::MAX));
        there.any(|(_, nodes)| nodes.list.iter().any(|node| node.czxid == czxid))
    }

    /// May a call that had begun by this number have a single node at this path?
    pub(super) fn is_busy(&self, path: &LockPath, begun: u64) -> bool {
        self.busy.get(path).is_some_and(|numbers| numbers.iter().any(|number| *number <= begun))
    }
}

#[derive(Debug)]
pub(super) struct Counters {
    pub(super) sessions: AtomicU64,
    pub(super) resumed: AtomicU64,
    pub(super) holds_lost: AtomicU64,
    pub(super) waiting: AtomicUsize,
    pub(super) deleting: AtomicUsize,
}
