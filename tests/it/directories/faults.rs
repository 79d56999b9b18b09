//! Directories that go, or come again, while a connection is cut or an answer is lost.

use std::time::Duration;

use zoolock::{Client, DistributedLock, Error, HoldState};
use zoolock_test_support::{FaultProxy, Op, Then, fresh_path, shared_probe, wait_until};

use super::{is_gone, tidy_lock};
use crate::lock::core::{await_nodes, hold_of};
use crate::util::{
    SESSION, SOON, Task, await_moved, children, client, client_of, lock_of, place, shared_proxy,
};

#[test]
fn a_waiter_whose_directory_vanished_queues_in_a_new_one() {
    let client = client();
    let path = fresh_path("vanished");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let ahead = probe.create(&format!("{path}/lock-"), b"", true, true).unwrap();
    let lock = tidy_lock(&client, &path);
    let waits = lock.clone();
    let waiter = Task::spawn(move || waits.lock());
    let nodes = await_nodes(&path, 2);
    // The waiter's first, so that it is not let in before the directory goes.
    let own = nodes.iter().find(|node| node.starts_with("_c_")).unwrap();
    probe.delete(&format!("{path}/{own}")).unwrap();
    probe.delete(&ahead).unwrap();
    let deleted = probe.delete(&path);
    println!("the directory: {deleted:?}");
    waiter.result("the waiter").unwrap();
    let hold = hold_of(&lock);
    println!("{hold:?}");
    assert_eq!(children(&path), [hold.node()]);
    assert_ne!(&hold.node(), own);
    lock.unlock().unwrap();
    is_gone(&path);
}

/// A hold whose client knows no way to the server for now, its directory gone and made again.
struct Replaced {
    proxy: FaultProxy,
    client: Client,
    path: String,
    lock: DistributedLock,
    old: String,
}

impl Replaced {
    fn start(name: &str) -> Replaced {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let path = fresh_path(name);
        let lock = tidy_lock(&client, &path);
        lock.lock().unwrap();
        let old = hold_of(&lock).node();
        proxy.refuse(true);
        proxy.cut();
        let probe = shared_probe().unwrap();
        probe.delete(&format!("{path}/{old}")).unwrap();
        probe.delete(&path).unwrap();
        Replaced { proxy, client, path, lock, old }
    }

    fn is_lost(&self) {
        let hold = hold_of(&self.lock);
        self.proxy.refuse(false);
        wait_until("the hold is over", SOON, || !hold.is_held());
        println!("{hold:?}");
        assert!(matches!(hold.state(), HoldState::Lost(_)), "{hold:?}");
        let unlocked = self.lock.unlock();
        assert!(matches!(unlocked, Err(Error::Lost { .. })), "{unlocked:?}");
        wait_until("the client is back", SOON, || {
            let stats = self.client.stats();
            stats.connections == 2 && stats.garbage == 0
        });
    }
}

#[test]
fn a_hold_does_not_move_where_its_directory_is_gone() {
    let replaced = Replaced::start("gone");
    replaced.is_lost();
    is_gone(&replaced.path);
}

#[test]
fn a_hold_does_not_move_into_a_new_directory_and_nobody_is_granted_twice() {
    let replaced = Replaced::start("made-again");
    let rivals = client();
    let rival = tidy_lock(&rivals, &replaced.path);
    rival.lock().unwrap();
    let node = hold_of(&rival).node();
    println!("{} is gone, the rival is {node}", replaced.old);
    assert_eq!(place(&node), place(&replaced.old));
    let next = tidy_lock(&rivals, &replaced.path);
    let waits = next.clone();
    let waiter = Task::spawn(move || waits.lock());
    await_nodes(&replaced.path, 2);
    replaced.is_lost();
    assert!(rival.is_held() && !waiter.is_done());
    wait_until("nothing of the old place is left", SOON, || children(&replaced.path).len() == 2);
    assert!(!replaced.lock.try_lock().unwrap());
    rival.unlock().unwrap();
    waiter.result("the waiter").unwrap();
    next.unlock().unwrap();
    is_gone(&replaced.path);
}

