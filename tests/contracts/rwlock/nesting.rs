//! Whose a hold is: the thread's, on both sides, counted; and what a thread may not wait for.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::{DistributedRwLock, Error, HoldState, Lock};
use zoolock_test_support::fresh_path;

use super::{Stage, Visitor, assert_not_held, rw_of, would_deadlock};
use common::basics::{await_nodes, hold_of};
use common::{SOON, Task, children, client, in_time};

type Counted<'a> = (&'a dyn Lock, &'a dyn Fn() -> u32);

/// Time enough for the answers that a call needs.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Calls that would hang must return long before a session ends.
const PROMPT: Duration = Duration::from_secs(3);

fn the_node_goes_at_the_outermost_unlock_only((lock, count): Counted<'_>) {
    let path = lock.path();
    assert_eq!(count(), 0);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let (node, token) = (hold.node(), hold.fencing_token().unwrap());
    let enter: [fn(&dyn Lock) -> zoolock::Result<bool>; 5] = [
        |lock| lock.lock().map(|()| true),
        |lock| lock.try_lock(),
        |lock| lock.try_lock_for(Duration::ZERO),
        |lock| lock.try_lock_until(Instant::now()),
        |lock| lock.try_lock_for(SOON),
    ];
    for (depth, enter) in (2..).zip(enter) {
        assert!(enter(lock).unwrap(), "depth {depth}");
        let again = hold_of(&lock);
        assert_eq!(count(), depth);
        assert_eq!(again.node(), node, "depth {depth}");
        assert_eq!(again.fencing_token().unwrap(), token, "depth {depth}");
        assert_eq!(children(path), [node.as_str()], "depth {depth}");
    }
    for left in (0..6).rev() {
        assert!(lock.is_held(), "{left} left after this unlock");
        assert_eq!(children(path), [node.as_str()], "{left} left");
        lock.unlock().unwrap();
        assert_eq!(count(), left);
    }
    println!("entered 6 times as {node} with token {token}");
    assert_eq!(children(path), [""; 0]);
    assert!(!lock.is_held());
    assert_not_held(&lock.unlock());
}

#[test]
fn the_node_of_a_read_goes_at_the_outermost_unlock_only() {
    let client = client();
    let read = rw_of(&client, &fresh_path("nested-read")).read_lock();
    the_node_goes_at_the_outermost_unlock_only((&read, &|| read.hold_count()));
}

#[test]
fn the_node_of_a_write_goes_at_the_outermost_unlock_only() {
    let client = client();
    let write = rw_of(&client, &fresh_path("nested-write")).write_lock();
    the_node_goes_at_the_outermost_unlock_only((&write, &|| write.hold_count()));
}

macro_rules! guards_nest {
    ($lock:expr, $path:expr) => {
        let (lock, path) = ($lock, $path);
        let outer = lock.acquire().unwrap();
        let middle = lock.try_acquire().unwrap().expect("the thread is in");
        let inner = lock.try_acquire_for(SOON).unwrap().expect("it still is");
        assert_eq!(lock.hold_count(), 3);
        assert_eq!([outer.node(), middle.node()], [inner.node(), inner.node()]);
        drop(outer);
        assert_eq!((lock.hold_count(), children(path).len()), (2, 1));
        assert_eq!(middle.state(), HoldState::Held);
        inner.release().unwrap();
        assert_eq!((lock.hold_count(), children(path).len()), (1, 1));
        let hold = middle.hold();
        middle.release().unwrap();
        assert_eq!((lock.hold_count(), children(path).len()), (0, 0));
        assert_eq!(hold.state(), HoldState::Released);
        println!("three guards of {hold:?}, released in another order");
        // A guard whose hold is gone releases no later one.
        let stale = lock.acquire().unwrap();
        lock.unlock().unwrap();
        lock.lock().unwrap();
        assert_not_held(&stale.release());
        assert!(lock.is_held());
        lock.unlock().unwrap();
        assert_eq!(children(path), [""; 0]);
    };
}

#[test]
fn guards_nest_on_both_sides_and_may_go_in_any_order() {
    let client = client();
    let path = &fresh_path("guards");
    let lock = rw_of(&client, path);
    guards_nest!(lock.read_lock(), path);
    guards_nest!(lock.write_lock(), path);
}

#[test]
fn handles_and_clones_are_the_same_object() {
    let client = client();
    let path = fresh_path("handles");
    let lock = rw_of(&client, &path);
    assert_eq!((lock.path(), lock.read_lock().path()), (&*path, &*path));
    assert_eq!(lock.write_lock().path(), path);
    lock.read_lock().lock().unwrap();
    lock.clone().read_lock().clone().lock().unwrap();
    assert_eq!((lock.read_lock().hold_count(), children(&path).len()), (2, 1));
    lock.clone().read_lock().unlock().unwrap();
    lock.read_lock().unlock().unwrap();
    lock.clone().write_lock().lock().unwrap();
    lock.write_lock().lock().unwrap();
    assert_eq!((lock.write_lock().hold_count(), children(&path).len()), (2, 1));
    lock.write_lock().unlock().unwrap();
    lock.clone().write_lock().unlock().unwrap();
    assert_eq!(children(&path), [""; 0]);
    println!("{lock:?}");
}

