//! What must be seen in some state, so that what is true in every one means something.

use stateright::Property;

use super::names::{Make, Name, SEATS};
use super::rules::{Bounds, Protocol};
use super::world::{Phase, Step, World};

pub(crate) fn all(bounds: &Bounds) -> Vec<Property<Protocol>> {
    let mut all = vec![
        Property::sometimes("a hold is about to be confirmed", hold_seen),
        Property::sometimes("a moved waiter is about to be granted", moved_and_first),
        Property::sometimes("a waiter's old node is gone", waiter_not_seen),
        Property::sometimes("a hold is lost", hold_lost),
        Property::sometimes("a create comes late", late_create),
        Property::sometimes("a seat ends during its move", ended_while_moving),
        Property::sometimes("at rest, somebody waits for a holder", waiting_at_rest),
    ];
    if bounds.sessions_each > 2 {
        let moved = Property::sometimes("an interrupted move is completed", moved_after_all);
        all.push(moved);
    }
    if bounds.removals > 0 {
        let equal = Property::sometimes("two seats have nodes of one sequence", equal_places);
        all.push(equal);
    }
    all
}

fn any_seat(is: impl Fn(usize) -> bool) -> bool {
    (0..SEATS).any(is)
}

fn hold_seen(_: &Protocol, world: &World) -> bool {
    any_seat(|seat| {
        let seat = &world.seats[seat];
        seat.phase == Phase::Held && seat.step == Step::Asked { seen: true }
    })
}

fn waiter_not_seen(_: &Protocol, world: &World) -> bool {
    any_seat(|seat| {
        let seat = &world.seats[seat];
        seat.phase == Phase::Waiting && seat.step == Step::Asked { seen: false }
    })
}

fn moved_and_first(_: &Protocol, world: &World) -> bool {
    any_seat(|seat| {
        let seat = &world.seats[seat];
        seat.step == Step::First && seat.own.is_some_and(|own| own.make() == Make::Moved)
    })
}

fn hold_lost(_: &Protocol, world: &World) -> bool {
    any_seat(|seat| world.seats[seat].phase == Phase::Lost)
}

/// The first node was not found when it was looked for, or there would be no second, and is there
/// now.
fn late_create(_: &Protocol, world: &World) -> bool {
    any_seat(|seat| {
        let first = Name::new(seat, 0, Make::Queued);
        let second = Name::new(seat, 1, Make::Queued);
        world.seats[seat].own == Some(second) && world.exists(first)
    })
}

fn ended_while_moving(_: &Protocol, world: &World) -> bool {
    any_seat(|seat| {
        let live = world.live_for(seat);
        let moved = live.map(|connection| Name::new(seat, connection, Make::Moved));
        world.seats[seat].phase == Phase::Released
            && moved.is_some_and(|name| world.server.in_flight.has(name))
    })
}

/// On its third connection, with the nodes that it left behind on the first two.
fn moved_after_all(_: &Protocol, world: &World) -> bool {
    any_seat(|seat| {
        world.seats[seat].own == Some(Name::new(seat, 2, Make::Moved))
            && world.exists(Name::new(seat, 0, Make::Queued))
            && world.exists(Name::new(seat, 1, Make::Moved))
    })
}

fn waiting_at_rest(protocol: &Protocol, world: &World) -> bool {
    world.waits_connected() && world.is_at_rest(protocol)
}

/// One is from before the directory was removed, and its create came late.
fn equal_places(_: &Protocol, world: &World) -> bool {
    let place = |name: Name| world.server.places[name.index()];
    let equal = |a: Name, b: Name| a.seat() != b.seat() && place(a) == place(b);
    let mut nodes = world.server.nodes.iter();
    nodes.any(|a| world.server.nodes.iter().any(|b| equal(a, b)))
}
