//! A client behind a proxy.

use std::thread;
use std::time::Duration;

use zoolock_test_support::{FaultProxy, Probe, Server, shared_probe, shared_server};
use zoolock_zookeeper::{SessionEventKind, ZooKeeper};

use super::{Events, client_of, root};

/// A client behind a new proxy, and a node that only this test uses.
pub(crate) struct Stage {
    pub(crate) proxy: FaultProxy,
    pub(crate) client: ZooKeeper,
    /// All events after the client has first connected.
    pub(crate) events: Events,
    pub(crate) root: String,
}

/// Starts a proxy in front of the server, and connects a client through it whose session is the only one there. On a
/// busy machine, a first handshake may time out and leave an unused session.
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
    /// Starts a stage in front of the shared server.
    pub(crate) fn new(name: &str, session_timeout: Duration) -> Stage {
        let connect = |servers: &str| client_of(servers, session_timeout);
        let (proxy, client) = behind_a_proxy(shared_server(), connect);
        Stage { events: Events::of(&client), proxy, client, root: root(name) }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    /// Returns a probe that bypasses the proxy.
    pub(crate) fn probe(&self) -> Probe {
        shared_probe().unwrap()
    }

    /// Ends the connection, and returns when the client has detected that. It cannot connect again before
    /// [`FaultProxy::restore`] is called.
    pub(crate) fn suspend(&self) {
        self.proxy.cut_off();
        self.events.until(SessionEventKind::Suspended);
    }

    /// Lets the client connect again, and returns when it has resumed its session.
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
