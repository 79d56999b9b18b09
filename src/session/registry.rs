//! The registry of all nodes that are held, handed over or reserved.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use zookeeper::LeaseKeeper;

use super::facts::Facts;
use super::nodes::Nodes;
use super::table::Key;
use crate::base::kind::LockKind;
use crate::base::path::LockPath;
use crate::base::sys::{self, Mutex};
use crate::base::wait::Stopped;

type Table = BTreeMap<(LockPath, Key), Arc<Nodes>>;

/// All nodes that are held, handed over to the next thread, or reserved.
#[derive(Default)]
pub(crate) struct Registry(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// Sorted by directory: a call that has to wait checks only its own directory.
    nodes: Table,
    is_closed: bool,
    /// Keeps the lease renewed while anything is held, and a little longer. If each hold had its
    /// own keeper, the client's timer would be woken for each hold.
    keeper: Option<LeaseKeeper>,
}

fn key(nodes: &Nodes) -> (LockPath, Key) {
    (nodes.facts.directory.clone(), nodes.list[0].key)
}

impl Registry {
    /// Adds nodes that are granted. Fails if the registry is closed.
    pub(super) fn add(
        &self,
        nodes: &Arc<Nodes>,
        keep_lease: impl FnOnce() -> LeaseKeeper,
    ) -> Result<(), Stopped> {
        let mut entries = self.0.lock();
        if entries.is_closed {
            sys::reached("a grant arrives after the client was closed");
            return Err(Stopped::Closed);
        }
        entries.nodes.insert(key(nodes), Arc::clone(nodes));
        entries.keeper.get_or_insert_with(keep_lease);
        Ok(())
    }

    pub(super) fn remove(&self, nodes: &Nodes) {
        self.0.lock().nodes.remove(&key(nodes));
    }

    /// Removes all nodes, and refuses new ones from now on.
    pub(super) fn close(&self) -> impl Iterator<Item = Arc<Nodes>> + use<> {
        let mut entries = self.0.lock();
        entries.is_closed = true;
        let (nodes, keeper) = (mem::take(&mut entries.nodes), entries.keeper.take());
        drop(entries);
        drop(keeper);
        nodes.into_values()
    }

    pub(super) fn all(&self) -> Vec<Arc<Nodes>> {
        self.0.lock().nodes.values().cloned().collect()
    }

    /// Returns how many nodes there are, without the turns of semaphores.
    pub(super) fn held(&self) -> usize {
        self.0.lock().nodes.values().filter(|nodes| !nodes.facts.is_turn()).count()
    }

    /// Returns whether the calling thread already has a hold in this queue, and other threads
    /// cannot end that hold. If the thread queued, it would wait for its own hold, or behind a
    /// contender that waits for that hold, because all contenders ahead that exclude the thread
    /// came after the hold. Permits and single nodes are not in a queue.
    pub(crate) fn holds_here(&self, facts: &Facts) -> bool {
        let is_own = |nodes: &Arc<Nodes>| nodes.facts.kind.is_of_a_thread() && nodes.is_held_here();
        if matches!(facts.kind, LockKind::Semaphore | LockKind::Ephemeral) {
            return false;
        }
        let [first, last] = [0, u64::MAX].map(|number| (facts.directory.clone(), number));
        let entries = self.0.lock();
        let here: Vec<_> = entries.nodes.range(first..=last).map(|(_, one)| one.clone()).collect();
        drop(entries);
        here.iter().any(is_own)
    }

    /// Blocks all other threads that use the registry, for tests.
    #[cfg(test)]
    pub(super) fn stand_still(&self) -> impl Drop {
        self.0.lock()
    }

    /// Stops renewing the lease if nothing is held. Returns whether the lease is still renewed.
    pub(super) fn keep_lease_if_used(&self) -> bool {
        let mut entries = self.0.lock();
        let is_unused = entries.nodes.is_empty();
        let unused = entries.keeper.take_if(|_| is_unused);
        let is_used = entries.keeper.is_some();
        drop(entries);
        drop(unused);
        is_used
    }
}
