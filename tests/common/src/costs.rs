//! Costs of calls, counted by the server.

use std::time::{Duration, Instant};

use zoolock::Client;
use zoolock_test_support::Server;

use super::client_of;

/// Packets of the connection itself that a slow machine may add.
pub const PROBES: u64 = 10;

/// A server for this test alone, and a client that sends no heartbeat.
pub fn quiet_server() -> (Server, Client) {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), Duration::from_secs(60));
    (server, client)
}

/// The number of packets that the server received during `work`.
pub fn packets(server: &Server, work: impl FnOnce()) -> u64 {
    let before = server.metric("zk_packets_received").unwrap();
    work();
    // The second reading counts itself.
    server.metric("zk_packets_received").unwrap() - before - 1
}

/// The number of packets received during `cycles` runs of `cycle`. One run precedes them, since it may create
/// the directory.
fn packets_of(server: &Server, what: &str, cycles: u64, mut cycle: impl FnMut()) -> u64 {
    cycle();
    let begun = Instant::now();
    let packets = packets(server, || (0..cycles).for_each(|_| cycle()));
    let took = begun.elapsed();
    println!("{what}: {packets} packets for {cycles} cycles in {took:?}");
    packets
}

/// Expects each of these cycles to cost `each` packets.
#[track_caller]
pub fn assert_cost(server: &Server, what: &str, cycles: u64, each: u64, cycle: impl FnMut()) {
    let packets = packets_of(server, what, cycles, cycle);
    let expected = each * cycles..=each * cycles + PROBES;
    assert!(expected.contains(&packets), "{packets} not in {expected:?}");
}

/// The server's last transaction, including failed ones.
pub fn last_transaction(server: &Server) -> u64 {
    let answer = server.four_letter("srvr").unwrap();
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    let zxid = zxid.unwrap_or_else(|| panic!("no Zxid in {answer}"));
    u64::from_str_radix(zxid.trim(), 16).unwrap()
}
