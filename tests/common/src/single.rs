//! `EphemeralLock`: a single node, which is the lock's path itself.

use zoolock::{Client, EphemeralLock};
use zoolock_test_support::shared_probe;

pub fn lock_of(client: &Client, path: &str) -> EphemeralLock {
    EphemeralLock::new(client, path).expect("a good path")
}

/// Creates the directories above a path.
pub fn make_parents(path: &str) {
    let above = path.rsplit_once('/').unwrap().0;
    shared_probe().unwrap().create_all(above).unwrap();
}
