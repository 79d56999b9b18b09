//! Thousands of contenders.

use std::time::Duration;

use zoolock::Error;
use zoolock_test_support::{Direction, Op, Probe, Server};

use common::{Task, behind_a_proxy_of, client_of, in_time, lock_of};

/// A session timeout in which `contenders()` can read them all.
const PATIENT: Duration = Duration::from_secs(30);

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

const MANY: usize = 10_000;

/// A server with a lock that has this many contenders.
fn crowd(path: &str, many: usize) -> (Server, Probe) {
    let server = Server::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    probe.create_all(path).unwrap();
    let name = format!("{path}/_c_{UUID}-lock-");
    for _ in 0..many {
        probe.create(&name, b"somebody", true, true).unwrap();
    }
    (server, probe)
}

#[test]
fn client_reads_ten_thousand_contenders_within_its_session_timeout() {
    let (server, _probe) = crowd("/many", MANY);
    let client = client_of(&server.connect_string(), PATIENT);
    let mine = lock_of(&client, "/mine");
    mine.lock().unwrap();
    mine.unlock().unwrap();
    let asks = client.clone();
    let asked = Task::spawn(move || asks.contenders("/many"));
    let mut cycles = 0;
    while !asked.is_done() {
        mine.lock().unwrap();
        mine.unlock().unwrap();
        cycles += 1;
    }
    let seen = asked.result("contenders()").unwrap();
    println!("meanwhile {cycles} cycles of another lock");
    assert_eq!(seen.len(), MANY);
    assert!(seen.is_sorted_by(|a, b| a.sequence < b.sequence));
    assert!(seen[0].holds && !seen[1..].iter().any(|c| c.holds));
    // These cycles did not wait for the read.
    assert!(cycles > 3, "{cycles} cycles");
}

#[test]
fn contenders_omits_nodes_that_vanish_during_the_read() {
    let (server, probe) = crowd("/vanishing", MANY);
    let client = client_of(&server.connect_string(), PATIENT);
    let before = client.contenders("/vanishing").unwrap();
    let vanishing = Task::spawn(move || {
        for one in before.iter().step_by(2) {
            probe.delete(&format!("/vanishing/{}", one.node)).unwrap();
        }
        probe
    });
    let mut sizes = Vec::new();
    while !vanishing.is_done() {
        let seen = client.contenders("/vanishing").unwrap();
        assert!(seen.is_sorted_by(|a, b| a.sequence < b.sequence));
        // The first contender may have vanished since. Then no contender holds.
        assert!(seen.iter().filter(|c| c.holds).count() <= 1);
        sizes.push(seen.len());
    }
    let _probe = vanishing.result("the deletions");
    println!("{sizes:?}");
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    assert_eq!(client.contenders("/vanishing").unwrap().len(), MANY / 2);
}

#[test]
fn slow_read_of_contenders_ends_with_the_session_timeout() {
    // So long that a slow machine does not end the connection, which would also end the call.
    const SHORT: Duration = Duration::from_secs(6);
    const SOME: usize = 3_000;
    let (server, _probe) = crowd("/slow", SOME);
    let (proxy, client) = behind_a_proxy_of(&server, SHORT);
    proxy.delay(Direction::ToClient, Duration::from_millis(500));
    let slack = Duration::from_secs(1);
    let seen = in_time("contenders()", SHORT + slack, || {
        client.contenders("/slow").map(|seen| seen.len())
    });
    let gave_up = matches!(&seen, Err(Error::Disconnected { path }) if path == "/slow");
    assert!(gave_up, "{seen:?}");
    assert_eq!(client.stats().connections, 1, "the connection is fine");
    proxy.delay(Direction::ToClient, Duration::ZERO);
    // All earlier requests are answered before this one.
    lock_of(&client, "/own").lock().unwrap();
    let asked = proxy.requests(Op::GetData);
    lock_of(&client, "/more").lock().unwrap();
    let reads = proxy.requests(Op::GetData);
    println!("{asked} reads when it gave up, {reads} a little later, of {SOME}");
    assert!(reads < asked + 50, "it goes on reading for nobody");
}
