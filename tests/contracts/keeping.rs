//! `LockOptions::keep_idle`: a lock that stays with its process until somebody else wants it.

mod calls;
mod surprises;

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, DistributedRwLock, LockOptions};
use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

use common::{
    SOON, Task, await_nothing_left, await_resumed, children, client, client_of, lock_of,
    shared_proxy,
};

/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(120);

fn keeping(client: &Client, path: &str, time: Duration) -> DistributedLock {
    let options = LockOptions::new().keep_idle(time);
    DistributedLock::with(client, path, options).unwrap()
}

fn turn(lock: &DistributedLock) {
    lock.lock().unwrap();
    lock.unlock().unwrap();
}

/// Waits until the look for others, behind the first unlock, has been answered.
fn kept(lock: &DistributedLock, client: &Client) {
    turn(lock);
    let mut requests = 0;
    wait_until("nothing is asked any more", SOON, || {
        let before = std::mem::replace(&mut requests, client.stats().requests);
        turn(lock);
        before == requests
    });
}

#[test]
fn it_is_given_back_when_its_time_is_over() {
    let (own, path) = (client(), fresh_path("time"));
    let lock = keeping(&own, &path, Duration::from_secs(2));
    let begun = Instant::now();
    turn(&lock);
    assert_eq!(children(&path).len(), 1, "kept");
    wait_until("it is given back", SOON, || children(&path).is_empty());
    println!("given back after {:?}", begun.elapsed());
    assert!(begun.elapsed() >= Duration::from_millis(1900));
    await_nothing_left(&own);
    assert_eq!(own.stats().holds_lost, 0);
}

#[test]
fn a_cut_ends_it_without_a_loss() {
    let (proxy, path) = (shared_proxy(), fresh_path("cut"));
    let own = client_of(&proxy.connect_string(), Duration::from_secs(10));
    let lock = keeping(&own, &path, LONG);
    kept(&lock, &own);
    let node = children(&path);
    proxy.cut();
    wait_until("it is gone", SOON, || children(&path).is_empty());
    turn(&lock);
    assert_ne!(children(&path), node);
    let stats = own.stats();
    println!("{stats:?}");
    assert_eq!((stats.holds_lost, stats.sessions), (0, 1));
}

/// The watch over the directory was set on another connection.
#[test]
fn after_a_cut_whoever_queues_gets_it_all_the_same() {
    let (proxy, path) = (shared_proxy(), fresh_path("resumed"));
    let own = client_of(&proxy.connect_string(), Duration::from_secs(10));
    let others = client();
    let lock = keeping(&own, &path, LONG);
    kept(&lock, &own);
    lock.lock().unwrap();
    proxy.cut();
    await_resumed(&own, 1);
    lock.unlock().unwrap();
    let rival = lock_of(&others, &path);
    assert!(rival.try_lock_for(SOON).unwrap(), "{:?}", own.stats());
    // It was given back, and did not just end with a connection.
    let stats = own.stats();
    assert_eq!((stats.connections, stats.holds_lost), (2, 0), "{stats:?}");
    rival.unlock().unwrap();
}

#[test]
fn asked_for_it_is_given_back() {
    let (own, others, path) =
        (client_of(&connect_string(), Duration::from_secs(4)), client(), fresh_path("asked"));
    let lock = keeping(&own, &path, LONG);
    kept(&lock, &own);
    let who = others.contenders(&path).unwrap();
    others.revoke(&who[0]).unwrap();
    // Its node is watched from a quarter of the session timeout on.
    wait_until("it is given back", SOON, || children(&path).is_empty());
    turn(&lock);
}

#[test]
fn deleted_by_somebody_it_is_made_anew() {
    let (own, path) = (client_of(&connect_string(), Duration::from_secs(4)), fresh_path("deleted"));
    let lock = keeping(&own, &path, LONG);
    for _ in 0..3 {
        kept(&lock, &own);
        let node = children(&path).remove(0);
        shared_probe().unwrap().delete(&format!("{path}/{node}")).unwrap();
        wait_until("it is noticed", SOON, || common::in_use(&own.stats()) == 0);
    }
    assert_eq!(own.stats().holds_lost, 0, "nobody held it");
}

/// A read that was taken under the write stands in its place, and the next writer is behind it.
#[test]
fn a_write_that_became_a_read_is_left_to_nobody() {
    let (own, path) = (client(), fresh_path("became-a-read"));
    for options in [LockOptions::new().local_handoffs(4), LockOptions::new().keep_idle(LONG)] {
        let both = DistributedRwLock::with(&own, &path, options).unwrap();
        let (write, read) = (both.write_lock(), both.read_lock());
        write.lock().unwrap();
        read.lock().unwrap();
        let next = write.clone();
        let waiting = Task::spawn(move || next.acquire().map(drop));
        write.unlock().unwrap();
        wait_until("the next writer queues", SOON, || {
            children(&path).iter().any(|node| node.contains("__WRIT__"))
        });
        assert!(!waiting.is_done() && read.is_held());
        read.unlock().unwrap();
        waiting.result("the next writer").unwrap();
    }
}
