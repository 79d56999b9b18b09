//! What networks, servers and operators do to locks that clients hold or wait for. There is one server, behind proxies.

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

/// The longest session timeout of a test server, so no session expires during a test, even while a server is started.
const LONG: Duration = Duration::from_secs(60);

/// The session timeout in tests that must wait for a quarter of it.
const SHORT: Duration = Duration::from_secs(4);

/// Sets the permissions that all clients have for a node, as an operator may do.
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
