//! The owner of a hold: a thread, which may enter again, or the object.

use std::thread;
use std::time::Duration;

use zoolock::{Error, HoldState, Result};
use zoolock_test_support::fresh_path;

use super::client;
use common::{Ask, Object, SOON, Subject, Task, answered, every_subject_that};

fn not_held<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::NotHeld { .. }))
}

/// What another thread sees: whether it is held, the count and the number of holds.
fn seen_elsewhere(object: &Object) -> (bool, Option<u32>, usize) {
    let object = object.clone();
    let look = move || (object.is_held(), object.hold_count(), object.holds().len());
    Task::spawn(look).result("a look")
}

fn unlocked_elsewhere(object: &Object) -> Result<()> {
    let object = object.clone();
    Task::spawn(move || object.unlock()).result("an unlock")
}

/// Expects `NotHeld`, from each member of a multi-lock.
#[track_caller]
fn says_not_held(object: &Object) {
    let seen = object.unlock();
    let each = match &seen {
        Err(Error::Release { failures }) => failures
            .iter()
            .all(|error| matches!(error, Error::NotHeld { path } if path.starts_with('/'))),
        Err(Error::NotHeld { path }) => path == object.path(),
        _ => false,
    };
    assert!(each, "{object:?}: {seen:?}");
}

#[test]
fn second_unlock_is_not_held_and_changes_nothing() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let (client, path) = (client(), fresh_path("not_held"));
        let (object, other) = (subject.at(&client, &path), subject.at(&client, &path));
        says_not_held(&object);
        object.lock().unwrap();
        says_not_held(&other);
        assert!(object.is_held());
        object.unlock().unwrap();
        says_not_held(&object);
        assert!(object.try_lock().unwrap(), "nothing was broken by it");
        object.unlock().unwrap();
    });
}

#[test]
fn only_the_owning_thread_sees_and_unlocks_its_hold() {
    every_subject_that(Subject::is_a_threads, |subject| {
        let (client, path) = (client(), fresh_path("own"));
        let object = subject.at(&client, &path);
        object.lock().unwrap();
        assert_eq!(object.hold_count(), Some(1));
        assert_eq!(seen_elsewhere(&object), (false, Some(0), 0));
        let unlocked = unlocked_elsewhere(&object);
        println!("{}, by another thread: {unlocked:?}", subject.name);
        let me = thread::current().id();
        match &unlocked {
            Err(Error::NotOwner { path: at, owner }) => assert_eq!((at, *owner), (&path, me)),
            // Readers share the lock, but not each other's holds.
            unlocked => assert!(!subject.is_exclusive() && not_held(unlocked), "{unlocked:?}"),
        }
        assert!(object.is_held());
        assert_eq!(subject.holding(&path).len(), 1);
        object.unlock().unwrap();
    });
}

#[test]
fn ended_thread_leaves_its_hold_to_no_other_thread() {
    every_subject_that(Subject::is_a_threads, |subject| {
        let [ours, others] = [client(), client()];
        let path = fresh_path("ended");
        let (object, ended) = (subject.at(&ours, &path), subject.rival(&others, &path));
        let owned = object.clone();
        thread::spawn(move || owned.lock().unwrap()).join().unwrap();
        // The system reuses the number of an ended thread.
        for number in 0..10 {
            let (seen, unlocked) = (seen_elsewhere(&object), unlocked_elsewhere(&object));
            assert_eq!(seen, (false, Some(0), 0), "thread {number}");
            let refused = matches!(unlocked, Err(Error::NotOwner { .. } | Error::NotHeld { .. }));
            assert!(refused, "thread {number}: {unlocked:?}");
            let tried = object.clone();
            let tried = thread::spawn(move || match subject.is_exclusive() {
                true => tried.try_lock(),
                false => tried.lock().and_then(|()| tried.unlock()).map(|()| false),
            });
            assert!(!tried.join().unwrap().unwrap(), "thread {number} got in");
        }
        assert!(!ended.try_lock().unwrap());
        ours.close().unwrap();
        assert!(ended.try_lock().unwrap(), "{}: close gives it back", subject.name);
        ended.unlock().unwrap();
    });
}

