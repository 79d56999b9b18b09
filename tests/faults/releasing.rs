//! Releasing: repeated until the node is gone, never somebody else's, never a hang.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    ClientState, DistributedLock, DistributedReentrantLock, Error, HoldState, LossReason,
};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Probe, Server, Then, fresh_path, shared_probe, wait_until,
};

use common::basics::{await_nodes, hold_of};
use common::{BRIEFLY, SESSION, SOON, Task, children, client, client_of, shared_proxy, warnings};

/// What may happen to the connection that a delete, or its answer, was lost on.
const AFTERWARDS: [Then; 2] = [Then::Cut, Then::Hold];

/// Unlocks while the delete or its answer gets lost, then locks again on the same thread.
fn unlock_with_a_lost_delete(answer_only: bool, then: Then) {
    let what = if answer_only { "answer" } else { "request" };
    let proxy = shared_proxy();
    let session = Duration::from_secs(6);
    let client = client_of(&proxy.connect_string(), session);
    let path = fresh_path("lost_delete");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let node = format!("{path}/{}", hold_of(&lock).node());
    let lost = match answer_only {
        true => proxy.drop_answer(Op::Delete, 1, then),
        false => proxy.drop_request(Op::Delete, 1, then),
    };
    let begun = Instant::now();
    let unlocked = lock.unlock();
    let took = begun.elapsed();
    assert!(lost.wait(SOON), "no delete came: {:#?}", proxy.log());
    println!("delete's {what} lost, then {then:?}: unlock {unlocked:?} after {took:?}");
    assert!(unlocked.is_ok(), "{unlocked:?}\n{:#?}", proxy.log());
    assert!(!lock.is_held());
    assert!(took < session / 3 + Duration::from_secs(2), "{took:?}");

    let locked = lock.try_lock_for(SOON);
    println!("locked again {:?} later: {locked:?}", begun.elapsed() - took);
    assert!(matches!(locked, Ok(true)), "{locked:?}\n{:#?}", proxy.log());
    let probe = shared_probe().unwrap();
    wait_until("the node is gone", SOON, || !probe.exists(&node).unwrap());
    assert_eq!(await_nodes(&path, 1), [hold_of(&lock).node()]);
    lock.unlock().unwrap();
    await_nodes(&path, 0);
}

#[test]
fn an_unlock_whose_answer_is_lost_is_repeated_until_the_node_is_gone() {
    for then in AFTERWARDS {
        unlock_with_a_lost_delete(true, then);
    }
}

#[test]
fn an_unlock_whose_request_is_lost_is_repeated_until_the_node_is_gone() {
    for then in AFTERWARDS {
        unlock_with_a_lost_delete(false, then);
    }
}

#[test]
fn an_unlock_returns_in_time_while_the_server_is_paused() {
    let session = Duration::from_secs(6);
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), session);
    let lock = DistributedLock::new(&client, "/paused").unwrap();
    lock.lock().unwrap();
    let node = format!("/paused/{}", hold_of(&lock).node());
    server.pause().unwrap();
    let begun = Instant::now();
    let unlocked = lock.unlock();
    let took = begun.elapsed();
    server.resume().unwrap();
    println!("unlock: {unlocked:?} after {took:?}");
    assert!(unlocked.is_ok(), "{unlocked:?}");
    assert!(took < session / 3 + Duration::from_secs(2), "{took:?}");
    let probe = Probe::connect(server.address()).unwrap();
    let gone = wait_until("the node is gone", SOON, || !probe.exists(&node).unwrap());
    println!("gone {gone:?} after the server went on");
    lock.lock().unwrap();
    lock.unlock().unwrap();
}

