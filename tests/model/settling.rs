//! Makes states equal that no later event can tell apart. Not part of the protocol: without it the
//! check would only take longer.

use super::names::{CLIENTS, CONNECTIONS, Names};
use super::world::{Link, Phase, World};

impl World {
    pub(crate) fn settle(&mut self) {
        self.garbage = self.garbage.and(self.possible());
        self.settle_links();
        self.forget_losses();
        self.forget_places();
        self.forget_grants();
        if self.left.removals == 0 {
            self.renumber();
        }
    }

    fn possible(&self) -> Names {
        self.server.nodes.or(self.server.in_flight)
    }

    /// The lease of a dead connection matters only to a hold, its session only to nodes.
    fn settle_links(&mut self) {
        for client in 0..CLIENTS {
            for connection in 0..CONNECTIONS {
                if self.links[client][connection] == Link::Suspended
                    && !self.holds_on(client, connection)
                {
                    self.links[client][connection] = Link::Dead;
                }
                if self.links[client][connection] == Link::Dead
                    && self.of_session(client, connection).is_empty()
                {
                    self.links[client][connection] = Link::Over;
                }
            }
        }
    }

    /// How a hold ended does not matter once its nodes are gone.
    fn forget_losses(&mut self) {
        let possible = self.possible();
        for (number, seat) in self.seats.iter_mut().enumerate() {
            if seat.phase == Phase::Lost && possible.and(Names::of_seat(number)).is_empty() {
                seat.phase = Phase::Released;
            }
        }
    }

    fn forget_places(&mut self) {
        let gone = Names::all().without(self.possible());
        for name in gone.iter() {
            self.server.places[name.index()] = 0;
        }
    }

    /// The highest grant matters only while a seat may be granted a place that is not higher.
    fn forget_grants(&mut self) {
        let not_higher = |place: u8| place > 0 && place <= self.granted;
        let by_seat = self.seats.iter().any(|seat| {
            let made = seat.own.map_or(0, |own| self.server.places[own.index()]);
            not_higher(seat.place) || not_higher(made)
        });
        if !by_seat {
            self.granted = 0;
        }
    }

    /// Only the order of the sequences matters, unless the counter is still to pass some that were
    /// given in a directory that is gone.
    fn renumber(&mut self) {
        let places = self.server.places.iter();
        let places = places.chain(self.seats.iter().map(|seat| &seat.place));
        let in_use = places.fold(1 << self.granted, |set: u64, place| set | 1 << place) & !1;
        if in_use >> self.server.counter > 1 {
            return;
        }
        let rank = |place: &mut u8| *place = (in_use & ((2 << *place) - 1)).count_ones() as u8;
        self.server.places.iter_mut().for_each(rank);
        self.seats.iter_mut().for_each(|seat| rank(&mut seat.place));
        rank(&mut self.granted);
        rank(&mut self.server.counter);
    }
}
