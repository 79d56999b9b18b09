//! Sequences without an order. A downgraded read shares the node of such a write.

use zoolock::{HoldState, LossReason};
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use super::{assert_not_held, counts, rw_of, would_deadlock};
use common::relay::{Fate, Relay, UNTOUCHED};
use common::{
    SESSION, SOON, assert_lost, await_lost, await_nodes, children, client, client_of, delete_node,
    hold_of, in_use, shared_address,
};

/// A relay that gives every node these digits. No test can wait for two thousand million creates until the
/// counter runs over.
fn numbering(digits: &'static str) -> Relay {
    Relay::start(shared_address(), move |frame| {
        let create = frame.create();
        let numbered = create.and_then(|create| create.numbered(digits));
        numbered.map_or(UNTOUCHED, Fate::Instead)
    })
}

/// Returns the path of a directory that exists, so that creates are no part of a transaction.
fn directory(name: &str) -> String {
    let path = fresh_path(name);
    shared_probe().unwrap().create_all(&path).unwrap();
    path
}

#[test]
fn downgrade_at_an_abnormal_sequence_keeps_the_write() {
    for digits in ["2147483647", "-2147483648", "-000000001"] {
        let relay = numbering(digits);
        let [ours, others] = [client_of(&relay.connect_string(), SESSION), client()];
        let path = directory("abnormal");
        let (lock, rival) = (rw_of(&ours, &path), rw_of(&others, &path));
        let (read, write) = (lock.read_lock(), lock.write_lock());
        write.lock().unwrap();
        let node = hold_of(&write).node();
        assert!(node.ends_with(&format!("__WRIT__{digits}")), "{node}");
        read.lock().unwrap();
        read.lock().unwrap();
        println!("{digits}: {:?}, {:?}", hold_of(&read), children(&path));
        assert_eq!(hold_of(&read).node(), node, "one node for both");
        assert_eq!(children(&path), [node.as_str()]);
        let tokens = [hold_of(&read), hold_of(&write)].map(|hold| hold.fencing_token());
        assert_eq!(tokens[0], tokens[1]);
        // The read is released first, and taken again.
        read.unlock().unwrap();
        read.unlock().unwrap();
        assert_eq!(counts(&lock), (1, 0));
        assert_eq!(children(&path), [node.as_str()]);
        read.lock().unwrap();
        // The write is released first. The read keeps its node and excludes all others.
        write.unlock().unwrap();
        assert_eq!((counts(&lock), write.is_held(), read.is_held()), ((0, 1), false, true));
        assert_not_held(&write.unlock());
        assert_eq!(hold_of(&read).state(), HoldState::Held);
        assert_eq!(hold_of(&read).fencing_token(), tokens[0]);
        assert_eq!(children(&path), [node.as_str()]);
        assert!(!rival.write_lock().try_lock().unwrap());
        let refused = write.lock();
        assert!(would_deadlock(&refused, &path), "{refused:?}");
        await_nodes(&path, 1);
        read.lock().unwrap();
        read.unlock().unwrap();
        read.unlock().unwrap();
        assert_not_held(&read.unlock());
        await_nodes(&path, 0);
        assert!(rival.write_lock().try_lock().unwrap());
        rival.write_lock().unlock().unwrap();
        assert_eq!(in_use(&ours.stats()), 0);
    }
}

#[test]
fn both_sides_hear_of_the_loss_of_a_shared_node() {
    let relay = numbering("2147483647");
    let (ours, path) = (client_of(&relay.connect_string(), SESSION), directory("abnormal-lost"));
    let lock = rw_of(&ours, &path);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    for write_first in [true, false] {
        write.lock().unwrap();
        read.lock().unwrap();
        let hold = hold_of(&write);
        delete_node(&hold);
        await_lost(&hold);
        let unlocked = match write_first {
            true => [write.unlock(), read.unlock()],
            false => [read.unlock(), write.unlock()],
        };
        println!("{unlocked:?}, {:?}", ours.stats());
        unlocked.iter().for_each(|unlocked| assert_lost(unlocked, &path, LossReason::NodeDeleted));
        assert_not_held(&write.unlock());
        assert_not_held(&read.unlock());
    }
    // The loss is counted after it is reported.
    wait_until("two losses a round are counted", SOON, || ours.stats().holds_lost == 4);
    assert_eq!(in_use(&ours.stats()), 0);
    write.lock().unwrap();
    read.lock().unwrap();
    write.unlock().unwrap();
    read.unlock().unwrap();
    // The last handle releases both.
    write.lock().unwrap();
    read.lock().unwrap();
    drop((lock, read, write));
    await_nodes(&path, 0);
    assert_eq!(in_use(&ours.stats()), 0);
}
