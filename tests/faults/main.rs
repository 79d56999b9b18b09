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

/// Changes the permissions of everybody, as an operator may.
fn allow(path: &str, permissions: Permissions) {
    let operator = ZooKeeper::connect(&connect_string(), LONG).unwrap();
    let acl = [Acl::new(permissions, "world", "anyone")];
    operator.set_acl(path, &acl, None).unwrap();
    operator.close().unwrap();
}

/// Makes a node unreadable for everybody.
fn hide(path: &str) {
    let others = Permissions::WRITE | Permissions::CREATE | Permissions::DELETE;
    allow(path, others | Permissions::ADMIN);
}
