//! `DistributedRwLock`: readers share, writers are alone, all in order of arrival.

use std::time::Duration;

use zoolock::{Client, DistributedRwLock, Error, Lock};
use zoolock_test_support::{FaultProxy, Op, fresh_path, wait_until};

use crate::{SOON, Visitor, await_nodes, await_nothing_left, children, client_of, shared_proxy};

pub fn rw_of(client: &Client, path: &str) -> DistributedRwLock {
    DistributedRwLock::new(client, path).unwrap()
}

pub fn would_deadlock<T>(result: &zoolock::Result<T>, path: &str) -> bool {
    matches!(result, Err(Error::WouldDeadlock { path: at }) if at == path)
}

/// One lock, and clients whose requests one proxy counts. The sessions are so long that clients send nothing
/// else.
pub struct Stage {
    pub path: String,
    pub proxy: FaultProxy,
    pub clients: Vec<Client>,
}

impl Stage {
    pub fn new(name: &str, clients: usize) -> Stage {
        let proxy = shared_proxy();
        let hosts = proxy.connect_string();
        Stage {
            path: fresh_path(name),
            clients: (0..clients).map(|_| client_of(&hosts, Duration::from_secs(60))).collect(),
            proxy,
        }
    }

    /// Creates an object of the lock.
    pub fn lock(&self, client: usize) -> DistributedRwLock {
        rw_of(&self.clients[client], &self.path)
    }

    pub fn nodes(&self) -> usize {
        children(&self.path).len()
    }

    pub fn enters(&self, lock: impl Into<Box<dyn Lock>>) -> Visitor {
        let visitor = Visitor::start(lock);
        visitor.comes_in();
        visitor
    }

    /// A visitor that has to wait; returns when it watches the node ahead.
    #[track_caller]
    pub fn queues(&self, lock: impl Into<Box<dyn Lock>>) -> Visitor {
        let seen = || (self.nodes(), self.proxy.requests(Op::SetWatches));
        let before = seen();
        let visitor = Visitor::start(lock);
        wait_until("it watches the one ahead", SOON, || {
            let now = seen();
            now.0 > before.0 && now.1 > before.1
        });
        assert!(!visitor.is_in(), "let in: {:?}", children(&self.path));
        visitor
    }

    #[track_caller]
    pub fn is_empty(&self) {
        await_nodes(&self.path, 0);
        self.clients.iter().for_each(await_nothing_left);
    }
}
