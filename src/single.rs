//! The waiting loop of a lock that is a single node: make it, or watch whoever has made it and try
//! again. Every waiter wakes, and whoever comes first has it.
//!
//! The node's name does not say who made it. So it is deleted only on the connection that made it,
//! whose session owns it; and what a lost answer may have left on a session is nobody's, until
//! that session is over.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::queue::Waiter;
use crate::session::{
    Claim, Connection, Failure, Grant, Seat, Session, Until, Wire, create_single,
};
use crate::watch::Listening;

/// What was found in the lock's place.
enum Step {
    /// Our own node, just made.
    Made,
    /// Another one, which is watched for as long as this is kept.
    Taken(Option<Listening>),
    /// One that will not go away.
    Persistent,
}

/// Waits until the node could be made. None if the deadline came while there was another one.
pub(crate) fn acquire(
    session: &Arc<Session>,
    claim: Claim,
    until: &Until,
) -> Result<Option<Arc<Seat>>> {
    let waiter = Waiter::new(session, claim)?;
    let path = waiter.seat().path().to_owned();
    loop {
        let place = Place {
            session,
            seat: waiter.seat(),
            connection: &session.await_live(&path, until)?,
            until,
        };
        match place.wait() {
            Ok(Outcome::Held) => return Ok(Some(waiter.granted())),
            Ok(Outcome::Busy) => return Ok(None),
            Ok(Outcome::Persistent) => return Err(persistent(path)),
            Err(Failure::Dead) => {}
            Err(failure) => return Err(session.error(&path, failure)),
        }
    }
}

/// Makes the node if there is none. Waits for answers only, for a third of the session timeout.
pub(crate) fn try_acquire(session: &Arc<Session>, claim: Claim) -> Result<Option<Arc<Seat>>> {
    let path = claim.lock.as_str().to_owned();
    let connection = session.require_live(&path)?;
    let until = Until::within(connection.timeout() / 3);
    let waiter = Waiter::new(session, claim)?;
    let place = Place {
        session,
        seat: waiter.seat(),
        connection: &connection,
        until: &until,
    };
    match place.attempt() {
        Ok(Outcome::Held) => Ok(Some(waiter.granted())),
        Ok(Outcome::Busy) => Ok(None),
        Ok(Outcome::Persistent) => Err(persistent(path)),
        Err(failure) => Err(session.error(&path, failure)),
    }
}

fn persistent(path: String) -> Error {
    let reason = "there is a persistent node, which nobody will release".to_owned();
    Error::InvalidPath { path, reason }
}

enum Outcome {
    Held,
    Busy,
    Persistent,
}

/// One seat's attempts on one connection.
struct Place<'a> {
    session: &'a Arc<Session>,
    seat: &'a Arc<Seat>,
    connection: &'a Arc<Connection>,
    until: &'a Until,
}

impl Place<'_> {
    fn attempt(&self) -> std::result::Result<Outcome, Failure> {
        loop {
            match self.step(false)? {
                Step::Made if self.is_granted()? => return Ok(Outcome::Held),
                Step::Made => {}
                Step::Taken(_) => return Ok(Outcome::Busy),
                Step::Persistent => return Ok(Outcome::Persistent),
            }
        }
    }

    fn wait(&self) -> std::result::Result<Outcome, Failure> {
        let mut seen = false;
        loop {
            let step = match self.step(true) {
                Err(Failure::Deadline) if seen && !self.connection.is_dead() => {
                    return Ok(Outcome::Busy);
                }
                step => step?,
            };
            match step {
                Step::Made if self.is_granted()? => return Ok(Outcome::Held),
                Step::Made => {}
                Step::Persistent => return Ok(Outcome::Persistent),
                Step::Taken(listening) => {
                    seen = true;
                    if !self.seat.await_change(self.connection, self.until)? {
                        return Ok(Outcome::Busy);
                    }
                    drop(listening);
                }
            }
        }
    }

    fn step(&self, watch: bool) -> std::result::Result<Step, Failure> {
        // What an earlier connection may have made goes with its session.
        self.seat.start_over(self.session.garbage());
        self.seat.forget_signals();
        let job = Job {
            session: Arc::clone(self.session),
            seat: Arc::clone(self.seat),
            on: Arc::clone(self.connection),
        };
        self.connection
            .call(self.until, move |wire| job.run(wire, watch))
    }

    fn is_granted(&self) -> std::result::Result<bool, Failure> {
        let (_, name) = self.seat.claim().lock.split();
        let granted = self
            .session
            .grant(self.seat, self.connection, name, self.until)?;
        Ok(granted == Grant::Held)
    }
}

/// The part that runs on a worker thread.
struct Job {
    session: Arc<Session>,
    seat: Arc<Seat>,
    on: Arc<Connection>,
}

impl Job {
    fn run(&self, wire: &Wire<'_>, watch: bool) -> std::result::Result<Step, Failure> {
        let claim = self.seat.claim();
        loop {
            match create_single(&self.seat, wire, &self.on) {
                Ok(()) => return Ok(Step::Made),
                Err(failure) if failure.is_node_exists() => {}
                Err(failure) if failure.is_no_node() => {
                    self.session.make_directories(wire, claim)?;
                    continue;
                }
                Err(failure) => return Err(failure),
            }
            let sender = self.seat.wake().0.clone();
            let full = wire.full(claim.lock.as_str());
            let listening = watch.then(|| wire.connection().watches().listen(full, sender, 0));
            match wire.data(claim.lock.as_str(), watch) {
                Ok((_, stat)) if stat.ephemeral_owner == 0 => return Ok(Step::Persistent),
                Ok(_) => return Ok(Step::Taken(listening)),
                Err(failure) if failure.is_no_node() => {}
                Err(failure) => return Err(failure),
            }
        }
    }
}
