//! Nodes that vanish while somebody finds out who was there first: between the list, the look at
//! each node's czxid, and the watch.

use zoolock_test_support::Op;

use super::{END, Granted, Stage, come_in_one_by_one};
use common::{SESSION, SOON, client_of};

/// What happens while the newcomer's request is on its way.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    HolderLeaves,
    WaiterQuits,
    OwnNodeIsDeleted,
}

#[test]
fn whatever_vanishes_between_two_looks_the_order_stays() {
    for meanwhile in [Meanwhile::HolderLeaves, Meanwhile::WaiterQuits, Meanwhile::OwnNodeIsDeleted]
    {
        // The two before it, in any order, and then the watch.
        for (op, nth) in [(Op::Exists, 1), (Op::Exists, 2), (Op::GetData, 1)] {
            let Some(stage) = Stage::new("vanishing", END) else {
                return;
            };
            vanish(&stage, meanwhile, op, nth);
        }
    }
}

fn vanish(stage: &Stage, meanwhile: Meanwhile, op: Op, nth: u64) {
    let (proxy, direct) = (stage.proxy(), stage.client());
    let slow = client_of(&proxy.connect_string(), SESSION);
    let list = Granted::default();
    let holder = stage.queues(&list, "holder", stage.lock(&direct));
    holder.comes_in();
    let waits = stage.lock(&direct);
    let waiter = stage.queues(&list, "waiter", waits.clone());
    let path = stage.path.as_str();
    let look = proxy.on(op).path_contains(path).nth(nth);
    let look = look.hold_request();
    let newcomer = stage.queues(&list, "newcomer", stage.lock(&slow));
    assert!(look.wait(SOON), "{meanwhile:?} {op:?} {nth}: no such request");
    let mut queue = Vec::new();
    match meanwhile {
        Meanwhile::HolderLeaves => {
            holder.leaves();
            queue.push((waiter, "waiter"));
        }
        Meanwhile::WaiterQuits => {
            waits.cancel_waiters();
            assert!(waiter.result().is_err());
            queue.push((holder, "holder"));
        }
        Meanwhile::OwnNodeIsDeleted => {
            stage.delete(&stage.nodes()[2]);
            queue.extend([(holder, "holder"), (waiter, "waiter")]);
        }
    }
    look.release();
    stage.await_nodes(queue.len() + 1);
    assert!(!newcomer.is_in(), "{meanwhile:?} {op:?} {nth}");
    queue.push((newcomer, "newcomer"));
    println!("{meanwhile:?} at {op:?} {nth}");
    let left = matches!(meanwhile, Meanwhile::HolderLeaves);
    if left {
        list.lock().unwrap().retain(|name| *name != "holder");
    }
    come_in_one_by_one(queue, &list);
    stage.await_nodes(0);
}
