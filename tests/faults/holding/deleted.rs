//! Nodes that are deleted under a hold.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::{DistributedLock, DistributedReentrantLock, Error, LossReason};
use zoolock_test_support::{fresh_path, wait_until};

use super::{DELETED, SHORT, lost_at};
use common::basics::hold_of;
use common::{SOON, Stage, Task, assert_lost, children, client, client_of, delete_node, warnings};

#[test]
fn a_deleted_node_is_lost_also_in_the_first_quarter() {
    let stage = Stage::new("deleted", SHORT);
    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    delete_node(&hold);
    let begun = Instant::now();
    let noticed = lost_at(&hold);
    println!("noticed {:?} after the deletion", noticed - begun);
    assert_eq!(hold.state(), DELETED);
    assert!(!hold.is_held() && !stage.lock.is_held());
    assert_eq!(hold.valid_for(), Duration::ZERO);
    let unlocked = stage.lock.unlock();
    assert_lost(&unlocked, &stage.path, LossReason::NodeDeleted);
    assert_eq!(hold.state(), DELETED);
    wait_until("it is counted", SOON, || stage.client.stats().holds_lost == 1);
    let unlocked = stage.lock.unlock();
    assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
    stage.lock.lock().unwrap();
    stage.lock.unlock().unwrap();
}

#[test]
fn a_deleted_node_is_lost_at_once_when_held_for_longer() {
    let client = client();
    let path = fresh_path("deleted");
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    // The watch is set when the lock has been held for a quarter of the session timeout.
    thread::sleep(client.session_timeout() / 4 + Duration::from_millis(500));
    let begun = Instant::now();
    delete_node(&hold);
    let took = lost_at(&hold) - begun;
    println!("noticed {took:?} after the deletion");
    assert!(took < Duration::from_secs(2), "not at once: {took:?}");
    assert_eq!(hold.state(), DELETED);
    assert_lost(&lock.unlock(), &path, LossReason::NodeDeleted);
}

#[test]
fn an_unlock_tells_of_a_deleted_node_that_nobody_has_noticed() {
    let client = client();
    let path = fresh_path("deleted");
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    delete_node(&hold);
    let unlocked = lock.unlock();
    println!("unlock: {unlocked:?}");
    assert_lost(&unlocked, &path, LossReason::NodeDeleted);
    let guard = lock.acquire().unwrap();
    delete_node(&guard);
    assert_lost(&guard.release(), &path, LossReason::NodeDeleted);
    lock.lock().unwrap();
    lock.unlock().unwrap();
}

#[test]
fn a_lost_nest_says_so_to_its_owner_until_the_last_unlock() {
    let client = client_of(&zoolock_test_support::connect_string(), SHORT);
    let path = fresh_path("nest");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    for _ in 0..3 {
        lock.lock().unwrap();
    }
    let hold = hold_of(&lock);
    delete_node(&hold);
    lost_at(&hold);
    assert_eq!(hold.state(), DELETED);

    // The owner: no way in, however it tries, and nothing is counted.
    assert_lost(&lock.lock(), &path, LossReason::NodeDeleted);
    assert_lost(&lock.try_lock(), &path, LossReason::NodeDeleted);
    assert_lost(&lock.try_lock_for(SOON), &path, LossReason::NodeDeleted);
    assert_lost(&lock.acquire().map(drop), &path, LossReason::NodeDeleted);
    assert_eq!((lock.hold_count(), lock.is_held()), (3, false));
    assert_eq!(hold_of(&lock).state(), DELETED);

    // Others wait: the code that lost the lock may still be running.
    let other = lock.clone();
    let tries = Task::spawn(move || {
        let timeout = Duration::from_millis(100);
        let begun = Instant::now();
        let tries = (other.try_lock(), other.try_lock_for(timeout), other.unlock());
        assert!(begun.elapsed() >= timeout, "{:?}", begun.elapsed());
        tries
    });
    let (try_lock, try_for, unlock) = tries.result("another thread");
    println!("another thread: {try_lock:?}, {try_for:?}, {unlock:?}");
    assert!(matches!(try_lock, Ok(false)), "{try_lock:?}");
    assert!(matches!(try_for, Ok(false)), "{try_for:?}");
    let owner = thread::current().id();
    assert!(
        matches!(&unlock, Err(Error::NotOwner { owner: by, .. }) if *by == owner),
        "{unlock:?}"
    );
    let other = lock.clone();
    let cancelled = Task::spawn(move || other.lock());
    wait_until("it is cancelled", SOON, || {
        lock.cancel_waiters();
        cancelled.is_done()
    });
    let cancelled = cancelled.result("cancelled");
    assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{cancelled:?}");
    let other = lock.clone();
    let waiter = Task::spawn(move || other.lock().and_then(|()| other.unlock()));

    for left in [2, 1, 0] {
        assert!(!waiter.is_done(), "{left} unlocks are left after this one");
        assert_lost(&lock.unlock(), &path, LossReason::NodeDeleted);
        assert_eq!(lock.hold_count(), left);
    }
    waiter.result("the waiter gets its turn").unwrap();
    let unlocked = lock.unlock();
    assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
    lock.lock().unwrap();
    assert_eq!((lock.hold_count(), lock.is_held()), (1, true));
    lock.unlock().unwrap();
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn a_lost_hold_keeps_its_object_in_use_until_the_unlock_that_reports_it() {
    let stage = Stage::new("in_use", SHORT);
    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    delete_node(&hold);
    lost_at(&hold);
    let tried = stage.lock.try_lock();
    let tried_for = stage.lock.try_lock_for(Duration::from_millis(100));
    println!("on the lost object: {tried:?}, {tried_for:?}");
    assert!(matches!(tried, Ok(false)), "{tried:?}");
    assert!(matches!(tried_for, Ok(false)), "{tried_for:?}");
    let rival = DistributedLock::new(&stage.client, &stage.path).unwrap();
    assert!(rival.try_lock().unwrap(), "the lock itself is free");
    rival.unlock().unwrap();
    assert_lost(&stage.lock.unlock(), &stage.path, LossReason::NodeDeleted);
    assert!(stage.lock.try_lock().unwrap());
    stage.lock.unlock().unwrap();
}

#[test]
fn a_guard_dropped_after_a_loss_writes_to_the_log() {
    let stage = Stage::new("dropped", SHORT);
    warnings(&stage.path);
    let guard = stage.lock.acquire().unwrap();
    delete_node(&guard);
    lost_at(&guard);
    let mut before = Vec::new();
    wait_until("the loss is logged", SOON, || {
        before = warnings(&stage.path);
        !before.is_empty()
    });
    drop(guard);
    let logged = warnings(&stage.path).split_off(before.len());
    println!("at the loss: {before:#?}\nat the drop: {logged:#?}");
    let error = Error::Lost { path: stage.path.clone(), reason: LossReason::NodeDeleted };
    assert!(before.iter().any(|l| l.starts_with("ERROR")), "{before:?}");
    let text = error.to_string();
    assert!(logged.iter().any(|l| l.contains(&text)), "{logged:?}");
    stage.lock.lock().unwrap();
    stage.lock.unlock().unwrap();
}
