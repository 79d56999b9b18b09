//! From a claim to a held seat, connection by connection. How a seat gets in on one of them is
//! told by the [`queue`](crate::queue), the [single node](crate::single) and the
//! [downgrade](crate::downgrade).

use std::sync::Arc;

use log::debug;

use crate::error::{Error, Result};
use crate::session::{Claim, Connection, Failure, Grant, Seat, Session, Until};

/// How an attempt on one connection ended.
pub(crate) enum Outcome {
    Held,
    /// The seat that was asked for is not needed: this one is held, and serves for both.
    Shared(Arc<Seat>),
    /// Another contender was ahead to the end.
    Busy,
    /// It would never come to anything.
    Refused(Error),
}

/// One seat on one connection.
pub(crate) struct Attempt<'a> {
    pub(crate) session: &'a Arc<Session>,
    pub(crate) seat: &'a Arc<Seat>,
    pub(crate) connection: &'a Arc<Connection>,
    pub(crate) until: &'a Until,
}

impl Attempt<'_> {
    /// Makes the seat a held one, by its node of this name.
    pub(crate) fn grant(&self, name: &str) -> std::result::Result<Grant, Failure> {
        let (seat, connection) = (self.seat, self.connection);
        self.session.grant(seat, connection, name, self.until)
    }
}

/// Waits by the given way in. None if the deadline came while another contender was ahead.
pub(crate) fn wait(
    session: &Arc<Session>,
    claim: Claim,
    until: &Until,
    way: impl Fn(&Attempt<'_>) -> std::result::Result<Outcome, Failure>,
) -> Result<Option<Arc<Seat>>> {
    let waiter = Waiter::new(session, claim)?;
    let path = waiter.seat.path().to_owned();
    loop {
        let outcome = way(&Attempt {
            session,
            seat: &waiter.seat,
            connection: &session.await_live(&path, until)?,
            until,
        });
        if let Err(Failure::Dead) = outcome {
            debug!(target: "zoolock::queue", "{path}: connection lost");
            continue;
        }
        return waiter.end(outcome);
    }
}

/// Tries once, by the given way in. Waits for answers only, for a third of the session timeout.
pub(crate) fn attempt(
    session: &Arc<Session>,
    claim: Claim,
    way: impl Fn(&Attempt<'_>) -> std::result::Result<Outcome, Failure>,
) -> Result<Option<Arc<Seat>>> {
    let connection = session.require_live(claim.lock.as_str())?;
    let until = Until::within(connection.timeout() / 3);
    let waiter = Waiter::new(session, claim)?;
    let outcome =
        way(&Attempt { session, seat: &waiter.seat, connection: &connection, until: &until });
    waiter.end(outcome)
}

/// Gives the seat up unless it was granted: also when a caller unwinds.
struct Waiter<'a> {
    session: &'a Arc<Session>,
    seat: Arc<Seat>,
    granted: bool,
}

impl<'a> Waiter<'a> {
    fn new(session: &'a Arc<Session>, claim: Claim) -> Result<Waiter<'a>> {
        Ok(Waiter { session, seat: session.seat(claim)?, granted: false })
    }

    fn end(mut self, outcome: std::result::Result<Outcome, Failure>) -> Result<Option<Arc<Seat>>> {
        match outcome {
            Ok(Outcome::Held) => {
                self.granted = true;
                Ok(Some(Arc::clone(&self.seat)))
            }
            Ok(Outcome::Shared(seat)) => Ok(Some(seat)),
            Ok(Outcome::Busy) => Ok(None),
            Ok(Outcome::Refused(error)) => Err(error),
            Err(failure) => Err(self.session.error(self.seat.path(), failure)),
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if !self.granted {
            self.session.give_up(&self.seat);
        }
    }
}
