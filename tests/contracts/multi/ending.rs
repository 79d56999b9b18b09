//! Deadlines, losses, and the end of all of them together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use zoolock::{
    DistributedLock, DistributedReentrantLock, Error, Lock, Locker, LossReason, MultiLock,
};
use zoolock_test_support::{fresh_path, wait_until};

use super::scripted::{Does, Script};
use super::{failures, members, multi, multi_of, nodes};
use common::basics::{await_nodes, hold_of};
use common::{SOON, Task, client, client_of, delete_node, in_time, is_lost, warnings};

#[test]
fn one_deadline_covers_all_members() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    const SLACK: Duration = Duration::from_millis(500);
    use Does::Well;
    let script = Script::new([("/a", Well, Well), ("/b", Well, Well), ("/c", Well, Well)]);
    let deadline = Instant::now() + SOON;
    assert!(script.multi.try_lock_until(deadline).unwrap());
    let expected = ["a", "b", "c"].map(|name| format!("until {deadline:?} {name}"));
    assert_eq!(script.calls(), expected);

    let clients = [client(), client()];
    let root = fresh_path("multi-deadline");
    let [a, b, c] = members(&clients[0], &root, ["a", "b", "c"]);
    let rival = multi_of(&[a.clone(), b.clone(), c]);
    let lock = multi(&clients[1], &root, ["a", "b", "c"]);
    rival.lock().unwrap();
    let what = "three busy members";
    let locked = in_time(what, TIMEOUT + SLACK, || lock.try_lock_for(TIMEOUT));
    assert!(!locked.unwrap());
    assert_eq!(nodes(&rival), [1, 1, 1]);

    // Two of them become free shortly before the end.
    let begun = Instant::now();
    let frees = Task::spawn(move || {
        let late = || begun.elapsed() > TIMEOUT * 4 / 5;
        wait_until("most of the time is over", SOON, late);
        a.unlock().and_then(|()| b.unlock())
    });
    let what = "one member busy, the others for most of the time";
    let locked = in_time(what, TIMEOUT + SLACK, || lock.try_lock_for(TIMEOUT));
    assert!(!locked.unwrap());
    frees.result("two are freed").unwrap();
    await_nodes(lock.locks()[0].path(), 0);
    assert_eq!(nodes(&lock), [0, 0, 1]);
}

#[test]
fn every_member_is_visited_and_all_failures_reported() {
    let client = client();
    let root = fresh_path("multi-failures");
    let [a, b, c] = members(&client, &root, ["a", "b", "c"]);
    let multi = multi_of(&[a.clone(), b.clone(), c.clone()]);

    multi.lock().unwrap();
    delete_node(&hold_of(&b));
    let error = multi.unlock().unwrap_err();
    println!("one lost: {error}");
    assert!(error.is_lost() && !error.is_retryable(), "{error:?}");
    let seen = failures::<()>(Err(error));
    assert!(seen.len() == 1 && is_lost(&seen[0], b.path(), LossReason::NodeDeleted), "{seen:?}");
    assert_eq!(nodes(&multi), [0, 0, 0]);

    let locked = multi.acquire().expect("it can be used again");
    delete_node(&hold_of(&a));
    delete_node(&hold_of(&c));
    let seen = failures(locked.release());
    println!("two lost: {seen:?}");
    let [first, second] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert!(is_lost(first, c.path(), LossReason::NodeDeleted), "{seen:?}");
    assert!(is_lost(second, a.path(), LossReason::NodeDeleted), "{seen:?}");
    assert_eq!(nodes(&multi), [0, 0, 0]);

    let seen = failures(multi.unlock());
    println!("not held: {seen:?}");
    let not_held = |error: &Error| matches!(error, Error::NotHeld { .. });
    assert!(seen.len() == 3 && seen.iter().all(not_held), "{seen:?}");
    assert!(multi.try_lock().unwrap());
    b.unlock().unwrap();
    assert!(!multi.is_held() && multi.holds().len() == 2);
    assert_eq!(failures(multi.unlock()).len(), 1);
    assert_eq!(nodes(&multi), [0, 0, 0]);
}

