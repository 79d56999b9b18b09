//! Runs a few hundred seeds. `.ci/run` and longer runs use many more.

use std::collections::BTreeSet;

use zoolock_simulation::{Plan, run, shrink};

#[test]
fn all_guarantees_hold_for_every_seed() {
    for plan in (0..300).map(Plan::of) {
        let violations = run(&plan, false).violations;
        if !violations.is_empty() {
            let smaller = shrink(&plan, |_, _| {});
            run(&smaller, true).trace.iter().for_each(|line| println!("{line}"));
            panic!("seed {}: {violations:#?}", plan.seed);
        }
    }
}

#[test]
fn runs_differ_by_seed_alone() {
    let mut hashes = BTreeSet::new();
    for plan in (1_000..1_060).map(Plan::of) {
        let (quiet, traced) = (run(&plan, false), run(&plan, true));
        assert_eq!(quiet.hash, traced.hash, "tracing must not change the run");
        assert!(quiet.trace.is_empty() && !traced.trace.is_empty());
        assert!(hashes.insert(quiet.hash), "two seeds gave the same run");
    }
}
