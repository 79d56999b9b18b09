//! Helpers that many tests use: clients, and the actual state of the server.

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

/// The session timeout in most tests. It is so long that no session expires merely because the machine is busy.
pub(crate) const SESSION: Duration = Duration::from_secs(20);

/// The session timeout in tests that wait until a session has expired or a silence was detected.
pub(crate) const SHORT: Duration = Duration::from_secs(4);

/// The time limit for everything that should be quick.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The deadline for calls that are meant to give up.
pub(crate) const BRIEFLY: Duration = Duration::from_secs(1);

/// Returns settings for tests, with a generous limit on the time for answers.
pub(crate) fn builder(servers: &str, session_timeout: Duration) -> Builder {
    ZooKeeper::builder(servers)
        .session_timeout(session_timeout)
        .connect_timeout(SOON)
        .request_timeout(SOON)
}

/// Connects a client to this server or proxy.
pub(crate) fn client_of(servers: &str, session_timeout: Duration) -> ZooKeeper {
    builder(servers, session_timeout).connect().unwrap()
}

/// Connects a client to the shared server.
pub(crate) fn client() -> ZooKeeper {
    client_of(&connect_string(), SESSION)
}

/// Starts a proxy in front of the shared server, which may have been started by another process.
pub(crate) fn shared_proxy() -> FaultProxy {
    let servers = connect_string();
    let first = servers.split([',', '/']).next().unwrap_or_default();
    FaultProxy::start(first.parse().unwrap()).unwrap()
}

/// Creates a node on the shared server that only this test uses.
pub(crate) fn root(name: &str) -> String {
    let path = fresh_path(name);
    shared_probe().unwrap().create_all(&path).unwrap();
    path
}

/// Creates a persistent node that is open to all clients.
#[track_caller]
pub(crate) fn make(client: &ZooKeeper, path: &str, data: &[u8]) -> String {
    let made = client.create(path, data, &Acl::open(), CreateMode::Persistent);
    made.unwrap().0
}

/// Creates an ephemeral node that is open to all clients.
#[track_caller]
pub(crate) fn make_ephemeral(client: &ZooKeeper, path: &str) -> String {
    let made = client.create(path, b"", &Acl::open(), CreateMode::Ephemeral);
    made.unwrap().0
}

/// Returns the kind of the error, which is expected.
#[track_caller]
pub(crate) fn kind<T: Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Returns the kind and the text of the error, which is expected.
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
