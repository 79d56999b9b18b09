//! What the tests of a binary share: a server, and a separate root path for each.

use std::env;
use std::io;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Probe, Server};

/// Returns the server that all tests of this process share. The first call starts it.
///
/// Tests that stop, pause or slow down a server start their own instead. The shared server does not remove empty
/// containers. Panics with the reason if it cannot start.
#[must_use]
pub fn shared_server() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    // By default, the server would remove empty directories after a minute, in the middle of a test.
    let never = format!("-Dznode.container.checkIntervalMs={}", i32::MAX);
    SHARED.get_or_init(|| match Server::builder().jvm_flag(&never).start() {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    })
}

/// Returns the servers for all tests: `ZOOKEEPER_CONNECT` if it is set, or else the [`shared_server`]. Panics if that
/// cannot start, or if `/zoolock-test` cannot be created.
#[must_use]
pub fn connect_string() -> String {
    static SERVERS: OnceLock<String> = OnceLock::new();
    let servers = SERVERS.get_or_init(|| {
        let servers = match env::var("ZOOKEEPER_CONNECT") {
            Ok(given) if !given.trim().is_empty() => given.trim().to_owned(),
            _ => shared_server().connect_string(),
        };
        // If a test with credentials created the root, other tests would have no access to it.
        let chroot = servers.find('/').map_or("", |at| &servers[at..]);
        let made =
            probe_of(&servers).and_then(|probe| probe.create_all(&format!("{chroot}{ROOT}")));
        match made {
            Ok(()) => servers,
            Err(error) => panic!("{ROOT} at `{servers}`: {error}"),
        }
    });
    servers.clone()
}

/// Returns a [`Probe`] on the first server of [`connect_string`] that answers. A chroot is ignored. If no server
/// answers, fails with the error of the last one.
pub fn shared_probe() -> io::Result<Probe> {
    probe_of(&connect_string())
}

fn probe_of(servers: &str) -> io::Result<Probe> {
    let hosts = servers.split('/').next().unwrap_or_default();
    let mut result = Err(io::Error::other(format!("no server in `{servers}`")));
    for host in hosts.split(',') {
        result = Probe::connect(host.trim());
        if result.is_ok() {
            break;
        }
    }
    result
}

/// The parent of all tests' root paths. All clients may create nodes in it.
const ROOT: &str = "/zoolock-test";

/// Returns an unused root path, `/zoolock-test/<name>-<unique>`, without creating it.
#[must_use]
pub fn fresh_path(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let (process, number) = (process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{ROOT}/{name}-{process:x}-{nanos:x}-{number}")
}
