//! The properties that must hold in every state, and those that must occur in some.

use stateright::Property;

use super::Queue;
use super::world::{Link, Phase, Step, Waiter, World};

pub(crate) const ONE_HOLDER: &str = "never two holders";
pub(crate) const IN_ORDER: &str = "fencing tokens rise";
pub(crate) const NO_STUCK_WAITER: &str = "at rest, whoever waits waits for a holder";
pub(crate) const NOTHING_LEFT: &str = "at rest, every node is somebody's place";

pub(crate) fn all(protocol: &Queue) -> Vec<Property<Queue>> {
    let mut all = vec![
        Property::always(ONE_HOLDER, |_, world: &World| world.in_phase(Phase::Held).count() <= 1),
        Property::always(IN_ORDER, |_, world: &World| {
            let mut places = world.in_phase(Phase::Held).filter_map(|waiter| waiter.own);
            places.all(|place| !world.overtaken.contains(&place))
        }),
        Property::always(NO_STUCK_WAITER, |protocol, world: &World| {
            !world.has(Phase::Waiting) || world.has(Phase::Held) || !is_at_rest(protocol, world)
        }),
        Property::always(NOTHING_LEFT, |protocol, world: &World| {
            let is_place = |name| world.waiters.iter().any(|waiter| waiter.own == Some(name));
            world.nodes.iter().all(|&name| is_place(name)) || !is_at_rest(protocol, world)
        }),
    ];
    if protocol.broken.is_none() {
        all.extend(sightings());
    }
    all
}

/// Nothing happens any more without a user or a fault: all are connected, and all is answered.
fn is_at_rest(protocol: &Queue, world: &World) -> bool {
    let mut actions = Vec::new();
    protocol.due(world, &mut actions);
    actions.is_empty()
}

/// So that what is true in every state means something. What else there is to be seen, `broken.rs`
/// shows.
fn sightings() -> Vec<Property<Queue>> {
    vec![
        Property::sometimes("a node is about to be adopted", |_, world: &World| {
            let unsure = |waiter: &Waiter| waiter.step == Step::Unsure && world.has_node(waiter);
            world.waiters.iter().any(|waiter| unsure(waiter) && world.is_alive(waiter))
        }),
        Property::sometimes("a late create is lower than the second one", |_, world: &World| {
            world.waiters.iter().filter(|waiter| world.has_node(waiter)).any(|waiter| {
                let mut lower = waiter.own.into_iter().flat_map(|own| world.lower_than(own));
                lower.any(|name| waiter.remembered.contains(&name))
            })
        }),
        Property::sometimes("the session of a waiter expires", |_, world: &World| {
            world.in_phase(Phase::Waiting).any(|waiter| world.session(waiter).expired)
        }),
        Property::sometimes("a hold is lost while its session lives", |_, world: &World| {
            let lives = |waiter: &Waiter| !waiter.to_delete.is_empty() && world.is_alive(waiter);
            world.in_phase(Phase::Lost).any(lives)
        }),
        Property::sometimes("at rest, somebody waits for a holder", |protocol, world: &World| {
            world.has(Phase::Waiting) && is_at_rest(protocol, world)
        }),
    ]
}

impl World {
    fn in_phase(&self, phase: Phase) -> impl Iterator<Item = &Waiter> {
        self.waiters.iter().filter(move |waiter| waiter.phase == phase)
    }

    fn has(&self, phase: Phase) -> bool {
        self.in_phase(phase).next().is_some()
    }

    fn is_alive(&self, waiter: &Waiter) -> bool {
        self.session(waiter).link == Link::Alive
    }
}
