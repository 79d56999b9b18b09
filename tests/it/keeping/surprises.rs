//! What keeping a lock changes that its documentation does not say.

use std::time::{Duration, Instant};

use zoolock::{DistributedLock, DistributedRwLock, LockOptions};
use zoolock_test_support::{Direction, fresh_path, wait_until};

use super::{LONG, keeping, kept, turn};
use crate::util::{SOON, await_no_seats, children, client, client_of, exists, shared_proxy};

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
    wait_until("it is given back", SOON, || own.stats().seats == 0);
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

/// A watch over each directory would pile up.
#[test]
fn ever_new_paths_leave_nothing() {
    let own = client();
    let base = fresh_path("new-paths");
    for number in 0..100 {
        let options = LockOptions::new().keep_idle(LONG).remove_empty_directory(true);
        let path = format!("{base}/{number}");
        let lock = DistributedLock::with(&own, path, options).unwrap();
        turn(&lock);
    }
    await_no_seats(&own);
    let left = children(&base);
    println!("{} directories are left", left.len());
    assert!(left.is_empty(), "{} directories are left", left.len());
}

#[test]
fn its_end_removes_the_directory() {
    let (own, path) = (client(), fresh_path("tidy"));
    let options = LockOptions::new().keep_idle(LONG).remove_empty_directory(true);
    let lock = DistributedLock::with(&own, &path, options).unwrap();
    kept(&lock, &own);
    drop(lock);
    await_no_seats(&own);
    assert!(!exists(&path));
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
