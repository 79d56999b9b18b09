//! What happens to the connections of a client: they open, they die, their leases run out, and
//! their handles are closed.

use super::names::{Make, Name, SEATS};
use super::rules::{Broken, Protocol};
use super::world::{Link, Phase, Step, World};

impl World {
    /// Opens the next connection, with a new session.
    pub(crate) fn connect(&mut self, client: usize, connection: usize) {
        self.left.sessions -= 1;
        self.links[client][connection] = Link::Live;
    }

    /// The connection is dead for ever. What was under way on it has no answer any more.
    pub(crate) fn die(&mut self, client: usize, connection: usize, protocol: &Protocol) {
        for seat in 0..SEATS {
            if self.client(seat) == client {
                self.interrupt(seat, connection, protocol);
            }
        }
        self.links[client][connection] = Link::Suspended;
    }

    fn interrupt(&mut self, number: usize, connection: usize, protocol: &Protocol) {
        let seat = &mut self.seats[number];
        seat.step = match seat.step {
            Step::Entering => Step::Unsure,
            Step::Moving | Step::Asked { .. } => {
                // The next move starts from the confirmed node again.
                let unconfirmed = Name::new(number, connection, Make::Moved);
                if seat.phase == Phase::Waiting && protocol.is(Broken::ConfirmedByUnconfirmed) {
                    seat.own = Some(unconfirmed);
                } else {
                    self.garbage.insert(unconfirmed);
                }
                Step::Rest
            }
            // Not the live connection's.
            Step::Unsure => Step::Unsure,
            Step::Rest | Step::Placed | Step::First | Step::Behind(_) => Step::Rest,
        };
    }

    /// By the client's clock the lease of a dead connection is over: whoever still holds on it
    /// has lost, at that instant.
    pub(crate) fn end_lease(&mut self, client: usize, connection: usize, protocol: &Protocol) {
        for seat in 0..SEATS {
            if self.client(seat) == client && self.is_held_on(seat, connection) {
                self.end_seat(seat, Phase::Lost, protocol);
            }
        }
        self.links[client][connection] = Link::Dead;
    }

    /// May the client close the handle of this connection, and so end its session? Not under a
    /// hold.
    pub(crate) fn may_close(&self, client: usize, connection: usize, protocol: &Protocol) -> bool {
        let may = match self.links[client][connection] {
            Link::Dead => true,
            Link::Suspended => {
                !self.holds_on(client, connection) || protocol.is(Broken::ClosedEarly)
            }
            Link::Unopened | Link::Live | Link::Over => false,
        };
        may && !self.of_session(client, connection).is_empty()
    }

    /// May the server let this session expire? Not before the client's clock says that the lease
    /// is over, which nobody looks at without a hold. A session that expires under a live connection
    /// is one that expires right after its connection has died: its lease was over.
    pub(crate) fn may_expire(&self, client: usize, connection: usize, protocol: &Protocol) -> bool {
        let may = match self.links[client][connection] {
            Link::Dead => true,
            Link::Suspended => {
                !self.holds_on(client, connection) || protocol.is(Broken::LeaseIgnored)
            }
            Link::Unopened | Link::Live | Link::Over => false,
        };
        may && !self.nodes_of_session(client, connection).is_empty()
    }
}
