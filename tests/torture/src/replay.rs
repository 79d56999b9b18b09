//! Replays the traffic of the simulated server against a real one, and compares all that the two send.
//!
//! A seed of the simulation is run and recorded. Then the same requests go to a real server, one at a time, in the
//! order in which the simulated server carried them out. `tests/simulation/README.md` says what is compared.

mod fields;
mod numbers;
mod operator;
mod seed;
mod socket;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use zoolock_simulation::{Plan, ReadRules, record, unfit};
use zoolock_test_support::Server;

use crate::Outcome;
use operator::{Operator, SUPER_DIGEST};
use seed::{Counts, Replay};

/// Replays `count` seeds from `first` on. Returns false at the first difference.
pub(crate) fn run(first: u64, count: u64) -> Outcome<bool> {
    let server = Server::builder()
        .jvm_flag(&format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"))
        // The simulated server says when it deletes an empty container.
        .jvm_flag("-Dznode.container.checkIntervalMs=2000000000")
        .start()?;
    let mut operator = Operator::connect(server.address())?;
    let rules = rules_of(server.address(), &mut operator)?;
    let (mut replayed, mut counts) = (0, Counts::default());
    let mut left_out: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in first..first.saturating_add(count) {
        let plan = Plan::of(seed);
        if let Some(reason) = unfit(&plan) {
            *left_out.entry(reason).or_default() += 1;
            continue;
        }
        let moments = record(&plan, rules);
        let mut replay = Replay::new(server.address(), &mut operator, &mut counts);
        if let Err(difference) = replay.all(&moments) {
            println!("seed {seed}: {difference}");
            println!(
                "its story: cargo run --release -p zoolock-simulation -- --from {seed} --story"
            );
            return Ok(false);
        }
        replayed += 1;
        operator.delete_all()?;
    }
    println!("{replayed} of {count} seeds replayed: {counts}");
    left_out.iter().for_each(|(reason, count)| println!("{count} seeds left out: {reason}"));
    if replayed == 0 || counts.events == 0 {
        println!("it is no test");
        return Ok(false);
    }
    Ok(true)
}

/// Returns what the real server lets clients know of nodes that they may not read: releases differ.
fn rules_of(server: SocketAddr, operator: &mut Operator) -> Outcome<ReadRules> {
    operator.create_for("/hidden", b"", 0)?;
    let is_open = Operator::anybody(server)?.may_see("/hidden")?;
    operator.delete("/hidden")?;
    Ok(if is_open { ReadRules::Events } else { ReadRules::EventsAndExists })
}
