//! Who owns a hold: the thread, if the lock is reentrant, or else the object.

use std::thread;
use std::time::Duration;

use zoolock::{Error, HoldState};

use super::Pair;
use common::*;

/// Returns what the object reports on another thread: whether it is held, its hold count, and the number of holds.
fn seen_elsewhere(object: &Object) -> (bool, Option<u32>, usize) {
    object.elsewhere(|object| (object.is_held(), object.hold_count(), object.holds().len()))
}

/// Expects that unlocking reports `NotHeld`, for each member of a multi-lock.
#[track_caller]
fn says_not_held(object: &Object) {
    let seen = object.unlock().expect_err("it is not held");
    let is_it = match &seen {
        Error::Multiple { failures, .. } => {
            failures.iter().all(|one| matches!(one, Error::NotHeld { .. }))
        }
        Error::NotHeld { path, .. } => path == object.path(),
        _ => false,
    };
    assert!(is_it, "{object:?}: {seen:?}");
}

#[test]
fn second_unlock_is_not_held_and_changes_nothing() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let Pair { ours, path, object, .. } = Pair::of(subject, "not_held", SOON);
        let other = subject.at(&ours, &path);
        says_not_held(&object);
        object.lock().unwrap();
        says_not_held(&other);
        assert!(object.is_held());
        object.unlock().unwrap();
        says_not_held(&object);
        assert!(object.try_lock().unwrap(), "the object still works");
        object.unlock().unwrap();
    });
}

/// This is also true after the owner has ended, because the system may reuse the number of a thread that has ended.
#[test]
fn only_the_owning_thread_sees_and_unlocks_its_hold() {
    every_subject_that(Subject::is_a_threads, |subject| {
        let Pair { ours, path, object, rival, .. } = Pair::of(subject, "own", SOON);
        let owned = object.clone();
        let own = thread::spawn(move || {
            owned.lock().unwrap();
            (owned.hold_count(), owned.hold(), thread::current().id())
        });
        let (count, hold, owner) = own.join().unwrap();
        assert_eq!(count, Some(1));
        for number in 0..10 {
            assert_eq!(seen_elsewhere(&object), (false, Some(0), 0), "thread {number}");
            match object.elsewhere(|object| object.unlock()) {
                Err(Error::NotOwner { path: at, owner: who, .. }) => {
                    assert_eq!((&at, who), (&path, owner));
                }
                // Readers share the lock, but each reader has its own hold.
                Err(Error::NotHeld { .. }) if !subject.is_exclusive() => {}
                unlocked => panic!("{}, thread {number}: {unlocked:?}", subject.name),
            }
            let tried = object.elsewhere(move |object| match subject.is_exclusive() {
                true => object.try_lock(),
                false => visit(object.clone())().map(|()| false),
            });
            assert!(!tried.unwrap(), "thread {number} acquired the lock");
        }
        assert!(hold.is_held());
        assert!(!rival.try_lock().unwrap());
        ours.close().unwrap();
        assert!(rival.try_lock().unwrap(), "{}: closing releases the lock", subject.name);
        rival.unlock().unwrap();
    });
}

#[test]
fn every_thread_sees_and_unlocks_a_hold_of_the_object() {
    let is_one = |subject: Subject| !subject.is_a_threads();
    every_subject_that(is_one, |subject| {
        let Pair { ours, path, object, .. } = Pair::of(subject, "anybodys", SOON);
        let (ended, other) = (object.clone(), subject.at(&ours, &path));
        thread::spawn(move || ended.lock().unwrap()).join().unwrap();
        assert!(object.is_held(), "it outlives its thread");
        assert_eq!(seen_elsewhere(&object), (true, None, subject.nodes_of_one()));
        for (through, object) in [("itself", &object), ("another object", &other)] {
            // Another thread may unlock the object, so waiting for it is not a deadlock.
            let waited = answered(|| object.lock_within(Duration::from_secs(1).into()));
            let seen = [object.try_lock(), waited];
            println!("{} through {through}: {seen:?}", subject.name);
            assert!(seen.iter().all(|seen| matches!(seen, Ok(false))), "{seen:?}");
        }
        object.elsewhere(|object| object.unlock()).unwrap();
        assert!(!object.is_held());
    });
}

