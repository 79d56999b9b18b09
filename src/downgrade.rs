//! A read that a thread takes under its own write: granted at once, in the write's place in the
//! queue, so that no writer that waits comes between when the write is released.
//!
//! The rule is that of a move: the read's node is made first and the write's is looked for
//! afterwards, on the same connection. Both were there together if it is seen, so at no instant was
//! the place empty.

use std::sync::Arc;

use crate::attempt::{self, Attempt, Outcome};
use crate::clock::Moment;
use crate::data::Origin;
use crate::error::{Error, Result};
use crate::node;
use crate::session::{
    Claim, Connection, Failure, Grant, Make, Seat, Session, Standing, Until, Wire,
};

/// What became of one attempt.
enum Step {
    /// The node is there, under this name.
    Made(String),
    /// The write's sequence does not tell its place: the read shares the write's seat.
    Shares,
    /// The write is over.
    WriteOver,
}

/// Takes a read under `write`, which the calling thread holds. Waits for answers and for a
/// connection only, since nobody can be ahead.
pub(crate) fn downgrade(
    session: &Arc<Session>,
    claim: Claim,
    write: &Arc<Seat>,
    until: &Until,
) -> Result<Arc<Seat>> {
    let read = attempt::wait(session, claim, until, |at| under(at, write))?;
    read.ok_or_else(|| over(write))
}

fn over(write: &Seat) -> Error {
    let path = write.path().to_owned();
    match write.standing(Moment::now()) {
        Standing::Lost(reason) => Error::Lost { path, reason },
        _ => Error::NotHeld { path },
    }
}

fn under(at: &Attempt<'_>, write: &Arc<Seat>) -> std::result::Result<Outcome, Failure> {
    write.read_under();
    loop {
        let left_behind = at.seat.start_over(at.session.garbage());
        at.session.delete_behind(at.connection, left_behind);
        let job = Job {
            session: Arc::clone(at.session),
            seat: Arc::clone(at.seat),
            write: Arc::clone(write),
            on: Arc::clone(at.connection),
        };
        match at.connection.call(at.until, move |wire| job.make(wire))? {
            Step::Made(name) if at.grant(&name)? == Grant::Held => return Ok(Outcome::Held),
            // Somebody has deleted it.
            Step::Made(_) => {}
            Step::Shares => {
                write.share();
                return Ok(Outcome::Shared(Arc::clone(write)));
            }
            Step::WriteOver => return Ok(Outcome::Refused(over(write))),
        }
    }
}

/// The part that runs on a worker thread.
struct Job {
    session: Arc<Session>,
    seat: Arc<Seat>,
    write: Arc<Seat>,
    on: Arc<Connection>,
}

impl Job {
    fn make(&self, wire: &Wire<'_>) -> std::result::Result<Step, Failure> {
        let Some((write, _)) = self.write.own() else {
            return Ok(Step::WriteOver);
        };
        // The read's node says where the write began, as that is the read's token, too.
        match self.write.origin() {
            Some(origin) => self.seat.share_origin(origin),
            None if self.see_write(wire, write.clone())? => {}
            None => return Ok(Step::WriteOver),
        }
        let id = self.seat.enter(&self.on)?;
        let Some(name) = node::read_under(&write, &id) else {
            self.seat.strike(&id);
            return Ok(Step::Shares);
        };
        match self.session.create(&self.seat, wire, &id, &name, Make::Named) {
            Ok(()) => {}
            // Without the directory there is no write either.
            Err(failure) if failure.is_no_node() => {
                self.session.node_gone(&self.write, &write);
                return Ok(Step::WriteOver);
            }
            Err(failure) => return Err(failure),
        }
        match self.see_write(wire, write)? {
            true => Ok(Step::Made(name)),
            false => Ok(Step::WriteOver),
        }
    }

    /// Is the write's node there? It may be moving to this connection meanwhile: then it is the
    /// new one that counts.
    fn see_write(&self, wire: &Wire<'_>, mut name: String) -> std::result::Result<bool, Failure> {
        loop {
            let path = self.write.claim().directory.child(&name);
            match wire.data(&path, false) {
                Ok((_, stat)) => {
                    let origin = self.write.learn_origin(&name, Origin::from(&stat));
                    self.seat.share_origin(origin);
                    return Ok(true);
                }
                Err(failure) if failure.is_no_node() => {}
                Err(failure) => return Err(failure),
            }
            match self.write.own() {
                Some((now, _)) if now != name => name = now,
                _ => {
                    self.session.node_gone(&self.write, &name);
                    return Ok(false);
                }
            }
        }
    }
}
