//! `EphemeralLock`: the lock is a single node at its path.

use zoolock::{Client, EphemeralLock};

pub fn lock_of(client: &Client, path: &str) -> EphemeralLock {
    EphemeralLock::new(client, path).expect("a good path")
}
