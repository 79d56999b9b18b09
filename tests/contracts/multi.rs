//! `MultiLock`: all of its members or none, in one order, within one deadline.

mod ending;
mod members;
mod scripted;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, Error, Hold, Lock, MultiLock, Result,
};
use zoolock_test_support::fresh_path;

use common::basics::{await_nodes, hold_of, timed_tries_fail};
use common::{BRIEFLY, SOON, Task, Witness, await_nothing_left, children, client, lock_of};

/// Objects of their own at `root/<name>`.
fn members<const N: usize>(client: &Client, root: &str, names: [&str; N]) -> [DistributedLock; N] {
    names.map(|name| lock_of(client, &format!("{root}/{name}")))
}

fn multi_of<const N: usize>(members: &[DistributedLock; N]) -> MultiLock {
    MultiLock::new(members.clone().map(Into::into)).expect("a good list")
}

fn multi<const N: usize>(client: &Client, root: &str, names: [&str; N]) -> MultiLock {
    multi_of(&members(client, root, names))
}

fn paths(multi: &MultiLock) -> Vec<&str> {
    multi.locks().iter().map(|lock| lock.path()).collect()
}

/// How many nodes there are at each member's path.
fn nodes(multi: &MultiLock) -> Vec<usize> {
    let nodes = multi.locks().iter().map(|lock| children(lock.path()).len());
    nodes.collect()
}

/// The failures of an [`Error::Release`].
#[track_caller]
fn failures<T: std::fmt::Debug>(result: Result<T>) -> Vec<Error> {
    match result {
        Err(Error::Release { failures }) => failures,
        other => panic!("no failed release: {other:?}"),
    }
}

#[test]
fn smoke() {
    let client = client();
    let root = fresh_path("multi-smoke");
    let [a, c] = members(&client, &root, ["a", "c"]);
    let b = DistributedReentrantLock::new(&client, format!("{root}/b")).unwrap();
    let multi = MultiLock::new([c.clone().into(), b.clone().into(), a.clone().into()]).unwrap();
    println!("{multi:?}");
    assert_eq!(multi.path(), format!("{root}/a, {root}/b, {root}/c"));
    assert_eq!(paths(&multi), [a.path(), b.path(), c.path()]);
    assert!(!multi.is_held() && multi.holds().is_empty());

    multi.lock().unwrap();
    let holds = multi.holds();
    println!("{holds:?}");
    assert!(multi.is_held() && a.is_held() && b.is_held() && c.is_held());
    let held: Vec<_> = holds.iter().map(Hold::path).collect();
    assert_eq!(held, paths(&multi));
    for hold in &holds {
        assert_eq!(children(hold.path()), [hold.node()]);
    }
    let clone: Box<dyn Lock> = multi.clone().into();
    clone.unlock().unwrap();
    assert!(!multi.is_held() && !a.is_held() && !b.is_held() && !c.is_held());
    assert_eq!(nodes(&multi), [0, 0, 0]);

    assert!(multi.try_lock().unwrap());
    multi.unlock().unwrap();
    assert!(multi.try_lock_for(SOON).unwrap());
    multi.unlock().unwrap();
    assert!(multi.try_lock_for(Duration::MAX).unwrap());
    multi.unlock().unwrap();
    assert!(multi.try_lock_until(Instant::now() + SOON).unwrap());
    multi.unlock().unwrap();
    multi.acquire().unwrap().release().unwrap();
    multi.try_acquire().unwrap().unwrap().release().unwrap();
    let locked = multi.try_acquire_for(SOON).unwrap().unwrap();
    assert!(multi.is_held(), "{locked:?}");
    drop(locked);
    assert_eq!(nodes(&multi), [0, 0, 0]);
}

#[test]
fn times_out() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    let clients = [client(), client()];
    let root = fresh_path("multi-times_out");
    let [holder] = members(&clients[0], &root, ["c"]);
    let other = multi(&clients[1], &root, ["a", "b", "c"]);
    holder.lock().unwrap();
    let node = hold_of(&holder).node();
    timed_tries_fail(&other, TIMEOUT);
    for timeout in [TIMEOUT, Duration::ZERO] {
        assert!(other.try_acquire_for(timeout).unwrap().is_none());
        let soon = Instant::now() + timeout;
        assert!(other.try_acquire_until(soon).unwrap().is_none());
    }
    assert!(other.try_acquire().unwrap().is_none());
    assert_eq!(await_nodes(holder.path(), 1), [node]);
    assert_eq!(nodes(&other), [0, 0, 1], "those taken before are free again");
    assert!(other.holds().is_empty(), "{:?}", other.holds());
    holder.unlock().unwrap();
    assert!(other.try_lock_for(SOON).unwrap());
    other.unlock().unwrap();
}

#[test]
fn cleans_up() {
    let client = client();
    let root = fresh_path("multi-cleans_up");
    let [a, b] = members(&client, &root, ["a", "b"]);
    let multi = multi_of(&[a.clone(), b.clone()]);
    drop(multi.acquire().unwrap());
    assert_eq!(nodes(&multi), [0, 0], "after the drop of a locker");
    multi.acquire().unwrap().release().unwrap();
    assert_eq!(nodes(&multi), [0, 0], "after the release of a locker");

    let [rival] = members(&client, &root, ["b"]);
    rival.lock().unwrap();
    assert!(!multi.try_lock_for(BRIEFLY).unwrap());
    await_nodes(b.path(), 1);
    assert_eq!(children(a.path()), [""; 0], "after a timeout");
    let waiting = multi.clone();
    let waiter = Task::spawn(move || waiting.lock());
    await_nodes(b.path(), 2);
    assert!(a.is_held(), "taken first");
    b.cancel_waiters();
    let cancelled = waiter.result("a cancelled waiter");
    println!("cancelled: {cancelled:?}");
    let at_b = |error: &Error| matches!(error, Error::Cancelled { path } if path == b.path());
    assert!(cancelled.as_ref().is_err_and(at_b), "{cancelled:?}");
    await_nodes(b.path(), 1);
    assert_eq!(children(a.path()), [""; 0], "after a cancelled wait");
    rival.unlock().unwrap();
    assert!(multi.try_lock_for(SOON).unwrap());
    multi.unlock().unwrap();
    await_nothing_left(&client);
}

/// Every thread wants two of three locks, given in an order of its own: A,B against B,A, and all
/// around the circle.
#[test]
fn opposite_orders_do_not_deadlock() {
    const ROUNDS: u32 = 40;
    let root = fresh_path("multi-orders");
    let witnesses = Arc::new(["a", "b", "c"].map(|name| (name, Witness::default())));
    let clients = [client(), client()];
    let wants = [["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"]];
    let visitors = wants.into_iter().enumerate().map(|(number, names)| {
        let lock = multi(&clients[number % 2], &root, names);
        let witnesses = Arc::clone(&witnesses);
        Task::spawn(move || {
            let [first, second] = names.map(|wanted| {
                let witness = witnesses.iter().find(|(name, _)| *name == wanted);
                &witness.expect("a witness").1
            });
            for _ in 0..ROUNDS {
                lock.lock().unwrap();
                first.visit(|| second.visit(thread::yield_now));
                lock.unlock().unwrap();
            }
        })
    });
    for visitor in visitors.collect::<Vec<_>>() {
        visitor.result("one of four who want two of three locks");
    }
    println!("{witnesses:?}");
    for ((_, witness), visits) in witnesses.iter().zip([3, 3, 2]) {
        witness.saw(visits * ROUNDS);
    }
}
