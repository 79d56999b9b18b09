//! The state of the world: the server, the connections of the clients, and their seats.

use super::names::{CLIENTS, CONNECTIONS, Make, NAMES, Name, Names, SEATS};
use super::rules::Bounds;

/// The server, or the ensemble as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    /// The nodes in the lock's directory.
    pub(crate) nodes: Names,
    /// Creates that were sent and have not been applied. They may be at any time, also long after
    /// their connection has died, as long as their session lives; or never.
    pub(crate) in_flight: Names,
    /// The sequences of the nodes, and of the moved ones in flight. The first is 1; 0 is none.
    pub(crate) places: [u8; NAMES],
    /// The last sequence: every create in the directory counts, not only the sequential ones.
    pub(crate) counter: u8,
    pub(crate) directory: bool,
}

/// A connection and its session. The crate cannot take a session to another connection, so there
/// is one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Link {
    Unopened,
    /// Alive, and its lease runs: a connection whose lease ends is dead at that moment.
    Live,
    /// Dead, but a hold lives on it, whose lease still runs.
    Suspended,
    /// Dead, and no hold lives on it. Nodes of its session may.
    Dead,
    /// Dead. Its nodes are gone and no others will come.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    Waiting,
    Held,
    Lost,
    Released,
}

/// What is under way for a seat on the live connection of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Nothing.
    Rest,
    /// The create of its sequential node has been sent.
    Entering,
    /// The answer to that create was lost with its connection.
    Unsure,
    /// Its node has been confirmed on the live connection.
    Placed,
    /// In the list, nothing was lower.
    First,
    /// In the list, this one was the next lower; it is watched.
    Behind(Name),
    /// Moving: the create of the new node has been sent.
    Moving,
    /// Moving: after the answer to the create the server was asked for the old node.
    Asked { seen: bool },
}

/// A place in the queue. Used for one claim only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Seat {
    pub(crate) client: u8,
    pub(crate) phase: Phase,
    pub(crate) step: Step,
    /// The node that the seat stands or falls with: the last confirmed one; while `Entering` and
    /// `Unsure` the first one, which may not exist.
    pub(crate) own: Option<Name>,
    /// The sequence of `own`, as far as the client knows it.
    pub(crate) place: u8,
}

/// What is left of the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) sessions: u8,
    pub(crate) give_ups: u8,
    pub(crate) removals: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) links: [[Link; CONNECTIONS]; CLIENTS],
    pub(crate) seats: [Seat; SEATS],
    /// The garbage lists of all clients: nodes that nobody wants and that may exist.
    pub(crate) garbage: Names,
    /// The highest place granted so far in this directory; 0 once nobody can be granted a lower
    /// one any more.
    pub(crate) granted: u8,
    pub(crate) left: Left,
}

impl World {
    pub(crate) fn new(bounds: &Bounds) -> World {
        let seat = |number: usize| Seat {
            client: bounds.seats.get(number).map_or(0, |&client| client as u8),
            phase: match number < bounds.seats.len() {
                true => Phase::Idle,
                false => Phase::Released,
            },
            step: Step::Rest,
            own: None,
            place: 0,
        };
        World {
            server: Server {
                nodes: Names::default(),
                in_flight: Names::default(),
                places: [0; NAMES],
                counter: 0,
                directory: false,
            },
            links: [[Link::Unopened; CONNECTIONS]; CLIENTS],
            seats: std::array::from_fn(seat),
            garbage: Names::default(),
            granted: 0,
            left: Left {
                sessions: bounds.sessions,
                give_ups: bounds.give_ups,
                removals: bounds.removals,
            },
        }
    }

    pub(crate) fn client(&self, seat: usize) -> usize {
        usize::from(self.seats[seat].client)
    }

    pub(crate) fn seats_of(&self, client: usize) -> impl Iterator<Item = usize> {
        (0..SEATS).filter(move |&seat| self.client(seat) == client)
    }

    /// The live connection of a client.
    pub(crate) fn live(&self, client: usize) -> Option<usize> {
        self.links[client].iter().position(|&l| l == Link::Live)
    }

    /// The live connection of a seat's client.
    pub(crate) fn live_for(&self, seat: usize) -> Option<usize> {
        self.live(self.client(seat))
    }

    /// Everything that exists or may come to exist with a session.
    pub(crate) fn of_session(&self, client: usize, connection: usize) -> Names {
        let mut names = Names::default();
        for seat in self.seats_of(client) {
            names = names.or(Names::of(seat, connection));
        }
        names.and(self.server.nodes.or(self.server.in_flight))
    }

    pub(crate) fn nodes_of_session(&self, client: usize, connection: usize) -> Names {
        self.of_session(client, connection).and(self.server.nodes)
    }

    /// Does a hold live on this connection?
    pub(crate) fn holds_on(&self, client: usize, connection: usize) -> bool {
        let mut seats = self.seats_of(client);
        seats.any(|seat| self.is_held_on(seat, connection))
    }

    /// Is this seat held, on this connection of its client?
    pub(crate) fn is_held_on(&self, number: usize, connection: usize) -> bool {
        let seat = &self.seats[number];
        seat.phase == Phase::Held && seat.own.is_some_and(|own| own.connection() == connection)
    }

    /// The new node of a seat that is moving, which is not confirmed.
    pub(crate) fn unconfirmed(&self, seat: usize) -> Option<Name> {
        let moving = matches!(self.seats[seat].step, Step::Moving | Step::Asked { .. });
        let connection = self.live_for(seat).filter(|_| moving)?;
        Some(Name::new(seat, connection, Make::Moved))
    }

    /// The nodes that a seat has not given up.
    pub(crate) fn wanted(&self, seat: usize) -> Names {
        let mut names = Names::default();
        let wanted = [self.seats[seat].own, self.unconfirmed(seat)];
        wanted.into_iter().flatten().for_each(|n| names.insert(n));
        names
    }
}
