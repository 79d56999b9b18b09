//! Directories that go, or come again, under those who wait or hold, also while they are cut off.

use zoolock::{Client, DistributedLock, Error, HoldState};
use zoolock_test_support::{FaultProxy, fresh_path, shared_probe, wait_until};

use common::basics::{await_nodes, hold_of};
use common::{
    SESSION, SOON, Task, children, client, client_of, exists, lock_of, place, shared_proxy,
};

#[test]
fn a_waiter_whose_directory_vanished_queues_in_a_new_one() {
    let client = client();
    let path = fresh_path("vanished");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let ahead = probe.create(&format!("{path}/lock-"), b"", true, true).unwrap();
    let lock = lock_of(&client, &path);
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
    await_nodes(&path, 0);
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
        let lock = lock_of(&client, &path);
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
            stats.connections == 2 && stats.deleting == 0
        });
    }
}

#[test]
fn a_hold_whose_directory_is_gone_is_lost_and_makes_it_not_again() {
    let replaced = Replaced::start("gone");
    replaced.is_lost();
    assert!(!exists(&replaced.path));
}

#[test]
fn a_hold_whose_directory_was_made_again_is_lost_and_nobody_is_granted_twice() {
    let replaced = Replaced::start("made-again");
    let rivals = client();
    let rival = lock_of(&rivals, &replaced.path);
    rival.lock().unwrap();
    let node = hold_of(&rival).node();
    println!("{} is gone, the rival is {node}", replaced.old);
    assert_eq!(place(&node), place(&replaced.old));
    let next = lock_of(&rivals, &replaced.path);
    let waits = next.clone();
    let waiter = Task::spawn(move || waits.lock());
    await_nodes(&replaced.path, 2);
    replaced.is_lost();
    assert!(rival.is_held() && !waiter.is_done());
    assert_eq!(children(&replaced.path).len(), 2);
    assert!(!replaced.lock.try_lock().unwrap());
    rival.unlock().unwrap();
    waiter.result("the waiter").unwrap();
    next.unlock().unwrap();
    await_nodes(&replaced.path, 0);
}

#[test]
fn a_waiter_cut_off_while_its_directory_was_made_again_queues_anew() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("waiter-made-again");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let ahead = probe.create(&format!("{path}/lock-"), b"", true, true).unwrap();
    let lock = lock_of(&own, &path);
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
    let rival = lock_of(&rivals, &path);
    rival.lock().unwrap();
    proxy.refuse(false);
    let nodes = await_nodes(&path, 2);
    println!("{nodes:?}");
    assert!(rival.is_held() && !waiter.is_done());
    assert!(!nodes.contains(old));
    assert_eq!((own.stats().resumed, own.stats().sessions), (1, 1));
    rival.unlock().unwrap();
    waiter.result("the waiter").unwrap();
    lock.unlock().unwrap();
    await_nodes(&path, 0);
}
