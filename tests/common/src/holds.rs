//! Helpers for holds: their nodes, how they are lost, and what is left of them.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use zoolock::{Client, Error, Hold, Lock, LossReason, Result};
use zoolock_test_support::{shared_probe, wait_until};

use super::{SOON, children};

/// Returns the digits of a node's sequence number.
pub fn place(node: &str) -> &str {
    &node[node.len() - 10..]
}

pub fn await_resumed(client: &Client, times: u64) -> Duration {
    let what = format!("its session was resumed {times} times");
    wait_until(&what, SOON, || client.stats().resumed >= times)
}

/// Returns the single hold of a held lock.
pub fn hold_of(lock: &impl Lock) -> Hold {
    let holds = lock.holds();
    assert_eq!(holds.len(), 1, "{lock:?} has {holds:?}");
    holds.into_iter().next().expect("one hold")
}

/// Waits until the lock's directory has this many nodes.
pub fn await_nodes(path: &str, count: usize) -> Vec<String> {
    await_count(path, count, || children(path))
}

pub(crate) fn await_count(at: &str, count: usize, list: impl Fn() -> Vec<String>) -> Vec<String> {
    let mut nodes = Vec::new();
    wait_until(&format!("{count} nodes at {at}"), SOON, || {
        nodes = list();
        nodes.len() == count
    });
    nodes
}

/// Deletes the hold's node, as an operator would.
pub fn delete_node(hold: &Hold) {
    let node = format!("{}/{}", hold.path(), hold.node());
    shared_probe().unwrap().delete(&node).unwrap();
}

/// Waits until `ended()` is ready, and returns how long that took.
#[track_caller]
pub fn await_lost(hold: &Hold) -> Duration {
    let begun = Instant::now();
    let told = hold.ended().recv_timeout(SOON);
    assert!(told.is_err_and(|error| error.is_disconnected()), "not over within {SOON:?}: {hold:?}");
    begun.elapsed()
}

pub fn is_lost(error: &Error, path: &str, why: LossReason) -> bool {
    matches!(error, Error::Lost { path: at, reason, .. } if at == path && *reason == why)
}

#[track_caller]
pub fn assert_lost<T: Debug>(result: &Result<T>, path: &str, why: LossReason) {
    let lost = result.as_ref().is_err_and(|error| is_lost(error, path, why));
    assert!(lost, "not lost because {why}: {result:?}");
}

pub fn would_deadlock<T>(result: &Result<T>, path: &str) -> bool {
    matches!(result, Err(Error::WouldDeadlock { path: at, .. }) if at == path)
}

/// Waits until the client has neither nodes on the server nor nodes to delete.
pub fn await_nothing_left(client: &Client) {
    wait_until("nothing of the client is left on the server", SOON, || {
        let stats = client.stats();
        (super::in_use(&stats), stats.deleting) == (0, 0)
    });
}
