//! Holds that end otherwise than by their unlock: losses, dropped handles, closed clients.

use std::thread;
use std::time::Duration;

use zoolock::{Error, HoldState, LossReason};
use zoolock_test_support::{Op, Then, connect_string, fresh_path, wait_until};

use super::{Visitor, assert_not_held, rw_of, would_deadlock};
use common::basics::{await_nodes, hold_of};
use common::{
    BRIEFLY, SESSION, SOON, Task, assert_lost, await_lost, children, client, client_of,
    delete_node, shared_proxy, warnings,
};

const SHORT: Duration = Duration::from_secs(3);
const CLOSED: HoldState = HoldState::Lost(LossReason::ClientClosed);

/// Scenario 26b, for readers.
#[test]
fn a_lost_nest_of_reads_says_so_until_the_last_unlock() {
    let client = client_of(&connect_string(), SHORT);
    let path = fresh_path("lost-nest");
    let lock = rw_of(&client, &path);
    let read = lock.read_lock();
    for _ in 0..3 {
        read.lock().unwrap();
    }
    let hold = hold_of(&read);
    delete_node(&hold);
    await_lost(&hold);
    assert_eq!(hold.state(), HoldState::Lost(LossReason::NodeDeleted));

    assert_lost(&read.lock(), &path, LossReason::NodeDeleted);
    assert_lost(&read.try_lock(), &path, LossReason::NodeDeleted);
    assert_lost(&read.try_lock_for(SOON), &path, LossReason::NodeDeleted);
    assert_lost(&read.acquire().map(drop), &path, LossReason::NodeDeleted);
    assert_eq!((read.hold_count(), read.is_held()), (3, false));
    // Other threads have places of their own.
    let other = read.clone();
    let other = Task::spawn(move || {
        let unlocked = other.unlock();
        other.lock().unwrap();
        let count = other.hold_count();
        other.unlock().unwrap();
        (unlocked, count)
    });
    let (unlocked, count) = other.result("another reader");
    println!("another thread: {unlocked:?}, then {count}");
    assert_not_held(&unlocked);
    assert_eq!(count, 1);
    for left in [2, 1, 0] {
        assert_lost(&read.unlock(), &path, LossReason::NodeDeleted);
        assert_eq!(read.hold_count(), left);
    }
    assert_not_held(&read.unlock());
    read.lock().unwrap();
    assert_eq!((read.hold_count(), read.is_held()), (1, true));
    read.unlock().unwrap();
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn a_lost_nest_of_writes_says_so_until_the_last_unlock() {
    let client = client_of(&connect_string(), SHORT);
    let path = fresh_path("lost-writes");
    let lock = rw_of(&client, &path);
    let write = lock.write_lock();
    for _ in 0..3 {
        write.lock().unwrap();
    }
    let hold = hold_of(&write);
    delete_node(&hold);
    await_lost(&hold);
    assert_lost(&write.lock(), &path, LossReason::NodeDeleted);
    assert_lost(&lock.read_lock().lock(), &path, LossReason::NodeDeleted);
    assert_lost(&lock.read_lock().try_lock(), &path, LossReason::NodeDeleted);
    let other = lock.clone();
    let tries = Task::spawn(move || {
        let write = (other.write_lock().try_lock(), other.write_lock().unlock());
        let read = other.read_lock().try_lock();
        other.read_lock().unlock().unwrap();
        (write, read)
    });
    let ((tried, unlocked), read) = tries.result("another thread");
    println!("another thread: {tried:?}, {unlocked:?}, read {read:?}");
    assert!(matches!(tried, Ok(false)), "the object is in use: {tried:?}");
    assert!(matches!(unlocked, Err(Error::NotOwner { .. })), "{unlocked:?}");
    assert!(matches!(read, Ok(true)), "the lock is free: {read:?}");
    for _ in 0..3 {
        assert_lost(&write.unlock(), &path, LossReason::NodeDeleted);
    }
    assert_not_held(&write.unlock());
    write.lock().unwrap();
    write.unlock().unwrap();
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn a_read_that_was_lost_is_not_in_the_way_of_a_write() {
    let client = client_of(&connect_string(), SHORT);
    let path = fresh_path("lost-then-write");
    let lock = rw_of(&client, &path);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    read.lock().unwrap();
    delete_node(&hold_of(&read));
    await_lost(&hold_of(&read));
    assert!(write.try_lock().unwrap());
    assert_lost(&read.lock(), &path, LossReason::NodeDeleted);
    assert_lost(&read.unlock(), &path, LossReason::NodeDeleted);
    read.lock().unwrap();
    println!("a new read under the write: {:?}", children(&path));
    write.unlock().unwrap();
    assert!(read.is_held());
    read.unlock().unwrap();
    await_nodes(&path, 0);
}

#[test]
fn the_last_handle_dropped_while_a_read_is_held_releases_it_with_a_warning() {
    let client = client();
    let path = fresh_path("dropped");
    warnings(&path);
    let lock = rw_of(&client, &path);
    lock.read_lock().lock().unwrap();
    let hold = hold_of(&lock.read_lock());
    let reader = Visitor::start(lock.read_lock());
    reader.comes_in();
    let last = lock.read_lock();
    drop(lock);
    assert!(last.is_held(), "a handle is the same object");
    assert_eq!((children(&path).len(), warnings(&path)), (2, vec![]));
    reader.leaves();
    // Also by another thread than those that hold.
    thread::spawn(move || drop(last)).join().unwrap();
    assert_eq!(hold.state(), HoldState::Released);
    await_nodes(&path, 0);
    let logged = warnings(&path);
    println!("{logged:?}");
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(logged[0].starts_with("WARN"), "{logged:?}");
    assert_eq!(common::in_use(&client.stats()), 0);
}

#[test]
fn the_last_handle_dropped_while_both_are_held_releases_both() {
    let client = client();
    let path = fresh_path("dropped-both");
    warnings(&path);
    let lock = rw_of(&client, &path);
    lock.write_lock().lock().unwrap();
    lock.read_lock().lock().unwrap();
    lock.read_lock().lock().unwrap();
    let holds = [hold_of(&lock.write_lock()), hold_of(&lock.read_lock())];
    drop(lock);
    assert_eq!(holds.each_ref().map(zoolock::Hold::state), [HoldState::Released; 2]);
    await_nodes(&path, 0);
    let logged = warnings(&path);
    println!("{logged:#?}");
    assert_eq!(logged.len(), 2, "{logged:?}");
    assert_eq!(common::in_use(&client.stats()), 0);
}

#[test]
fn a_guard_keeps_its_hold_when_all_handles_are_gone() {
    let client = client();
    let path = fresh_path("guard-alone");
    warnings(&path);
    let (writing, reading) = {
        let lock = rw_of(&client, &path);
        let writing = lock.write_lock().acquire().unwrap();
        (writing, lock.read_lock().acquire().unwrap())
    };
    assert!(writing.is_held() && reading.is_held());
    assert_eq!(children(&path).len(), 2);
    drop(writing);
    assert_eq!(children(&path), [reading.node()]);
    reading.release().unwrap();
    assert_eq!(children(&path), [""; 0]);
    assert_eq!(warnings(&path), [""; 0]);
}

/// "Clones, and all handles made from them, belong to the same object", and a hold lasts until
/// "the object's last handle is dropped".
#[test]
fn a_hold_lasts_for_as_long_as_a_handle_to_either_side() {
    let client = client();
    let path = fresh_path("either-side");
    warnings(&path);
    let lock = rw_of(&client, &path);
    lock.write_lock().lock().unwrap();
    let hold = hold_of(&lock.write_lock());
    let handle = lock.read_lock();
    drop(lock);
    println!("a write, and a handle to the reads: {hold:?}");
    assert_eq!(hold.state(), HoldState::Held);
    drop(handle);
    assert_eq!(hold.state(), HoldState::Released);
    let lock = rw_of(&client, &path);
    lock.read_lock().lock().unwrap();
    let hold = hold_of(&lock.read_lock());
    let handle = lock.write_lock();
    drop(lock);
    println!("a read, and a handle to the writes: {hold:?}");
    assert_eq!(hold.state(), HoldState::Held);
    drop(handle);
    assert_eq!(hold.state(), HoldState::Released);
    await_nodes(&path, 0);
    assert_eq!(warnings(&path).len(), 2);
}

#[test]
fn a_thread_that_ended_while_it_read_keeps_its_read() {
    let [ours, others] = [client(), client()];
    let path = fresh_path("ended-thread");
    let lock = rw_of(&ours, &path);
    let reader = lock.read_lock();
    thread::spawn(move || reader.lock()).join().unwrap().unwrap();
    let writer = rw_of(&others, &path).write_lock();
    assert!(!writer.try_lock_for(BRIEFLY).unwrap());
    assert!(!lock.write_lock().try_lock().unwrap());
    // No other thread of the process can have become its owner.
    for _ in 0..5 {
        let reader = lock.read_lock();
        let seen = thread::spawn(move || (reader.hold_count(), reader.unlock()));
        let (count, unlocked) = seen.join().unwrap();
        assert_eq!(count, 0);
        assert_not_held(&unlocked);
    }
    println!("{:?}", children(&path));
    await_nodes(&path, 1);
    drop(lock);
    assert!(writer.try_lock_for(SOON).unwrap(), "after the last handle");
    writer.unlock().unwrap();
}

#[test]
fn a_close_is_told_once_to_each_hold_and_to_all_who_wait() {
    let [ours, others] = [client(), client()];
    let path = fresh_path("closed");
    let at = |name: &str| format!("{path}/{name}");
    let nested = rw_of(&ours, &at("nested"));
    let guarded = rw_of(&ours, &at("guarded"));
    let both = rw_of(&ours, &at("both"));
    let waited = rw_of(&ours, &at("waited"));
    for _ in 0..2 {
        nested.read_lock().lock().unwrap();
    }
    let guard = guarded.read_lock().acquire().unwrap();
    both.write_lock().lock().unwrap();
    both.read_lock().lock().unwrap();
    let writer = rw_of(&others, &at("waited")).write_lock();
    writer.lock().unwrap();
    let waiting = [
        Visitor::start(waited.read_lock()),
        Visitor::start(waited.write_lock()),
        Visitor::start(waited.write_lock()),
    ];
    await_nodes(&at("waited"), 3);
    let holds = [
        hold_of(&nested.read_lock()),
        guard.hold(),
        hold_of(&both.write_lock()),
        hold_of(&both.read_lock()),
    ];
    ours.close().unwrap();
    for hold in &holds {
        await_lost(hold);
        assert_eq!((hold.state(), hold.is_held()), (CLOSED, false));
        assert_eq!(children(hold.path()), [""; 0], "close waits for the end");
    }
    for waiting in waiting {
        let seen = waiting.result();
        assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
    }
    let lost = LossReason::ClientClosed;
    assert_lost(&nested.read_lock().lock(), nested.path(), lost);
    assert_lost(&both.read_lock().lock(), both.path(), lost);
    assert_lost(&guard.release(), guarded.path(), lost);
    for _ in 0..2 {
        assert_lost(&nested.read_lock().unlock(), nested.path(), lost);
    }
    assert_lost(&both.write_lock().unlock(), both.path(), lost);
    assert_lost(&both.read_lock().unlock(), both.path(), lost);
    let later = [
        nested.read_lock().unlock(),
        nested.read_lock().lock(),
        nested.read_lock().try_lock().map(drop),
        nested.read_lock().try_lock_for(SOON).map(drop),
        guarded.read_lock().acquire().map(drop),
        both.write_lock().unlock(),
        both.write_lock().lock(),
        both.read_lock().unlock(),
        both.read_lock().lock(),
    ];
    println!("{later:?}");
    for result in later {
        assert!(matches!(result, Err(Error::Closed)), "{result:?}");
    }
    await_nodes(&at("waited"), 1);
    writer.unlock().unwrap();
}

/// Scenario 21, for a read: its node is not in the way of the next calls.
#[test]
fn a_read_whose_release_was_lost_is_not_in_the_way_of_its_thread() {
    for answer_only in [false, true] {
        for then in [Then::Cut, Then::Hold] {
            let proxy = shared_proxy();
            let client = client_of(&proxy.connect_string(), Duration::from_secs(6));
            let path = fresh_path("lost-release");
            let lock = rw_of(&client, &path);
            lock.read_lock().lock().unwrap();
            let rule = proxy.on(Op::Delete).path_contains(&path);
            let lost = match answer_only {
                true => rule.drop_answer(then),
                false => rule.drop_request(then),
            };
            lock.read_lock().unlock().unwrap();
            assert!(lost.wait(SOON), "{:#?}", proxy.log());
            let written = lock.write_lock().try_lock_for(SOON);
            println!("answer lost: {answer_only}, then {then:?}: write {written:?}");
            assert!(matches!(written, Ok(true)), "{written:?}");
            let own = hold_of(&lock.write_lock()).node();
            wait_until("the read is gone", SOON, || children(&path) == [own.clone()]);
            lock.write_lock().unlock().unwrap();
            await_nodes(&path, 0);
        }
    }
}

#[test]
fn cancelling_one_side_leaves_the_other_alone() {
    let [ours, others] = [client(), client()];
    let path = fresh_path("cancel-sides");
    let lock = rw_of(&ours, &path);
    let writer = rw_of(&others, &path).write_lock();
    writer.lock().unwrap();
    let waiting_read = Visitor::start(lock.read_lock());
    await_nodes(&path, 2);
    let waiting_write = Visitor::start(lock.write_lock());
    await_nodes(&path, 3);
    lock.read_lock().cancel_waiters();
    let cancelled = waiting_read.result();
    assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{cancelled:?}");
    await_nodes(&path, 2);
    let waiting_read = Visitor::start(lock.read_lock());
    await_nodes(&path, 3);
    lock.write_lock().cancel_waiters();
    let cancelled = waiting_write.result();
    assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{cancelled:?}");
    println!("each told: {cancelled:?}");
    await_nodes(&path, 2);
    writer.unlock().unwrap();
    waiting_read.comes_in();
    waiting_read.leaves();
    await_nodes(&path, 0);
}

#[test]
fn both_sides_survive_a_panic_of_who_holds_them() {
    let client = client_of(&connect_string(), SESSION);
    let path = fresh_path("panic");
    let lock = rw_of(&client, &path);
    let own = lock.clone();
    let panicked = thread::spawn(move || {
        let _writing = own.write_lock().acquire().unwrap();
        let _reading = own.read_lock().acquire().unwrap();
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!(children(&path), [""; 0]);
    lock.read_lock().lock().unwrap();
    let refused = lock.write_lock().lock();
    assert!(would_deadlock(&refused, &path), "{refused:?}");
    lock.read_lock().unlock().unwrap();
    lock.write_lock().lock().unwrap();
    lock.write_lock().unlock().unwrap();
    await_nodes(&path, 0);
}
