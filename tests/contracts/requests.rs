//! What the locks cost, counted by the server.

use zoolock::{DistributedLock, DistributedReentrantLock};
use zoolock_test_support::Probe;

use common::{assert_cost, last_transaction, quiet_server};

const CYCLES: u64 = 1_000;

#[test]
fn an_uncontended_cycle_costs_three_requests() {
    let (server, client) = quiet_server();
    let lock = DistributedLock::new(&client, "/cost/any").unwrap();
    assert_cost(&server, "lock, unlock", CYCLES, 3, || {
        lock.lock().unwrap();
        lock.unlock().unwrap();
    });
}

#[test]
fn a_nested_entry_costs_no_request() {
    let (server, client) = quiet_server();
    let lock = DistributedReentrantLock::new(&client, "/cost/own").unwrap();
    assert_cost(&server, "lock, lock, unlock, unlock", CYCLES, 3, || {
        lock.lock().unwrap();
        lock.lock().unwrap();
        assert!(lock.try_lock().unwrap());
        lock.unlock().unwrap();
        lock.unlock().unwrap();
        lock.unlock().unwrap();
    });
}

#[test]
fn a_failed_try_costs_one_request_and_writes_nothing() {
    let (server, client) = quiet_server();
    let lock = DistributedLock::new(&client, "/cost/try").unwrap();
    let rival = Probe::connect(server.address()).unwrap();
    rival.create_all("/cost/try").unwrap();
    // A probe's session writes no heartbeats.
    let name = "/cost/try/_c_01234567-89ab-cdef-0123-456789abcdef-lock-";
    rival.create(name, b"", true, true).unwrap();
    let before = last_transaction(&server);
    assert_cost(&server, "failed try_lock", CYCLES, 1, || {
        assert!(!lock.try_lock().unwrap());
    });
    let after = last_transaction(&server);
    println!("{before:#x} before, {after:#x} after");
    assert_eq!(before, after);
}

#[test]
fn a_successful_try_costs_four_requests_with_its_unlock() {
    let (server, client) = quiet_server();
    let lock = DistributedLock::new(&client, "/cost/try").unwrap();
    assert_cost(&server, "try_lock, unlock", CYCLES, 4, || {
        assert!(lock.try_lock().unwrap());
        lock.unlock().unwrap();
    });
}

#[test]
fn a_local_rival_costs_no_request() {
    let (server, client) = quiet_server();
    let lock = DistributedLock::new(&client, "/cost/local").unwrap();
    lock.lock().unwrap();
    assert_cost(&server, "failed try_lock on the same object", CYCLES, 0, || {
        assert!(!lock.try_lock().unwrap());
    });
    lock.unlock().unwrap();
}
