//! Waiters enter in order of arrival, whatever the numbers say, and whatever vanishes while a client
//! determines the order.

use std::time::Duration;

use zoolock::{DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore};
use zoolock::{HoldState, Kind, Lock, LockOptions, LossReason};
use zoolock_test_support::{Op, wait_until};

use super::{END, Granted, Stage, come_in_one_by_one, number, numbers};
use common::{BRIEFLY, SESSION, SOON, Task, await_lost, client_of, hold_of};

const NAMES: [&str; 6] = ["holder", "a", "b", "c", "d", "e"];

/// One visitor holds and five queue. The counter is set before each that has a number.
fn queue_and_serve(stage: &Stage, set: [Option<i32>; 6]) {
    let clients = NAMES.map(|_| stage.client());
    let (list, path) = (Granted::default(), stage.path.as_str());
    let mut queue = Vec::new();
    for (at, name) in NAMES.into_iter().enumerate() {
        if let Some(number) = set[at] {
            stage.set(number);
        }
        let client = &clients[at];
        let lock: Box<dyn Lock> = match at {
            0..3 => DistributedLock::new(client, path).unwrap().into(),
            3 => DistributedReentrantLock::new(client, path).unwrap().into(),
            _ => DistributedRwLock::new(client, path).unwrap().write_lock().into(),
        };
        queue.push((stage.queues(&list, name, lock), name));
    }
    queue[0].0.comes_in();
    let nodes = stage.nodes();
    println!("{:?}", numbers(&nodes));
    // `contenders` shows the same order.
    let seen = clients[0].contenders(path).unwrap();
    let seen: Vec<_> = seen.iter().map(|one| (&one.node, one.holds, one.sequence)).collect();
    let expected = nodes.iter().enumerate();
    let expected = expected.map(|(at, node)| (node, at == 0, Some(i64::from(number(node)))));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    assert!(!stage.lock(&clients[1]).try_lock().unwrap());
    come_in_one_by_one(queue, &list);
    stage.await_nodes(0);
}

#[test]
fn queue_is_fifo_whatever_the_sequence_numbers_say() {
    let begins = [END - 6, END - 3, END - 1, END, i32::MIN, i32::MIN + 1, -1_000_000_006, -50];
    let begins = begins.map(|number| [Some(number), None, None, None, None, None]);
    // Numbers as concurrent creates get them, or after an older server took over.
    let opposite = [-5, -1000, i32::MIN + 5, i32::MIN, END, END];
    let mixed = [END - 1, -2, END, i32::MIN, END, -7];
    for set in begins.into_iter().chain([opposite, mixed].map(|numbers| numbers.map(Some))) {
        let Some(stage) = Stage::new("fifo", 0) else {
            return;
        };
        queue_and_serve(&stage, set);
    }
}

#[test]
fn try_lock_is_busy_or_succeeds() {
    for number in [END - 1, END, i32::MIN, -9] {
        let Some(stage) = Stage::new("try", number) else {
            return;
        };
        let [one, other, _] = stage.clients().map(|client| stage.lock(&client));
        for _ in 0..3 {
            assert!(one.try_lock().unwrap());
            assert!(!other.try_lock().unwrap());
            assert_eq!(stage.nodes().len(), 1);
            one.unlock().unwrap();
            assert!(other.try_lock_for(SOON).unwrap());
            other.unlock().unwrap();
        }
        assert!(one.try_lock().unwrap());
        assert!(!other.try_lock_for(BRIEFLY).unwrap());
        one.unlock().unwrap();
        stage.await_nodes(0);
    }
}

#[test]
fn readers_share_with_readers_and_wait_for_an_earlier_write() {
    for begin in [END - 2, END, i32::MIN] {
        let Some(stage) = Stage::new("seen-rw", begin) else {
            return;
        };
        let clients = stage.clients();
        let lock = |at: usize| DistributedRwLock::new(&clients[at], &stage.path).unwrap();
        let list = Granted::default();
        let r1 = stage.queues(&list, "r1", lock(0).read_lock());
        let r2 = stage.queues(&list, "r2", lock(1).read_lock());
        let w = stage.queues(&list, "w", lock(0).write_lock());
        let r3 = stage.queues(&list, "r3", lock(1).read_lock());
        r1.comes_in();
        r2.comes_in();
        let seen = clients[0].contenders(&stage.path).unwrap();
        let seen: Vec<_> = seen.iter().map(|one| (one.kind, one.holds)).collect();
        let read = |holds| (Kind::Read, holds);
        assert_eq!(seen, [read(true), read(true), (Kind::Write, false), read(false)]);
        r2.leaves();
        assert!(!w.is_in() && !r3.is_in());
        r1.leaves();
        w.comes_in();
        assert!(!r3.is_in());
        w.leaves();
        r3.comes_in();
        r3.leaves();
        stage.await_nodes(0);
    }
}

