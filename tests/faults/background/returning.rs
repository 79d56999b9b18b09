//! When an unlock returns, what it says, and what it costs.

use std::time::Duration;

use zoolock::{DistributedReentrantLock, Error, LossReason};
use zoolock_test_support::{Direction, Op, fresh_path, wait_until};

use super::*;
use common::{
    SESSION, SOON, Stage, Task, assert_cost, assert_lost, await_lost, await_nothing_left, children,
    client, client_of, delete_node, exists, in_time, lock_of, never_two_inside, packets,
    quiet_server, shared_proxy, warnings,
};

#[test]
fn an_unlock_returns_while_its_delete_is_held_up_and_the_node_goes_when_that_arrives() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(30));
    let root = fresh_path("held_up");
    for what in KINDS {
        let held = hold(&client, &root, what);
        let delete = proxy.on(Op::Delete).path_contains(&held.nodes[0]);
        let delete = delete.hold_request();
        in_time(held.what, Duration::from_secs(2), held.release).unwrap();
        assert!(delete.wait(SOON), "{what}: {:#?}", proxy.log());
        assert!(held.nodes.iter().all(|node| exists(node)), "{what}");
        delete.release();
        wait_until("the nodes are gone", SOON, || held.nodes.iter().all(|node| !exists(node)));
        (held.again)().unwrap();
    }
    await_nothing_left(&client);
    assert_eq!(client.stats().holds_lost, 0);
}

#[test]
fn an_unlock_returns_while_its_answer_is_held_up() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(30));
    let root = fresh_path("unanswered");
    for what in KINDS {
        let held = hold(&client, &root, what);
        let answer = proxy.on(Op::Delete).path_contains(&held.nodes[0]);
        let answer = answer.hold_answer();
        in_time(held.what, Duration::from_secs(2), held.release).unwrap();
        assert!(answer.wait(SOON), "{what}: {:#?}", proxy.log());
        answer.release();
        (held.again)().unwrap();
        wait_until("the nodes are gone", SOON, || held.nodes.iter().all(|node| !exists(node)));
    }
    await_nothing_left(&client);
}

#[test]
fn nobody_is_in_before_the_node_is_gone() {
    let stage = Stage::new("not_before", Duration::from_secs(30));
    let rivals = client();
    let lock = lock_with(&stage.client, &stage.path);
    let rival = lock_of(&rivals, &stage.path);
    lock.lock().unwrap();
    let waiting = rival.clone();
    let waiter = Task::spawn_blocked(move || waiting.lock());
    let delete = stage.proxy.hold_request(Op::Delete, 1);
    lock.unlock().unwrap();
    assert!(delete.wait(SOON));
    assert!(!waiter.is_done() && !rival.try_lock().unwrap());
    assert!(!lock.is_held());
    let next = lock.clone();
    let next = Task::spawn_blocked(move || next.lock());
    delete.release();
    waiter.result("the rival").unwrap();
    assert!(!next.is_done());
    rival.unlock().unwrap();
    next.result("the next of the same client").unwrap();
    lock.unlock().unwrap();
    await_nothing_left(&stage.client);
    assert_eq!(children(&stage.path), [""; 0]);
}

#[test]
fn crowds_of_two_clients_are_never_two_inside() {
    let clients = [client(), client()];
    let root = fresh_path("crowd");
    let own = |client| DistributedReentrantLock::with(client, &root, behind()).unwrap();
    let locks = [own(&clients[0]), own(&clients[1]), own(&clients[0])];
    let crowd = (0..12).map(|n| locks[n % 3].clone());
    never_two_inside(crowd, 15, |lock, inside| {
        let guard = lock.acquire().unwrap();
        inside();
        guard.release().unwrap();
    });
    for client in &clients {
        await_nothing_left(client);
        assert_eq!(client.stats().holds_lost, 0);
    }
    assert_eq!(children(&root), [""; 0]);
}

#[test]
fn a_lock_and_an_unlock_cost_three_requests() {
    let (server, client) = quiet_server();
    let lock = lock_with(&client, "/lock");
    assert_cost(&server, "lock, unlock, gone", 50, 3, || {
        lock.lock().unwrap();
        lock.unlock().unwrap();
        await_nothing_left(&client);
    });
}

/// A create that overtakes the delete before it finds its own last node ahead, and waits for it.
#[test]
fn locks_and_unlocks_without_a_pause_cost_little_more() {
    const CYCLES: u64 = 300;
    let (server, client) = quiet_server();
    let lock = lock_with(&client, "/lock");
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let cost = packets(&server, || {
        for _ in 0..CYCLES {
            lock.lock().unwrap();
            lock.unlock().unwrap();
        }
        await_nothing_left(&client);
    });
    println!("{cost} packets for {CYCLES} cycles");
    assert!(cost < CYCLES * 4, "{cost}");
}

#[test]
fn a_loss_before_the_unlock_is_still_told() {
    let stage = Stage::new("before", Duration::from_secs(2));
    let lock = lock_with(&stage.client, &stage.path);
    let guard = lock.acquire().unwrap();
    stage.proxy.black_hole(Direction::Both);
    await_lost(&guard);
    assert_lost(&guard.release(), &stage.path, LossReason::LeaseExpired);
    stage.proxy.restore();
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();

    let stage = Stage::new("noticed", SESSION);
    let lock = lock_with(&stage.client, &stage.path);
    let guard = lock.acquire().unwrap();
    let _asked = guard.revocation().unwrap();
    delete_node(&guard);
    await_lost(&guard);
    assert_lost(&guard.release(), &stage.path, LossReason::NodeDeleted);
}

#[test]
fn a_deletion_that_nobody_has_noticed_is_counted_and_logged() {
    let client = client();
    let path = fresh_path("deleted");
    warnings(&path);
    let lock = lock_with(&client, &path);
    let guard = lock.acquire().unwrap();
    delete_node(&guard);
    guard.release().unwrap();
    wait_until("it is counted", SOON, || client.stats().holds_lost == 1);
    wait_until("it is logged", SOON, || {
        warnings(&path).iter().any(|line| line.contains("was lost"))
    });
    await_nothing_left(&client);
    let unlocked = lock.unlock();
    assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
}
