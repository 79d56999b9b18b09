//! The core of the exclusive locks, for the reading side: what stands in a reader's way is a
//! writer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolock::{HoldState, Lock, ReadLock};
use zoolock_test_support::fresh_path;

use super::{Visitor, rw_of};
use common::basics::{self, await_nodes, hold_of};
use common::{
    Arrivals, BRIEFLY, SOON, Task, assert_cancelled, await_lost, await_nothing_left, await_resumed,
    children, client, client_of, never_two_inside, shared_proxy,
};

#[test]
fn smoke() {
    basics::smoke::<ReadLock>();
}

#[test]
fn excludes() {
    const ENTRIES: u32 = 15;
    let clients = [client(), client()];
    let path = fresh_path("excludes");
    let locks = clients.each_ref().map(|client| rw_of(client, &path));
    locks[0].read_lock().lock().unwrap();
    let tries = [0, 1].map(|at| {
        let lock = locks[at].write_lock();
        Task::spawn(move || lock.try_lock()).result("a try")
    });
    println!("write beside a read: {tries:?}");
    assert!(tries.iter().all(|t| matches!(t, Ok(false))), "{tries:?}");
    locks[0].read_lock().unlock().unwrap();
    locks[0].write_lock().lock().unwrap();
    let tries = [0, 1].map(|at| {
        let lock = locks[at].read_lock();
        Task::spawn(move || lock.try_lock()).result("a try")
    });
    println!("read beside a write: {tries:?}");
    assert!(tries.iter().all(|t| matches!(t, Ok(false))), "{tries:?}");
    locks[0].write_lock().unlock().unwrap();

    // The readers take turns of their own: what is left is that none comes in beside a writer.
    let turn = Arc::new(Mutex::new(()));
    let visitors = (0..4).map(|number| locks[number % 2].clone()).zip([true, true, false, false]);
    never_two_inside(visitors, ENTRIES, move |(lock, writes), inside| {
        if *writes {
            lock.write_lock().lock().unwrap();
            inside();
            lock.write_lock().unlock().unwrap();
        } else {
            lock.read_lock().lock().unwrap();
            let turn = turn.lock().unwrap();
            inside();
            drop(turn);
            lock.read_lock().unlock().unwrap();
        }
    });
}

/// Readers that came one after the other are in together, and in no order.
#[test]
fn fifo() {
    let clients = [client(), client()];
    let path = fresh_path("fifo");
    let holder = rw_of(&clients[0], &path).write_lock();
    holder.lock().unwrap();
    let mut arrivals = Arrivals::new();
    for (number, kind) in "RRWRWWRRR".chars().enumerate() {
        let lock = rw_of(&clients[number % 2], &path);
        let lock: Box<dyn Lock> = match kind {
            'R' => lock.read_lock().into(),
            _ => lock.write_lock().into(),
        };
        arrivals.join(move |inside| {
            lock.lock().unwrap();
            inside();
            lock.unlock().unwrap();
        });
        await_nodes(&path, number + 2);
    }
    assert!(arrivals.is_empty(), "in beside the holder");
    holder.unlock().unwrap();
    let mut order = arrivals.order();
    order[..2].sort_unstable();
    order[6..].sort_unstable();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn times_out() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let clients = [client(), client()];
    let path = fresh_path("times_out");
    let holder = rw_of(&clients[0], &path).write_lock();
    let other = rw_of(&clients[1], &path).read_lock();
    holder.lock().unwrap();
    let node = hold_of(&holder).node();
    basics::timed_tries_fail(&other, TIMEOUT);
    assert!(other.try_acquire_for(TIMEOUT).unwrap().is_none());
    assert!(other.try_acquire().unwrap().is_none());
    assert!(!other.try_lock().unwrap());
    assert_eq!(await_nodes(&path, 1), [node]);
    assert!(holder.is_held() && !other.is_held());
    assert_eq!(other.hold_count(), 0);
    holder.unlock().unwrap();
    assert!(other.try_lock_for(SOON).unwrap());
    assert!(other.try_lock_for(Duration::MAX).unwrap(), "it is in");
    other.unlock().unwrap();
    other.unlock().unwrap();
    assert!(other.try_lock_for(Duration::MAX).unwrap());
    other.unlock().unwrap();
}

#[test]
fn cleans_up() {
    let [client, others] = [client(), client()];
    let path = fresh_path("cleans_up");
    let lock = rw_of(&client, &path).read_lock();
    lock.lock().unwrap();
    assert_eq!(children(&path).len(), 1);
    lock.unlock().unwrap();
    assert_eq!(children(&path), [""; 0], "after unlock");
    drop(lock.acquire().unwrap());
    assert_eq!(children(&path), [""; 0], "after the drop of a guard");
    lock.acquire().unwrap().release().unwrap();
    assert_eq!(children(&path), [""; 0], "after the release of a guard");

    let writer = rw_of(&others, &path).write_lock();
    writer.lock().unwrap();
    let node = children(&path);
    assert!(!lock.try_lock_for(BRIEFLY).unwrap());
    assert_eq!(await_nodes(&path, 1), node, "after a timeout");
    let waiting = [(); 2].map(|()| Visitor::start(lock.clone()));
    await_nodes(&path, 3);
    lock.cancel_waiters();
    for waiting in waiting {
        let cancelled = waiting.result();
        println!("cancelled: {cancelled:?}");
        assert_cancelled(&cancelled, &path);
    }
    assert_eq!(await_nodes(&path, 1), node, "after a cancelled wait");
    writer.unlock().unwrap();
    // Who comes after the cancel is not affected.
    lock.lock().unwrap();
    lock.cancel_waiters();
    lock.lock().unwrap();
    lock.unlock().unwrap();
    lock.unlock().unwrap();
    await_nothing_left(&client);
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn survives_cut() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(6));
    let path = fresh_path("survives_cut");
    let lock = rw_of(&client, &path).read_lock();

    lock.lock().unwrap();
    lock.unlock().unwrap();
    proxy.cut();
    lock.lock().unwrap();
    lock.unlock().unwrap();
    println!("cut while idle: {:?}", client.stats());

    let rivals = common::client();
    let rival = rw_of(&rivals, &path).write_lock();
    rival.lock().unwrap();
    let waiters = [(); 2].map(|()| Visitor::start(lock.clone()));
    await_nodes(&path, 3);
    let before = children(&path);
    proxy.cut();
    await_resumed(&client, 2);
    assert_eq!(children(&path), before);
    assert!(waiters.iter().all(|w| !w.is_in()), "beside the writer");
    rival.unlock().unwrap();
    for waiter in &waiters {
        waiter.comes_in();
    }
    println!("cut while waiting, then both in together: {before:?}");
    for waiter in waiters {
        waiter.leaves();
    }
    await_nodes(&path, 0);
    assert_eq!(client.stats().holds_lost, 0);
}

#[test]
fn survives_cut_while_held() {
    basics::survives_cut_while_held::<ReadLock>();
}

#[test]
fn a_hold_tells_its_end() {
    let client = client();
    let path = fresh_path("hold");
    let lock = rw_of(&client, &path).read_lock();
    assert!(lock.hold().is_none());
    let guard = lock.acquire().unwrap();
    let hold = lock.hold().unwrap();
    assert_eq!((hold.node(), hold.path()), (guard.node(), path.as_str()));
    assert_eq!(hold.fencing_token().unwrap(), guard.fencing_token().unwrap());
    drop(guard);
    await_lost(&hold);
    println!("{hold:?}");
    assert_eq!(hold.state(), HoldState::Released);
    assert!(lock.hold().is_none());
}
