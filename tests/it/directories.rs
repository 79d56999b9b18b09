//! `LockOptions::remove_empty_directory`: who removes a lock's directory, when, and that nobody
//! else notices.

mod faults;
mod races;
mod removal;
mod whose;

use zoolock::{Client, DistributedLock, LockOptions};

use crate::util::exists;

fn tidy() -> LockOptions {
    LockOptions::new().remove_empty_directory(true)
}

fn tidy_lock(client: &Client, path: &str) -> DistributedLock {
    DistributedLock::with(client, path, tidy()).unwrap()
}

#[track_caller]
fn is_gone(path: &str) {
    assert!(!exists(path), "{path} is there");
}

#[track_caller]
fn is_there(path: &str) {
    assert!(exists(path), "{path} is gone");
}

fn cycle(lock: &DistributedLock) {
    lock.lock().unwrap();
    lock.unlock().unwrap();
}
