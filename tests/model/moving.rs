//! A seat moves from the session of a dead connection to that of the live one.
//!
//! First a new node with the old sequence is created, then the old node is looked for, in this
//! order and on one connection. If it is seen, both existed together, so at no instant was the
//! place empty.

use super::names::{Make, Name};
use super::rules::{Broken, Protocol};
use super::world::{Phase, Step, World};

impl World {
    /// May the seat begin a move? Its confirmed node is on another connection than the live one.
    pub(crate) fn may_move(&self, number: usize, connection: usize) -> bool {
        let seat = &self.seats[number];
        let elsewhere = seat.own.is_some_and(|own| own.connection() != connection);
        elsewhere && seat.step == Step::Rest
    }

    /// Sends the create of the new node.
    pub(crate) fn begin_move(&mut self, number: usize, protocol: &Protocol) {
        let Some(connection) = self.live_for(number) else {
            return;
        };
        let seen = self.seats[number].own.is_some_and(|old| self.exists(old));
        if protocol.is(Broken::ReadBeforeCreate) && !seen {
            return self.refuse(number, protocol);
        }
        let seat = &mut self.seats[number];
        let name = Name::new(number, connection, Make::Moved);
        seat.step = Step::Moving;
        self.server.places[name.index()] = seat.place;
        self.server.in_flight.insert(name);
    }

    /// May the old node be looked for? Not before the create has been answered.
    pub(crate) fn may_ask(&self, number: usize) -> bool {
        let created = self.unconfirmed(number).is_some_and(|new| self.exists(new));
        created && self.seats[number].step == Step::Moving
    }

    /// Looks for the old node, which is the last confirmed one.
    pub(crate) fn ask(&mut self, number: usize, protocol: &Protocol) {
        let old = self.seats[number].own;
        let seen = old.is_some_and(|old| self.exists(old))
            || protocol.is(Broken::NoConfirmation)
            || protocol.is(Broken::ReadBeforeCreate);
        self.seats[number].step = Step::Asked { seen };
    }

    /// The answer has come. A hold whose lease has ended meanwhile is lost already.
    pub(crate) fn conclude(&mut self, number: usize, protocol: &Protocol) {
        let Some(new) = self.unconfirmed(number) else {
            return;
        };
        if self.seats[number].step == (Step::Asked { seen: true }) {
            self.confirm(number, new);
        } else {
            self.garbage.insert(new);
            self.refuse(number, protocol);
        }
    }

    /// The seat lives on the new node from now on. A waiter looks for the one ahead again.
    fn confirm(&mut self, number: usize, new: Name) {
        let seat = &mut self.seats[number];
        let old = seat.own.replace(new);
        seat.step = match seat.phase {
            Phase::Waiting => Step::Placed,
            _ => Step::Rest,
        };
        old.into_iter().for_each(|old| self.garbage.insert(old));
    }

    /// The place is not the seat's any more: a hold is lost, a waiter starts over.
    fn refuse(&mut self, number: usize, protocol: &Protocol) {
        if self.seats[number].phase == Phase::Held {
            return self.end_seat(number, Phase::Lost, protocol);
        }
        let seat = &mut self.seats[number];
        seat.own = None;
        seat.place = 0;
        seat.step = Step::Rest;
    }
}
