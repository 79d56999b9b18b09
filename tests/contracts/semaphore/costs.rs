//! What a semaphore costs, counted by the server.

use std::time::Duration;

use zoolock_test_support::{FaultProxy, Probe, wait_until};

use super::semaphore;
use common::{SOON, Task, assert_cost, client_of, last_transaction, quiet_server};

const CYCLES: u64 = 300;
/// The turn's node, a list, the permit's, a list, the turn's end; the permit's end.
#[test]
fn an_uncontended_acquire_costs_six_requests_with_its_release() {
    let (server, client) = quiet_server();
    let own = semaphore(&client, "/cost/semaphore", 5);
    assert_cost(&server, "acquire(1), release", CYCLES, 6, || {
        own.acquire(1).unwrap().release().unwrap();
    });
    assert_cost(&server, "acquire(3), release", CYCLES, 10, || {
        own.acquire(3).unwrap().release().unwrap();
    });
}

#[test]
fn a_try_costs_four_requests_with_its_release() {
    let (server, client) = quiet_server();
    let own = semaphore(&client, "/cost/semaphore", 5);
    assert_cost(&server, "try_acquire(1), release", CYCLES, 4, || {
        own.try_acquire(1).unwrap().unwrap().release().unwrap();
    });
}

#[test]
fn a_failed_try_costs_one_request_and_writes_nothing() {
    let (server, client) = quiet_server();
    let own = semaphore(&client, "/cost/semaphore", 2);
    let rival = Probe::connect(server.address()).unwrap();
    rival.create_all("/cost/semaphore/leases").unwrap();
    let name = "/cost/semaphore/leases/_c_01234567-89ab-cdef-0123-456789abcdef-lease-";
    rival.create(name, b"", true, true).unwrap();
    let before = last_transaction(&server);
    assert_cost(&server, "failed try_acquire(2)", CYCLES, 1, || {
        assert!(own.try_acquire(2).unwrap().is_none());
    });
    assert_cost(&server, "available()", CYCLES, 1, || {
        assert_eq!(own.available().unwrap(), 1);
    });
    let after = last_transaction(&server);
    println!("{before:#x} before, {after:#x} after");
    assert_eq!(before, after);
}

/// One of them hears that a permit is back, and the next that the turn is.
#[test]
fn a_release_wakes_only_whoever_has_the_turn() {
    const WAITERS: usize = 20;
    let (server, holders) = quiet_server();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let path = "/cost/semaphore";
    let mut held: Vec<_> =
        (0..3).map(|_| semaphore(&holders, path, 3).acquire(1).unwrap()).collect();
    let probe = Probe::connect(server.address()).unwrap();
    let clients: Vec<_> =
        (0..WAITERS).map(|_| client_of(&proxy.connect_string(), Duration::from_secs(30))).collect();
    let waiters: Vec<_> = clients
        .iter()
        .enumerate()
        .map(|(number, client)| {
            let own = semaphore(client, path, 3);
            let waiter = Task::spawn(move || own.acquire(1));
            wait_until("it has queued", SOON, || {
                probe.children(&format!("{path}/locks")).unwrap_or_default().len() > number
            });
            waiter
        })
        .collect();
    wait_until("the first one has looked", SOON, || {
        server.metric("zk_watch_count").unwrap() >= WAITERS as u64
    });
    let watches = server.metric("zk_watch_count").unwrap();
    let mut permits = Vec::new();
    for (number, waiter) in waiters[..3].iter().enumerate() {
        let before = proxy.events();
        held.pop().unwrap().release().unwrap();
        permits.push(waiter.result("a waiter").unwrap());
        wait_until("the next one waits", SOON, || {
            probe.children(&format!("{path}/locks")).unwrap().len() == WAITERS - number - 1
                && probe.children(&format!("{path}/leases")).unwrap().len() == 4
        });
        // The server has sent every event by the time it answers this.
        let watches = server.metric("zk_watch_count").unwrap();
        let events = proxy.events() - before;
        println!("release {number}: {events} events, {watches} watches left");
        assert!((2..=4).contains(&events), "{events} events");
    }
    println!("{watches} watches while {WAITERS} waited");
    drop(permits);
    for waiter in &waiters[3..] {
        waiter.result("a waiter").unwrap().release().unwrap();
    }
    let total = proxy.events();
    println!("{total} events for {WAITERS} grants in all");
    assert!(total <= 5 * WAITERS as u64, "{total} events");
}
