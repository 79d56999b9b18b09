//! What networks, servers and operators do to a lock while it is held or waited for: one server,
//! and proxies before it.

mod cycles;
mod garbled;
mod interrupted;
mod joining;
mod places;
mod pressed;
mod processes;
mod relay;
mod restarts;
mod tokens;

use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, Sender, unbounded};
use zoolock::{Client, DistributedLock};
use zoolock_test_support::{FaultProxy, wait_until};

use crate::lock::core::hold_of;
use crate::util::{SOON, Task, children, client_of, shared_proxy};
pub(crate) use tokens::Tokens;

/// The digits of a node's name that say its place.
pub(crate) fn place(node: &str) -> &str {
    &node[node.len() - 10..]
}

/// The places that are taken, in order; a place that is just moving counts twice.
pub(crate) fn places_of(nodes: &[String]) -> Vec<String> {
    let mut places: Vec<_> = nodes.iter().map(|node| place(node).to_owned()).collect();
    places.sort();
    places
}

/// [`places_of`] what is in a directory of the shared server.
fn places(path: &str) -> Vec<String> {
    places_of(&children(path))
}

pub(crate) fn lock_of(client: &Client, path: &str) -> DistributedLock {
    DistributedLock::new(client, path).unwrap()
}

pub(crate) fn await_moved(client: &Client, seats: u64) -> Duration {
    let what = format!("{seats} seats have moved");
    wait_until(&what, SOON, || client.stats().seats_moved >= seats)
}

/// Waiters of one lock, one behind the other, that tell when they are let in and leave at once.
pub(crate) struct Line {
    path: String,
    waiters: Vec<Task<zoolock::Result<()>>>,
    granted: (Sender<usize>, Receiver<usize>),
}

impl Line {
    pub(crate) fn at(path: &str) -> Line {
        Line {
            path: path.to_owned(),
            waiters: Vec::new(),
            granted: unbounded(),
        }
    }

    /// One more waiter at the end, of the shared server; returns when its node is there.
    fn join(&mut self, client: &Client) -> DistributedLock {
        let path = self.path.clone();
        self.join_seen_by(client, || children(&path).len())
    }

    /// [`join`](Self::join), with a count of the nodes that are there.
    pub(crate) fn join_seen_by(
        &mut self,
        client: &Client,
        mut nodes: impl FnMut() -> usize,
    ) -> DistributedLock {
        let (before, number) = (nodes(), self.waiters.len());
        let lock = lock_of(client, &self.path);
        let (own, granted) = (lock.clone(), self.granted.0.clone());
        self.waiters.push(Task::spawn(move || {
            own.lock()?;
            granted.send(number).unwrap();
            own.unlock()
        }));
        wait_until("the next one is queued", SOON, || nodes() > before);
        lock
    }

    pub(crate) fn is_let_in(&self) -> bool {
        !self.granted.1.is_empty()
    }

    /// Waits for all; they have to come in the order in which they queued.
    #[track_caller]
    pub(crate) fn comes_in_order(self) {
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

/// A client that knows two ways to the shared server, and uses the first.
struct TwoWays {
    first: FaultProxy,
    second: FaultProxy,
    client: Client,
}

impl TwoWays {
    fn start(session_timeout: Duration) -> TwoWays {
        let (first, second) = (shared_proxy(), shared_proxy());
        let hosts = format!("{},{}", first.connect_string(), second.connect_string());
        second.refuse(true);
        let client = client_of(&hosts, session_timeout);
        second.refuse(false);
        TwoWays {
            first,
            second,
            client,
        }
    }

    /// Ends the first way, so that only the second is left.
    fn leave_the_first(&self) {
        self.first.refuse(true);
        self.first.cut();
    }

    fn log(&self) -> String {
        let (first, second) = (self.first.log(), self.second.log());
        format!("first way:\n{first:#?}\nsecond way:\n{second:#?}")
    }
}

/// The lock is held by this one node, and its directory is empty after the unlock.
#[track_caller]
fn has_one_node_until_unlocked(lock: &DistributedLock) {
    let path = lock.path();
    let node = hold_of(lock).node();
    wait_until("no other node is there", SOON, || {
        children(path) == [node.clone()]
    });
    lock.unlock().unwrap();
    let took = wait_until("nothing is left", SOON, || children(path).is_empty());
    println!("{path}: {node} alone, and nothing {took:?} after the unlock");
}
