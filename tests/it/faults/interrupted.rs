//! Moves that are interrupted: by the next fault, an operator, the server or the caller.

mod deleted;
mod given_up;
mod refused;

use std::time::Duration;

use zoolock::{Client, HoldState};
use zoolock_test_support::{FaultProxy, Op, fresh_path, wait_until};

use super::{Line, has_one_node_until_unlocked};
use crate::lock::core::{await_nodes, hold_of};
use crate::util::{
    SESSION, SOON, Stage, await_moved, children, client, client_of, lock_of, place, places,
    shared_proxy,
};

/// The requests of a move, and whether they are interrupted before or after the server has them.
const STEPS: [(Op, bool); 4] =
    [(Op::Create, false), (Op::Create, true), (Op::GetData, false), (Op::GetData, true)];

/// Of a move that begins with a look at what it does not know yet: the second look.
const LOOK_AGAIN: u64 = 2;

/// Holds a step of the next move of the seat whose node is `node`, or its answer: the `nth` of its
/// kind.
fn hold_step(
    proxy: &FaultProxy,
    (op, answer): (Op, bool),
    nth: u64,
    path: &str,
    node: &str,
) -> zoolock_test_support::Hold {
    let part = match op {
        Op::Create => path,
        _ => node,
    };
    let rule = proxy.on(op).path_contains(part).nth(nth);
    match answer {
        true => rule.hold_answer(),
        false => rule.hold_request(),
    }
}

fn await_no_garbage(client: &Client) {
    wait_until("no garbage is left", SOON, || client.stats().garbage == 0);
}

#[test]
fn a_move_of_a_hold_that_is_cut_is_completed_on_the_next_connection() {
    for step in STEPS {
        let Stage { proxy, client, path, lock } = Stage::new("hold-cut-again", SESSION);
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let (first, token) = (hold.node(), hold.fencing_token().unwrap());
        // Kept until the connections they are about are gone.
        let mut interrupted = Vec::new();
        for _ in 0..2 {
            let held = hold_step(&proxy, step, 1, &path, &first);
            proxy.cut();
            assert!(held.wait(SOON), "{step:?}: {:#?}", proxy.log());
            assert_eq!((hold.state(), hold.node()), (HoldState::Suspended, first.clone()));
            interrupted.push(held);
        }
        proxy.cut();
        let took = await_moved(&client, 1);
        println!(
            "{step:?} interrupted {} times, moved after {took:?}: {hold:?}",
            interrupted.len()
        );
        assert_eq!(hold.state(), HoldState::Held);
        assert_eq!(place(&hold.node()), place(&first));
        assert_eq!(hold.fencing_token().unwrap(), token);
        has_one_node_until_unlocked(&lock);
        let stats = client.stats();
        assert_eq!((stats.seats_moved, stats.seats_lost), (1, 0), "{stats:?}");
    }
}

#[test]
fn a_move_of_a_waiter_that_is_cut_is_completed_on_the_next_connection() {
    let steps = STEPS.map(|step| match step.0 {
        Op::GetData => (step, LOOK_AGAIN),
        _ => (step, 1),
    });
    let first_looks = [false, true].map(|answer| ((Op::GetData, answer), 1));
    for (step, mut nth) in steps.into_iter().chain(first_looks) {
        let proxy = shared_proxy();
        let cut = client_of(&proxy.connect_string(), SESSION);
        let others = client();
        let path = fresh_path("waiter-cut-again");
        let held = lock_of(&others, &path);
        held.lock().unwrap();
        let ahead = hold_of(&held).node();
        let mut line = Line::at(&path);
        line.join(&cut);
        line.join(&others);
        let before = places(&path);
        let node = children(&path).into_iter().filter(|node| *node != ahead);
        let node = node.min_by_key(|node| place(node).to_owned()).unwrap();
        let mut interrupted = Vec::new();
        for _ in 0..2 {
            let held = hold_step(&proxy, step, nth, &path, &node);
            proxy.cut();
            assert!(held.wait(SOON), "{step:?}: {:#?}", proxy.log());
            // What it has learnt it knows.
            nth = 1;
            assert!(children(&path).contains(&node), "its old node is there");
            interrupted.push(held);
        }
        proxy.cut();
        let took = await_moved(&cut, 1);
        wait_until("one node each is there", SOON, || places(&path) == before);
        println!("{step:?}, {nth}: {before:?} again {took:?} after cut {}", interrupted.len() + 1);
        held.unlock().unwrap();
        line.comes_in_order();
        await_nodes(&path, 0);
        assert_eq!(cut.stats().seats_moved, 1);
    }
}

/// Nothing ends the sessions that were left behind: there is no way back to their handles' server.
#[test]
fn nodes_on_sessions_that_live_on_are_deleted_by_the_connection_that_completes_the_move() {
    for waits in [false, true] {
        let ways = [(); 3].map(|()| shared_proxy());
        let hosts = ways.each_ref().map(FaultProxy::connect_string).join(",");
        ways[1..].iter().for_each(|way| way.refuse(true));
        let client = client_of(&hosts, Duration::from_secs(60));
        let path = fresh_path("live-on");
        let rivals = crate::util::client();
        let (lock, rival) = (lock_of(&client, &path), lock_of(&rivals, &path));
        let mut line = Line::at(&path);
        if waits {
            rival.lock().unwrap();
            line.join(&client);
        } else {
            lock.lock().unwrap();
            line.join(&rivals);
        }
        let before = places(&path);
        let caught = ways[1].on(Op::Create).path_contains(&path).hold_answer();
        ways[1].refuse(false);
        ways[0].refuse(true);
        ways[0].cut();
        assert!(caught.wait(SOON), "{:#?}", ways[1].log());
        assert_eq!(children(&path).len(), 3);
        ways[1].refuse(true);
        ways[2].refuse(false);
        ways[1].cut();
        await_moved(&client, 1);
        // The garbage list alone would come back to them after 20 s.
        let prompt = Duration::from_secs(10);
        let took = wait_until("one node each is left", prompt, || places(&path) == before);
        println!("waits: {waits}, {before:?} after {took:?}, {:?}", client.stats());
        assert!(!line.is_let_in());
        match waits {
            true => rival.unlock().unwrap(),
            false => lock.unlock().unwrap(),
        }
        line.comes_in_order();
        await_nodes(&path, 0);
    }
}
