//! A client behind a proxy.

use std::thread;
use std::time::Duration;

use zoolock_test_support::{FaultProxy, Probe, Server, shared_probe, shared_server};
use zoolock_zookeeper::{SessionEventKind, ZooKeeper};

use super::{Events, client_of, root};

/// A client behind a new proxy, and a node for this test only.
pub(crate) struct Stage {
    pub(crate) proxy: FaultProxy,
    pub(crate) client: ZooKeeper,
    /// Events after the first connect.
    pub(crate) events: Events,
    pub(crate) root: String,
}

/// A proxy in front of the server, and a client with the only session through it. A busy machine may lose a
/// first handshake and leave an unused session.
pub(crate) fn behind_a_proxy(
    server: &Server,
    connect: impl Fn(&str) -> ZooKeeper,
) -> (FaultProxy, ZooKeeper) {
    let mut tries = (0..10).map(|_| {
        let proxy = FaultProxy::start(server.address()).unwrap();
        let client = connect(&proxy.connect_string());
        (proxy, client)
    });
    tries.find(|(proxy, _)| proxy.connections() == 1).expect("a first handshake in time")
}

impl Stage {
    /// In front of the shared server.
    pub(crate) fn new(name: &str, session_timeout: Duration) -> Stage {
        let connect = |servers: &str| client_of(servers, session_timeout);
        let (proxy, client) = behind_a_proxy(shared_server(), connect);
        Stage { events: Events::of(&client), proxy, client, root: root(name) }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    /// Returns a probe that connects past the proxy.
    pub(crate) fn probe(&self) -> Probe {
        shared_probe().unwrap()
    }

    /// Ends the connection. Returns when the client has detected it; it cannot connect again before
    /// [`FaultProxy::restore`].
    pub(crate) fn suspend(&self) {
        self.proxy.cut_off();
        self.events.until(SessionEventKind::Suspended);
    }

    /// Lets the client connect again, and returns when its session is resumed.
    pub(crate) fn resume(&self) {
        self.proxy.restore();
        self.events.until(SessionEventKind::Resumed);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.proxy.log().join("\n"));
            eprintln!("{:?}", self.events.all());
        }
    }
}
