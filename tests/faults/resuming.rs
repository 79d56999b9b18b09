//! Sessions that outlive their connections, and with them what is held and waited for.

use std::time::{Duration, Instant};

use zoolock::{DistributedLock, HoldState};
use zoolock_test_support::{FaultProxy, Op, fresh_path, shared_probe, wait_until};

use common::basics::{await_nodes, hold_of};
use common::{
    SESSION, SOON, Task, TwoWays, await_resumed, children, client, client_of, shared_proxy,
};

#[test]
fn a_hold_survives_cut_after_cut_with_its_node_and_its_token() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("hold-cut");
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let (node, token) = (hold.node(), hold.fencing_token().unwrap());
    let stat = shared_probe().unwrap().stat(&format!("{path}/{node}")).unwrap().unwrap();
    assert_eq!(token, stat.czxid as u64);
    for (round, cut) in (1..).zip([FaultProxy::cut, FaultProxy::reset, FaultProxy::cut]) {
        let begun = Instant::now();
        cut(&proxy);
        await_resumed(&client, round);
        println!("cut {round}: resumed after {:?}: {hold:?}", begun.elapsed());
        assert_eq!(hold.state(), HoldState::Held);
        assert_eq!((children(&path), hold.node()), (vec![node.clone()], node.clone()));
        assert_eq!(hold.fencing_token().unwrap(), token);
    }
    let after = shared_probe().unwrap().stat(&format!("{path}/{node}")).unwrap();
    assert_eq!(after, Some(stat), "the node of the same session, untouched");
    lock.unlock().unwrap();
    assert_eq!(children(&path), [""; 0]);
    let stats = client.stats();
    assert_eq!((stats.sessions, stats.resumed, stats.connections), (1, 3, 4), "{stats:?}");
    assert_eq!(stats.holds_lost, 0);
}

#[test]
fn waiters_keep_their_places_over_a_cut() {
    const WAITERS: usize = 6;
    let path = fresh_path("waiters-cut");
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
    let before = children(&path);
    proxy.cut();
    await_resumed(&behind_proxy, 1);
    assert_eq!(children(&path), before);
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
fn an_unlock_while_the_session_is_resumed_leaves_no_node() {
    let ways = TwoWays::start(Duration::from_secs(60));
    let path = fresh_path("unlock-resuming");
    let lock = DistributedLock::new(&ways.client, &path).unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let resuming = ways.second.on(Op::Connect).hold_answer();
    ways.leave_the_first();
    assert!(resuming.wait(SOON), "{}", ways.log());
    assert_eq!(hold.state(), HoldState::Suspended);
    lock.unlock().unwrap();
    assert_eq!(hold.state(), HoldState::Released);
    assert_eq!(children(&path), [hold.node()], "the servers cannot know yet");
    resuming.release();
    // Far less than a session timeout.
    let prompt = Duration::from_secs(10);
    let took = wait_until("the node is gone", prompt, || children(&path).is_empty());
    let stats = ways.client.stats();
    println!("gone after {took:?}, {stats:?}");
    assert_eq!((stats.resumed, stats.holds_lost), (1, 0));
}
