//! Nodes that are deleted while their session has no connection, or is just resumed.

use std::time::Instant;

use zoolock::{HoldState, LossReason};
use zoolock_test_support::{Op, fresh_path, shared_probe, wait_until};

use super::{Line, await_watch, has_one_node_until_unlocked};
use common::basics::{await_nodes, hold_of};
use common::{
    SESSION, SOON, Stage, Task, assert_lost, await_lost, await_resumed, children, client,
    client_of, delete_node, lock_of, shared_proxy,
};

const DELETED: LossReason = LossReason::NodeDeleted;

/// The node of a hold is deleted before the session is resumed, or when the server knows already
/// that it is, but the client does not.
fn a_hold_whose_node_is_deleted(is_watched: bool, resumed: bool) {
    let Stage { proxy, client, path, lock } = Stage::new("hold-deleted", SESSION);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    if is_watched {
        await_watch(&proxy, &client);
    }
    let rivals = common::client();
    let mut line = Line::at(&path);
    line.join(&rivals);
    let resuming = proxy.on(Op::Connect).hold_answer();
    proxy.refuse(!resumed);
    proxy.cut();
    if resumed {
        assert!(resuming.wait(SOON), "{:#?}", proxy.log());
    }
    delete_node(&hold);
    assert_eq!(hold.state(), HoldState::Suspended);
    proxy.refuse(false);
    resuming.release();
    let took = await_lost(&hold);
    println!("watched: {is_watched}, resumed: {resumed}: {hold:?} after {took:?}");
    assert_eq!(hold.state(), HoldState::Lost(DELETED));
    // A quarter of the session timeout after the grant it is looked for.
    assert!(took < SESSION / 2, "{took:?}");
    line.comes_in_order();
    assert_lost(&lock.unlock(), &path, DELETED);
    await_nodes(&path, 0);
    wait_until("nothing is left to delete", SOON, || client.stats().deleting == 0);
    let stats = client.stats();
    assert_eq!((stats.sessions, stats.resumed, stats.holds_lost), (1, 1, 1), "{stats:?}");
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}

#[test]
fn a_hold_whose_node_was_deleted_before_the_resume_is_lost() {
    for is_watched in [true, false] {
        a_hold_whose_node_is_deleted(is_watched, false);
    }
}

#[test]
fn a_hold_whose_node_is_deleted_during_the_resume_is_lost() {
    for is_watched in [true, false] {
        a_hold_whose_node_is_deleted(is_watched, true);
    }
}

#[test]
fn a_waiter_whose_node_was_deleted_before_the_resume_queues_again() {
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let others = client();
    let path = fresh_path("waiter-deleted");
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    let lock = lock_of(&cut, &path);
    let waiting = {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    let nodes = await_nodes(&path, 2);
    let own = hold_of(&held).node();
    let node = nodes.into_iter().find(|node| *node != own).unwrap();
    await_watch(&proxy, &cut);
    let mut line = Line::at(&path);
    line.join(&others);
    proxy.refuse(true);
    proxy.cut();
    shared_probe().unwrap().delete(&format!("{path}/{node}")).unwrap();
    proxy.refuse(false);
    await_resumed(&cut, 1);
    assert!(!waiting.is_done() && held.is_held());
    let begun = Instant::now();
    held.unlock().unwrap();
    line.comes_in_order();
    waiting.result("the waiter").unwrap();
    println!("both let in after {:?}, {:?}", begun.elapsed(), cut.stats());
    assert!(!children(&path).contains(&node));
    assert_eq!(cut.stats().sessions, 1);
    has_one_node_until_unlocked(&lock);
    assert_eq!(cut.stats().deleting, 0);
}
