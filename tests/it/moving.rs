//! Locks that survive their connection: seats move to the next session and keep their place.

use std::time::{Duration, Instant};

use zoolock::{DistributedLock, HoldState};
use zoolock_test_support::{FaultProxy, Op, fresh_path, wait_until};

use crate::lock::core::{await_nodes, hold_of};
use crate::util::{
    SESSION, SOON, Task, await_moved, children, client, client_of, places_of, shared_proxy,
};

#[test]
fn a_hold_survives_cut_after_cut_with_its_place_and_its_token() {
    for know_token_before in [true, false] {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let path = fresh_path("hold-moves");
        let lock = DistributedLock::new(&client, &path).unwrap();
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let first = hold.node();
        let before = know_token_before.then(|| hold.fencing_token().unwrap());
        let czxid = zoolock_test_support::shared_probe().unwrap();
        let czxid = czxid.stat(&format!("{path}/{first}")).unwrap().unwrap().czxid;
        for (round, cut) in [FaultProxy::cut, FaultProxy::reset, FaultProxy::cut].iter().enumerate()
        {
            let begun = Instant::now();
            cut(&proxy);
            await_moved(&client, round as u64 + 1);
            println!("round {round}: moved after {:?}: {hold:?}", begun.elapsed());
            assert_eq!(hold.state(), HoldState::Held);
            wait_until("one node", SOON, || children(&path) == [hold.node()]);
            assert_eq!(places_of(&[hold.node()]), places_of(std::slice::from_ref(&first)));
        }
        assert_ne!(hold.node(), first);
        let token = hold.fencing_token().unwrap();
        assert_eq!(token, before.unwrap_or(czxid as u64), "the token of the first node");
        assert_eq!(token, czxid as u64);
        lock.unlock().unwrap();
        assert_eq!(children(&path), [""; 0]);
        assert_eq!(client.stats().seats_lost, 0);
    }
}

#[test]
fn waiters_keep_their_places_over_a_cut() {
    const WAITERS: usize = 6;
    let path = fresh_path("waiters-move");
    let holder = client();
    let held = DistributedLock::new(&holder, &path).unwrap();
    held.lock().unwrap();
    let proxy = shared_proxy();
    let behind_proxy = client_of(&proxy.connect_string(), SESSION);
    let (granted, order) = zoolock::crossbeam_channel::unbounded();
    // Every second one comes through the proxy.
    let waiters: Vec<_> = (0..WAITERS)
        .map(|number| {
            let client = if number % 2 == 0 { &behind_proxy } else { &holder };
            let lock = DistributedLock::new(client, &path).unwrap();
            let granted = granted.clone();
            let waiter = Task::spawn(move || {
                lock.lock().unwrap();
                granted.send(number).unwrap();
                lock.unlock().unwrap();
            });
            await_nodes(&path, number + 2);
            waiter
        })
        .collect();
    let nodes = children(&path);
    let before = places_of(&nodes);
    proxy.cut();
    await_moved(&behind_proxy, WAITERS as u64 / 2);
    wait_until("the old nodes are gone", SOON, || places_of(&children(&path)) == before);
    held.unlock().unwrap();
    for waiter in waiters {
        waiter.result("a waiter");
    }
    let order: Vec<_> = order.try_iter().collect();
    println!("{before:?}, granted {order:?}");
    assert_eq!(order, (0..WAITERS).collect::<Vec<_>>());
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn an_unlock_during_a_move_leaves_no_node() {
    let proxies = [shared_proxy(), shared_proxy()];
    let hosts = proxies.each_ref().map(FaultProxy::connect_string).join(",");
    let client = client_of(&hosts, Duration::from_secs(60));
    let path = fresh_path("unlock-while-moving");
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let (own, other) = match proxies[0].requests(Op::Create) {
        0 => (&proxies[1], &proxies[0]),
        _ => (&proxies[0], &proxies[1]),
    };
    let moving = other.hold_answer(Op::Create, 1);
    own.refuse(true);
    own.cut();
    assert!(moving.wait(SOON), "the move's create was sent");
    assert_eq!(hold.state(), HoldState::Suspended);
    assert_eq!(children(&path).len(), 2, "the old node and the new one");
    lock.unlock().unwrap();
    assert_eq!(hold.state(), HoldState::Released);
    moving.release();
    // The garbage list would try again after 20 s.
    let prompt = Duration::from_secs(10);
    let took = wait_until("the nodes are gone", prompt, || children(&path).is_empty());
    println!("gone after {took:?}, {:?}", client.stats());
    assert_eq!(client.stats().seats_moved, 0);
}