#[test]
fn unlocking_what_one_does_not_hold_is_an_error_and_changes_nothing() {
    let client = client();
    let path = fresh_path("not-held");
    let lock = rw_of(&client, &path);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    assert_not_held(&read.unlock());
    assert_not_held(&write.unlock());

    write.lock().unwrap();
    assert_not_held(&read.unlock());
    let other = lock.clone();
    let by_another = Task::spawn(move || (other.write_lock().unlock(), other.read_lock().unlock()));
    let (wrote, was_read) = by_another.result("another thread");
    println!("while written: {wrote:?}, {was_read:?}");
    let me = thread::current().id();
    let told =
        matches!(&wrote, Err(Error::NotOwner { path: at, owner }) if *at == path && *owner == me);
    assert!(told, "{wrote:?}");
    assert_not_held(&was_read);
    assert!(write.is_held());
    write.unlock().unwrap();

    read.lock().unwrap();
    assert_not_held(&write.unlock());
    let other = lock.clone();
    let by_another = Task::spawn(move || {
        let first = (other.write_lock().unlock(), other.read_lock().unlock());
        // Nor does it when it reads itself, once too often.
        other.read_lock().lock().unwrap();
        other.read_lock().unlock().unwrap();
        (first, other.read_lock().unlock())
    });
    let ((wrote, was_read), too_often) = by_another.result("another thread");
    println!("while read: {wrote:?}, {was_read:?}, {too_often:?}");
    for result in [&wrote, &was_read, &too_often] {
        assert_not_held(result);
    }
    assert!(read.is_held());
    assert_eq!(children(&path), [hold_of(&read).node()]);
    read.unlock().unwrap();
}

#[test]
fn a_hold_is_seen_by_its_thread_only() {
    let client = client();
    let path = fresh_path("seen");
    let lock = rw_of(&client, &path);
    let see = |lock: &DistributedRwLock| {
        let (read, write) = (lock.read_lock(), lock.write_lock());
        let read = (read.is_held(), read.hold_count(), read.holds().len());
        (read, (write.is_held(), write.hold_count(), write.holds().len()))
    };
    let elsewhere = |lock: &DistributedRwLock| {
        let lock = lock.clone();
        Task::spawn(move || see(&lock)).result("a look")
    };
    let (no, yes) = ((false, 0, 0), (true, 1, 1));
    lock.write_lock().lock().unwrap();
    assert_eq!((see(&lock), elsewhere(&lock)), ((no, yes), (no, no)));
    lock.read_lock().lock().unwrap();
    assert_eq!((see(&lock), elsewhere(&lock)), ((yes, yes), (no, no)));
    lock.write_lock().unlock().unwrap();
    assert_eq!((see(&lock), elsewhere(&lock)), ((yes, no), (no, no)));
    // A reader of its own there.
    let other = lock.clone();
    let visit = Task::spawn(move || {
        let read = other.read_lock();
        let locked = (read.try_lock(), read.hold_count(), children(read.path()));
        read.unlock().unwrap();
        (locked, see(&other))
    });
    let ((locked, count, nodes), after) = visit.result("another reader");
    println!("{locked:?}, {count}, {nodes:?}");
    assert!(matches!(locked, Ok(true)), "{locked:?}");
    assert_eq!((count, nodes.len(), after), (1, 2, (no, no)));
    assert_eq!(see(&lock), (yes, no));
    lock.read_lock().unlock().unwrap();
    assert_eq!(children(&path), [""; 0]);
}

/// Whatever this thread tries to write with would wait for its own read.
#[track_caller]
fn no_write_gets_in(write: &zoolock::WriteLock, what: &str) {
    let path = write.path();
    in_time(what, PROMPT, || {
        let results = [
            ("lock", write.lock()),
            ("acquire", write.acquire().map(drop)),
            ("try_lock_for", write.try_lock_for(SOON).map(drop)),
            ("try_acquire_for", write.try_acquire_for(SOON).map(drop)),
        ];
        for (call, result) in &results {
            assert!(would_deadlock(result, path), "{what}, {call}: {result:?}");
        }
        let tries = [
            write.try_lock(),
            write.try_acquire().map(|guard| guard.is_some()),
            write.try_lock_for(Duration::ZERO),
        ];
        let busy = tries.iter().all(|tried| matches!(tried, Ok(false)));
        assert!(busy, "{what}: {tries:?}");
        assert_eq!((write.hold_count(), write.is_held()), (0, false), "{what}");
        (results.len(), tries.len())
    });
}

