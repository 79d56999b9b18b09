//! `LockOptions::keep_idle`: a lock that stays with its process until somebody else wants it, beside what
//! `every::options` says: over cuts, at its end, and where somebody comes while it changes hands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, LockOptions};
use zoolock_test_support::{
    Direction, FaultProxy, connect_string, fresh_path, shared_probe, wait_until,
};

use common::{
    SESSION, SOON, Task, Visitor, answered, await_kept, await_nothing_left, await_resumed,
    behind_a_proxy, children, client, client_of, in_use, lock_of,
};

/// Somebody who is in for so short a time is out before it is over.
const AT_LEAST: Duration = Duration::from_millis(700);

/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(120);

fn keeping(client: &Client, path: &str, time: Duration) -> DistributedLock {
    DistributedLock::with_options(client, path, LockOptions::new().keep_idle(time)).unwrap()
}

/// Somebody behind a proxy who keeps a lock for long.
fn proxied(name: &str) -> (FaultProxy, Client, String, DistributedLock) {
    let ((proxy, own), path) = (behind_a_proxy(SESSION), fresh_path(name));
    let lock = keeping(&own, &path, LONG);
    (proxy, own, path, lock)
}

fn turn(lock: &DistributedLock) {
    lock.lock().unwrap();
    lock.unlock().unwrap();
}

#[track_caller]
fn others_get_it(rival: &DistributedLock, what: &str) {
    assert!(
        rival.try_lock_for(SOON).unwrap(),
        "{what}: kept waiting, {:?}",
        children(rival.path())
    );
    rival.unlock().unwrap();
}

#[test]
fn it_is_given_back_when_its_time_is_over_which_may_be_never() {
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
    assert_eq!(children(&ever).len(), 1, "it is kept");
    drop(for_ever);
    await_nothing_left(&own);
    assert_eq!(own.stats().holds_lost, 0);
}

#[test]
fn a_cut_ends_it_without_a_loss() {
    let (proxy, own, path, lock) = proxied("cut");
    await_kept(&lock, &own);
    let node = children(&path);
    proxy.cut();
    wait_until("it is gone", SOON, || children(&path).is_empty());
    turn(&lock);
    assert_ne!(children(&path), node);
    let stats = own.stats();
    assert_eq!((stats.holds_lost, stats.sessions), (0, 1), "{stats:?}");
}

/// The watch over the directory was set on another connection, and those whom it is handed to do not
/// want it any more.
#[test]
fn after_a_cut_whoever_queues_gets_it_all_the_same() {
    let (proxy, own, path, _) = proxied("resumed");
    let options = LockOptions::new().keep_idle(LONG).local_handoffs(1_000);
    let lock = DistributedLock::with_options(&own, &path, options).unwrap();
    let rival = lock_of(&client(), &path);
    for round in 0..10 {
        await_kept(&lock, &own);
        lock.lock().unwrap();
        let (before, node) = (own.stats(), children(&path));
        proxy.cut();
        await_resumed(&own, before.resumed + 1);
        assert_eq!(children(&path), node);
        // In the first round there is nobody.
        let waits = |_| {
            let lock = lock.clone();
            Task::spawn_blocked(move || lock.lock().and_then(|()| lock.unlock()))
        };
        let waiters: Vec<_> = (0..round * 2).map(waits).collect();
        lock.cancel_waiters();
        lock.unlock().unwrap();
        let cancelled = waiters.iter().filter(|waiter| waiter.result("a waiter").is_err()).count();
        println!("round {round}: {cancelled} were cancelled, {:?}", children(&path));
        others_get_it(&rival, &format!("round {round}"));
        // It was given back, and did not just end with a connection.
        let stats = own.stats();
        assert_eq!((stats.connections, stats.holds_lost), (before.connections + 1, 0), "{stats:?}");
    }
}

#[test]
fn asked_for_or_deleted_while_it_is_idle_it_is_made_anew() {
    let own = client_of(&connect_string(), SESSION);
    let (others, path) = (client(), fresh_path("idle"));
    let lock = keeping(&own, &path, LONG);
    // A node is watched from a quarter of the session timeout on.
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

/// The connection ends while the hold is being kept.
#[test]
fn cut_at_the_unlock_others_do_not_wait_for_the_lease() {
    let (proxy, own, path, lock) = proxied("cut-at-unlock");
    let (proxy, rival) = (Arc::new(proxy), lock_of(&client(), &path));
    for round in 0..10 {
        await_kept(&lock, &own);
        lock.lock().unwrap();
        let cutting = Arc::clone(&proxy);
        let cutting = Task::spawn(move || cutting.cut());
        lock.unlock().unwrap();
        cutting.result("the cut");
        others_get_it(&rival, &format!("round {round}"));
    }
}

/// Its own node, which is being deleted, or which a cut has ended, is nobody else's.
#[test]
fn given_back_it_is_not_busy_to_the_only_one_who_uses_it() {
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
fn hold_at_least_counts_from_the_grant_also_where_nodes_were_handed_on_or_kept() {
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
