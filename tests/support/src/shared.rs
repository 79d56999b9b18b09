//! A server that the tests of one binary share, and separate root paths for them.

use std::env;
use std::io;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Probe, Server};

/// Returns the server that all tests of this process share. Starts it at the first call.
///
/// Tests that stop, pause or slow down a server start their own instead. This server does not
/// remove empty containers.
///
/// # Panics
///
/// When the server cannot be started; the text says why.
#[must_use]
pub fn shared_server() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    // Otherwise it would remove empty directories after a minute, in the middle of any test.
    let never = format!("-Dznode.container.checkIntervalMs={}", i32::MAX);
    SHARED.get_or_init(|| match Server::builder().jvm_flag(&never).start() {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    })
}

/// Returns the servers for tests: those in `ZOOKEEPER_CONNECT` if it is set, otherwise the
/// [`shared_server`].
///
/// # Panics
///
/// When the shared server is needed and cannot be started, or refuses to create `/zoolock-test`.
#[must_use]
pub fn connect_string() -> String {
    static SERVERS: OnceLock<String> = OnceLock::new();
    let servers = SERVERS.get_or_init(|| {
        let servers = match env::var("ZOOKEEPER_CONNECT") {
            Ok(given) if !given.trim().is_empty() => given.trim().to_owned(),
            _ => shared_server().connect_string(),
        };
        // A directory that a test creates would belong to the credentials of that test, and shut
        // the others out.
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

/// Returns a [`Probe`] on the first server of [`connect_string`] that answers, without a chroot.
///
/// # Errors
///
/// The last server's error when none answers.
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

/// The directory above the paths of all tests. All clients may create nodes in it.
const ROOT: &str = "/zoolock-test";

/// Returns an unused root path, `/zoolock-test/<name>-<unique>`. Does not create it.
#[must_use]
pub fn fresh_path(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let (process, number) = (process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{ROOT}/{name}-{process:x}-{nanos:x}-{number}")
}
