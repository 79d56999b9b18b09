//! Guards and handles that go: they release their own hold, and no other, and never hang.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{ClientState, DistributedLock, DistributedReentrantLock, Error, HoldState};
use zoolock_test_support::{Direction, Op, Then, fresh_path, wait_until};

use common::basics::{await_nodes, hold_of};
use common::{
    BRIEFLY, SOON, Task, TwoWays, await_lost, children, client, client_of, lock_of, shared_proxy,
    warnings,
};

#[test]
fn a_stale_guard_leaves_a_newer_hold_of_its_object_or_of_a_rival_alone() {
    let [ours, rivals] = [client(), client()];
    let path = fresh_path("stale");
    warnings(&path);
    let lock = lock_of(&ours, &path);
    let stale = || {
        let guard = lock.acquire().unwrap();
        lock.unlock().unwrap();
        guard
    };
    let guards = [(); 4].map(|()| stale());
    assert_eq!(guards[0].state(), HoldState::Released);
    let mut guards = guards.into_iter();
    for newer in [lock.clone(), lock_of(&rivals, &path)] {
        newer.lock().unwrap();
        let node = hold_of(&newer).node();
        // Also on another thread.
        let released = guards.next().unwrap();
        let released = thread::spawn(move || released.release()).join().unwrap();
        let not_held = matches!(&released, Err(Error::NotHeld { path: at }) if *at == path);
        assert!(not_held, "{released:?}");
        let logged = warnings(&path).len();
        drop(guards.next());
        let logged = warnings(&path).split_off(logged);
        assert!(logged.iter().any(|line| line.contains("is not held")), "{logged:?}");
        assert!(newer.is_held());
        assert_eq!(children(&path), [node]);
        newer.unlock().unwrap();
    }
}

#[test]
fn a_guard_of_a_lost_hold_says_so_when_it_is_dropped() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(3));
    let path = fresh_path("lost-guard");
    let guard = lock_of(&client, &path).acquire().unwrap();
    proxy.black_hole(Direction::Both);
    await_lost(&guard);
    let before = warnings(&path).len();
    drop(guard);
    let logged = warnings(&path).split_off(before);
    println!("{logged:?}");
    assert!(logged.iter().any(|line| line.contains("dropped a guard")), "{logged:?}");
}

#[test]
fn a_panic_releases_the_guards_and_poisons_nothing() {
    let client = client();
    let path = fresh_path("panic");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    let panics = |lock: &DistributedReentrantLock| {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let _outer = lock.acquire().unwrap();
            let _inner = lock.acquire().unwrap();
            assert_eq!(children(&path).len(), 1);
            panic!("as the test wants it");
        }));
        assert!(result.is_err());
        assert_eq!((lock.hold_count(), lock.is_held()), (0, false));
        assert_eq!(children(&path), [""; 0]);
    };
    panics(&lock);
    thread::scope(|scope| scope.spawn(|| panics(&lock)).join().unwrap());
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
}

#[test]
fn drops_after_a_close_do_not_hang() {
    let closing = client();
    let path = fresh_path("close");
    warnings(&path);
    let lock = DistributedLock::new(&closing, format!("{path}/a")).unwrap();
    let raw = DistributedLock::new(&closing, format!("{path}/b")).unwrap();
    let guard = lock.acquire().unwrap();
    raw.lock().unwrap();
    let task = Task::spawn(move || {
        closing.close().unwrap();
        let begun = Instant::now();
        drop((guard, raw, lock));
        closing.close().unwrap();
        begun.elapsed()
    });
    println!("dropped in {:?}", task.result("drops after a close"));
    let logged = warnings(&path);
    println!("{logged:#?}");
    let told = logged.iter().filter(|l| l.contains("the client was closed"));
    assert!(told.count() >= 2, "{logged:#?}");
    assert_eq!(await_nodes(&format!("{path}/a"), 0), [""; 0]);
    assert_eq!(await_nodes(&format!("{path}/b"), 0), [""; 0]);
}

#[test]
fn the_last_handle_dropped_while_held_releases_with_a_warning() {
    let client = client();
    let path = fresh_path("handles");
    warnings(&path);
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let last = lock.clone();
    drop(lock);
    assert!(last.is_held(), "a clone is the same object");
    assert_eq!((children(&path).len(), warnings(&path)), (1, vec![]));
    let hold = hold_of(&last);
    drop(last);
    assert_eq!(hold.state(), HoldState::Released);
    await_nodes(&path, 0);
    let logged = warnings(&path);
    println!("{logged:?}");
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(logged[0].starts_with("WARN"), "{logged:?}");

    // Also by another thread than the one that owns it, and not while a guard is there.
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    let guard = lock.acquire().unwrap();
    drop(lock);
    assert!(guard.is_held(), "{guard:?}");
    assert_eq!(children(&path), [guard.node()]);
    guard.release().unwrap();
    assert_eq!(children(&path), [""; 0]);
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    lock.lock().unwrap();
    thread::spawn(move || drop(lock)).join().unwrap();
    await_nodes(&path, 0);
}

#[test]
fn a_forgotten_guard_keeps_the_lock_until_the_client_is_closed() {
    let [forgetful, rivals] = [client(), client()];
    let path = fresh_path("forgotten");
    let lock = DistributedLock::new(&forgetful, &path).unwrap();
    mem::forget(lock.acquire().unwrap());
    drop(lock);
    let rival = DistributedLock::new(&rivals, &path).unwrap();
    assert!(!rival.try_lock_for(BRIEFLY).unwrap());
    await_nodes(&path, 1);
    forgetful.close().unwrap();
    assert!(rival.try_lock().unwrap(), "close waits for the end");
    rival.unlock().unwrap();
}

#[test]
fn a_look_stuck_on_a_silent_connection_does_not_stop_a_deletion() {
    let TwoWays { first, second, client } = TwoWays::start(Duration::from_secs(20));
    second.refuse(true);
    let path = fresh_path("stuck_look");
    let lock = DistributedLock::new(&client, &path).unwrap();
    // A node that may still come to be is looked for again ..
    let lost = first.drop_request(Op::Create, 1, Then::Cut);
    lock.lock().unwrap();
    assert!(lost.fired(), "{:#?}", first.log());
    lock.unlock().unwrap();
    assert_eq!(client.stats().deleting, 1);
    // .. and one of these looks gets stuck.
    first.black_hole(Direction::Both);
    first.refuse(true);
    second.refuse(false);
    let connections = client.stats().connections;
    wait_until("it is connected through the other host", SOON, || {
        client.stats().connections > connections
    });
    lock.lock().unwrap();
    let connections = client.stats().connections;
    second.refuse(true);
    second.cut();
    wait_until("it is suspended", SOON, || client.state() == ClientState::Suspended);
    lock.unlock().unwrap();
    second.refuse(false);
    wait_until("it is connected again", SOON, || client.stats().connections > connections);
    await_nodes(&path, 0);
    assert_eq!(client.stats().sessions, 1, "only its session's end took it");
}
