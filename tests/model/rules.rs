//! How large the world is, and which rule of the protocol is broken in it.

use super::names::{CLIENTS, CONNECTIONS, SEATS};

/// The bounds of a world. Everything that can go wrong comes out of one of them, so the graph of
/// states is finite and has no cycles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The client of each seat.
    pub(crate) seats: &'static [usize],
    /// How many connections, and so sessions, there may be in all.
    pub(crate) sessions: u8,
    /// How many of them one client may open.
    pub(crate) sessions_each: usize,
    /// How many waiting seats may be given up.
    pub(crate) give_ups: u8,
    /// How often the empty directory may be removed, which restarts the numbering.
    pub(crate) removals: u8,
}

/// A rule that is broken on purpose, to see that it is needed and that the check would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A moved node is confirmed without a look at the old one.
    NoConfirmation,
    /// The old node is looked at before the new one is created, not after.
    ReadBeforeCreate,
    /// After an interrupted move the next one is confirmed by the node that never was confirmed.
    ConfirmedByUnconfirmed,
    /// The handle of a dead connection is closed under a hold.
    ClosedEarly,
    /// A hold outlives its lease: the client does not look at its own clock.
    LeaseIgnored,
    /// A node found on an old session is granted without being moved.
    GrantedOnOldSession,
    /// A waiter that is woken believes that it is its turn.
    GrantedByWakeUp,
    /// Other seats of the same client are no rivals.
    ClientIsNoRival,
    /// A seat that ends during a move forgets the node that is not confirmed yet.
    UnconfirmedForgotten,
    /// A node that was not found on the next connection is forgotten, though it may come late.
    LateForgotten,
}

/// What is being checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Protocol {
    pub(crate) bounds: Bounds,
    pub(crate) broken: Option<Broken>,
}

impl Protocol {
    pub(crate) fn new(bounds: Bounds, broken: Option<Broken>) -> Protocol {
        assert!(bounds.seats.len() <= SEATS && bounds.sessions_each <= CONNECTIONS);
        assert!(bounds.seats.iter().all(|&client| client < CLIENTS));
        Protocol { bounds, broken }
    }

    pub(crate) fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }
}
