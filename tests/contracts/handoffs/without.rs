//! What is never handed on or kept: single nodes, reads and permits.

use zoolock::DistributedSemaphore;
use zoolock_test_support::fresh_path;

use super::*;
use common::{Visitor, await_nothing_left, children, client, exists};

/// Kept for longer than any of these tests takes.
fn every_way() -> LockOptions {
    handing_on(8).keep_idle(2 * SOON)
}

#[test]
fn a_single_node_is_made_for_each_turn_and_ends_with_it() {
    let client = client();
    let path = fresh_path("single");
    let lock = EphemeralLock::with(&client, &path, every_way()).unwrap();
    let mut tokens = Vec::new();
    for _ in 0..3 {
        lock.lock().unwrap();
        tokens.push(hold_of(&lock).fencing_token().unwrap());
        let next = {
            let lock = lock.clone();
            Next::waits_by(move || lock.acquire())
        };
        lock.unlock().unwrap();
        tokens.push(next.holds().fencing_token().unwrap());
        next.lets_go().unwrap();
        assert!(!exists(&path), "kept");
    }
    println!("tokens {tokens:?}");
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    await_nothing_left(&client);
}

#[test]
fn a_read_ends_with_its_unlock() {
    let client = client();
    let path = fresh_path("read");
    let lock = DistributedRwLock::with(&client, &path, every_way()).unwrap();
    let (read, write) = (lock.read_lock(), lock.write_lock());
    for _ in 0..3 {
        read.lock().unwrap();
        let earlier = hold_of(&read).node();
        let beside = Visitor::start(read.clone());
        beside.comes_in();
        let nodes = children(&path);
        assert_eq!(nodes.len(), 2, "{nodes:?}");
        read.unlock().unwrap();
        let left = children(&path);
        assert!(left.len() == 1 && left[0] != earlier, "{left:?}");
        beside.leaves();
        assert_eq!(children(&path), [""; 0], "kept");
    }
    // No read is left in the way of a writer.
    assert!(write.try_lock().unwrap());
    write.unlock().unwrap();
}

#[test]
fn a_permit_goes_back_with_its_release() {
    let client = client();
    let path = fresh_path("permits");
    let permits = DistributedSemaphore::with(&client, &path, 1, every_way()).unwrap();
    let leases = format!("{path}/leases");
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let out = permits.acquire(1).unwrap();
        nodes.extend(children(&leases));
        let next = {
            let permits = permits.clone();
            Task::spawn_blocked(move || permits.acquire(1))
        };
        out.release().unwrap();
        let out = next.result("the next thread").unwrap();
        nodes.extend(children(&leases));
        out.release().unwrap();
        assert_eq!(children(&leases), [""; 0], "kept");
    }
    println!("{nodes:#?}");
    let turns = nodes.len();
    nodes.sort();
    nodes.dedup();
    assert_eq!((turns, nodes.len()), (6, 6), "a node for each turn");
    await_nothing_left(&client);
}
