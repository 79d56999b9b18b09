//! Clients that are connected through proxies, for tests of faults.

use std::time::Duration;

use zoolock::{Client, ClientState};
use zoolock_test_support::{FaultProxy, Server, fresh_path, wait_until};

use super::{Object, SOON, Subject, await_nothing_left, client_of, shared_proxy};

/// Starts a proxy for the shared server, and connects a client through it.
pub fn behind_a_proxy(session_timeout: Duration) -> (FaultProxy, Client) {
    behind(shared_proxy(), session_timeout)
}

/// Starts a proxy for `server`, and connects a client through it.
pub fn behind_a_proxy_of(server: &Server, session_timeout: Duration) -> (FaultProxy, Client) {
    behind(FaultProxy::start(server.address()).expect("proxy"), session_timeout)
}

fn behind(proxy: FaultProxy, session_timeout: Duration) -> (FaultProxy, Client) {
    let client = client_of(&proxy.connect_string(), session_timeout);
    (proxy, client)
}

/// An object of a client [behind a proxy](behind_a_proxy), and a rival: an object of another client. All directories
/// exist, so the first node that is created is a contender's.
pub struct Scene {
    pub subject: Subject,
    pub proxy: FaultProxy,
    pub client: Client,
    pub path: String,
    pub own: Object,
    pub rival: Object,
}

impl Scene {
    pub fn start(subject: Subject, name: &str, session_timeout: Duration) -> Scene {
        let (proxy, client) = behind_a_proxy(session_timeout);
        let path = format!("{}/lock", fresh_path(name));
        let (own, rival) = (subject.at(&client, &path), subject.rival(&super::client(), &path));
        rival.lock().unwrap();
        rival.unlock().unwrap();
        Scene { subject, proxy, client, path, own, rival }
    }

    pub fn nodes(&self) -> Vec<String> {
        self.subject.nodes(&self.path)
    }

    /// Lets the rival acquire the lock, and checks that the client has nothing left on the server or in its memory.
    #[track_caller]
    pub fn leaves_nothing(&self, what: &str) {
        let name = self.subject.name;
        assert!(self.rival.lock_within(SOON.into()).unwrap(), "{name}, {what}: {:?}", self.nodes());
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
