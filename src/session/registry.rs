//! The register of all nodes that are held, handed over or reserved.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use zookeeper::LeaseKeeper;

use super::facts::Facts;
use super::nodes::{Grant, Nodes};
use crate::base::kind::LockKind;
use crate::base::path::LockPath;
use crate::base::sys::{self, Mutex};
use crate::base::wait::Stopped;

type Table = BTreeMap<(LockPath, u64), Arc<Nodes>>;

/// All nodes that are held, handed over to the next thread, or reserved.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// Sorted by directory: a call that has to wait looks at its own directory alone.
    nodes: Table,
    next: u64,
    is_closed: bool,
    /// Keeps the lease renewed while anything is held, and a little longer. Taking and dropping it
    /// for each hold would wake the client's timer each time.
    keeper: Option<LeaseKeeper>,
}

fn key(nodes: &Nodes) -> (LockPath, u64) {
    (nodes.facts.directory.clone(), nodes.number)
}

impl Registry {
    /// Adds the nodes that `make` returns for a new number, under the mutex: at no instant are they
    /// granted and not registered.
    pub(super) fn add(
        &self,
        keep_lease: impl FnOnce() -> LeaseKeeper,
        make: impl FnOnce(u64) -> (Arc<Nodes>, Arc<Grant>),
    ) -> Result<Arc<Grant>, Stopped> {
        let mut entries = self.0.lock();
        if entries.is_closed {
            sys::reached("a grant comes behind the close");
            return Err(Stopped::Closed);
        }
        entries.next += 1;
        let (nodes, grant) = make(entries.next);
        entries.nodes.insert(key(&nodes), nodes);
        if entries.keeper.is_none() {
            entries.keeper = Some(keep_lease());
        }
        Ok(grant)
    }

    pub(super) fn remove(&self, nodes: &Nodes) {
        self.0.lock().nodes.remove(&key(nodes));
    }

    /// Removes everything, and takes nothing any more.
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

    /// Returns how many there are, without the turns of semaphores.
    pub(super) fn held(&self) -> usize {
        self.0.lock().nodes.values().filter(|nodes| !nodes.facts.is_turn()).count()
    }

    /// Returns whether the calling thread has a hold in the same queue that no other thread can end.
    /// If it waits there, it waits for that hold, or behind somebody who does: who is ahead of it,
    /// and excludes it, came after the hold. Permits and single nodes stand in no queue.
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

    /// Makes all other threads wait, for tests.
    #[cfg(test)]
    pub(super) fn stand_still(&self) -> impl Drop {
        self.0.lock()
    }

    /// Stops renewing the lease if nothing is held. Returns whether it is still renewed.
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
