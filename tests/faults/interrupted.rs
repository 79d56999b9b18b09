//! Resumes that are interrupted: by the next fault, an operator or the caller.

mod deleted;
mod given_up;

use zoolock::{Client, HoldState};
use zoolock_test_support::{FaultProxy, Op, fresh_path, wait_until};

use common::basics::{await_nodes, hold_of};
use common::line::{Line, has_one_node_until_unlocked};
use common::{
    SESSION, SOON, Stage, await_resumed, children, client, client_of, lock_of, shared_proxy,
};

/// The requests of a resume, and whether they are interrupted before or after the server has them.
const STEPS: [(Op, bool); 4] =
    [(Op::Connect, false), (Op::Connect, true), (Op::SetWatches, false), (Op::SetWatches, true)];

/// After them a hold has its lease renewed.
const HEARTBEAT: [(Op, bool); 2] = [(Op::SetData, false), (Op::SetData, true)];

/// Holds a step of the next resume, or its answer.
fn hold_step(proxy: &FaultProxy, (op, answer): (Op, bool)) -> zoolock_test_support::Hold {
    let rule = proxy.on(op);
    match answer {
        true => rule.hold_answer(),
        false => rule.hold_request(),
    }
}

/// Until a node is watched, its own, or the one ahead, and the client knows that.
fn await_watch(proxy: &FaultProxy, client: &Client) {
    wait_until("a node is watched", SOON, || {
        proxy.log().iter().any(|line| line.contains("< GetData"))
    });
    // Its answer comes behind the other.
    client.contenders("/nothing-is-here").unwrap();
}

#[test]
fn a_resume_with_a_hold_that_is_cut_is_completed_on_the_next_connection() {
    for step in STEPS.into_iter().chain(HEARTBEAT) {
        let Stage { proxy, client, path, lock } = Stage::new("hold-cut-again", SESSION);
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let (node, token) = (hold.node(), hold.fencing_token().unwrap());
        await_watch(&proxy, &client);
        // Kept until the connections they are about are gone.
        let mut interrupted = Vec::new();
        for _ in 0..2 {
            let held = hold_step(&proxy, step);
            proxy.cut();
            assert!(held.wait(SOON), "{step:?}: {:#?}", proxy.log());
            assert!(hold.is_held(), "{step:?}: {hold:?}");
            interrupted.push(held);
        }
        let before = client.stats().resumed;
        proxy.cut();
        let took = await_resumed(&client, before + 1);
        println!("{step:?} interrupted twice, resumed after {took:?}: {:?}", client.stats());
        assert_eq!((hold.state(), hold.node()), (HoldState::Held, node));
        assert_eq!(hold.fencing_token().unwrap(), token);
        drop(interrupted);
        has_one_node_until_unlocked(&lock);
        let stats = client.stats();
        assert_eq!((stats.sessions, stats.holds_lost), (1, 0), "{path}: {stats:?}");
    }
}

#[test]
fn a_resume_with_a_waiter_that_is_cut_is_completed_on_the_next_connection() {
    for step in STEPS {
        let proxy = shared_proxy();
        let cut = client_of(&proxy.connect_string(), SESSION);
        let others = client();
        let path = fresh_path("waiter-cut-again");
        let held = lock_of(&others, &path);
        held.lock().unwrap();
        let mut line = Line::at(&path);
        line.join(&cut);
        line.join(&others);
        await_watch(&proxy, &cut);
        let before = children(&path);
        let mut interrupted = Vec::new();
        for _ in 0..2 {
            let held = hold_step(&proxy, step);
            proxy.cut();
            assert!(held.wait(SOON), "{step:?}: {:#?}", proxy.log());
            interrupted.push(held);
        }
        let resumed = cut.stats().resumed;
        proxy.cut();
        let took = await_resumed(&cut, resumed + 1);
        println!("{step:?}: resumed {took:?} after the last cut, {:?}", cut.stats());
        assert_eq!(children(&path), before);
        assert!(!line.is_let_in());
        held.unlock().unwrap();
        line.comes_in_order();
        await_nodes(&path, 0);
        assert_eq!(cut.stats().sessions, 1);
    }
}
