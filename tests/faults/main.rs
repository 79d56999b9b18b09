//! What networks, servers and operators do to locks that are held or waited for: one server behind proxies.

mod client;
mod directories;
mod every;
mod garbled;
mod late;
mod leadership;
mod pressed;
mod schedules;
mod semaphore;

use std::time::Duration;

use common::*;
use zookeeper::{Acl, Permissions, ZooKeeper};

/// The longest session of a test server. It does not end during a test, also beside a start of a server.
const LONG: Duration = Duration::from_secs(60);

/// The session timeout where a quarter of it has to pass.
const SHORT: Duration = Duration::from_secs(4);

/// An operator, who may change permissions.
struct Operator(ZooKeeper);

impl Operator {
    fn connect() -> Operator {
        Operator(ZooKeeper::connect(&connect_string(), LONG).unwrap())
    }

    fn set(&self, path: &str, permissions: Permissions) {
        let acl = [Acl::new(permissions, "world", "anyone")];
        self.0.set_acl(path, &acl, None).unwrap();
    }

    /// Makes a node unreadable for everybody.
    fn hide(&self, path: &str) {
        let others = Permissions::WRITE | Permissions::CREATE | Permissions::DELETE;
        self.set(path, others | Permissions::ADMIN);
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.close();
    }
}
