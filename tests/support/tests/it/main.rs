//! Tests of the test support itself, against real servers.

mod crowds;
mod faults;
mod orphans;

use std::time::Duration;

use zoolock_test_support::{FaultProxy, Probe, fresh_path, shared_probe, shared_server};

/// Long enough for a busy machine. No test waits for it to pass.
const SOON: Duration = Duration::from_secs(30);

/// A proxy in front of the shared server, a client through it, and an observer past it.
struct Stage {
    proxy: FaultProxy,
    client: Probe,
    observer: Probe,
    root: String,
}

impl Stage {
    fn new(name: &str) -> Self {
        let proxy = FaultProxy::start(shared_server().address()).unwrap();
        let client = Probe::connect(proxy.address()).unwrap();
        let observer = shared_probe().unwrap();
        let root = fresh_path(name);
        observer.create_all(&root).unwrap();
        Self { proxy, client, observer, root }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    fn made(&self, name: &str) -> bool {
        self.observer.exists(&self.path(name)).unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.proxy.log().join("\n"));
        }
    }
}
