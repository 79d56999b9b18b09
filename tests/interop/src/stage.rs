//! The place of one test: a path, a witness, and what is to be seen on the server.

use std::sync::Arc;
use std::time::Duration;

use zoolock::{Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, Lock};
use zoolock_test_support::{FaultProxy, Probe, fresh_path, shared_server, wait_until};

use common::client_of;

use crate::witness::{Kind, Witness};
use crate::{Peer, SOON, Task};

/// Long enough that a busy machine does not end a session.
const SESSION: Duration = Duration::from_secs(20);

/// A client of ours, with a session of its own.
pub fn client() -> Client {
    client_of(&shared_server().connect_string(), SESSION)
}

/// A path nobody has used, and who was inside there.
#[derive(Debug)]
pub struct Stage {
    /// The path of the lock.
    pub path: String,
    /// Who was inside.
    pub witness: Arc<Witness>,
}

impl Stage {
    /// A new one.
    #[must_use]
    pub fn new(name: &str) -> Stage {
        Stage { path: fresh_path(name), witness: Arc::new(Witness::new()) }
    }

    /// The same witness, and a directory below the path.
    #[must_use]
    pub fn below(&self, name: &str) -> Stage {
        Stage { path: format!("{}/{name}", self.path), witness: Arc::clone(&self.witness) }
    }

    /// Our plain lock.
    ///
    /// # Panics
    /// Never: the path is a good one.
    #[must_use]
    pub fn lock(&self, client: &Client) -> DistributedLock {
        DistributedLock::new(client, &self.path).expect("a path")
    }

    /// Our reentrant lock.
    ///
    /// # Panics
    /// Never: the path is a good one.
    #[must_use]
    pub fn reentrant(&self, client: &Client) -> DistributedReentrantLock {
        DistributedReentrantLock::new(client, &self.path).expect("a path")
    }

    /// Our read-write lock.
    ///
    /// # Panics
    /// Never: the path is a good one.
    #[must_use]
    pub fn read_write(&self, client: &Client) -> DistributedRwLock {
        DistributedRwLock::new(client, &self.path).expect("a path")
    }

    /// The line that has a peer take turns: `taking` is `lock`, `read`, `write`, `lead` or `latch`.
    #[must_use]
    pub fn run(&self, times: usize, taking: &str) -> String {
        format!("run {times} {} {taking} {}", self.folder(), self.path)
    }

    /// Where the witness is.
    #[must_use]
    pub fn folder(&self) -> String {
        self.witness.folder().display().to_string()
    }

    /// Our counterpart to it, on a thread of its own.
    ///
    /// # Panics
    /// The result does when a turn fails.
    pub fn turns(
        &self,
        times: usize,
        lock: impl Lock + 'static,
        kind: Kind,
        who: &str,
    ) -> Task<()> {
        let (witness, who) = (Arc::clone(&self.witness), who.to_owned());
        Task::spawn(move || {
            for _ in 0..times {
                lock.lock().expect("locked");
                drop(witness.enter(kind, &who, 1));
                lock.unlock().expect("unlocked");
            }
        })
    }

    /// The children of the lock's directory in the order of their sequences.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        nodes_of(&self.path)
    }

    /// Waits until there are so many.
    pub fn await_nodes(&self, count: usize) {
        let what = format!("{count} nodes in {}", self.path);
        wait_until(&what, SOON, || self.nodes().len() == count);
    }

    /// Waits until somebody watches that node: who waits behind it.
    ///
    /// # Panics
    /// When nobody does in time.
    pub fn await_watched(&self, node: &str) {
        let path = format!("{}/{node}", self.path);
        wait_until(&format!("{path} is watched"), SOON, || {
            let watched = shared_server().four_letter("wchp").expect("an answer");
            watched.lines().any(|line| line.trim() == path)
        });
    }

    /// Has a peer wait behind the one node that is there, which it is seen to watch.
    ///
    /// # Panics
    /// When it is let in.
    #[track_caller]
    pub fn has_to_wait(&self, peer: &mut Peer, taking: &str) {
        let ahead = self.nodes();
        assert_eq!(ahead.len(), 1, "{ahead:?}");
        peer.tell(&format!("{taking} {}", self.path));
        self.await_nodes(2);
        self.await_watched(&ahead[0]);
        assert!(!peer.has_answered(), "{} was let in", peer.name());
    }

    /// A client of ours whose connection can be cut.
    ///
    /// # Panics
    /// When there is no port for the proxy.
    pub fn client_to_cut(&self) -> (FaultProxy, Client) {
        common::behind_a_proxy_of(shared_server(), SESSION)
    }

    /// Cuts the client's connection and waits until its session goes on on the next one. The nodes are the
    /// same as before.
    ///
    /// # Panics
    /// When that does not happen in time.
    pub fn cut_and_await_resume(&self, proxy: &FaultProxy, client: &Client) {
        let before = self.nodes();
        proxy.cut();
        wait_until("its session is resumed", SOON, || client.stats().resumed > 0);
        assert_eq!(self.nodes(), before);
    }
}

/// The children of a directory in the order of their sequences; none if there is no directory.
///
/// # Panics
/// When the server does not answer.
#[must_use]
pub(crate) fn nodes_of(path: &str) -> Vec<String> {
    let probe = Probe::connect(shared_server().address()).expect("a probe");
    let mut nodes = probe.children(path).expect("an answer");
    nodes.sort_by_key(|node| sequence(node).to_owned());
    nodes
}

fn sequence(node: &str) -> &str {
    &node[node.len().saturating_sub(10)..]
}
