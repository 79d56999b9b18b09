//! Waiters of one lock in a queue.

use zoolock::crossbeam_channel::{Receiver, Sender, unbounded};
use zoolock::{Client, DistributedLock, Lock, Wait};
use zoolock_test_support::wait_until;

use crate::task::{Start, Task};
use crate::{SOON, children, hold_of, lock_of};

/// A queue of waiters of one lock. Each waiter reports when it has acquired the lock, and releases it immediately.
pub struct Line {
    path: String,
    waiters: Vec<Task<zoolock::Result<()>>>,
    granted: (Sender<usize>, Receiver<usize>),
}

impl Line {
    pub fn at(path: &str) -> Line {
        Line { path: path.to_owned(), waiters: Vec::new(), granted: unbounded() }
    }

    /// Starts another waiter.
    pub fn start(&mut self, start: Start, lock: impl Into<Box<dyn Lock>>, wait: Wait) {
        let (number, granted) = (self.waiters.len(), self.granted.0.clone());
        let lock = lock.into();
        self.waiters.push(start(Box::new(move || {
            assert!(lock.lock_within(wait)?, "waiter {number} of {lock:?}");
            granted.send(number).unwrap();
            lock.unlock()
        })));
    }

    /// Adds a waiter at the end of the queue, and returns when its node is on the shared server.
    pub fn join(&mut self, client: &Client) {
        let path = self.path.clone();
        self.join_seen_by(client, || children(&path).len());
    }

    /// Like [`join`](Self::join), but `nodes` counts the nodes.
    pub fn join_seen_by(&mut self, client: &Client, mut nodes: impl FnMut() -> usize) {
        let before = nodes();
        self.start(Task::spawn, lock_of(client, &self.path), Wait::FOREVER);
        wait_until("the next one is queued", SOON, || nodes() > before);
    }

    /// Returns how many waiters have acquired the lock so far.
    pub fn let_in(&self) -> usize {
        self.granted.1.len()
    }

    /// Waits until all waiters have acquired the lock, and expects that this happened in queue order.
    #[track_caller]
    pub fn comes_in_order(self) {
        for (number, waiter) in self.waiters.iter().enumerate() {
            let what = format!("waiter {number} of {}", self.path);
            let seen = waiter.result(&what);
            assert!(seen.is_ok(), "{what}: {seen:?}");
        }
        let order: Vec<_> = self.granted.1.try_iter().collect();
        println!("{}: let in {order:?}", self.path);
        assert_eq!(order, (0..self.waiters.len()).collect::<Vec<_>>());
    }
}

/// Expects that the lock's directory has exactly one node, and none after an unlock.
#[track_caller]
pub fn has_one_node_until_unlocked(lock: &DistributedLock) {
    let path = lock.path();
    let node = hold_of(lock).node();
    wait_until("no other node is there", SOON, || children(path) == [node.clone()]);
    lock.unlock().unwrap();
    let took = wait_until("nothing is left", SOON, || children(path).is_empty());
    println!("{path}: {node} alone, and nothing {took:?} after the unlock");
}
