//! The waiting loop of a lock that is a single node: make it, or watch whoever has made it and try
//! again. Every waiter wakes, and whoever comes first has it.
//!
//! The node's name does not say who made it. So it is deleted only on the connection that made it,
//! whose session owns it; and what a lost answer may have left on a session is nobody's, until
//! that session is over.

use std::sync::Arc;

use crate::attempt::{Attempt, Outcome};
use crate::error::Error;
use crate::session::{Connection, Failure, Grant, Seat, Session, Wire, create_single};
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

/// Makes the node if there is none.
pub(crate) fn attempt(at: &Attempt<'_>) -> Result<Outcome, Failure> {
    loop {
        match step(at, false)? {
            Step::Made if is_granted(at)? => return Ok(Outcome::Held),
            Step::Made => {}
            Step::Taken(_) => return Ok(Outcome::Busy),
            Step::Persistent => return Ok(persistent(at)),
        }
    }
}

/// Waits until the node could be made.
pub(crate) fn wait(at: &Attempt<'_>) -> Result<Outcome, Failure> {
    let mut seen = false;
    loop {
        let step = match step(at, true) {
            Err(Failure::Deadline) if seen && !at.connection.is_dead() => {
                return Ok(Outcome::Busy);
            }
            step => step?,
        };
        match step {
            Step::Made if is_granted(at)? => return Ok(Outcome::Held),
            Step::Made => {}
            Step::Persistent => return Ok(persistent(at)),
            Step::Taken(listening) => {
                seen = true;
                if !at.seat.await_change(at.connection, at.until)? {
                    return Ok(Outcome::Busy);
                }
                drop(listening);
            }
        }
    }
}

fn persistent(at: &Attempt<'_>) -> Outcome {
    Outcome::Refused(Error::InvalidPath {
        path: at.seat.path().to_owned(),
        reason: "there is a persistent node, which nobody will release".to_owned(),
    })
}

fn step(at: &Attempt<'_>, watch: bool) -> Result<Step, Failure> {
    // What an earlier connection may have made goes with its session.
    at.seat.start_over(at.session.garbage());
    at.seat.forget_signals();
    let job = Job {
        session: Arc::clone(at.session),
        seat: Arc::clone(at.seat),
        on: Arc::clone(at.connection),
    };
    at.connection.call(at.until, move |wire| job.run(wire, watch))
}

fn is_granted(at: &Attempt<'_>) -> Result<bool, Failure> {
    let (_, name) = at.seat.claim().lock.split();
    Ok(at.grant(name)? == Grant::Held)
}

/// The part that runs on a worker thread.
struct Job {
    session: Arc<Session>,
    seat: Arc<Seat>,
    on: Arc<Connection>,
}

impl Job {
    fn run(&self, wire: &Wire<'_>, watch: bool) -> Result<Step, Failure> {
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
