//! Waiters acquire the lock in the order in which they queued, whatever their numbers are.

use std::time::Duration;

use zoolock::{DistributedReentrantLock, DistributedRwLock, DistributedSemaphore};
use zoolock::{HoldState, Lock, LockOptions, LossReason};

use super::{END, Stage, number};
use common::*;

/// One visitor holds the lock and five queue behind it. If `set` has a number, the next node gets that number.
fn queue_and_serve(stage: &Stage, set: [Option<i32>; 6]) {
    let clients = set.map(|_| stage.client());
    let path = stage.path.as_str();
    let mut queue = Vec::new();
    for (at, client) in clients.iter().enumerate() {
        if let Some(number) = set[at] {
            stage.server.set_counter(path, number).unwrap();
        }
        let lock: Box<dyn Lock> = match at {
            0..3 => lock_of(client, path).into(),
            3 => DistributedReentrantLock::new(client, path).unwrap().into(),
            _ => rw_of(client, path).writer().into(),
        };
        queue.push(stage.queues(lock));
    }
    queue[0].comes_in();
    let nodes = stage.nodes();
    println!("{nodes:?}");
    // `contenders` lists the nodes in the same order.
    let seen = clients[0].contenders(path).unwrap();
    let seen: Vec<_> = seen.iter().map(|one| (&one.node, one.holds, one.sequence)).collect();
    let expected = nodes.iter().enumerate();
    let expected = expected.map(|(at, node)| (node, at == 0, Some(i64::from(number(node)))));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    assert!(!lock_of(&clients[1], path).try_lock().unwrap());
    // They acquire the lock one after another, in the order in which they queued.
    while !queue.is_empty() {
        let first = queue.remove(0);
        first.comes_in();
        assert!(!queue.iter().any(Visitor::is_in), "two holders");
        first.leaves();
    }
    stage.is_left_empty();
}

#[test]
fn queue_is_fifo_whatever_the_sequence_numbers_say() {
    let begins = [END - 6, END - 3, END - 1, END, i32::MIN, i32::MIN + 1, -1_000_000_006, -50];
    let begins = begins.map(|number| [Some(number), None, None, None, None, None]);
    // Numbers that concurrent creates may get, or that may follow when an older server takes over.
    let opposite = [-5, -1000, i32::MIN + 5, i32::MIN, END, END];
    let mixed = [END - 1, -2, END, i32::MIN, END, -7];
    for set in begins.into_iter().chain([opposite, mixed].map(|numbers| numbers.map(Some))) {
        let Some(stage) = Stage::new("fifo", 0) else { return };
        queue_and_serve(&stage, set);
    }
}

/// After the overflow, a downgraded read keeps the node of its write, even if another object created that node.
#[test]
fn read_that_outlives_its_write_has_the_end_of_its_own_object() {
    let Some(stage) = Stage::new("end-rw", END) else { return };
    let client = stage.client();
    let new = |options| DistributedRwLock::with_options(&client, &stage.path, options).unwrap();
    let lasting = new(LockOptions::new().local_handoffs(1));
    let limited = new(LockOptions::new().local_handoffs(1).hold_at_most(Duration::from_secs(1)));
    lasting.writer().lock().unwrap();
    let made = hold_of(&lasting.writer()).node();
    let downgrade = Task::spawn_blocked(move || {
        let (read, write) = (limited.reader(), limited.writer());
        write.lock().unwrap();
        read.lock().unwrap();
        write.unlock().unwrap();
        (hold_of(&read), limited)
    });
    lasting.writer().unlock().unwrap();
    let (read, _limited) = downgrade.result("the downgrade");
    assert_eq!(read.node(), made, "it has the node of the other object");
    await_lost(&read);
    assert_eq!(read.state(), HoldState::Lost(LossReason::HeldTooLong));
    stage.is_left_empty();
}

#[test]
fn write_that_outlives_a_read_at_its_node_is_notified_of_its_loss() {
    let Some(stage) = Stage::new("end-rw-lost", END) else { return };
    let lock = rw_of(&stage.client(), &stage.path);
    let (read, write) = (lock.reader(), lock.writer());
    write.lock().unwrap();
    read.lock().unwrap();
    let hold = hold_of(&write);
    assert_eq!(hold_of(&read).node(), hold.node());
    read.unlock().unwrap();
    assert!(hold.is_held());
    stage.probe.delete(&format!("{}/{}", stage.path, hold.node())).unwrap();
    await_lost(&hold);
    assert_eq!(hold.state(), HoldState::Lost(LossReason::NodeDeleted));
}

/// All turn nodes have the same number, so the number does not show which permits belong to which call.
#[test]
fn permit_stays_held_while_its_client_waits_for_another() {
    let Some(stage) = Stage::new("seen-permits", 0) else { return };
    for part in ["locks", "leases"] {
        stage.make(&format!("{}/{part}", stage.path), END);
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
