//! The stage of one test: a path, a monitor, and queries to the server.

use std::sync::Arc;
use std::time::Duration;

use zoolock::{Client, DistributedLock};
use zoolock_test_support::{FaultProxy, fresh_path, shared_probe, shared_server, wait_until};

use common::{Object, await_resumed, behind_a_proxy_of, client_of};

use crate::monitor::{Kind, Monitor};
use crate::{Peer, SOON, Task};

/// A session timeout that is long enough for a busy machine.
const SESSION: Duration = Duration::from_secs(20);

/// Returns a client of this library that has its own session.
pub fn client() -> Client {
    client_of(&shared_server().connect_string(), SESSION)
}

/// A fresh path of a lock, and a monitor for it.
#[derive(Debug)]
pub struct Stage {
    /// The path of the lock.
    pub path: String,
    /// The monitor of the lock.
    pub monitor: Arc<Monitor>,
}

impl Stage {
    /// Creates a stage.
    pub fn new(name: &str) -> Stage {
        Stage { path: fresh_path(name), monitor: Arc::new(Monitor::new()) }
    }

    /// Returns a stage with the same monitor whose path is `name` below this path, or this path if `name` is empty.
    pub fn below(&self, name: &str) -> Stage {
        let path = format!("{}/{name}", self.path).trim_end_matches('/').to_owned();
        Stage { path, monitor: Arc::clone(&self.monitor) }
    }

    /// Creates the directories of a semaphore by hand. Ours deletes its own ones, which kazoo does not expect.
    pub fn with_directories(self) -> Stage {
        let parts = ["locks", "leases"].map(|part| self.below(part).path);
        let probe = shared_probe().expect("a probe");
        parts.iter().for_each(|path| probe.create_all(path).expect("a directory"));
        self
    }

    /// Returns our plain lock.
    pub fn lock(&self, client: &Client) -> DistributedLock {
        DistributedLock::new(client, &self.path).expect("a path")
    }

    /// Returns the command that acquires repeatedly; `taking` is `lock`, `read`, `write`, `lead` or `latch`.
    pub fn run(&self, times: usize, taking: &str) -> String {
        format!("run {times} {} {taking} {}", self.monitor.folder().display(), self.path)
    }

    /// Acquires and releases our lock repeatedly, on a new thread.
    pub fn turns(&self, times: usize, lock: Object, kind: Kind, who: &str) -> Task<()> {
        let (monitor, who) = (Arc::clone(&self.monitor), who.to_owned());
        Task::spawn(move || {
            for _ in 0..times {
                lock.lock().expect("locked");
                drop(monitor.enter(kind, &who, 1));
                lock.unlock().expect("unlocked");
            }
        })
    }

    /// Returns the children of the lock's directory, ordered by sequence number, or none if it does not exist.
    pub fn nodes(&self) -> Vec<String> {
        let probe = shared_probe().expect("a probe");
        let mut nodes = probe.children(&self.path).expect("an answer");
        nodes.sort_by_key(|node| node[node.len().saturating_sub(10)..].to_owned());
        nodes
    }

    /// Asserts that the lock often passed from one side to the other while each side acquired it `turns` times.
    #[track_caller]
    pub fn assert_contention(&self, turns: usize) {
        let order = self.monitor.order();
        let is_ours = |who: &String| who.starts_with("ours");
        let changes = order.windows(2).filter(|two| is_ours(&two[0]) != is_ours(&two[1])).count();
        assert!(changes >= turns / 2, "no contention: {order:?}");
    }

    /// Waits until the lock's directory has this many children.
    pub fn await_nodes(&self, count: usize) {
        let what = format!("{count} nodes in {}", self.path);
        wait_until(&what, SOON, || self.nodes().len() == count);
    }

    /// Waits until the contender behind this node watches it.
    pub fn await_watched(&self, node: &str) {
        let path = format!("{}/{node}", self.path);
        wait_until(&format!("{path} is watched"), SOON, || {
            let watched = shared_server().four_letter("wchp").expect("an answer");
            watched.lines().any(|line| line.trim() == path)
        });
    }

    /// Makes a peer wait behind the only contender, and waits until the peer watches that contender's node.
    #[track_caller]
    pub fn has_to_wait(&self, peer: &mut Peer, taking: &str) {
        let ahead = self.nodes();
        assert_eq!(ahead.len(), 1, "{ahead:?}");
        peer.tell(&format!("{taking} {}", self.path));
        self.await_nodes(2);
        self.await_watched(&ahead[0]);
        assert!(!peer.has_answered(), "{} was let in", peer.name());
    }

    /// Returns a client of this library, and the proxy with which a test can cut its connection.
    pub fn client_to_cut(&self) -> (FaultProxy, Client) {
        behind_a_proxy_of(shared_server(), SESSION)
    }

    /// Cuts the client's connection, and waits until the client resumes its session on a new one. Asserts that the
    /// nodes have not changed.
    pub fn cut_and_await_resume(&self, proxy: &FaultProxy, client: &Client) {
        let before = self.nodes();
        proxy.cut();
        await_resumed(client, 1);
        assert_eq!(self.nodes(), before);
    }
}