#[test]
fn a_waiter_cut_off_while_its_directory_was_made_again_queues_anew() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("waiter-made-again");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let ahead = probe.create(&format!("{path}/lock-"), b"", true, true).unwrap();
    let lock = tidy_lock(&own, &path);
    let waits = lock.clone();
    let waiter = Task::spawn(move || waits.lock());
    let nodes = await_nodes(&path, 2);
    proxy.refuse(true);
    proxy.cut();
    let old = nodes.iter().find(|node| node.starts_with("_c_")).unwrap();
    probe.delete(&format!("{path}/{old}")).unwrap();
    probe.delete(&ahead).unwrap();
    probe.delete(&path).unwrap();
    let rivals = client();
    let rival = tidy_lock(&rivals, &path);
    rival.lock().unwrap();
    proxy.refuse(false);
    let nodes = await_nodes(&path, 2);
    println!("{nodes:?}");
    assert!(rival.is_held() && !waiter.is_done());
    assert!(!nodes.contains(old));
    assert_eq!(own.stats().seats_moved, 0);
    rival.unlock().unwrap();
    waiter.result("the waiter").unwrap();
    lock.unlock().unwrap();
    is_gone(&path);
}

#[test]
fn a_hold_that_moved_removes_it_at_its_release() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("moved");
    let lock = tidy_lock(&own, &path);
    lock.lock().unwrap();
    proxy.cut();
    await_moved(&own, 1);
    await_nodes(&path, 1);
    lock.unlock().unwrap();
    is_gone(&path);
}

#[test]
fn a_release_whose_answer_is_lost_succeeds_and_frees_the_lock() {
    for (what, op_path, nth) in [("the node's", "lock-", 1), ("the directory's", "", 2)] {
        let proxy = shared_proxy();
        let own = client_of(&proxy.connect_string(), SESSION);
        let path = fresh_path("answer-lost");
        let lock = tidy_lock(&own, &path);
        lock.lock().unwrap();
        let lost = proxy.on(Op::Delete).nth(nth).path_contains(op_path);
        let lost = lost.drop_answer(Then::Cut);
        let unlocked = lock.unlock();
        println!("{what} answer was lost: {unlocked:?}");
        unlocked.unwrap();
        assert!(lost.fired(), "{:#?}", proxy.log());
        wait_until("the lock is free", SOON, || children(&path).is_empty());
        wait_until("nothing is left to do", SOON, || {
            let stats = own.stats();
            stats.garbage == 0 && stats.handles == 1 && stats.seats == 0
        });
        let rivals = client();
        let rival = tidy_lock(&rivals, &path);
        assert!(rival.try_lock_for(SOON).unwrap());
        rival.unlock().unwrap();
        is_gone(&path);
        lock.lock().unwrap();
        lock.unlock().unwrap();
        is_gone(&path);
    }
}

#[test]
fn a_removal_that_gets_no_answer_holds_nobody_up_but_its_own_release() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), Duration::from_secs(6));
    let path = fresh_path("no-answer");
    let lock = tidy_lock(&own, &path);
    lock.lock().unwrap();
    let removal = proxy.on(Op::Delete).nth(2).hold_request();
    let unlocks = lock.clone();
    let unlocking = Task::spawn(move || unlocks.unlock());
    assert!(removal.wait(SOON), "{:#?}", proxy.log());
    // It is free for others, who may use the directory before it goes.
    let rivals = client();
    let rival = lock_of(&rivals, &path);
    assert!(rival.try_lock().unwrap());
    removal.release();
    unlocking.result("unlock()").unwrap();
    assert_eq!(children(&path), [hold_of(&rival).node()]);
    assert!(rival.is_held());
    rival.unlock().unwrap();
}
