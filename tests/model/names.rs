//! The names of nodes. A name stands for the uuid of one create: it is never used a second time.

use std::fmt;

/// The most seats, the most clients, and the most connections that a client may open.
pub(crate) const SEATS: usize = 4;
pub(crate) const CLIENTS: usize = 3;
pub(crate) const CONNECTIONS: usize = 3;

const PER_SEAT: usize = CONNECTIONS * 2;
/// The most names there can be: a seat makes at most one node of each kind on a connection.
pub(crate) const NAMES: usize = SEATS * PER_SEAT;

/// How a node is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    /// `EPHEMERAL_SEQUENTIAL`: the server gives it the next place.
    Queued,
    /// A plain ephemeral with the sequence of the seat's confirmed node.
    Moved,
}

/// The node that a seat made, or tried to make, in one way on one connection of its client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name(u8);

impl Name {
    pub(crate) fn new(seat: usize, connection: usize, make: Make) -> Name {
        let index = seat * PER_SEAT + connection * 2 + make as usize;
        // At most NAMES.
        Name(index as u8)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn seat(self) -> usize {
        self.index() / PER_SEAT
    }

    pub(crate) fn connection(self) -> usize {
        self.index() % PER_SEAT / 2
    }

    pub(crate) fn make(self) -> Make {
        match self.0 % 2 {
            0 => Make::Queued,
            _ => Make::Moved,
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seat, connection, make) = (self.seat(), self.connection(), self.make());
        write!(f, "{make:?}(seat {seat}, connection {connection})")
    }
}

/// A set of names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Names(u32);

impl Names {
    pub(crate) fn all() -> Names {
        Names((1 << NAMES) - 1)
    }

    /// What a seat makes on one connection.
    pub(crate) fn of(seat: usize, connection: usize) -> Names {
        Names(0b11 << (seat * PER_SEAT + connection * 2))
    }

    /// All names of a seat.
    pub(crate) fn of_seat(seat: usize) -> Names {
        Names(((1 << PER_SEAT) - 1) << (seat * PER_SEAT))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, name: Name) -> bool {
        self.0 >> name.0 & 1 == 1
    }

    pub(crate) fn insert(&mut self, name: Name) {
        self.0 |= 1 << name.0;
    }

    pub(crate) fn remove(&mut self, name: Name) {
        self.0 &= !(1 << name.0);
    }

    pub(crate) fn and(self, other: Names) -> Names {
        Names(self.0 & other.0)
    }

    pub(crate) fn or(self, other: Names) -> Names {
        Names(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Names) -> Names {
        Names(self.0 & !other.0)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Name> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let next = (rest != 0).then(|| Name(rest.trailing_zeros() as u8))?;
            rest &= rest - 1;
            Some(next)
        })
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
