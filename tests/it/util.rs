//! What many tests need: clients, and looking at what is really on the server.

use std::time::Duration;

use zoolock::Client;
use zoolock_test_support::{connect_string, shared_probe};

/// The session timeout of most tests: long enough that a busy machine does not end a session.
pub(crate) const SESSION: Duration = Duration::from_secs(10);

/// The longest that anything should take that is not expected to take any time.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A client of the shared server.
pub(crate) fn client() -> Client {
    client_of(&connect_string(), SESSION)
}

/// A client of some server or proxy.
pub(crate) fn client_of(hosts: &str, session_timeout: Duration) -> Client {
    Client::connect(hosts, session_timeout).expect("connect")
}

/// The children of a node of the shared server, sorted; none if it does not exist.
pub(crate) fn children(path: &str) -> Vec<String> {
    let probe = shared_probe().expect("probe");
    let mut children = match probe.exists(path).expect("exists") {
        true => probe.children(path).expect("children"),
        false => Vec::new(),
    };
    children.sort();
    children
}