#[test]
fn nested_hold_ends_with_the_outermost_unlock() {
    every_subject_that(Subject::is_a_threads, |subject| {
        let Pair { path, object, rival, .. } = Pair::of(subject, "nested", SOON);
        object.lock().unwrap();
        let (hold, node) = (object.hold(), subject.holding(&path));
        let token = hold.fencing_token();
        let still = |depth: u32| {
            let again = object.hold();
            assert_eq!(object.hold_count(), Some(depth), "{}", subject.name);
            assert_eq!((again.node(), again.fencing_token()), (hold.node(), token));
            assert_eq!((subject.nodes(&path), hold.state()), (node.clone(), HoldState::Held));
        };
        let mut guards = Vec::new();
        let asks = Ask::each(Duration::ZERO).into_iter().chain([Ask::Wait]);
        for (depth, ask) in (1..).step_by(2).zip(asks) {
            assert!(object.enter(&ask).unwrap(), "{ask:?} at depth {depth}");
            still(depth + 1);
            guards.push(object.guard(&ask).unwrap().expect("the thread is in"));
            still(depth + 2);
        }
        println!("{}: entered 9 times as {node:?} with token {token}", subject.name);
        assert!(!rival.try_lock().unwrap());
        // The last unlock releases the lock, whatever the order in which the guards are dropped and `unlock` is called.
        for (left, nth) in [(9, 2), (7, 0), (5, 1), (3, 0)] {
            match nth {
                0 => drop(guards.remove(nth)),
                _ => guards.remove(nth).release().unwrap(),
            }
            still(left - 1);
            object.unlock().unwrap();
            still(left - 2);
        }
        object.unlock().unwrap();
        assert_eq!((object.hold_count(), hold.state()), (Some(0), HoldState::Released));
        if subject.goes_with_its_unlock() {
            subject.await_nodes(&path, 0);
        }
        says_not_held(&object);
        assert!(rival.lock_within(SOON.into()).unwrap());
        rival.unlock().unwrap();
    });
}

#[test]
fn thread_that_would_wait_for_itself_gets_an_error() {
    every_subject_that(Subject::is_a_threads, |subject| {
        let Pair { ours, others, path, object, rival: stranger } =
            Pair::of(subject, "deadlock", SOON);
        let [second, third] = [(); 2].map(|()| subject.rival(&ours, &path));
        object.lock().unwrap();
        let node = subject.nodes(&path);
        let is_told = |rival: &Object, when: &str| {
            rival.is_refused(SOON, |ask, seen| {
                println!("{}, {when}, {ask:?}: {seen:?}", subject.name);
                match ask.waits() {
                    true => assert!(would_deadlock(&seen, &path), "{ask:?}: {seen:?}"),
                    false => assert!(matches!(seen, Ok(false)), "{ask:?}: {seen:?}"),
                }
            });
        };
        is_told(&second, "behind its own hold");
        assert_eq!(subject.await_nodes(&path, 1), node);
        // Other threads and clients wait as usual.
        let mut waiters = vec![Task::spawn_blocked(visit(second.clone()))];
        // A writer waits in ZooKeeper for a read lock of its own process. All other rivals wait in the process.
        let queued = if subject.is_exclusive() { 1 } else { 2 };
        subject.await_nodes(&path, queued);
        waiters.push(Task::spawn_blocked(visit(stranger)));
        subject.await_nodes(&path, queued + 1);
        is_told(&third, "in the queue");
        // The error is also returned if the thread ahead has already left the in-process queue and waits in ZooKeeper.
        is_told(&second, "behind a thread of this object");
        let by_a_stranger = subject.rival(&others, &path).try_lock();
        assert!(matches!(by_a_stranger, Ok(false)), "{by_a_stranger:?}");
        assert!(object.try_lock().unwrap(), "entering again past others");
        object.unlock().unwrap();
        object.unlock().unwrap();
        for waiter in waiters {
            waiter.result("a waiter").unwrap();
        }
        second.lock().unwrap();
        second.unlock().unwrap();
    });
}