#[test]
fn every_thread_sees_and_unlocks_a_hold_of_the_object() {
    every_subject_that(
        |one| !one.is_a_threads(),
        |subject| {
            let (client, path) = (client(), fresh_path("anybodys"));
            let [object, other] = [(); 2].map(|()| subject.at(&client, &path));
            let ended = object.clone();
            thread::spawn(move || ended.lock().unwrap()).join().unwrap();
            assert!(object.is_held(), "it outlives its thread");
            assert_eq!(seen_elsewhere(&object), (true, None, subject.nodes_of_one()));
            for (through, object) in [("itself", &object), ("another object", &other)] {
                // Another thread may unlock it, so waiting is never a deadlock.
                let waited = answered(|| object.try_lock_for(Duration::from_secs(1)));
                let seen = [object.try_lock(), waited];
                println!("{} through {through}: {seen:?}", subject.name);
                assert!(seen.iter().all(|seen| matches!(seen, Ok(false))), "{seen:?}");
            }
            unlocked_elsewhere(&object).unwrap();
            assert!(!object.is_held());
        },
    );
}

#[test]
fn nested_hold_ends_with_the_outermost_unlock() {
    every_subject_that(Subject::is_a_threads, |subject| {
        let [ours, others] = [client(), client()];
        let path = fresh_path("nested");
        let (object, rival) = (subject.at(&ours, &path), subject.rival(&others, &path));
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
        let asks = Ask::each(Duration::ZERO).into_iter().chain([Ask::For(SOON)]);
        for (depth, ask) in (1..).step_by(2).zip(asks) {
            assert!(object.enter(ask).unwrap(), "{ask:?} at depth {depth}");
            still(depth + 1);
            guards.push(object.guard(ask).unwrap().expect("the thread is in"));
            still(depth + 2);
        }
        println!("{}: entered 11 times as {node:?} with token {token}", subject.name);
        assert!(!rival.try_lock().unwrap());
        // The outermost entry ends last, whatever the order of the unlocks.
        let mut left = 11;
        for nth in [2, 0, 2, 1, 0] {
            match nth {
                0 => drop(guards.remove(nth)),
                _ => guards.remove(nth).release().unwrap(),
            }
            still(left - 1);
            object.unlock().unwrap();
            left -= 2;
            still(left);
        }
        object.unlock().unwrap();
        assert_eq!((object.hold_count(), hold.state()), (Some(0), HoldState::Released));
        if subject.goes_with_its_unlock() {
            subject.await_nodes(&path, 0);
        }
        says_not_held(&object);
        assert!(rival.try_lock_for(SOON).unwrap());
        rival.unlock().unwrap();
    });
}

fn would_deadlock<T>(result: &Result<T>, path: &str) -> bool {
    matches!(result, Err(Error::WouldDeadlock { path: at }) if at == path)
}

#[test]
fn thread_that_would_wait_for_itself_gets_an_error() {
    every_subject_that(Subject::is_a_threads, |subject| {
        let [ours, others] = [client(), client()];
        let path = fresh_path("deadlock");
        let object = subject.at(&ours, &path);
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
        is_told(&second, "behind itself");
        assert_eq!(subject.await_nodes(&path, 1), node);
        // Other threads and clients wait as usual.
        let waits = |rival: &Object| {
            let rival = rival.clone();
            Task::spawn_blocked(move || rival.lock().and_then(|()| rival.unlock()))
        };
        let mut waiters = vec![waits(&second)];
        // A writer queues behind a read of its own process. Other rivals share a first level.
        let queued = if subject.is_exclusive() { 1 } else { 2 };
        subject.await_nodes(&path, queued);
        let stranger = subject.rival(&others, &path);
        waiters.push(waits(&stranger));
        subject.await_nodes(&path, queued + 1);
        is_told(&third, "in the queue");
        // The error comes even here, where another thread is between the two levels.
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
