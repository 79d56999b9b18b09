//! `EphemeralLock`: a single node, which is the lock's path itself.

use zoolock::{Client, EphemeralLock, Result};
use zoolock_test_support::shared_probe;

use crate::Task;

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
