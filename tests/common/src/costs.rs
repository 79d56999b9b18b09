//! Counts the requests of operations, at the server.

use std::time::{Duration, Instant};

use zoolock::Client;
use zoolock_test_support::Server;

use super::client_of;

/// Allows for heartbeats, in case the machine is slow.
pub const PROBES: u64 = 10;

/// Returns a private server, and a client whose session needs no heartbeats.
pub fn quiet_server() -> (Server, Client) {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), Duration::from_secs(60));
    (server, client)
}

/// Returns how many packets the server received during `work`.
pub fn packets(server: &Server, work: impl FnOnce()) -> u64 {
    let before = server.metric("zk_packets_received").unwrap();
    work();
    // The second look counts itself.
    server.metric("zk_packets_received").unwrap() - before - 1
}

/// Returns how many packets the server received during this many cycles. One cycle runs before,
/// because the first one may create the directory.
fn packets_of(server: &Server, what: &str, cycles: u64, mut cycle: impl FnMut()) -> u64 {
    cycle();
    let begun = Instant::now();
    let packets = packets(server, || (0..cycles).for_each(|_| cycle()));
    let took = begun.elapsed();
    println!("{what}: {packets} packets for {cycles} cycles in {took:?}");
    packets
}

/// Asserts that each of this many cycles makes the server receive `each` packets.
#[track_caller]
pub fn assert_cost(server: &Server, what: &str, cycles: u64, each: u64, cycle: impl FnMut()) {
    let packets = packets_of(server, what, cycles, cycle);
    let expected = each * cycles..=each * cycles + PROBES;
    assert!(expected.contains(&packets), "{packets} not in {expected:?}");
}

/// Returns the server's last transaction, including failed ones.
pub fn last_transaction(server: &Server) -> u64 {
    let answer = server.four_letter("srvr").unwrap();
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    let zxid = zxid.unwrap_or_else(|| panic!("no Zxid in {answer}"));
    u64::from_str_radix(zxid.trim(), 16).unwrap()
}
