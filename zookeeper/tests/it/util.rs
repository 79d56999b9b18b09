//! Helpers of many tests: clients, and the true state of the server.

mod calls;
mod events;
pub(crate) mod fake_server;
mod logged;
mod own_process;
mod stage;

use std::fmt::Debug;
use std::time::Duration;

use zoolock_test_support::{FaultProxy, connect_string, fresh_path, shared_probe};
use zoolock_zookeeper::{
    Acl, Builder, CreateMode, ErrorKind, EventType, OpResult, Result, WatchedEvent, ZooKeeper,
};

pub(crate) use calls::CALLS;
pub(crate) use events::Events;
pub(crate) use logged::{LOGGER, logged};
pub(crate) use own_process::{files, in_own_process, of_clients, resident, threads};
pub(crate) use stage::Stage;
#[cfg(feature = "sasl")]
pub(crate) use stage::behind_a_proxy;

/// The session timeout of most tests, so long that a busy machine ends no session.
pub(crate) const SESSION: Duration = Duration::from_secs(20);

/// The session timeout of tests that wait for its end or for a silence.
pub(crate) const SHORT: Duration = Duration::from_secs(4);

/// The limit for anything that should be fast.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A deadline for calls that should give up.
pub(crate) const BRIEFLY: Duration = Duration::from_secs(1);

/// Settings for tests, with generous time for answers.
pub(crate) fn builder(servers: &str, session_timeout: Duration) -> Builder {
    ZooKeeper::builder(servers)
        .session_timeout(session_timeout)
        .connect_timeout(SOON)
        .request_timeout(SOON)
}

/// A client of this server or proxy.
pub(crate) fn client_of(servers: &str, session_timeout: Duration) -> ZooKeeper {
    builder(servers, session_timeout).connect().unwrap()
}

/// Connects a client to the shared server.
pub(crate) fn client() -> ZooKeeper {
    client_of(&connect_string(), SESSION)
}

/// A new proxy in front of the shared server, which may belong to another process.
pub(crate) fn shared_proxy() -> FaultProxy {
    let servers = connect_string();
    let first = servers.split([',', '/']).next().unwrap_or_default();
    FaultProxy::start(first.parse().unwrap()).unwrap()
}

/// A node on the shared server for this test only.
pub(crate) fn root(name: &str) -> String {
    let path = fresh_path(name);
    shared_probe().unwrap().create_all(&path).unwrap();
    path
}

/// Creates an open, persistent node.
#[track_caller]
pub(crate) fn make(client: &ZooKeeper, path: &str, data: &[u8]) -> String {
    let made = client.create(path, data, &Acl::open(), CreateMode::Persistent);
    made.unwrap().0
}

/// Creates an open, ephemeral node.
#[track_caller]
pub(crate) fn make_ephemeral(client: &ZooKeeper, path: &str) -> String {
    let made = client.create(path, b"", &Acl::open(), CreateMode::Ephemeral);
    made.unwrap().0
}

/// The kind of the expected error.
#[track_caller]
pub(crate) fn kind<T: Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// The kind and text of the expected error.
#[track_caller]
pub(crate) fn said<T: Debug>(result: Result<T>) -> (ErrorKind, String) {
    let error = result.unwrap_err();
    println!("{error}");
    (error.kind(), error.to_string())
}

pub(crate) fn event(event_type: EventType, path: &str) -> WatchedEvent {
    WatchedEvent { event_type, path: path.to_owned() }
}

/// Returns the paths of the nodes that a `multi` created.
pub(crate) fn created(results: &[OpResult]) -> Vec<&str> {
    let created = results.iter().filter_map(|result| match result {
        OpResult::Created { path, .. } => Some(&**path),
        _ => None,
    });
    created.collect()
}
