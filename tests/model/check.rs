//! Runs a check, and prints how long it took and how many states it covered.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, UniformChooser};

/// What the check requires of a model.
pub(crate) trait Checked:
    Model<
        State: Clone + Debug + Hash + PartialEq + Send + Sync,
        Action: Clone + Debug + PartialEq + Send + Sync,
    > + Copy
    + Send
    + Sync
    + 'static
{
}

/// Checks all states within the bounds: every property holds, and every situation that must occur does.
pub(crate) fn everything(what: &str, model: impl Checked) {
    let begun = Instant::now();
    let checker = model.checker().spawn_dfs().join();
    report(what, &checker, begun);
    checker.assert_properties();
}

/// Checks this many states on random paths, which exceed the bounds of an exhaustive check.
pub(crate) fn some(what: &str, model: impl Checked, states: usize) {
    let begun = Instant::now();
    let random = model.checker().target_state_count(states);
    let checker = random.spawn_simulation(0, UniformChooser).join();
    report(what, &checker, begun);
    checker.assert_properties();
}

/// Expects the property to fail because of a broken rule, and prints the path to the failure.
pub(crate) fn fails(broken: impl Debug, model: impl Checked, property: &'static str) {
    let begun = Instant::now();
    let enough = HasDiscoveries::AnyOf([property].into());
    let checker = model.checker().finish_when(enough).spawn_bfs().join();
    report(&format!("{broken:?}"), &checker, begun);

    // The checker may record a few more steps after the first state in which the property fails.
    let holds = model.property(property).condition;
    let found = checker.assert_any_discovery(property).into_vec();
    let good = found.into_iter().take_while(|(world, _)| holds(&model, world));
    let way: Vec<_> = good.filter_map(|(_, action)| action).collect();
    println!("not `{property}`, after {} steps:", way.len());
    way.iter().for_each(|action| println!("    {action:?}"));
}

fn report<M: Checked>(what: &str, checker: &impl Checker<M>, begun: Instant) {
    println!(
        "{what}: {} states, depth {}, {:.1?}",
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed()
    );
}
