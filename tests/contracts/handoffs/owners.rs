//! Whose the lock is: the earlier holder's no more, the next one's in every respect.

use std::thread::ThreadId;

use zoolock::{DistributedReentrantLock, Error, HoldState};
use zoolock_test_support::{fresh_path, wait_until};

use super::*;
use common::{BRIEFLY, await_lost, await_nothing_left, children, client, delete_node, warnings};

/// What a thread sees that has just been handed a lock of two objects at one path.
fn seen_inside(lock: &DistributedReentrantLock, other: &DistributedReentrantLock) -> ThreadId {
    lock.lock().unwrap();
    assert_eq!(lock.hold_count(), 1);
    lock.lock().unwrap();
    assert_eq!(lock.hold_count(), 2);
    lock.unlock().unwrap();
    let through_other = other.try_lock_for(SOON);
    let told = matches!(through_other, Err(Error::WouldDeadlock { .. }));
    assert!(told, "{through_other:?}");
    thread::current().id()
}

#[test]
fn the_thread_that_took_over_is_the_owner_and_the_earlier_one_is_a_stranger() {
    let client = client();
    let path = fresh_path("owner");
    let new = || DistributedReentrantLock::with(&client, &path, handing_on(4)).unwrap();
    let (lock, other) = (new(), new());
    lock.lock().unwrap();
    let ((inside, is_in), (let_go, told)) = (bounded(1), bounded::<()>(1));
    let next = {
        let (lock, other) = (lock.clone(), other.clone());
        Task::spawn_blocked(move || {
            inside.send(seen_inside(&lock, &other)).unwrap();
            let _ = told.recv();
            lock.unlock()
        })
    };
    let node = hold_of(&lock).node();
    lock.unlock().unwrap();
    let heir = is_in.recv_timeout(SOON).expect("the next thread is in");
    assert_eq!((lock.hold_count(), lock.is_held()), (0, false));
    let unlocked = lock.unlock();
    println!("the earlier owner's unlock: {unlocked:?}");
    let told = matches!(unlocked, Err(Error::NotOwner { owner, .. }) if owner == heir);
    assert!(told, "{unlocked:?}, the owner is {heir:?}");
    // It has nothing any more that it could wait for for ever.
    let through_other = other.try_lock_for(BRIEFLY);
    assert!(matches!(through_other, Ok(false)), "{through_other:?}");
    assert_eq!(children(&path), [node]);
    drop(let_go);
    next.result("the next owner").unwrap();
    lock.lock().unwrap();
    lock.unlock().unwrap();
    await_nothing_left(&client);
}

#[test]
fn a_second_guard_of_the_earlier_hold_releases_nothing() {
    let client = client();
    let lock = lock_with(&client, &fresh_path("stale"), 1);
    let guard = lock.acquire().unwrap();
    let next = Next::waits(&lock);
    lock.unlock().unwrap();
    let heir = next.holds();
    let released = guard.release();
    assert!(matches!(released, Err(Error::NotHeld { .. })), "{released:?}");
    assert_eq!(heir.state(), HoldState::Held);
    next.lets_go().unwrap();
}

#[test]
fn a_panic_of_the_one_that_took_over_lets_the_next_one_in() {
    let client = client();
    let path = fresh_path("panic");
    let lock = lock_with(&client, &path, 8);
    lock.lock().unwrap();
    let panicking = lock.clone();
    let first = Task::spawn_blocked(move || {
        let _guard = panicking.acquire().unwrap();
        std::panic::resume_unwind(Box::new("inside"));
    });
    let second = Next::waits(&lock);
    lock.unlock().unwrap();
    assert_eq!(second.holds().state(), HoldState::Held);
    drop::<Task<()>>(first);
    second.lets_go().unwrap();
    await_nothing_left(&client);
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn the_last_handle_dropped_by_the_one_that_took_over_releases_the_node() {
    let client = client();
    let path = fresh_path("dropped");
    warnings(&path);
    let lock = lock_with(&client, &path, 8);
    lock.lock().unwrap();
    let last = lock.clone();
    let next = Task::spawn_blocked(move || last.lock());
    lock.unlock().unwrap();
    drop(lock);
    next.result("the one that took over").unwrap();
    await_nothing_left(&client);
    wait_until("the node is gone", SOON, || children(&path).is_empty());
    let logged = warnings(&path);
    assert!(logged.iter().any(|l| l.contains("last handle")), "{logged:?}");
}

#[test]
fn a_deleted_node_is_no_longer_handed_on() {
    let client = client();
    let path = fresh_path("deleted");
    let lock = lock_with(&client, &path, 8);
    let guard = lock.acquire().unwrap();
    // Has it watched.
    let _asked = guard.revocation().unwrap();
    let next = Next::waits(&lock);
    delete_node(&guard);
    await_lost(&guard);
    let lost = guard.hold();
    let released = guard.release();
    assert!(released.as_ref().is_err_and(Error::is_lost), "{released:?}");
    let heir = next.holds();
    assert_ne!(heir.node(), lost.node());
    assert!(heir.fencing_token().unwrap() > 0);
    next.lets_go().unwrap();
}
