//! What must be true in every state.

use stateright::Property;

use super::names::{Names, SEATS};
use super::rules::Protocol;
use super::sightings;
use super::world::{Phase, World};

pub(crate) const ONE_HOLDER: &str = "never two holders";
/// This is what makes fencing tokens rise: the first node of a seat is older the lower its place.
pub(crate) const IN_ORDER: &str = "every grant is of a higher place than all before";
pub(crate) const NO_STUCK_WAITER: &str = "at rest, whoever waits waits for a holder";
pub(crate) const NOTHING_FORGOTTEN: &str = "every node is wanted or garbage";

pub(crate) fn all(protocol: &Protocol) -> Vec<Property<Protocol>> {
    let mut all = vec![
        Property::always(ONE_HOLDER, one_holder),
        Property::always(IN_ORDER, in_order),
        Property::always(NO_STUCK_WAITER, no_stuck_waiter),
        Property::always(NOTHING_FORGOTTEN, nothing_forgotten),
    ];
    if protocol.broken.is_none() {
        all.extend(sightings::all(&protocol.bounds));
    }
    all
}

fn one_holder(_: &Protocol, world: &World) -> bool {
    world.held().count() <= 1
}

fn in_order(_: &Protocol, world: &World) -> bool {
    let mut places = world.held().map(|seat| world.seats[seat].place);
    places.all(|place| place == world.granted)
}

/// Nothing happens any more without a user or a fault: then a connected waiter has a holder to
/// wait for.
fn no_stuck_waiter(protocol: &Protocol, world: &World) -> bool {
    world.held().next().is_some() || !world.waits_connected() || !world.is_at_rest(protocol)
}

fn nothing_forgotten(_: &Protocol, world: &World) -> bool {
    let wanted = (0..SEATS).map(|seat| world.wanted(seat));
    let known = wanted.fold(world.garbage, Names::or);
    let possible = world.server.nodes.or(world.server.in_flight);
    possible.without(known).is_empty()
}

impl World {
    /// The seats whose users believe that they hold the lock, by their clocks.
    fn held(&self) -> impl Iterator<Item = usize> {
        (0..SEATS).filter(|&seat| self.seats[seat].phase == Phase::Held)
    }

    pub(crate) fn waits_connected(&self) -> bool {
        (0..SEATS)
            .any(|seat| self.seats[seat].phase == Phase::Waiting && self.live_for(seat).is_some())
    }

    pub(crate) fn is_at_rest(&self, protocol: &Protocol) -> bool {
        let mut actions = Vec::new();
        protocol.due(self, &mut actions);
        actions.is_empty()
    }
}
