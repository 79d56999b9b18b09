//! How holds end, and that nothing of them is left.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use zoolock::{DistributedRwLock, DistributedSemaphore, Error, HoldState, Result};
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use super::client;
use common::{
    Ask, BRIEFLY, Object, PANICS_THE_LOGGER, SOON, Subject, Task, await_nothing_left,
    behind_a_proxy, every_subject, every_subject_that, lock_of, single, warnings,
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
        let (client, path) = (client(), fresh_path("panic"));
        let object = subject.at(&client, &path);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let guard = object.guard(Ask::Wait).unwrap().expect("it waited");
            assert!(guard.holds().iter().all(|hold| hold.is_held()));
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
        let (client, path) = (client(), fresh_path("last_handle"));
        warnings(&path);
        let object = subject.at(&client, &path);
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
        await_nothing_left(&client);
    });
}

#[test]
fn guard_keeps_its_hold_without_any_handle() {
    let (client, path) = (client(), fresh_path("guard_alone"));
    warnings(&path);
    let at = |name: &str| format!("{path}/{name}");
    let any = lock_of(&client, &at("any")).acquire().unwrap();
    let alone = single::lock_of(&client, &at("single")).acquire().unwrap();
    let rw = DistributedRwLock::new(&client, at("rw")).unwrap();
    let (writing, reading) =
        (rw.write_lock().acquire().unwrap(), rw.read_lock().acquire().unwrap());
    drop(rw);
    let semaphore = DistributedSemaphore::new(&client, at("semaphore"), 1).unwrap();
    let permits = semaphore.acquire(1).unwrap();
    drop(semaphore);
    assert!(any.is_held() && alone.is_held() && permits.is_held());
    assert!(writing.is_held() && reading.is_held());
    println!("{:?}", client.stats());
    any.release().unwrap();
    alone.release().unwrap();
    writing.release().unwrap();
    drop(reading);
    permits.release().unwrap();
    await_nothing_left(&client);
    assert_eq!(warnings(&path), [""; 0]);
}

#[test]
fn stale_guard_releases_no_later_hold() {
    every_subject_that(Subject::guards_the_object, |subject| {
        let (client, path) = (client(), fresh_path("stale"));
        let object = subject.at(&client, &path);
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

#[test]
fn forgotten_guard_keeps_the_lock_until_the_client_closes() {
    every_subject(|subject| {
        let [forgetful, others] = [client(), client()];
        let path = fresh_path("forgotten");
        let object = subject.at(&forgetful, &path);
        mem::forget(object.guard(Ask::Wait).unwrap());
        // The guard of a multi-lock borrows its members and is no handle.
        let _several = (!subject.is_one_lock()).then_some(object);
        let rival = subject.rival(&others, &path);
        assert!(!rival.try_lock().unwrap(), "{}", subject.name);
        let nodes = subject.nodes(&path);
        forgetful.close().unwrap();
        assert!(
            rival.try_lock().unwrap(),
            "{}: close waits for the end of {nodes:?}",
            subject.name
        );
        rival.unlock().unwrap();
        forgetful.close().unwrap();
    });
}

#[test]
fn failed_second_level_releases_the_first() {
    every_subject(|subject| {
        let ((proxy, ours), others) = (behind_a_proxy(SOON), client());
        let path = fresh_path("given_back");
        let (object, rival) = (subject.at(&ours, &path), subject.rival(&others, &path));
        let elsewhere = |what: &str, call: fn(&Object) -> Result<bool>| {
            let object = object.clone();
            Task::spawn(move || call(&object)).result(&format!("{}, {what}", subject.name))
        };
        let works = |what: &str| {
            let works = elsewhere(what, |object| {
                let locked = object.try_lock_for(SOON)?;
                object.unlock().map(|()| locked)
            });
            assert!(matches!(works, Ok(true)), "{}, {what}: {works:?}", subject.name);
        };
        rival.lock().unwrap();
        assert!(!object.try_lock_for(BRIEFLY).unwrap());
        assert!(!object.try_lock().unwrap());
        let tried = elsewhere("while a rival holds", |object| object.try_lock_for(BRIEFLY));
        assert!(matches!(tried, Ok(false)), "{tried:?}");
        // A waiter on the first level stands behind the thread that fails on the second.
        let (first, second) = (object.clone(), object.clone());
        let first = Task::spawn_blocked(move || first.try_lock_for(BRIEFLY));
        let second = Task::spawn(move || {
            let locked = second.try_lock_for(SOON);
            (locked, second.unlock())
        });
        let first = first.result("the first of two waiters");
        assert!(matches!(first, Ok(false)), "{first:?}");
        rival.unlock().unwrap();
        let second = second.result("the second of two waiters");
        assert!(matches!(second, (Ok(true), Ok(()))), "{second:?}");
        if !subject.goes_with_its_unlock() {
            return;
        }
        works("after the rival's unlock");

        proxy.cut_off();
        let unknown = |r: &Result<bool>| matches!(r, Err(Error::Disconnected { .. }));
        wait_until("it says so", SOON, || match object.try_lock() {
            Ok(true) => object.unlock().map(|()| false).unwrap_or(false),
            tried => unknown(&tried),
        });
        let tries = [
            object.try_lock_for(Duration::from_millis(200)),
            elsewhere("while disconnected", |object| object.try_lock()),
        ];
        println!("{}, without a connection: {tries:?}", subject.name);
        assert!(tries.iter().all(unknown), "{}: {tries:?}", subject.name);
        proxy.refuse(false);
        works("connected again");
        is_gone_in_the_end(subject, &path);
    });
}

fn is_gone_in_the_end(subject: Subject, path: &str) {
    if subject.goes_with_its_unlock() {
        subject.await_nodes(path, 0);
    }
}
