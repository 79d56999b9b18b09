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

/// The longest session of a test server. It does not expire during a test, even if a server is started meanwhile.
const LONG: Duration = Duration::from_secs(60);

/// The session timeout in tests that must wait for a quarter of it.
const SHORT: Duration = Duration::from_secs(4);

/// Changes the permissions of all clients, as an operator may do.
fn allow(path: &str, permissions: Permissions) {
    let operator = ZooKeeper::connect(&connect_string(), LONG).unwrap();
    let acl = [Acl::new(permissions, "world", "anyone")];
    operator.set_acl(path, &acl, None).unwrap();
    operator.close().unwrap();
}

/// Makes a node unreadable for all clients.
fn hide(path: &str) {
    let others = Permissions::WRITE | Permissions::CREATE | Permissions::DELETE;
    allow(path, others | Permissions::ADMIN);
}
