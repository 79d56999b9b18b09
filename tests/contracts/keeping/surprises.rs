//! What keeping a lock changes that its documentation does not say.

use std::time::{Duration, Instant};

use zoolock::{DistributedRwLock, LockOptions};
use zoolock_test_support::{Direction, fresh_path, wait_until};

use super::{LONG, keeping, kept, turn};
use common::{SOON, children, client, client_of, shared_proxy};

#[test]
fn for_ever_is_not_never() {
    let (own, path) = (client(), fresh_path("for-ever"));
    let lock = keeping(&own, &path, Duration::MAX);
    turn(&lock);
    assert_eq!(children(&path).len(), 1, "it is kept");
}

/// Its own node, which is being deleted, is nobody else's.
#[test]
fn given_back_it_is_not_busy_to_the_only_one_who_uses_it() {
    const KEEP: Duration = Duration::from_millis(300);
    let (proxy, path) = (shared_proxy(), fresh_path("own"));
    let own = client_of(&proxy.connect_string(), Duration::from_secs(10));
    let lock = keeping(&own, &path, KEEP);
    turn(&lock);
    proxy.delay(Direction::Both, Duration::from_millis(100));
    let begun = Instant::now();
    wait_until("it is given back", SOON, || common::in_use(&own.stats()) == 0);
    let taken = lock.try_lock().unwrap();
    println!("{:?} after the turn: {taken}, {:?}", begun.elapsed(), children(&path));
    assert!(taken, "nobody else was ever there");
}

#[test]
fn a_read_of_the_same_object_is_somebody_else() {
    let (own, path) = (client(), fresh_path("read"));
    let options = LockOptions::new().keep_idle(LONG);
    let lock = DistributedRwLock::with(&own, &path, options).unwrap();
    let write = lock.write_lock();
    write.lock().unwrap();
    write.unlock().unwrap();
    let read = lock.read_lock();
    assert!(!read.try_lock().unwrap(), "it only looks");
    read.lock().unwrap();
    read.unlock().unwrap();
}

/// What a cut has ended is still there when the next connection is.
#[test]
fn right_after_a_cut_it_is_not_busy_to_the_only_one_who_uses_it() {
    let (proxy, path) = (shared_proxy(), fresh_path("cut-alone"));
    let own = client_of(&proxy.connect_string(), Duration::from_secs(10));
    let lock = keeping(&own, &path, LONG);
    for round in 0..20 {
        kept(&lock, &own);
        let connections = own.stats().connections;
        proxy.cut();
        wait_until("it is back", SOON, || own.stats().connections > connections);
        let taken = loop {
            if let Ok(taken) = lock.try_lock() {
                break taken;
            }
        };
        assert!(taken, "round {round}: {:?}", children(&path));
        lock.unlock().unwrap();
    }
}
