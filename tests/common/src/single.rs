//! `EphemeralLock`: a single node, which is the lock's path itself.

use std::time::Duration;

use zoolock::{Client, EphemeralLock, Result};
use zoolock_test_support::{Stat, shared_probe, wait_until};

use crate::{Task, exists};

/// The session timeout of clients that are to lose their locks.
pub const SHORT: Duration = Duration::from_secs(3);

/// For clients with a session timeout of a minute: sooner than anything that comes by itself.
pub const PROMPT: Duration = Duration::from_secs(10);

pub fn lock_of(client: &Client, path: &str) -> EphemeralLock {
    EphemeralLock::new(client, path).expect("a good path")
}

/// Makes what is above a path.
pub fn make_parents(path: &str) {
    let above = path.rsplit_once('/').unwrap().0;
    shared_probe().unwrap().create_all(above).unwrap();
}

/// A call of `lock()` on a thread of its own.
pub fn locking(lock: &EphemeralLock) -> Task<Result<()>> {
    let lock = lock.clone();
    Task::spawn(move || lock.lock())
}

/// The lock's node on the shared server, if there is one: what it says, and its stat.
pub fn node_at(path: &str) -> Option<(String, Stat)> {
    let found = shared_probe().unwrap().get(path).unwrap()?;
    Some((String::from_utf8(found.0).expect("UTF-8"), found.1))
}

pub fn stat_of(path: &str) -> Stat {
    node_at(path).unwrap_or_else(|| panic!("nothing at {path}")).1
}

pub fn await_gone(path: &str, limit: Duration) -> Duration {
    wait_until(&format!("nothing is at {path}"), limit, || !exists(path))
}

/// Nothing of the client is left but its connection.
pub fn is_tidy(client: &Client, limit: Duration) {
    wait_until("nothing is held, waited for or deleted", limit, || {
        let stats = client.stats();
        (crate::in_use(&stats), stats.deleting) == (0, 0)
    });
}
