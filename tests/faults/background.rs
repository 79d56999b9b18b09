//! `LockOptions::background_release`: what only an unlock has that does not wait for its answer.

use zoolock::{Client, DistributedLock, LockOptions};
use zoolock_test_support::{fresh_path, wait_until};

use common::{
    SOON, assert_cost, await_nothing_left, client, delete_node, packets, quiet_server, warnings,
};

fn lock_with(client: &Client, path: &str) -> DistributedLock {
    DistributedLock::with(client, path, LockOptions::new().background_release(true)).unwrap()
}

#[test]
fn a_lock_and_an_unlock_cost_three_requests_and_without_a_pause_little_more() {
    const CYCLES: u64 = 300;
    let (server, client) = quiet_server();
    let lock = lock_with(&client, "/lock");
    assert_cost(&server, "lock, unlock, gone", 50, 3, || {
        lock.lock().unwrap();
        lock.unlock().unwrap();
        await_nothing_left(&client);
    });
    // A create that overtakes the delete before it finds its own last node ahead, and waits for it.
    let cost = packets(&server, || {
        for _ in 0..CYCLES {
            lock.lock().unwrap();
            lock.unlock().unwrap();
        }
        await_nothing_left(&client);
    });
    println!("{cost} packets for {CYCLES} cycles");
    assert!(cost < CYCLES * 4, "{cost}");
}

#[test]
fn a_deletion_that_nobody_has_noticed_is_counted_and_logged() {
    let client = client();
    let path = fresh_path("deleted");
    warnings(&path);
    let lock = lock_with(&client, &path);
    let guard = lock.acquire().unwrap();
    delete_node(&guard);
    guard.release().unwrap();
    wait_until("it is counted", SOON, || client.stats().holds_lost == 1);
    wait_until("it is logged", SOON, || {
        warnings(&path).iter().any(|line| line.contains("was lost"))
    });
    await_nothing_left(&client);
}
