//! `LockOptions::local_handoffs`: threads of one object pass the lock on without a request.

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, LockOptions};
use zoolock_test_support::{connect_string, fresh_path, wait_until};

use common::{SOON, Visitor, client, client_of, delete_node, lock_of};

/// A lock that the threads of this process pass on.
fn handed_on(client: &Client, path: &str, options: LockOptions) -> DistributedLock {
    DistributedLock::with_options(client, path, options.local_handoffs(8)).unwrap()
}

/// "Nobody gets the lock for `time` after its grant, however early it is unlocked."
#[test]
fn minimum_hold_of_a_node_that_was_handed_on_counts_from_the_last_grant() {
    const AT_LEAST: Duration = Duration::from_millis(700);
    let (ours, others) = (client_of(&connect_string(), Duration::from_secs(120)), client());
    let path = fresh_path("at-least-again");
    let lock = handed_on(&ours, &path, LockOptions::new().hold_at_least(AT_LEAST));
    let first = Visitor::start_asleep(lock.clone());
    first.comes_in();
    let begun = Instant::now();
    wait_until("its time is over", SOON, || begun.elapsed() > AT_LEAST);
    let second = Visitor::start_asleep(lock.clone());
    let before = first.hold().node();
    let granted = Instant::now();
    first.leaves();
    let after = second.hold().node();
    assert_eq!(before, after, "the second has it without the servers");
    second.leaves();
    let rival = lock_of(&others, &path);
    rival.lock().unwrap();
    let passed = granted.elapsed();
    println!("somebody else has it {passed:?} after the grant");
    rival.unlock().unwrap();
    assert!(passed >= AT_LEAST, "{passed:?}");
}

/// Nothing watches a young node: it is watched when it is handed on first.
#[test]
fn next_thread_hears_of_a_deletion_before_the_hand_over() {
    let lock = handed_on(&client(), &fresh_path("deleted-young"), LockOptions::new());
    let guard = lock.acquire().unwrap();
    let next = Visitor::start_asleep(lock.clone());
    delete_node(&guard);
    guard.release().unwrap();
    let heir = next.hold();
    wait_until("it is lost", SOON / 8, || !heir.is_held());
}
