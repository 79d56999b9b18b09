//! Runs a few hundred seeds. `.ci/run` and longer runs take many more.

use std::thread;

use zoolock_simulation::{Plan, run, shrink};

/// Runs the seeds on two threads.
fn runs(seeds: std::ops::Range<u64>) -> Vec<(u64, u64, Vec<String>)> {
    let half = seeds.start.midpoint(seeds.end);
    let all = |seeds: std::ops::Range<u64>| {
        seeds.map(|seed| {
            let outcome = run(&Plan::of(seed), false);
            (seed, outcome.hash, outcome.violations)
        })
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| all(seeds.start..half).collect::<Vec<_>>());
        let second: Vec<_> = all(half..seeds.end).collect();
        let mut both = first.join().expect("the first half");
        both.extend(second);
        both
    })
}

#[test]
fn all_guarantees_hold_for_every_seed() {
    let failed: Vec<_> =
        runs(0..300).into_iter().filter(|(_, _, violations)| !violations.is_empty()).collect();
    let Some((seed, _, violations)) = failed.first() else { return };
    let smaller = shrink(&Plan::of(*seed), |_, _| {});
    run(&smaller, true).story.iter().for_each(|line| println!("{line}"));
    panic!("{} of 300; seed {seed}: {violations:#?}", failed.len());
}

#[test]
fn runs_differ_by_seed_alone() {
    let hashes = |seeds| -> Vec<u64> { runs(seeds).into_iter().map(|(_, hash, _)| hash).collect() };
    let first = hashes(1_000..1_060);
    assert_eq!(first, hashes(1_000..1_060));
    let mut different = first.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), first.len(), "no two seeds give the same run");
}

#[test]
fn tracing_does_not_change_a_run() {
    let plan = Plan::of(7);
    let (quiet, told) = (run(&plan, false), run(&plan, true));
    assert_eq!(quiet.hash, told.hash);
    assert!(quiet.story.is_empty() && !told.story.is_empty());
}
