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
    pub(super) is_closed: bool,
    /// Has the lease renewed while anything is held, and a little longer: to take and drop it for each
    /// hold would wake the client's timer each time.
    pub(super) keeper: Option<LeaseKeeper>,
    /// When `Session::attend` is called next.
    pub(super) due: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Counters {
    pub(super) sessions: AtomicU64,
    pub(super) resumed: AtomicU64,
    pub(super) holds_lost: AtomicU64,
    pub(super) waiting: AtomicUsize,
    pub(super) deleting: AtomicUsize,
}
