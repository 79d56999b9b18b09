//! Random runs of the core against an ensemble, a network and clocks that are not there. Each is given
//! by its seed: `ZOOLOCK_SEEDS=20000` runs so many, `ZOOLOCK_SEED=17` prints what happens in one.
//!
//! The client of a run drives the core as the threads of a real one do. Its servers are modelled on
//! ZooKeeper's: a leader that alone expires sessions, followers that lag, tell of signs of life twice a
//! tick and answer reads by themselves, also those of a leader that was deposed.

mod calls;
mod chance;
mod checking;
mod client;
mod clocks;
mod codec;
mod ensemble;
mod faults;
mod figures;
mod leading;
mod network;
mod one_connection;
mod run;
mod serving;
mod sessions;
mod stage;
mod telling;
mod tree;
mod watchers;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use self::chance::Rng;
use self::figures::Figures;
use self::stage::{Property, Stage};
use self::world::World;

/// How many events of a run that failed are shown.
const SHOWN: usize = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

fn live(seed: u64, traced: bool) -> Stage {
    let mut rng = Rng::new(seed);
    let world = World::random(&mut rng);
    run::run(rng, world, traced)
}

/// What went wrong with a seed, if anything did.
fn failure(seed: u64, figures: &mut Figures) -> Option<(Property, String)> {
    match catch_unwind(AssertUnwindSafe(|| live(seed, false))) {
        Ok(stage) => {
            figures.add(&stage.figures);
            stage.failure
        }
        Err(_) => Some((Property::NoHarm, "it panicked".into())),
    }
}

fn show(seed: u64, most: usize) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let trace = live(seed, true).trace.unwrap_or_default();
        println!("seed {seed}: {}", trace[0]);
        trace
            .iter()
            .skip(1.max(trace.len().saturating_sub(most)))
            .for_each(|line| println!("{line}"));
    }));
}

#[test]
fn whatever_happens_is_told_truly_and_ends_well() {
    if let Some(seed) = number("ZOOLOCK_SEED") {
        show(seed, usize::MAX);
    }
    let seeds = match number("ZOOLOCK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ZOOLOCK_SEEDS").unwrap_or(2000),
    };
    let mut figures = Figures::default();
    let mut failed: BTreeMap<Property, (u64, u64, String)> = BTreeMap::new();
    for seed in seeds.clone() {
        if let Some((property, what)) = failure(seed, &mut figures) {
            failed.entry(property).or_insert((0, seed, what)).0 += 1;
        }
    }
    println!("{} runs: {figures}", seeds.end - seeds.start);
    for (property, (count, seed, what)) in &failed {
        println!("{property:?}: {count} seeds, the first is {seed}: {what}");
    }
    if let Some((_, seed, _)) = failed.values().min_by_key(|failed| failed.1) {
        show(*seed, SHOWN);
    }
    assert!(failed.is_empty(), "{failed:#?}");
    let runs = seeds.end - seeds.start;
    let mut missing = figures.missing();
    // Of a rare one there is one in some thousands of runs.
    missing.retain(|name| *name != "misjudged" || runs >= 20_000);
    assert!(runs < 2000 || missing.is_empty(), "never: {missing:?}");
}

/// A server behind an `ObserverMaster` tells of signs of life after up to a tick, which a quarter of the
/// session timeout has to cover.
#[test]
fn behind_another_follower_a_timeout_of_less_than_four_ticks_is_too_short() {
    let fails = |ticks: f64| {
        let run = |seed: u64| {
            let mut rng = Rng::new(seed);
            let mut world = World::with(&mut rng, 10_000_000, (10_000_000.0 / ticks) as u64);
            (world.voters, world.observer, world.only) = (3, Some(1), Some(3));
            (world.kept, world.close, world.looks) = (true, None, 1.0);
            world.faults.clear();
            run::run(rng, world, false).failure
        };
        let failures = (0..100).filter_map(run);
        failures.inspect(|failure| assert_eq!(failure.0, Property::Lease, "{failure:?}")).count()
    };
    let found = [2.0, 2.5, 4.0, 5.0].map(|ticks| (ticks, fails(ticks)));
    println!("leases that are too long, by ticks: {found:?}");
    assert!(found.iter().all(|(ticks, count)| (*count == 0) == (*ticks >= 4.0)), "{found:?}");
}

/// Servers that were restored from a time when the session was there already are behind the client for
/// ever. Asking them whether it lives must not keep it alive.
#[test]
fn servers_restored_with_the_session_do_not_hold_it_up_for_ever() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut world = World::random(&mut rng);
        world.faults = vec![world::Fault::Restore];
        (world.keeps_session, world.close) = (true, None);
        let failure = run::run(rng, world, false).failure;
        assert!(failure.is_none(), "seed {seed}: {failure:?}");
    }
}
