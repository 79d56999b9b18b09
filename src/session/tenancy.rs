//! Who lives on a connection: the seats that have their node on its session. Closing a handle
//! deletes every node of its session, so it must not happen under a hold, and should not happen
//! under a waiting seat that can still move.

use std::sync::Arc;

use parking_lot::Mutex;

use super::connection::Connection;
use crate::signal::{Ended, Signal};

/// The tenants of one connection.
#[derive(Debug)]
pub(super) struct Tenancy {
    counts: Mutex<Counts>,
    /// Raised when the last tenant has left a dead connection.
    vacated: Signal,
}

#[derive(Debug, Default)]
struct Counts {
    waiting: usize,
    held: usize,
    /// Of those, the holds that cannot move.
    pinned: usize,
    /// The handle is about to be closed: nothing can be held here any more.
    closing: bool,
}

/// A seat's place on a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Berth {
    connection: Arc<Connection>,
    held: bool,
    pinned: bool,
}

impl Tenancy {
    pub(super) fn new() -> Tenancy {
        Tenancy { counts: Mutex::default(), vacated: Signal::new() }
    }

    pub(super) fn held(&self) -> usize {
        self.counts.lock().held
    }

    /// Is anything held here that ends with the connection?
    pub(super) fn is_pinned(&self) -> bool {
        self.counts.lock().pinned > 0
    }

    /// Raised once a dead connection has no tenant any more. May be raised late, so whoever waits
    /// for it asks [`Tenancy::start_closing`] first.
    pub(super) fn vacated(&self) -> &Ended {
        self.vacated.ended()
    }

    /// From now on nothing is held here. False while a hold lives here, or, if `patient`, a
    /// waiting seat.
    #[must_use]
    pub(super) fn start_closing(&self, patient: bool) -> bool {
        let mut counts = self.counts.lock();
        counts.closing = counts.held == 0 && (counts.waiting == 0 || !patient);
        counts.closing
    }
}

impl Berth {
    /// For a seat that waits; `pinned` if it cannot move.
    pub(super) fn new(connection: &Arc<Connection>, pinned: bool) -> Berth {
        connection.tenancy().counts.lock().waiting += 1;
        Berth { connection: Arc::clone(connection), held: false, pinned }
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The seat is held from now on. False if the connection is dead or about to be closed.
    #[must_use]
    pub(super) fn hold(&mut self) -> bool {
        let mut counts = self.connection.tenancy().counts.lock();
        let welcome = !counts.closing && !self.connection.is_dead();
        if welcome && !self.held {
            counts.waiting -= 1;
            counts.held += 1;
            counts.pinned += usize::from(self.pinned);
            self.held = true;
        }
        welcome
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        let tenancy = self.connection.tenancy();
        let mut counts = tenancy.counts.lock();
        match self.held {
            true => {
                counts.held -= 1;
                counts.pinned -= usize::from(self.pinned);
            }
            false => counts.waiting -= 1,
        }
        let empty = counts.held == 0 && counts.waiting == 0;
        drop(counts);
        if empty && self.connection.is_dead() {
            tenancy.vacated.raise();
        }
    }
}
