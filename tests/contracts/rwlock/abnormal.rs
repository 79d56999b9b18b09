//! Sequences that do not tell a place: a read under such a write has the write's node.

use zoolock::{HoldState, LossReason};
use zoolock_test_support::{fresh_path, wait_until};

use super::{assert_not_held, counts, rw_of, would_deadlock};
use common::relay::{Fate, Relay, UNTOUCHED};
use common::{
    SESSION, SOON, assert_lost, await_lost, await_nodes, children, client, client_of, delete_node,
    hold_of, in_use, shared_address,
};

/// A way to the shared server on which every node is made with these digits. No test can wait for
/// two thousand million creates until sequences do not tell a place.
fn numbering(digits: &'static str) -> Relay {
    Relay::start(shared_address(), move |frame| {
        let create = frame.create();
        let numbered = create.and_then(|create| create.numbered(digits));
        numbered.map_or(UNTOUCHED, Fate::Instead)
    })
}

#[test]
fn a_read_under_a_write_of_an_abnormal_sequence_keeps_the_write() {
    for digits in ["2147483647", "-2147483648", "-000000001"] {
        let relay = numbering(digits);
        let [ours, others] = [client_of(&relay.connect_string(), SESSION), client()];
        let path = fresh_path("abnormal");
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
        // The read goes first, and comes again.
        read.unlock().unwrap();
        read.unlock().unwrap();
        assert_eq!(counts(&lock), (1, 0));
        assert_eq!(children(&path), [node.as_str()]);
        read.lock().unwrap();
        // The write goes first: the read keeps its node, and everybody out.
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
fn a_shared_node_that_is_lost_is_told_to_both_sides() {
    let relay = numbering("2147483647");
    let (ours, path) = (client_of(&relay.connect_string(), SESSION), fresh_path("abnormal-lost"));
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
    // It is counted behind the end that is announced.
    wait_until("two losses a round are counted", SOON, || ours.stats().holds_lost == 4);
    assert_eq!(in_use(&ours.stats()), 0);
    write.lock().unwrap();
    read.lock().unwrap();
    write.unlock().unwrap();
    read.unlock().unwrap();
    // The last handle has both to give back.
    write.lock().unwrap();
    read.lock().unwrap();
    drop((lock, read, write));
    await_nodes(&path, 0);
    assert_eq!(in_use(&ours.stats()), 0);
}
