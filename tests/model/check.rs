//! Runs a check, and prints its number of states and its time.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

/// What a model needs to be checked.
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

/// All states within the bounds: nothing that must be true is false, and everything that should be
/// seen is.
pub(crate) fn everything(what: &str, model: impl Checked) {
    let begun = Instant::now();
    let checker = model.checker().spawn_dfs().join();
    report(what, &checker, begun);
    checker.assert_properties();
}

/// With a rule broken, the property does not hold. Prints the way to where it fails.
pub(crate) fn fails(broken: impl Debug, model: impl Checked, property: &'static str) {
    let begun = Instant::now();
    let enough = HasDiscoveries::AnyOf([property].into());
    let checker = model.checker().finish_when(enough).spawn_bfs().join();
    report(&format!("{broken:?}"), &checker, begun);

    // The checker may go on for a little from a state that has failed already.
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