#[test]
fn a_stale_unlock_leaves_a_newer_node_of_the_same_sequence_alone() {
    let [stale, rivals] = [client(), client()];
    let path = fresh_path("stale");
    let lock = DistributedLock::new(&stale, &path).unwrap();
    lock.lock().unwrap();
    let old = hold_of(&lock).node();
    let probe = shared_probe().unwrap();
    probe.delete(&format!("{path}/{old}")).unwrap();
    probe.delete(&path).unwrap();
    let rival = DistributedLock::new(&rivals, &path).unwrap();
    rival.lock().unwrap();
    let new = hold_of(&rival).node();
    println!("{old}, then {new}");
    assert_eq!(old[old.len() - 10..], new[new.len() - 10..]);
    let unlocked = lock.unlock();
    let deleted = matches!(unlocked, Err(Error::Lost { reason: LossReason::NodeDeleted, .. }));
    assert!(deleted, "{unlocked:?}");
    wait_until("nothing is left to delete", SOON, || stale.stats().deleting == 0);
    assert_eq!(children(&path), [new]);
    assert!(rival.is_held());
    rival.unlock().unwrap();
}

#[test]
fn a_stale_guard_leaves_a_newer_hold_of_its_object_alone() {
    let client = client();
    let path = fresh_path("stale");
    warnings(&path);
    let lock = DistributedLock::new(&client, &path).unwrap();
    let (dropped, released) = (lock.acquire().unwrap(), {
        lock.unlock().unwrap();
        lock.acquire().unwrap()
    });
    lock.unlock().unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    assert_eq!(dropped.state(), HoldState::Released);
    let result = released.release();
    assert!(matches!(&result, Err(Error::NotHeld { path: at }) if *at == path), "{result:?}");
    drop(dropped);
    let logged = warnings(&path);
    println!("release: {result:?}; log: {logged:?}");
    assert!(logged.iter().any(|l| l.contains("is not held")), "{logged:?}");
    assert!(lock.is_held() && hold.is_held());
    assert_eq!(children(&path), [hold.node()]);
    lock.unlock().unwrap();
}

#[test]
fn a_guard_released_after_an_unlock_touches_no_rival() {
    let [ours, rivals] = [client(), client()];
    let path = fresh_path("raw_unlock");
    let lock = DistributedReentrantLock::new(&ours, &path).unwrap();
    let guard = lock.acquire().unwrap();
    lock.unlock().unwrap();
    let rival = DistributedLock::new(&rivals, &path).unwrap();
    rival.lock().unwrap();
    let released = guard.release();
    assert!(matches!(released, Err(Error::NotHeld { .. })), "{released:?}");
    assert_eq!(children(&path), [hold_of(&rival).node()]);
    assert!(rival.is_held());
    rival.unlock().unwrap();
}

#[test]
fn an_unlock_too_many_or_by_the_wrong_thread_is_an_error() {
    let client = client();
    let path = fresh_path("wrong");
    let objects = DistributedLock::new(&client, format!("{path}/any")).unwrap();
    let threads = DistributedReentrantLock::new(&client, format!("{path}/own")).unwrap();
    let not_held = |result: zoolock::Result<()>, path: &str| {
        let not_held = matches!(&result, Err(Error::NotHeld { path: at }) if at == path);
        assert!(not_held, "{result:?}");
    };
    not_held(objects.unlock(), objects.path());
    not_held(threads.unlock(), threads.path());

    objects.lock().unwrap();
    threads.lock().unwrap();
    let (any, own) = (objects.clone(), threads.clone());
    let (by_any, by_other) = thread::spawn(move || (any.unlock(), own.unlock())).join().unwrap();
    println!("unlock by another thread: {by_any:?}, {by_other:?}");
    assert!(by_any.is_ok(), "any thread may unlock: {by_any:?}");
    let me = thread::current().id();
    assert!(
        matches!(&by_other, Err(Error::NotOwner { path, owner })
            if path == threads.path() && *owner == me),
        "{by_other:?}"
    );
    assert!(!objects.is_held() && threads.is_held());
    assert_eq!(children(objects.path()), [""; 0]);
    assert_eq!(children(threads.path()), [hold_of(&threads).node()]);

    not_held(objects.unlock(), objects.path());
    threads.unlock().unwrap();
    not_held(threads.unlock(), threads.path());
    assert_eq!(children(threads.path()), [""; 0]);
}

