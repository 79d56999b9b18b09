//! The queue: a seat enters, looks where it stands, is granted, and ends.

use super::names::{Make, Name, Names};
use super::rules::{Broken, Protocol};
use super::world::{Phase, Step, World};

impl World {
    /// Sends the create of a new sequential node.
    pub(crate) fn enter(&mut self, number: usize) {
        let Some(connection) = self.live_for(number) else {
            return;
        };
        let name = Name::new(number, connection, Make::Queued);
        self.server.in_flight.insert(name);
        let seat = &mut self.seats[number];
        seat.phase = Phase::Waiting;
        seat.step = Step::Entering;
        seat.own = Some(name);
    }

    /// Is there anything new to see for this seat in the list of the directory? The answer to its
    /// create, or the end of the node that it watches.
    pub(crate) fn may_look(&self, number: usize) -> bool {
        let seat = &self.seats[number];
        match seat.step {
            Step::Entering => seat.own.is_some_and(|own| self.exists(own)),
            Step::Placed => true,
            Step::Behind(ahead) => !self.exists(ahead),
            _ => false,
        }
    }

    /// Lists the directory and decides. Where the answer only says whom to watch, a change before
    /// the watch is set makes the seat look again: that is the same as a change after it.
    pub(crate) fn look(&mut self, number: usize, protocol: &Protocol) {
        let seat = self.seats[number];
        let Some(own) = seat.own else { return };
        let place = self.server.places[own.index()];
        let woken = matches!(seat.step, Step::Behind(_));
        let ahead = match woken && protocol.is(Broken::GrantedByWakeUp) {
            true => None,
            false => self.nearest_rival(number, place, protocol),
        };
        let seat = &mut self.seats[number];
        seat.place = place;
        seat.step = ahead.map_or(Step::First, Step::Behind);
    }

    /// The highest of the lower nodes. Every node counts, whatever has become of the seat that
    /// made it, except the seat's own.
    fn nearest_rival(&self, number: usize, place: u8, protocol: &Protocol) -> Option<Name> {
        let mut own = Names::of_seat(number);
        if protocol.is(Broken::ClientIsNoRival) {
            let seats = self.seats_of(self.client(number));
            own = seats.map(Names::of_seat).fold(own, Names::or);
        }
        let place_of = |name: &Name| self.server.places[name.index()];
        let rivals = self.server.nodes.without(own).iter();
        let lower = rivals.filter(|name| place_of(name) < place);
        lower.max_by_key(|name| (place_of(name), *name))
    }

    /// The answer to the list has come: the seat is granted. The connection is alive, so that the
    /// lease runs, and its own node was made or confirmed on it.
    pub(crate) fn grant(&mut self, number: usize) {
        let seat = &mut self.seats[number];
        seat.phase = Phase::Held;
        seat.step = Step::Rest;
        self.granted = self.granted.max(seat.place);
    }

    /// Looks on a new connection for a node whose create was not answered. It is either a place on
    /// the old session, or not wanted any more: a create that is still under way may yet make it.
    pub(crate) fn look_up(&mut self, number: usize, protocol: &Protocol) {
        let seat = &mut self.seats[number];
        seat.step = Step::Rest;
        let Some(name) = seat.own else { return };
        if !self.server.nodes.has(name) {
            seat.own = None;
            if !protocol.is(Broken::LateForgotten) {
                self.garbage.insert(name);
            }
            return;
        }
        seat.place = self.server.places[name.index()];
        if protocol.is(Broken::GrantedOnOldSession) {
            seat.step = Step::Placed;
        }
    }

    /// The end of a seat, by release, loss or giving up. All of its nodes are garbage.
    pub(crate) fn end_seat(&mut self, number: usize, end: Phase, protocol: &Protocol) {
        let mut names = self.wanted(number);
        if protocol.is(Broken::UnconfirmedForgotten) {
            let forgotten = self.unconfirmed(number);
            forgotten.into_iter().for_each(|name| names.remove(name));
        }
        self.garbage = self.garbage.or(names);
        let seat = &mut self.seats[number];
        seat.phase = end;
        seat.step = Step::Rest;
        seat.own = None;
        seat.place = 0;
    }
}
