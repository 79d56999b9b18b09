//! The register of all nodes that are held, handed over or reserved, and of calls that may have a
//! single node.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use zookeeper::LeaseKeeper;

use super::claim::Claim;
use super::failure::Failure;
use super::nodes::{Grant, Nodes};
use crate::kind::LockKind;
use crate::path::LockPath;
use crate::sys::{self, Mutex};

type Table = BTreeMap<(LockPath, u64), Arc<Nodes>>;

/// All nodes that are held, handed over to the next thread, or reserved.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Entries>);

/// The calls that may have a single node.
pub(super) enum SingleOwner {
    Hold,
    Call,
    Nobody,
}

#[derive(Debug, Default)]
struct Entries {
    /// Sorted by directory: a call that has to wait looks at its own directory alone.
    nodes: Table,
    next: u64,
    /// The calls that may have the single node at this path without holding it. A call that makes
    /// it has a number, which later ones exceed. A call that deletes it has number 0.
    making: BTreeMap<LockPath, Vec<u64>>,
    is_closed: bool,
    /// Keeps the lease renewed while anything is held, and a little longer. Taking and dropping it
    /// for each hold would wake the client's timer each time.
    keeper: Option<LeaseKeeper>,
}

fn key(nodes: &Nodes) -> (LockPath, u64) {
    (nodes.claim.directory.clone(), nodes.number)
}

impl Entries {
    fn in_directory(&self, directory: &LockPath) -> impl Iterator<Item = &Arc<Nodes>> {
        let here = (directory.clone(), 0)..=(directory.clone(), u64::MAX);
        self.nodes.range(here).map(|(_, nodes)| nodes)
    }
}

impl Registry {
    /// Adds the nodes that `make` returns for a new number, under the mutex: at no instant are they
    /// granted and not registered.
    pub(super) fn add(
        &self,
        keep_lease: impl FnOnce() -> LeaseKeeper,
        make: impl FnOnce(u64) -> (Arc<Nodes>, Arc<Grant>),
    ) -> Result<Arc<Grant>, Failure> {
        let mut entries = self.0.lock();
        if entries.is_closed {
            sys::reached("a grant comes behind the close");
            return Err(Failure::Closed);
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
        self.0.lock().nodes.values().filter(|nodes| !nodes.claim.is_turn()).count()
    }

    /// Returns whether the claim's thread has a hold in the same queue that no other thread can end.
    /// If the claim waits there, it waits for that hold, or behind somebody who does: who is ahead
    /// of the claim, and excludes it, came after the hold. Permits and single nodes stand in no queue.
    pub(crate) fn holds_here(&self, claim: &Claim) -> bool {
        let is_own = |nodes: &Arc<Nodes>| {
            nodes.claim.kind.is_of_a_thread() && nodes.is_held_by(claim.holder.thread)
        };
        let here = || -> Vec<_> { self.0.lock().in_directory(&claim.directory).cloned().collect() };
        let queues = !matches!(claim.kind, LockKind::Semaphore | LockKind::Ephemeral);
        queues && here().iter().any(is_own)
    }

    /// Notes that a call is about to make the single node at `path`. Returns the call's number.
    pub(super) fn start_making(&self, path: &LockPath) -> u64 {
        let mut entries = self.0.lock();
        entries.next += 1;
        let number = entries.next;
        entries.making.entry(path.clone()).or_default().push(number);
        number
    }

    /// Notes that a call is about to delete its single node at `path`. Returns the call's number.
    pub(super) fn start_deleting(&self, path: &LockPath) -> u64 {
        self.0.lock().making.entry(path.clone()).or_default().push(0);
        0
    }

    /// Notes that the call with this number does not have the node at `path` any more, or holds it.
    pub(super) fn end_making(&self, path: &LockPath, number: u64) {
        let mut entries = self.0.lock();
        if let Some(numbers) = entries.making.get_mut(path) {
            let at = numbers.iter().position(|other| *other == number);
            at.map(|at| numbers.swap_remove(at));
            if numbers.is_empty() {
                entries.making.remove(path);
            }
        }
    }

    /// Returns the highest number so far: calls that begin now have higher ones.
    pub(super) fn last_number(&self) -> u64 {
        self.0.lock().next
    }

    /// Returns which calls that had begun by `number` may have the single node at `path` that
    /// transaction `czxid` created.
    pub(super) fn owner_of_single(&self, path: &LockPath, czxid: i64, number: u64) -> SingleOwner {
        let entries = self.0.lock();
        let (directory, _) = path.split();
        let mut here = entries.in_directory(&directory);
        if here.any(|nodes| nodes.list.iter().any(|node| node.czxid == czxid)) {
            return SingleOwner::Hold;
        }
        match entries.making.get(path) {
            Some(calls) if calls.iter().any(|call| *call <= number) => SingleOwner::Call,
            _ => SingleOwner::Nobody,
        }
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
