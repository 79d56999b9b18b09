//! Helpers for `DistributedSemaphore`.

use zoolock::{Client, DistributedSemaphore, Guard, Hold, Result};
use zoolock_test_support::wait_until;

use crate::{SOON, Task, answered, await_nodes, await_nothing_left, children};

pub fn semaphore(client: &Client, path: &str, limit: u32) -> DistributedSemaphore {
    DistributedSemaphore::new(client, path, limit).expect("a good path and limit")
}

pub fn leases_of(path: &str) -> String {
    format!("{path}/leases")
}

/// Returns the nodes of permits, including permits that are only requested.
pub fn leases(path: &str) -> Vec<String> {
    children(&leases_of(path))
}

/// Returns the turn nodes of waiters, and of calls that are just being granted.
pub fn turns(path: &str) -> Vec<String> {
    children(&format!("{path}/locks"))
}

pub fn await_leases(path: &str, count: usize) -> Vec<String> {
    await_nodes(&leases_of(path), count)
}

pub fn await_turns(path: &str, count: usize) -> Vec<String> {
    await_nodes(&format!("{path}/locks"), count)
}

/// Returns the sorted node names of the permits.
pub fn nodes(permits: &Guard) -> Vec<String> {
    let mut nodes: Vec<_> = permits.holds().iter().map(Hold::node).collect();
    nodes.sort();
    nodes
}

/// Starts a call on another thread that waits for permits.
pub fn acquiring(semaphore: &DistributedSemaphore, count: u32) -> Task<Result<Guard>> {
    let semaphore = semaphore.clone();
    Task::spawn(move || semaphore.acquire(count))
}

/// Starts a call, and waits until it has the turn and has created the nodes of its permits.
pub fn waiting_with_the_turn(semaphore: &DistributedSemaphore, count: u32) -> Task<Result<Guard>> {
    let (path, before) = (semaphore.path().to_owned(), leases(semaphore.path()).len());
    // Without this wait, the turn node of a finished call might still exist; it is deleted in the background.
    await_turns(&path, 0);
    let waiter = acquiring(semaphore, count);
    await_turns(&path, 1);
    await_leases(&path, before + count as usize);
    assert!(!waiter.is_done(), "it must wait");
    waiter
}

/// Expects that all permits are free, and that no node of a waiter is left.
#[track_caller]
pub fn is_free(semaphore: &DistributedSemaphore, clients: &[&Client]) {
    let path = semaphore.path();
    wait_until("nothing is left on the server", SOON, || {
        leases(path).is_empty() && turns(path).is_empty()
    });
    assert_eq!(answered(|| semaphore.available()).unwrap(), semaphore.limit());
    clients.iter().for_each(|client| await_nothing_left(client));
}
