//! Objects, clones and threads: whose a hold is, and who may end it.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use zoolock::{Lock, Locker};

use super::*;
use crate::threads::exactly_one_try_succeeds;
use common::{BRIEFLY, never_two_inside, warnings};

#[test]
fn any_thread_may_unlock_and_one_too_many_is_an_error() {
    let client = client();
    let path = fresh_path("any");
    let lock = lock_of(&client, &path);
    let not_held = |result: Result<()>| {
        let seen = matches!(&result, Err(Error::NotHeld { path: at }) if *at == path);
        assert!(seen, "{result:?}");
    };
    not_held(lock.unlock());
    lock.lock().unwrap();
    let other = lock.clone();
    thread::spawn(move || other.unlock()).join().unwrap().unwrap();
    assert!(!lock.is_held() && !exists(&path));
    not_held(lock.unlock());
    let ended = lock.clone();
    thread::spawn(move || ended.lock().unwrap()).join().unwrap();
    assert!(lock.is_held(), "it outlives its thread");
    assert!(!lock.try_lock().unwrap(), "not reentrant");
    lock.unlock().unwrap();
    let guard = lock.acquire().unwrap();
    thread::spawn(move || guard.release()).join().unwrap().unwrap();
    assert!(!exists(&path));
}

#[test]
fn clones_are_the_same_object_and_other_objects_are_rivals() {
    let client = client();
    let path = fresh_path("objects");
    let lock = lock_of(&client, &path);
    let (clone, other) = (lock.clone(), lock_of(&client, &path));
    lock.lock().unwrap();
    assert!(clone.is_held() && clone.hold().is_some());
    assert!(!other.is_held() && !other.try_lock().unwrap());
    let not_held = other.unlock();
    assert!(matches!(not_held, Err(Error::NotHeld { .. })), "{not_held:?}");
    assert!(lock.is_held() && exists(&path));
    let waiting = locking(&other);
    await_in_use(&client, 2);
    clone.unlock().unwrap();
    waiting.result("the other object").unwrap();
    assert!(!lock.is_held() && other.is_held());
    other.unlock().unwrap();
}

#[test]
fn a_crowd_of_threads_and_objects_is_never_two_inside() {
    const ENTRIES: u32 = 5;
    let clients = [client(), client()];
    let path = fresh_path("crowd");
    let objects: Vec<_> = (0..4).map(|n| lock_of(&clients[n % 2], &path)).collect();
    let crowd = (0..20).map(|number| objects[number % 4].clone());
    never_two_inside(crowd, ENTRIES, |lock, inside| {
        let guard = lock.acquire().unwrap();
        inside();
        guard.release().unwrap();
    });
    assert!(!exists(&path));
}

#[test]
fn of_a_crowd_that_tries_exactly_one_succeeds() {
    let clients = [client(), client()];
    let path = fresh_path("one_try");
    exactly_one_try_succeeds((0..20).map(|number| lock_of(&clients[number % 2], &path)));
    assert!(!exists(&path));
}

#[test]
fn the_last_handle_dropped_while_held_releases_with_a_warning() {
    let client = client();
    let path = fresh_path("handles");
    warnings(&path);
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let last = lock.clone();
    drop(lock);
    assert!(last.is_held() && warnings(&path).is_empty());
    let hold = hold_of(&last);
    drop(last);
    assert_eq!(hold.state(), HoldState::Released);
    assert!(!exists(&path));
    let logged = warnings(&path);
    println!("{logged:?}");
    assert_eq!(logged.len(), 1, "{logged:?}");

    let guard = lock_of(&client, &path).acquire().unwrap();
    assert!(guard.is_held() && exists(&path), "a guard is a handle, too");
    guard.release().unwrap();
    assert!(!exists(&path));
    is_tidy(&client, SOON);
}

#[test]
fn a_forgotten_guard_keeps_the_lock_until_the_client_is_closed() {
    let [forgetful, rivals] = [client(), client()];
    let path = fresh_path("forgotten");
    mem::forget(lock_of(&forgetful, &path).acquire().unwrap());
    let rival = lock_of(&rivals, &path);
    assert!(!rival.try_lock_for(BRIEFLY).unwrap());
    forgetful.close().unwrap();
    assert!(rival.try_lock().unwrap(), "close waits for the end");
    rival.unlock().unwrap();
}