#[test]
fn a_write_under_an_own_read_is_an_error_and_no_hang() {
    let client = client();
    let path = fresh_path("read-write");
    let lock = rw_of(&client, &path);
    let other = rw_of(&client, &path);
    let read = lock.read_lock();
    read.lock().unwrap();
    let node = hold_of(&read).node();
    no_write_gets_in(&lock.write_lock(), "the same object");
    no_write_gets_in(&lock.clone().write_lock().clone(), "another handle");
    no_write_gets_in(&other.write_lock(), "another object of the client");
    assert_eq!(await_nodes(&path, 1), [node.as_str()], "nothing is left");
    assert_eq!(read.hold().unwrap().state(), HoldState::Held);

    // Nor while another thread is between the two levels of this object, or queued before it.
    let first = Visitor::start(lock.write_lock());
    await_nodes(&path, 2);
    let writers = [first, Visitor::start(other.write_lock())];
    await_nodes(&path, 3);
    no_write_gets_in(&lock.write_lock(), "the same object, others queued");
    no_write_gets_in(&other.write_lock(), "another object, others queued");
    assert!(read.try_lock().unwrap(), "entering again past writers");
    read.unlock().unwrap();
    assert!(writers.iter().all(|writer| !writer.is_in()));
    assert_eq!(await_nodes(&path, 3).len(), 3);
    read.unlock().unwrap();
    for writer in writers {
        writer.comes_in();
        writer.leaves();
    }
    let write = lock.write_lock();
    write.lock().unwrap();
    write.unlock().unwrap();
    await_nodes(&path, 0);
    assert_eq!(common::in_use(&client.stats()), 0);
}

#[test]
fn a_read_under_an_own_write_of_another_object_is_an_error() {
    let client = client();
    let path = fresh_path("write-read");
    let [lock, other] = [(); 2].map(|()| rw_of(&client, &path));
    lock.write_lock().lock().unwrap();
    let read = other.read_lock();
    in_time("a read through another object", PROMPT, || {
        let results = [
            read.lock(),
            read.acquire().map(drop),
            read.try_lock_for(SOON).map(drop),
            other.write_lock().lock(),
        ];
        for result in &results {
            assert!(would_deadlock(result, &path), "{result:?}");
        }
        let tries = [read.try_lock(), other.write_lock().try_lock()];
        assert!(tries.iter().all(|t| matches!(t, Ok(false))), "{tries:?}");
    });
    assert_eq!((read.hold_count(), read.is_held()), (0, false));
    await_nodes(&path, 1);
    // Also when the own object has the read as well.
    lock.read_lock().lock().unwrap();
    let refused = read.lock();
    assert!(would_deadlock(&refused, &path), "{refused:?}");
    // After the downgrade there is a read beside a read.
    lock.write_lock().unlock().unwrap();
    read.lock().unwrap();
    println!("two objects of one thread: {:?}", children(&path));
    assert_eq!(children(&path).len(), 2);
    read.unlock().unwrap();
    lock.read_lock().unlock().unwrap();
    await_nodes(&path, 0);
}

#[test]
fn reads_of_one_thread_through_two_objects_are_side_by_side() {
    let stage = Stage::new("read-read", 2);
    let [lock, other] = [(); 2].map(|()| stage.lock(0).read_lock());
    lock.lock().unwrap();
    other.lock().unwrap();
    let nodes = children(&stage.path);
    println!("{nodes:?}");
    assert_eq!((nodes.len(), lock.hold_count(), other.hold_count()), (2, 1, 1));
    lock.unlock().unwrap();
    assert!(other.is_held() && !lock.is_held());
    // With a writer between them the second one waits, as documented, since it is another object.
    let writer = stage.queues(stage.lock(1).write_lock());
    let tried = lock.try_lock_for(TIMEOUT);
    assert!(matches!(tried, Ok(false)), "{tried:?}");
    let tried = lock.try_lock();
    assert!(matches!(tried, Ok(false)), "{tried:?}");
    other.unlock().unwrap();
    writer.comes_in();
    writer.leaves();
    stage.is_empty();
}

#[test]
fn another_thread_waits_for_a_read_as_usual() {
    let client = client();
    let path = fresh_path("other-thread");
    let lock = rw_of(&client, &path);
    lock.read_lock().lock().unwrap();
    let writer = Visitor::start(lock.write_lock());
    await_nodes(&path, 2);
    assert!(!writer.is_in());
    lock.read_lock().unlock().unwrap();
    writer.comes_in();
    // And this one for that write, locally and through another object.
    for lock in [&lock, &rw_of(&client, &path)] {
        let tried = lock.read_lock().try_lock_for(TIMEOUT);
        assert!(matches!(tried, Ok(false)), "{tried:?}");
        let tried = lock.write_lock().try_lock_for(TIMEOUT);
        assert!(matches!(tried, Ok(false)), "{tried:?}");
    }
    println!("{:?}", client.stats());
    writer.leaves();
    await_nodes(&path, 0);
}
