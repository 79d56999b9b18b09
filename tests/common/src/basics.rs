//! Holds and nodes of one lock.

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, DistributedReentrantLock, Hold, Lock};
use zoolock_test_support::wait_until;

use crate::{SOON, children};

/// What the lock types have beside [`Lock`].
pub trait Exclusive: Lock + Clone + 'static {
    fn at(client: &Client, path: &str) -> Self;
}

impl Exclusive for DistributedLock {
    fn at(client: &Client, path: &str) -> Self {
        DistributedLock::new(client, path).expect("a good path")
    }
}

impl Exclusive for DistributedReentrantLock {
    fn at(client: &Client, path: &str) -> Self {
        DistributedReentrantLock::new(client, path).expect("a good path")
    }
}

/// The one hold of a lock that is held.
pub fn hold_of(lock: &impl Lock) -> Hold {
    let holds = lock.holds();
    assert_eq!(holds.len(), 1, "{lock:?} has {holds:?}");
    holds.into_iter().next().expect("one hold")
}

/// Until this many nodes are in the lock's directory.
pub fn await_nodes(path: &str, count: usize) -> Vec<String> {
    let mut nodes = Vec::new();
    wait_until(&format!("{path} has {count} nodes"), SOON, || {
        nodes = children(path);
        nodes.len() == count
    });
    nodes
}

/// Timed tries of a busy lock fail, and not before their time.
#[track_caller]
pub fn timed_tries_fail(busy: &impl Lock, timeout: Duration) {
    for timeout in [timeout, Duration::ZERO] {
        let begun = Instant::now();
        let locked = busy.try_lock_for(timeout).unwrap();
        let took = begun.elapsed();
        println!("try_lock_for({timeout:?}): {locked} after {took:?}");
        assert!(!locked && took >= timeout && took < SOON, "{timeout:?}");
    }
    let begun = Instant::now();
    assert!(!busy.try_lock_until(begun + timeout).unwrap());
    assert!(begun.elapsed() >= timeout, "{:?}", begun.elapsed());
}