#[test]
fn a_panic_releases_the_guard_and_poisons_nothing() {
    let client = client();
    let path = fresh_path("panic");
    let lock = lock_of(&client, &path);
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.acquire().unwrap();
        assert!(exists(&path));
        panic!("as the test wants it");
    }));
    assert!(result.is_err() && !lock.is_held() && !exists(&path));
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
}

#[test]
fn it_is_a_lock_like_the_others_behind_the_trait() {
    let client = client();
    let path = fresh_path("trait");
    let lock: Box<dyn Lock> = lock_of(&client, &path).into();
    let locker = Locker::acquire(&*lock).unwrap();
    assert!(lock.is_held() && lock.holds().len() == 1, "{lock:?}");
    assert_eq!(lock.path(), path);
    drop(locker);
    assert!(!lock.is_held() && !exists(&path));
    let other = lock_of(&client, &path);
    let guard = other.try_acquire().unwrap().expect("it is free");
    assert!(other.try_acquire_for(Duration::from_millis(50)).unwrap().is_none());
    assert!(other.try_acquire_until(Instant::now()).unwrap().is_none());
    drop(guard);
}

#[test]
fn a_failed_second_level_gives_the_first_one_back() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("second");
    let lock = lock_of(&client, &path);
    let held = lock_of(&common::client(), &path);
    held.lock().unwrap();
    let waiter = {
        let lock = lock.clone();
        Task::spawn(move || lock.try_lock_for(BRIEFLY))
    };
    let behind = locking(&lock);
    assert!(!waiter.result("the first waiter").unwrap());
    await_in_use(&client, 1);
    held.unlock().unwrap();
    behind.result("the one behind it").unwrap();
    lock.unlock().unwrap();
    proxy.refuse(true);
    proxy.cut();
    let seen = lock.try_lock_for(BRIEFLY);
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{seen:?}");
    proxy.refuse(false);
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
}

#[test]
fn drops_after_a_close_do_not_hang() {
    let closing = client();
    let path = fresh_path("closed");
    warnings(&path);
    let raw = lock_of(&closing, &format!("{path}-raw"));
    let guard = lock_of(&closing, &format!("{path}-guard")).acquire().unwrap();
    raw.lock().unwrap();
    let task = Task::spawn(move || {
        closing.close().unwrap();
        let begun = Instant::now();
        drop((guard, raw));
        closing.close().unwrap();
        begun.elapsed()
    });
    println!("dropped in {:?}", task.result("drops after a close"));
    assert!(!exists(&format!("{path}-raw")) && !exists(&format!("{path}-guard")));
}

#[test]
fn who_holds_it_can_be_seen_and_asked_to_let_go() {
    let [ours, others] = [client(), client()];
    let path = fresh_path("seen");
    let options = LockOptions::new().identity("the holder");
    let lock = EphemeralLock::with(&ours, &path, options).unwrap();
    assert_eq!(others.contenders(&path).unwrap(), []);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    let seen = others.contenders(&path).unwrap();
    println!("{seen:?}");
    assert_eq!(seen.len(), 1);
    assert!(seen[0].holds && seen[0].path == path && seen[0].node.is_empty());
    assert_eq!(seen[0].identity.as_deref(), Some("the holder"));
    assert_eq!(seen[0].token, hold.fencing_token().unwrap());
    assert_eq!(seen[0].session, stat_of(&path).ephemeral_owner);
    assert!(asked.try_recv().is_err());
    others.revoke(&seen[0]).unwrap();
    assert!(asked.recv_timeout(SOON).is_ok(), "{hold:?}");
    assert_eq!(hold.state(), HoldState::Held, "it is up to the holder");
    lock.unlock().unwrap();
    assert!(!exists(&path));

    // Asked before anybody listened, or looked at the node.
    lock.lock().unwrap();
    let seen = others.contenders(&path).unwrap();
    others.revoke(&seen[0]).unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    assert!(asked.recv_timeout(SOON).is_ok(), "{hold:?}");
    assert_eq!(hold.fencing_token().unwrap(), seen[0].token);
    assert_eq!(hold.state(), HoldState::Held);
    lock.unlock().unwrap();
}