#[test]
fn a_guard_may_be_released_by_another_thread() {
    let client = client();
    let path = fresh_path("sent");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let guard = lock.acquire().unwrap();
    let released = thread::spawn(move || guard.release()).join().unwrap();
    assert!(released.is_ok(), "{released:?}");
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn a_panic_releases_the_guards_and_poisons_nothing() {
    let client = client();
    let path = fresh_path("panic");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _outer = lock.acquire().unwrap();
        let _inner = lock.acquire().unwrap();
        assert_eq!(children(&path).len(), 1);
        panic!("as the test wants it");
    }));
    assert!(result.is_err());
    assert_eq!((lock.hold_count(), lock.is_held()), (0, false));
    assert_eq!(children(&path), [""; 0]);
    let other = lock.clone();
    let panicked = thread::spawn(move || {
        let _guard = other.acquire().unwrap();
        panic!("as the test wants it");
    });
    assert!(panicked.join().is_err());
    assert_eq!(children(&path), [""; 0]);
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
    let session = Duration::from_secs(3);
    let (first, second) = (shared_proxy(), shared_proxy());
    second.refuse(true);
    let hosts = format!("{},{}", first.connect_string(), second.connect_string());
    let client = client_of(&hosts, session);
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
    let begun = Instant::now();
    await_nodes(&path, 0);
    let took = begun.elapsed();
    println!("the node of the suspended hold went {took:?} after the reconnect");
    assert!(took < session / 2, "only its session's end took it: {took:?}");
}

#[test]
fn a_refused_delete_is_denied_and_the_node_goes_with_its_session() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("refused_delete");
    let (above, _) = path.rsplit_once('/').unwrap();
    let probe = shared_probe().unwrap();
    probe.create_all(above).unwrap();
    // READ, WRITE and CREATE, no DELETE.
    let acl = [(7, "world", "anyone")];
    probe.create_with_acl(&path, b"", &acl).unwrap();
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let unlocked = lock.unlock();
    println!("{unlocked:?}");
    assert!(matches!(unlocked, Err(Error::Denied { .. })), "{unlocked:?}");
    let node = await_nodes(&path, 1).remove(0);
    // Its next one would wait behind the node that nobody will delete.
    let again = lock.try_lock_for(SOON);
    println!("again: {again:?}");
    let stuck = format!("{path}/{node}");
    assert!(matches!(&again, Err(Error::Denied { path: at }) if *at == stuck), "{again:?}");
    let rivals = common::client();
    assert!(!DistributedLock::new(&rivals, &path).unwrap().try_lock().unwrap());
    wait_until("nothing is to be deleted", SOON, || client.stats().deleting == 0);
    assert_eq!(proxy.requests(Op::Delete), 2, "each is tried once: {:#?}", proxy.log());
    client.close().unwrap();
    await_nodes(&path, 0);
}

#[test]
fn an_unlock_without_a_connection_deletes_as_soon_as_there_is_one() {
    let proxies = [shared_proxy(), shared_proxy()];
    let hosts = proxies.each_ref().map(FaultProxy::connect_string).join(",");
    let client = client_of(&hosts, Duration::from_secs(60));
    let path = fresh_path("no_connection");
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    for proxy in &proxies {
        proxy.refuse(true);
        proxy.cut();
    }
    wait_until("it is suspended", SOON, || hold.state() == HoldState::Suspended);
    lock.unlock().unwrap();
    assert_eq!(await_nodes(&path, 1), [hold.node()]);
    // By the other way than before.
    let own = proxies.iter().find(|proxy| proxy.requests(Op::Create) > 0);
    let own = own.expect("one of them was in use").address();
    let other = proxies.iter().find(|proxy| proxy.address() != own);
    other.expect("there are two").refuse(false);
    // Sooner than anything that comes by itself.
    let prompt = Duration::from_secs(10);
    let took = wait_until("the node is gone", prompt, || children(&path).is_empty());
    println!("gone after {took:?}");
}
