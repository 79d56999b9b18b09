//! How holds end, and that nothing of them is left.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use zoolock::{Error, HoldState};
use zoolock_test_support::{fresh_path, shared_probe};

use super::{Pair, client};
use common::{
    Ask, PANICS_THE_LOGGER, SOON, Subject, await_nothing_left, every_subject_that, lock_of,
    warnings,
};

/// Expects the server to have no node left. Releases in the foreground have finished by now.
#[track_caller]
fn is_gone(subject: Subject, path: &str, after: &str) {
    if !subject.releases_in_the_background() {
        assert!(subject.holding(path).is_empty(), "{after}: {:?}", subject.nodes(path));
    }
    subject.await_nodes(path, 0);
}

/// Otherwise its panic would be the second one, which ends the process.
#[test]
fn guard_of_a_lost_hold_goes_in_a_panic_beside_a_logger_that_panics() {
    let (client, path) = (client(), fresh_path(PANICS_THE_LOGGER));
    assert_eq!(warnings(&path), [""; 0]);
    let lock = lock_of(&client, &path);
    let hold = lock.acquire().unwrap().hold();
    for panics in [false, true] {
        let guard = lock.acquire().unwrap();
        // So that the news of the loss comes at once.
        let _asked = guard.revocation().unwrap();
        shared_probe().unwrap().delete(&format!("{path}/{}", guard.node())).unwrap();
        assert!(guard.lost().recv().is_err());
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let _guard = guard;
            assert!(!panics, "on purpose");
        }));
        assert_eq!(ended.is_err(), panics);
    }
    assert!(!hold.is_held());
}

#[test]
fn panic_releases_the_guard_and_poisons_nothing() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let Pair { path, object, .. } = Pair::of(subject, "panic", SOON);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let guard = object.guard(Ask::Wait).unwrap().expect("it waited");
            assert!(guard.holds.iter().all(|hold| hold.is_held()));
            panic!("as the test wants it");
        }));
        assert!(panicked.is_err() && !object.is_held());
        is_gone(subject, &path, "a panic");
        assert!(object.try_lock().unwrap(), "{}", subject.name);
        object.unlock().unwrap();
    });
}

#[test]
fn drop_of_the_last_handle_releases_a_held_lock_and_warns() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let Pair { ours, path, object, .. } = Pair::of(subject, "last_handle", SOON);
        warnings(&path);
        object.lock().unwrap();
        let holds = object.holds();
        let last = object.clone();
        drop(object);
        assert!(last.is_held(), "a clone is a handle");
        assert_eq!(warnings(&path), [""; 0]);
        // The dropping thread need not be the holder.
        thread::spawn(move || drop(last)).join().unwrap();
        for hold in &holds {
            assert_eq!(hold.state(), HoldState::Released, "{}", subject.name);
        }
        is_gone(subject, &path, "the last handle");
        let logged = warnings(&path);
        println!("{}: {logged:?}", subject.name);
        // Permits are a guard, and are dropped as one.
        let told =
            if subject.is_one_lock() && !subject.guards_the_object() { 0 } else { holds.len() };
        assert_eq!(logged.len(), told, "{}: {logged:?}", subject.name);
        assert!(logged.iter().all(|line| line.starts_with("WARN")), "{logged:?}");
        await_nothing_left(&ours);
    });
}

#[test]
fn stale_guard_releases_no_later_hold() {
    every_subject_that(Subject::guards_the_object, |subject| {
        let Pair { path, object, .. } = Pair::of(subject, "stale", SOON);
        let stale = object.guard(Ask::Wait).unwrap().expect("it waited");
        object.unlock().unwrap();
        object.lock().unwrap();
        let released = stale.release();
        println!("{}: {released:?}", subject.name);
        assert!(matches!(&released, Err(Error::NotHeld { path: at }) if *at == path));
        assert!(object.is_held());
        object.unlock().unwrap();
    });
}
