//! What things cost, counted by the server.

use std::time::{Duration, Instant};

use zoolock::Client;
use zoolock_test_support::Server;

use super::client_of;

/// Probes of the connection, should the machine be slow.
pub const PROBES: u64 = 10;

/// A server that nobody else uses, and a client that does not need to say that it is alive.
pub fn quiet_server() -> (Server, Client) {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), Duration::from_secs(60));
    (server, client)
}

/// How many packets the server received during `work`.
pub fn packets(server: &Server, work: impl FnOnce()) -> u64 {
    let before = server.metric("zk_packets_received").unwrap();
    work();
    // The second look counts itself.
    server.metric("zk_packets_received").unwrap() - before - 1
}

/// How many packets the server received during `cycle`, done so often. It is done once before,
/// since the first one may make the directory.
fn packets_of(server: &Server, what: &str, cycles: u64, mut cycle: impl FnMut()) -> u64 {
    cycle();
    let begun = Instant::now();
    let packets = packets(server, || (0..cycles).for_each(|_| cycle()));
    let took = begun.elapsed();
    println!("{what}: {packets} packets for {cycles} cycles in {took:?}");
    packets
}

/// Each of so many cycles makes the server receive `each` packets.
#[track_caller]
pub fn assert_cost(server: &Server, what: &str, cycles: u64, each: u64, cycle: impl FnMut()) {
    let packets = packets_of(server, what, cycles, cycle);
    let expected = each * cycles..=each * cycles + PROBES;
    assert!(expected.contains(&packets), "{packets} not in {expected:?}");
}

/// The server's last transaction, also one that failed.
pub fn last_transaction(server: &Server) -> u64 {
    let answer = server.four_letter("srvr").unwrap();
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    let zxid = zxid.unwrap_or_else(|| panic!("no Zxid in {answer}"));
    u64::from_str_radix(zxid.trim(), 16).unwrap()
}
