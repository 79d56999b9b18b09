//! `LockOptions::keep_idle`: the node stays until another client queues. These tests cover its end and rivals
//! that arrive during a hand-over. `every::options` has the basics, and the simulation has the cuts.

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, LockOptions};
use zoolock_test_support::{
    Direction, FaultProxy, connect_string, fresh_path, shared_probe, wait_until,
};

use common::{
    SESSION, SOON, Visitor, answered, await_kept, await_nothing_left, behind_a_proxy, children,
    client, client_of, in_use, lock_of,
};

/// A holder with so short a turn unlocks before this has passed.
const AT_LEAST: Duration = Duration::from_millis(700);

/// Longer than any test here takes.
const LONG: Duration = Duration::from_secs(120);

fn keeping(client: &Client, path: &str, time: Duration) -> DistributedLock {
    DistributedLock::with_options(client, path, LockOptions::new().keep_idle(time)).unwrap()
}

/// A client behind a proxy whose lock is kept for long.
fn proxied(name: &str) -> (FaultProxy, Client, String, DistributedLock) {
    let ((proxy, own), path) = (behind_a_proxy(SESSION), fresh_path(name));
    let lock = keeping(&own, &path, LONG);
    (proxy, own, path, lock)
}

fn turn(lock: &DistributedLock) {
    lock.lock().unwrap();
    lock.unlock().unwrap();
}

#[test]
fn idle_node_is_deleted_when_its_time_ends() {
    let own = client();
    let [path, ever] = ["time", "for-ever"].map(fresh_path);
    let for_ever = keeping(&own, &ever, Duration::MAX);
    turn(&for_ever);
    let lock = keeping(&own, &path, Duration::from_secs(2));
    let begun = Instant::now();
    turn(&lock);
    wait_until("it is given back", SOON, || children(&path).is_empty());
    println!("given back after {:?}", begun.elapsed());
    assert!(begun.elapsed() >= Duration::from_millis(1900));
    drop(for_ever);
    assert_eq!(children(&ever).len(), 1, "it is kept, though its object is gone");
    turn(&lock_of(&client(), &ever));
    await_nothing_left(&own);
    assert_eq!(own.stats().holds_lost, 0);
}

#[test]
fn revoked_or_deleted_idle_node_is_created_again() {
    let own = client_of(&connect_string(), SESSION);
    let (others, path) = (client(), fresh_path("idle"));
    let lock = keeping(&own, &path, LONG);
    // The client watches the node from a quarter of the session timeout on.
    for is_asked in [true, false] {
        await_kept(&lock, &own);
        let who = others.contenders(&path).unwrap().remove(0);
        match is_asked {
            true => others.revoke(&who).unwrap(),
            false => shared_probe().unwrap().delete(&format!("{path}/{}", who.node)).unwrap(),
        }
        wait_until("it is noticed", SOON, || {
            in_use(&own.stats()) == 0 && children(&path).is_empty()
        });
    }
    turn(&lock);
    assert_eq!(own.stats().holds_lost, 0, "nobody held it");
}

/// A node under deletion, or ended by a cut, is still the client's own.
#[test]
fn only_user_never_finds_its_idle_lock_busy() {
    let (proxy, own, path, lock) = proxied("alone");
    for round in 0..20 {
        await_kept(&lock, &own);
        let connections = own.stats().connections;
        proxy.cut();
        wait_until("it is back", SOON, || own.stats().connections > connections);
        let taken = answered(|| lock.try_lock());
        assert!(taken.unwrap(), "round {round}: {:?}", children(&path));
        lock.unlock().unwrap();
    }
    drop(lock);
    turn(&lock_of(&client(), &path));
    await_nothing_left(&own);
    let lock = keeping(&own, &fresh_path("alone-in-time"), Duration::from_millis(300));
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
    proxy.delay(Direction::Both, Duration::from_millis(100));
    wait_until("it is given back", SOON, || in_use(&own.stats()) == 0);
    assert!(lock.try_lock().unwrap(), "nobody else was ever there");
}

/// "Nobody gets the lock for `time` after its grant, however early it is unlocked."
#[test]
fn minimum_hold_of_a_reused_node_counts_from_the_last_grant() {
    let options = || LockOptions::new().hold_at_least(AT_LEAST);
    let mut early = Vec::new();
    for (what, options) in
        [("kept", options().keep_idle(LONG)), ("handed on", options().local_handoffs(8))]
    {
        let (ours, others) = (client_of(&connect_string(), LONG), client());
        let path = fresh_path("at-least-again");
        let lock = DistributedLock::with_options(&ours, &*path, options).unwrap();
        let first = Visitor::start_asleep(lock.clone());
        first.comes_in();
        let begun = Instant::now();
        wait_until("its time is over", SOON, || begun.elapsed() > AT_LEAST);
        let second = Visitor::start_asleep(lock.clone());
        let before = first.hold().node();
        let granted = Instant::now();
        first.leaves();
        let after = second.hold().node();
        assert_eq!(before, after, "{what}: the second has it without the servers");
        second.leaves();
        let rival = lock_of(&others, &path);
        rival.lock().unwrap();
        let passed = granted.elapsed();
        println!("{what}: somebody else has it {passed:?} after the grant");
        rival.unlock().unwrap();
        if passed < AT_LEAST {
            early.push((what, passed));
        }
    }
    assert!(early.is_empty(), "{early:?}");
}
