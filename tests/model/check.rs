//! Runs a check and prints what it took.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::actions::Action;
use super::rules::{Bounds, Broken, Protocol};

/// All states within the bounds: nothing that must be true is false, and everything that should be
/// seen is.
pub(crate) fn everything(what: &str, bounds: Bounds) {
    let protocol = Protocol::new(bounds, None);
    let begun = Instant::now();
    let checker = protocol.checker().threads(2).spawn_dfs().join();
    report(what, &checker, begun);
    checker.assert_properties();
}

/// With a rule broken, the property does not hold. Prints the way to where it fails.
pub(crate) fn fails(broken: Broken, bounds: Bounds, property: &'static str) {
    let protocol = Protocol::new(bounds, Some(broken));
    let begun = Instant::now();
    let enough = HasDiscoveries::AnyOf([property].into());
    let checker = protocol.checker().finish_when(enough).spawn_bfs().join();
    report(&format!("{broken:?}"), &checker, begun);
    let way = way_to_failure(&protocol, &checker, property);
    println!("not `{property}`, after {} steps:", way.len());
    way.iter().for_each(|action| println!("    {action:?}"));
}

/// The checker may go on for a little from a state that has failed already.
fn way_to_failure(
    protocol: &Protocol,
    checker: &impl Checker<Protocol>,
    property: &'static str,
) -> Vec<Action> {
    let holds = protocol.property(property).condition;
    let found = checker.assert_any_discovery(property).into_vec();
    let good = found.iter().take_while(|(world, _)| holds(protocol, world));
    good.filter_map(|&(_, action)| action).collect()
}

fn report(what: &str, checker: &impl Checker<Protocol>, begun: Instant) {
    println!(
        "{what}: {} states, depth {}, {:.1?}",
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed()
    );
}
