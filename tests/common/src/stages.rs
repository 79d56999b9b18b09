//! Clients behind proxies, for tests of faults.

use std::time::Duration;

use zoolock::{Client, ClientState, DistributedLock};
use zoolock_test_support::{FaultProxy, Server, fresh_path, wait_until};

use super::{Object, SOON, Subject, await_nothing_left, client, client_of, lock_of, shared_proxy};

/// Starts a proxy for the shared server and connects a client through it.
pub fn behind_a_proxy(session_timeout: Duration) -> (FaultProxy, Client) {
    behind(shared_proxy(), session_timeout)
}

/// Starts a proxy for `server` and connects a client through it.
pub fn behind_a_proxy_of(server: &Server, session_timeout: Duration) -> (FaultProxy, Client) {
    behind(FaultProxy::start(server.address()).expect("proxy"), session_timeout)
}

fn behind(proxy: FaultProxy, session_timeout: Duration) -> (FaultProxy, Client) {
    let client = client_of(&proxy.connect_string(), session_timeout);
    (proxy, client)
}

/// A client [behind a proxy](behind_a_proxy) and its lock.
pub struct Stage {
    pub proxy: FaultProxy,
    pub client: Client,
    pub path: String,
    pub lock: DistributedLock,
}

impl Stage {
    pub fn new(name: &str, session_timeout: Duration) -> Stage {
        let ((proxy, client), path) = (behind_a_proxy(session_timeout), fresh_path(name));
        let lock = lock_of(&client, &path);
        Stage { proxy, client, path, lock }
    }
}

/// An object of a client [behind a proxy](behind_a_proxy), and a rival of another client. All
/// directories exist, so that the first create is that of a contender.
pub struct Scene {
    pub subject: Subject,
    pub proxy: FaultProxy,
    pub client: Client,
    pub others: Client,
    pub path: String,
    pub own: Object,
    pub rival: Object,
}

impl Scene {
    pub fn start(subject: Subject, name: &str, session_timeout: Duration) -> Scene {
        let ((proxy, client), others) = (behind_a_proxy(session_timeout), client());
        let path = format!("{}/lock", fresh_path(name));
        let (own, rival) = (subject.at(&client, &path), subject.rival(&others, &path));
        rival.lock().unwrap();
        rival.unlock().unwrap();
        Scene { subject, proxy, client, others, path, own, rival }
    }

    pub fn nodes(&self) -> Vec<String> {
        self.subject.nodes(&self.path)
    }

    /// Lets the rival have the lock, and checks that nothing is left on the server or in the
    /// client.
    #[track_caller]
    pub fn leaves_nothing(&self, what: &str) {
        let name = self.subject.name;
        assert!(self.rival.try_lock_for(SOON).unwrap(), "{name}, {what}: {:?}", self.nodes());
        self.rival.unlock().unwrap();
        wait_until("it is connected", SOON, || self.client.state() == ClientState::Connected);
        await_nothing_left(&self.client);
        assert_eq!(self.nodes(), [""; 0], "{name}, {what}: {}", self.log());
        println!("{name}, {what}: {:?}", self.client.stats());
    }

    pub fn log(&self) -> String {
        self.proxy.log().join("\n")
    }
}

/// A client that knows two proxies for the shared server and is connected to the first.
pub struct TwoWays {
    pub first: FaultProxy,
    pub second: FaultProxy,
    pub client: Client,
}

impl TwoWays {
    pub fn start(session_timeout: Duration) -> TwoWays {
        let (first, second) = (shared_proxy(), shared_proxy());
        let hosts = format!("{},{}", first.connect_string(), second.connect_string());
        second.refuse(true);
        let client = client_of(&hosts, session_timeout);
        second.refuse(false);
        TwoWays { first, second, client }
    }

    /// Cuts off the first proxy.
    pub fn leave_the_first(&self) {
        self.first.cut_off();
    }

    pub fn log(&self) -> String {
        let (first, second) = (self.first.log(), self.second.log());
        format!("first way:\n{first:#?}\nsecond way:\n{second:#?}")
    }
}