/// There the read shares the node of its write, which another object may have made.
#[test]
fn read_that_outlives_its_write_has_the_end_of_its_own_object() {
    let Some(stage) = Stage::new("end-rw", END) else {
        return;
    };
    let client = stage.client();
    let new = |options| DistributedRwLock::with_options(&client, &stage.path, options).unwrap();
    let lasting = new(LockOptions::new().local_handoffs(1));
    let limited = new(LockOptions::new().local_handoffs(1).hold_at_most(Duration::from_secs(1)));
    lasting.write_lock().lock().unwrap();
    let made = hold_of(&lasting.write_lock()).node();
    let downgrade = Task::spawn_blocked(move || {
        let (read, write) = (limited.read_lock(), limited.write_lock());
        write.lock().unwrap();
        read.lock().unwrap();
        write.unlock().unwrap();
        (hold_of(&read), limited)
    });
    lasting.write_lock().unlock().unwrap();
    let (read, _limited) = downgrade.result("the downgrade");
    assert_eq!(read.node(), made, "it has the node of the other object");
    await_lost(&read);
    assert_eq!(read.state(), HoldState::Lost(LossReason::HeldTooLong));
    stage.await_nodes(0);
}

/// All turns have the same number, so the number does not tell whose the permits are.
#[test]
fn permit_stays_held_while_its_client_waits_for_another() {
    let Some(stage) = Stage::new("seen-permits", 0) else {
        return;
    };
    for part in ["locks", "leases"] {
        stage.part(part, END);
    }
    let semaphore = DistributedSemaphore::new(&stage.client(), &stage.path, 1).unwrap();
    let permits = semaphore.acquire(1).unwrap();
    let waiting = semaphore.clone();
    let waiter = Task::spawn(move || waiting.acquire(1).map(drop));
    let mut seen = Vec::new();
    wait_until("two permits are there", SOON, || {
        seen = semaphore.contenders().unwrap();
        seen.len() == 2 && seen.iter().all(|one| one.limit == Some(1))
    });
    let holds: Vec<_> = seen.iter().filter(|one| one.holds).map(|one| &one.node).collect();
    assert_eq!(holds, [&format!("leases/{}", permits.holds()[0].node())], "{seen:#?}");
    permits.release().unwrap();
    waiter.result("the waiter").unwrap();
}

/// What happens while the newcomer's request is under way.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meanwhile {
    HolderLeaves,
    WaiterQuits,
    OwnNodeIsDeleted,
}

fn vanish(stage: &Stage, meanwhile: Meanwhile, op: Op, nth: u64) {
    let (proxy, direct) = (stage.proxy(), stage.client());
    let slow = client_of(&proxy.connect_string(), SESSION);
    let list = Granted::default();
    let holder = stage.queues(&Granted::default(), "holder", stage.lock(&direct));
    holder.comes_in();
    let waits = stage.lock(&stage.client());
    let waiter = stage.queues(&list, "waiter", waits.clone());
    let look = proxy.on(op).path_contains(&stage.path).nth(nth).hold_request();
    let newcomer = stage.queues(&list, "newcomer", stage.lock(&slow));
    assert!(look.wait(SOON), "{meanwhile:?} {op:?} {nth}: no such request");
    let mut queue = Vec::new();
    let mut holds = None;
    match meanwhile {
        Meanwhile::HolderLeaves => holder.leaves(),
        Meanwhile::WaiterQuits => {
            waits.cancel_waiters();
            holds = Some(holder);
        }
        Meanwhile::OwnNodeIsDeleted => {
            stage.probe.delete(&format!("{}/{}", stage.path, stage.nodes()[2])).unwrap();
            holds = Some(holder);
        }
    }
    match meanwhile {
        Meanwhile::WaiterQuits => assert!(waiter.result().is_err()),
        _ => queue.push((waiter, "waiter")),
    }
    look.release();
    stage.await_nodes(queue.len() + 1 + usize::from(holds.is_some()));
    assert!(!newcomer.is_in(), "{meanwhile:?} {op:?} {nth}");
    println!("{meanwhile:?} at {op:?} {nth}");
    if let Some(holder) = holds {
        assert!(!queue.iter().any(|(waiter, _)| waiter.is_in()));
        holder.leaves();
    }
    queue.push((newcomer, "newcomer"));
    come_in_one_by_one(queue, &list);
    stage.await_nodes(0);
}

#[test]
fn order_survives_nodes_that_vanish_between_two_looks() {
    for meanwhile in [Meanwhile::HolderLeaves, Meanwhile::WaiterQuits, Meanwhile::OwnNodeIsDeleted]
    {
        // The two nodes ahead, in any order, and then the read before the watch.
        for (op, nth) in [(Op::Exists, 1), (Op::Exists, 2), (Op::GetData, 1)] {
            let Some(stage) = Stage::new("vanishing", END) else {
                return;
            };
            vanish(&stage, meanwhile, op, nth);
        }
    }
}

#[test]
fn waiter_that_gives_up_delays_no_other() {
    for number in [END - 2, END, i32::MIN] {
        let Some(stage) = Stage::new("gives-up", number) else {
            return;
        };
        let [one, other, third] = stage.clients();
        let list = Granted::default();
        let holder = stage.queues(&list, "holder", stage.lock(&one));
        let first = stage.queues(&list, "first", stage.lock(&other));
        let quits = stage.lock(&third);
        let quitter = stage.queues(&list, "quitter", quits.clone());
        let last = stage.queues(&list, "last", stage.lock(&stage.client()));
        quits.cancel_waiters();
        assert!(quitter.result().is_err());
        stage.await_nodes(3);
        come_in_one_by_one(vec![(holder, "holder"), (first, "first"), (last, "last")], &list);
    }
}