#[test]
fn a_member_lost_while_waiting_for_the_others_fails_the_call() {
    let ours = client_of(&zoolock_test_support::connect_string(), Duration::from_secs(6));
    let rivals = client();
    let root = fresh_path("multi-lost");
    let [a, b, c, d] = members(&ours, &root, ["a", "b", "c", "d"]);
    let multi = multi_of(&[a.clone(), b.clone(), c.clone(), d]);
    let [rival] = members(&rivals, &root, ["d"]);
    let wait_and_lose = |victims: &[&DistributedLock]| {
        rival.lock().unwrap();
        let waiting = multi.clone();
        let waiter = Task::spawn(move || waiting.lock());
        await_nodes(rival.path(), 2);
        for victim in victims {
            delete_node(&hold_of(*victim));
            wait_until("the loss is noticed", SOON, || !victim.is_held());
        }
        assert!(!waiter.is_done(), "the rival still holds the last one");
        rival.unlock().unwrap();
        let error = waiter.result("a waiter that lost a member").unwrap_err();
        println!("{error}");
        assert_eq!(nodes(&multi), [0, 0, 0, 0]);
        assert!(multi.holds().is_empty(), "{:?}", multi.holds());
        error
    };
    let error = wait_and_lose(&[&b]);
    assert!(is_lost(&error, b.path(), LossReason::NodeDeleted), "{error:?}");
    let error = wait_and_lose(&[&a, &c]);
    assert!(error.is_lost() && failures::<()>(Err(error)).len() == 2);
    multi.lock().expect("it can be used again");
    multi.unlock().unwrap();
}

#[test]
fn one_of_reentrant_locks_can_be_nested() {
    let client = client();
    let root = fresh_path("multi-reentrant");
    let [a, b] = ["a", "b"].map(|name| {
        let path = format!("{root}/{name}");
        DistributedReentrantLock::new(&client, path).unwrap()
    });
    let multi = MultiLock::new([b.clone().into(), a.clone().into()]).unwrap();
    let outer = multi.acquire().unwrap();
    let inner = multi.try_acquire().unwrap().expect("the same thread");
    assert_eq!([a.hold_count(), b.hold_count()], [2, 2]);
    let (elsewhere, other) = (multi.clone(), multi.clone());
    let refused = Task::spawn(move || elsewhere.try_lock()).result("another thread");
    assert!(!refused.unwrap());
    let seen = failures(Task::spawn(move || other.unlock()).result("another thread's unlock"));
    println!("another thread's unlock: {seen:?}");
    let not_owner = |error: &Error| matches!(error, Error::NotOwner { .. });
    assert!(seen.len() == 2 && seen.iter().all(not_owner), "{seen:?}");
    inner.release().unwrap();
    assert!(multi.is_held());
    outer.release().unwrap();
    assert_eq!(nodes(&multi), [0, 0]);

    // A lost nest says so to every unlock, and refuses to be entered again.
    let (outer, inner) = (multi.acquire().unwrap(), multi.acquire().unwrap());
    delete_node(&hold_of(&b));
    wait_until("the loss is noticed", SOON, || !multi.is_held());
    let again = multi.lock();
    println!("entered again: {again:?}");
    assert!(again.is_err_and(|error| is_lost(&error, b.path(), LossReason::NodeDeleted)));
    assert_eq!([a.hold_count(), b.hold_count()], [2, 2], "as before");
    for locker in [inner, outer] {
        let seen = failures(locker.release());
        assert!(seen.len() == 1 && seen[0].is_lost(), "{seen:?}");
    }
    assert!(multi.try_lock().unwrap(), "it can be used again");
    multi.unlock().unwrap();
}

#[test]
fn a_dropped_locker_releases_all() {
    let client = client();
    let root = fresh_path("multi-dropped");
    let multi = multi(&client, &root, ["a", "b", "c"]);
    warnings(&root);
    {
        let _locked = multi.acquire().unwrap();
        assert_eq!(nodes(&multi), [1, 1, 1]);
    }
    assert_eq!(nodes(&multi), [0, 0, 0]);
    {
        let any: &dyn Lock = &multi;
        let _locked = any.acquire().unwrap();
        assert!(multi.is_held());
    }
    assert!(!multi.is_held());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _locked = Locker::acquire(&multi).unwrap();
        panic!("while all three are held");
    }));
    assert!(panicked.is_err() && nodes(&multi) == [0, 0, 0]);
    assert_eq!(warnings(&root), [""; 0]);

    let locked = multi.acquire().unwrap();
    delete_node(&multi.holds()[1]);
    drop(locked);
    let logged = warnings(&root);
    println!("{logged:?}");
    assert!(logged.iter().any(|line| line.contains("dropped a locker")), "{logged:?}");
    assert_eq!(nodes(&multi), [0, 0, 0]);
}
