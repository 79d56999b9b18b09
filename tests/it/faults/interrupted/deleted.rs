//! Moves of nodes that are deleted before or meanwhile.

use zoolock::{Error, HoldState, LossReason};
use zoolock_test_support::{FaultProxy, Op, fresh_path, shared_probe, wait_until};

use super::{Line, await_no_garbage, has_one_node_until_unlocked};
use crate::lock::core::{await_nodes, hold_of};
use crate::util::{
    SESSION, SOON, Stage, Task, await_lost, children, client, client_of, lock_of, place, places,
    shared_proxy,
};

const NOT_CONFIRMED: HoldState = HoldState::Lost(LossReason::NotConfirmed);

/// Cuts the connection and deletes the old node before the move begins, or in the middle of it.
/// The answer to the create of the new node is held.
fn delete_around_the_move(
    proxy: &FaultProxy,
    path: &str,
    node: &str,
    before_the_move: bool,
) -> zoolock_test_support::Hold {
    let created = proxy.on(Op::Create).path_contains(path).hold_answer();
    proxy.refuse(before_the_move);
    proxy.cut();
    if !before_the_move {
        assert!(created.wait(SOON), "{:#?}", proxy.log());
    }
    let probe = shared_probe().unwrap();
    probe.delete(&format!("{path}/{node}")).unwrap();
    proxy.refuse(false);
    assert!(created.wait(SOON), "{:#?}", proxy.log());
    created
}

/// The old node of a hold is deleted at some time between the cut and the look for it.
fn a_hold_whose_old_node_is_deleted(before_the_move: bool) {
    let Stage { proxy, client, path, lock } = Stage::new("hold-deleted", SESSION);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let node = hold.node();
    // Else the move begins by asking for it.
    hold.fencing_token().unwrap();
    let created = delete_around_the_move(&proxy, &path, &node, before_the_move);
    assert_eq!(hold.state(), HoldState::Suspended);
    let rivals = crate::util::client();
    let mut line = Line::at(&path);
    line.join(&rivals);
    // Nobody is held up by the new node for longer than it takes to look.
    created.release();
    await_lost(&hold);
    println!("deleted before the move: {before_the_move}: {hold:?}, {:?}", client.stats());
    assert_eq!(hold.state(), NOT_CONFIRMED);
    line.comes_in_order();
    let unlocked = lock.unlock();
    let told = matches!(unlocked, Err(Error::Lost { reason: LossReason::NotConfirmed, .. }));
    assert!(told, "{unlocked:?}");
    await_nodes(&path, 0);
    await_no_garbage(&client);
    assert_eq!((client.stats().seats_moved, client.stats().seats_lost), (0, 1));
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}

#[test]
fn a_hold_whose_node_was_deleted_before_its_move_is_lost() {
    a_hold_whose_old_node_is_deleted(true);
}

#[test]
fn a_hold_whose_node_was_deleted_before_anybody_knew_its_token_is_lost() {
    let Stage { proxy, client, path, lock } = Stage::new("token-unknown", SESSION);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    proxy.refuse(true);
    proxy.cut();
    let node = format!("{path}/{}", hold.node());
    shared_probe().unwrap().delete(&node).unwrap();
    proxy.refuse(false);
    await_lost(&hold);
    println!("{hold:?}, {:?}", client.stats());
    assert_eq!(hold.state(), NOT_CONFIRMED);
    assert!(lock.unlock().is_err_and(|error| error.is_lost()));
    await_no_garbage(&client);
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}

#[test]
fn a_hold_whose_node_is_deleted_during_its_move_is_lost() {
    a_hold_whose_old_node_is_deleted(false);
}

#[test]
fn a_waiter_whose_node_is_deleted_around_its_move_queues_again() {
    for before_the_move in [true, false] {
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
        let mut line = Line::at(&path);
        line.join(&others);
        delete_around_the_move(&proxy, &path, &node, before_the_move).release();
        let last = || places(&path).pop().unwrap_or_default();
        let old = places(&path);
        wait_until("it is the last of three", SOON, || {
            children(&path).len() == 3 && !places(&path).contains(&place(&node).to_owned())
        });
        println!("{node} of {old:?}, deleted before: {before_the_move}, then {:?}", places(&path));
        assert!(last().as_str() > place(&node));
        held.unlock().unwrap();
        line.comes_in_order();
        waiting.result("the waiter").unwrap();
        assert_eq!(cut.stats().seats_moved, 0);
        has_one_node_until_unlocked(&lock);
        await_no_garbage(&cut);
    }
}
