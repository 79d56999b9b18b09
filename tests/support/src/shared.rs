//! What the tests of one binary share: a server, and root paths that do not meet.

use std::env;
use std::io;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Probe, Server};

/// The server all tests of this process share, started at the first call.
///
/// Tests that stop, pause or slow down a server start one of their own instead. It leaves containers that
/// are empty where they are.
///
/// # Panics
///
/// When the server cannot be started; the text says why.
#[must_use]
pub fn shared_server() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    // After a minute it would remove the directories that are empty, in the middle of any test.
    let never = format!("-Dznode.container.checkIntervalMs={}", i32::MAX);
    SHARED.get_or_init(|| match Server::builder().jvm_flag(&never).start() {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    })
}

/// Where tests connect to: `ZOOKEEPER_CONNECT` when it is set, else the [`shared_server`].
///
/// # Panics
///
/// When the shared server is needed and cannot be started, or lets nobody make `/zoolock-test`.
#[must_use]
pub fn connect_string() -> String {
    static SERVERS: OnceLock<String> = OnceLock::new();
    let servers = SERVERS.get_or_init(|| {
        let servers = match env::var("ZOOKEEPER_CONNECT") {
            Ok(given) if !given.trim().is_empty() => given.trim().to_owned(),
            _ => shared_server().connect_string(),
        };
        // Made by a test, it would belong to the credentials of that one, and keep the others out.
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

/// A [`Probe`] on the first server of [`connect_string`] that answers; a chroot is left out.
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

/// Above the paths of all tests; anybody may create in it.
const ROOT: &str = "/zoolock-test";

/// A root path nobody has used, `/zoolock-test/<name>-<unique>`; it is not created.
#[must_use]
pub fn fresh_path(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let (process, number) = (process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("{ROOT}/{name}-{process:x}-{nanos:x}-{number}")
}
