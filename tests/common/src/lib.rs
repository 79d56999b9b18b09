//! Helpers that many tests use: clients, and the actual state of the server.

mod costs;
mod holds;
mod in_time;
pub mod line;
mod logged;
mod object;
mod processes;
pub mod reaping;
pub mod relay;
#[cfg(feature = "secured")]
pub mod secured;
pub mod semaphore;
mod stages;
pub mod subjects;
mod task;
mod visitor;

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use zoolock::{Acl, Client, ClientBuilder, DistributedLock, DistributedRwLock, Stats};

pub use zoolock_test_support::{
    CountingServer, Direction, Ensemble, EnsembleBuilder, FaultProxy, Late, Op, Probe, Server,
    Stat, Then, connect_string, fresh_path, shared_probe, shared_server, wait_until,
};

pub use costs::cost;
pub use holds::{
    assert_lost, await_lost, await_nodes, await_nothing_left, await_resumed, delete_node, hold_of,
    is_lost, place, would_deadlock,
};
pub use in_time::{answered, in_time};
pub use logged::{PANICS_THE_LOGGER, warnings, warnings_with_keys};
pub use object::{Ask, Object};
pub use processes::{
    Beside, OWN_PROCESS, Signal, alone, handle_of, run_again, send, state, with_all_signals,
};
pub use stages::{Scene, behind_a_proxy, behind_a_proxy_of};
pub use subjects::{Subject, every_subject, every_subject_that};
pub use task::{Task, locking, locking_by, visit, visit_by};
pub use visitor::Visitor;

/// The session timeout in most tests. It is so long that no session expires merely because the machine is busy.
pub const SESSION: Duration = Duration::from_secs(10);

/// The time limit for everything that should be quick.
pub const SOON: Duration = Duration::from_secs(60);

/// The timeout for calls that are meant to give up, long enough for answers to arrive on a busy machine.
pub const BRIEFLY: Duration = Duration::from_millis(1500);

/// READ, WRITE, CREATE and ADMIN for all clients.
pub const NO_DELETE: (u32, &str, &str) = (1 | 2 | 4 | 16, "world", "anyone");

/// Connects a client to the shared server.
pub fn client() -> Client {
    client_of(&connect_string(), SESSION)
}

/// Connects a client to this server or proxy.
pub fn client_of(hosts: &str, session_timeout: Duration) -> Client {
    connected(Client::builder(hosts).session_timeout(session_timeout))
}

/// Connects a client with these settings. On a busy machine, the first answer may be late, so the client may take long
/// enough to try again.
#[track_caller]
pub fn connected(builder: ClientBuilder) -> Client {
    builder.connect_timeout(SOON).connect().expect("connect")
}

/// Connects a client with credentials. Only clients with the same credentials have access to its nodes.
pub fn owner() -> Client {
    let builder = Client::builder(connect_string()).session_timeout(SESSION);
    connected(builder.auth("digest", "owner:secret").acl(Acl::creator()))
}

/// Returns how many holds and waiting calls a client has.
pub fn in_use(stats: &Stats) -> usize {
    stats.held + stats.waiting
}

pub fn lock_of(client: &Client, path: &str) -> DistributedLock {
    DistributedLock::new(client, path).expect("a good path")
}

pub fn rw_of(client: &Client, path: &str) -> DistributedRwLock {
    DistributedRwLock::new(client, path).expect("a good path")
}

/// Returns whether the shared server has this node.
pub fn exists(path: &str) -> bool {
    shared_probe().expect("probe").exists(path).expect("exists")
}

/// Returns the stat of a node on the shared server, which must exist.
pub fn stat(path: &str) -> Stat {
    let found = shared_probe().expect("probe").stat(path).expect("stat");
    found.unwrap_or_else(|| panic!("{path} does not exist"))
}

/// Returns the sorted children of a node on the shared server, or none if the node does not exist.
pub fn children(path: &str) -> Vec<String> {
    let mut children = shared_probe().expect("probe").children(path).expect("children");
    children.sort();
    children
}

/// Returns the address of the shared server, or the first address in `ZOOKEEPER_CONNECT` if that is set.
pub fn shared_address() -> SocketAddr {
    let servers = connect_string();
    let first = servers.split([',', '/']).next().unwrap_or_default();
    let mut addresses = first.to_socket_addrs().expect("resolve");
    addresses.next().expect("an address")
}

/// Starts a new proxy in front of the shared server.
pub fn shared_proxy() -> FaultProxy {
    FaultProxy::start(shared_address()).expect("proxy")
}

/// Returns a temporary folder, and the path of a file in it that does not exist yet.
pub fn scratch() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file").to_str().expect("a plain name").to_owned();
    (folder, file)
}
