//! Replays the requests to the simulated server at a real server, and compares everything that the two servers send.
//!
//! First, a seed of the simulation is run and recorded. Then the same requests are sent to a real server, one by one,
//! in the order in which the simulated server executed them. `tests/simulation/README.md` describes the comparison.

mod fields;
mod numbers;
mod seed;
mod socket;

use std::collections::BTreeMap;
use std::io;

use zoolock_simulation::{Plan, ReadRules, record, unfit};
use zoolock_test_support::{Probe, Server};

use crate::Outcome;
use crate::servers::{below, delete_if_there};
use seed::{Counts, Replay};

/// The operator, who has all permissions, and the hash of its password for the server's property.
const SUPER: &[u8] = b"super:secret";
const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

/// Replays `count` seeds, starting with `first`. Returns false at the first difference.
pub(crate) fn run(first: u64, count: u64) -> Outcome<bool> {
    let server = Server::builder()
        .jvm_flag(&format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"))
        // Keeps the server from deleting empty containers. The simulated server determines when they are deleted.
        .jvm_flag("-Dznode.container.checkIntervalMs=2000000000")
        .start()?;
    let operator = Probe::connect(server.address())?;
    operator.add_auth("digest", SUPER)?;
    // Releases of ZooKeeper differ in what they report to clients about nodes that the clients may not read.
    operator.create_with_acl("/hidden", b"", &[(0, "world", "anyone")])?;
    let is_open = Probe::connect(server.address())?.exists("/hidden").is_ok();
    operator.delete("/hidden")?;
    let rules = if is_open { ReadRules::Events } else { ReadRules::EventsAndExists };
    let (mut replayed, mut counts) = (0, Counts::default());
    let mut left_out: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in first..first.saturating_add(count) {
        let plan = Plan::of(seed);
        if let Some(reason) = unfit(&plan) {
            *left_out.entry(reason).or_default() += 1;
            continue;
        }
        let moments = record(&plan, rules);
        let mut replay = Replay::new(server.address(), &operator, &mut counts);
        if let Err(difference) = replay.all(&moments) {
            println!("seed {seed}: {difference}");
            println!("trace: cargo run --release -p zoolock-simulation -- --from {seed} --trace");
            return Ok(false);
        }
        replayed += 1;
        delete_all(&operator)?;
    }
    println!("{replayed} of {count} seeds replayed: {counts:?}");
    left_out.iter().for_each(|(reason, count)| println!("{count} seeds left out: {reason}"));
    if replayed == 0 || counts.events == 0 {
        println!("nothing was replayed");
        return Ok(false);
    }
    Ok(true)
}

/// Deletes all nodes except the server's own.
fn delete_all(operator: &Probe) -> io::Result<()> {
    let all = below(operator, "")?;
    let mut own = all.iter().filter(|(node, _)| !node.starts_with("/zookeeper"));
    own.try_for_each(|(node, _)| delete_if_there(operator, node))
}
