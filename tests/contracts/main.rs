//! What users may rely on while the servers are healthy. Each file covers one topic.

mod connecting;
mod contenders;
mod counting;
mod ephemeral;
mod every;
mod guarding;
mod in_process;
mod leadership;
mod multi;
mod reaping;
mod revocation;
mod rwlock;
mod semaphore;

use std::fmt::Debug;

use zoolock::{Error, Result};

/// Expects that a call was rejected because of this argument, and that the error states a reason.
#[track_caller]
fn is_invalid<T: Debug>(what: &str, seen: &Result<T>) {
    println!("{seen:?}");
    let is_it = matches!(seen, Err(Error::InvalidArgument { what: at, reason, .. })
        if *at == what && !reason.is_empty());
    assert!(is_it, "{what}: {seen:?}");
}

/// A panic payload that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}
