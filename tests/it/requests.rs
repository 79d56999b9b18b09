//! What the locks cost, counted by the server.

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, DistributedReentrantLock};
use zoolock_test_support::{Probe, Server};

use crate::util::client_of;

const CYCLES: u64 = 1_000;
/// Probes of the connection, should the machine be slow.
const PROBES: u64 = 10;

/// A server that nobody else uses, and a client that does not need to say that it is alive.
fn stage() -> (Server, Client) {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), Duration::from_secs(30));
    (server, client)
}

/// How many packets the server received during `cycle`, done a thousand times.
fn packets(server: &Server, what: &str, mut cycle: impl FnMut()) -> u64 {
    // The first one may make the directory.
    cycle();
    let before = server.metric("zk_packets_received").unwrap();
    let begun = Instant::now();
    (0..CYCLES).for_each(|_| cycle());
    let took = begun.elapsed();
    // The second look counts itself.
    let packets = server.metric("zk_packets_received").unwrap() - before - 1;
    println!("{what}: {packets} packets for {CYCLES} cycles in {took:?}");
    packets
}

#[track_caller]
fn assert_cost(packets: u64, each: u64) {
    let expected = each * CYCLES..=each * CYCLES + PROBES;
    assert!(expected.contains(&packets), "{packets} not in {expected:?}");
}

/// The id of the server's last transaction, also of one that failed.
fn last_transaction(server: &Server) -> String {
    let answer = server.four_letter("srvr").unwrap();
    let line = answer.lines().find(|line| line.starts_with("Zxid:"));
    line.unwrap_or_else(|| panic!("no Zxid in {answer}"))
        .to_owned()
}

#[test]
fn an_uncontended_cycle_costs_three_requests() {
    let (server, client) = stage();
    let lock = DistributedLock::new(&client, "/cost/any").unwrap();
    let cost = packets(&server, "lock, unlock", || {
        lock.lock().unwrap();
        lock.unlock().unwrap();
    });
    assert_cost(cost, 3);
}

#[test]
fn a_nested_entry_costs_no_request() {
    let (server, client) = stage();
    let lock = DistributedReentrantLock::new(&client, "/cost/own").unwrap();
    let cost = packets(&server, "lock, lock, unlock, unlock", || {
        lock.lock().unwrap();
        lock.lock().unwrap();
        assert!(lock.try_lock().unwrap());
        lock.unlock().unwrap();
        lock.unlock().unwrap();
        lock.unlock().unwrap();
    });
    assert_cost(cost, 3);
}

#[test]
fn a_failed_try_costs_one_request_and_writes_nothing() {
    let (server, client) = stage();
    let lock = DistributedLock::new(&client, "/cost/try").unwrap();
    let rival = Probe::connect(server.address()).unwrap();
    rival.create_all("/cost/try").unwrap();
    // A probe's session writes no heartbeats.
    let name = "/cost/try/_c_01234567-89ab-cdef-0123-456789abcdef-lock-";
    rival.create(name, b"", true, true).unwrap();
    let before = last_transaction(&server);
    let cost = packets(&server, "failed try_lock", || {
        assert!(!lock.try_lock().unwrap());
    });
    let after = last_transaction(&server);
    println!("{before} before, {after} after");
    assert_cost(cost, 1);
    assert_eq!(before, after);
}

#[test]
fn a_successful_try_costs_four_requests_with_its_unlock() {
    let (server, client) = stage();
    let lock = DistributedLock::new(&client, "/cost/try").unwrap();
    let cost = packets(&server, "try_lock, unlock", || {
        assert!(lock.try_lock().unwrap());
        lock.unlock().unwrap();
    });
    assert_cost(cost, 4);
}

#[test]
fn a_local_rival_costs_no_request() {
    let (server, client) = stage();
    let lock = DistributedLock::new(&client, "/cost/local").unwrap();
    lock.lock().unwrap();
    let cost = packets(&server, "failed try_lock on the same object", || {
        assert!(!lock.try_lock().unwrap());
    });
    assert_cost(cost, 0);
    lock.unlock().unwrap();
}
