//! The end of seats by their owners: released or given up, and what becomes of their nodes.

use std::slice;
use std::sync::Arc;

use log::warn;

use super::Session;
use super::call::{Failure, Until};
use super::connection::Connection;
use super::death::Cause;
use super::garbage::{Deleted, Garbage};
use super::seat::{Ending, Over, Seat, Standing};
use super::single_node::delete_single;
use super::wire::Wire;
use crate::clock::Moment;
use crate::error::{LossReason, Result};
use crate::node::Kind;

/// A sweep of the garbage list, over when this is dropped: also when the job never ran.
struct Sweep {
    session: Arc<Session>,
    connection: Arc<Connection>,
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.connection.swept();
        self.session.garbage.nudge();
    }
}

impl Session {
    /// Ends a hold. Waits for the answer to its deletion for a third of the session timeout; what
    /// has no answer by then is deleted in the background. Lost if the hold was lost before.
    pub(crate) fn release(self: &Arc<Self>, seat: &Arc<Seat>) -> Result<()> {
        self.release_all(slice::from_ref(seat))
    }

    /// [`release`](Session::release) for several in one go. The first error of all.
    pub(crate) fn release_all(self: &Arc<Self>, seats: &[Arc<Seat>]) -> Result<()> {
        let mut outcome = Ok(());
        let mut held = Vec::new();
        for seat in seats {
            let Some(over) = seat.end(Ending::Release, Moment::now, &self.garbage) else {
                continue;
            };
            self.seats.remove(seat);
            match over.before {
                Standing::Lost(reason) => {
                    // A place means that the timer has not noticed yet.
                    if over.connection.is_some() {
                        self.after_loss(seat, reason, &over);
                    }
                    outcome = outcome.and(Err(seat.lost(reason)));
                }
                Standing::Held => held.push((Arc::clone(seat), over)),
                // Its own connection is dead; there may be another.
                _ => self.delete_later(&over.ids),
            }
        }
        // All on one connection, but for some that have just moved.
        while let Some(on) = held.first().and_then(|(_, over)| over.connection.clone()) {
            let there = |(_, over): &(_, Over)| over.is_on(&on);
            let (here, others) = held.into_iter().partition(there);
            held = others;
            outcome = outcome.and(self.delete_held(&on, here));
        }
        outcome
    }

    fn delete_held(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        held: Vec<(Arc<Seat>, Over)>,
    ) -> Result<()> {
        if held.first().is_some_and(|(seat, _)| seat.claim().background) {
            self.delete_held_behind(connection, held);
            return Ok(());
        }
        let (session, held) = (Arc::clone(self), Arc::new(held));
        let until = Until::within(connection.timeout() / 3);
        let deleting = Arc::clone(&held);
        let deleted = connection.call(&until, move |wire| {
            let deleted = deleting.iter().map(|(seat, over)| session.delete(wire, seat, over));
            Ok(deleted.collect())
        });
        // Apart, so that what the deletions said is known whatever becomes of this.
        let tidy = held.first().filter(|(seat, _)| !seat.claim().tidy.is_empty());
        if let (Ok(_), Some((seat, _))) = (&deleted, tidy) {
            let (session, seat) = (Arc::clone(self), Arc::clone(seat));
            let _ = connection.call(&until, move |wire| {
                session.tidy(wire, seat.claim());
                Ok(())
            });
        }
        let deleted: Vec<_> = deleted.unwrap_or_else(|failure| vec![Err(failure); held.len()]);
        let mut outcome = Ok(());
        for ((seat, over), deleted) in held.iter().zip(deleted) {
            outcome = outcome.and(self.judge(seat, over, deleted));
        }
        outcome
    }

    /// Of a seat that was kept for nobody in particular.
    pub(super) fn delete_unwanted(self: &Arc<Self>, seat: &Arc<Seat>, over: Over) {
        match over.connection.clone() {
            Some(on) => self.delete_held_behind(&on, vec![(Arc::clone(seat), over)]),
            None => self.delete_later(&over.ids),
        }
    }

    /// Without waiting for the answers.
    fn delete_held_behind(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        held: Vec<(Arc<Seat>, Over)>,
    ) {
        if connection.is_dead() {
            held.iter().for_each(|(_, over)| self.delete_later(&over.ids));
            return;
        }
        let session = Arc::clone(self);
        connection.run(move |wire| {
            for (seat, over) in &held {
                if wire.connection().is_dead() {
                    session.delete_later(&over.ids);
                    continue;
                }
                // What went wrong is counted and logged.
                let _ = session.judge(seat, over, session.delete(wire, seat, over));
            }
            if let Some((seat, _)) = held.first() {
                session.tidy(wire, seat.claim());
            }
        });
    }

    fn delete(
        &self,
        wire: &Wire<'_>,
        seat: &Seat,
        over: &Over,
    ) -> std::result::Result<Deleted, Failure> {
        match seat.claim().kind {
            Kind::Single => delete_single(seat, wire),
            _ => self.garbage.delete_all(wire, &over.ids),
        }
    }

    fn judge(
        self: &Arc<Self>,
        seat: &Seat,
        over: &Over,
        deleted: std::result::Result<Deleted, Failure>,
    ) -> Result<()> {
        match deleted {
            Ok(Deleted::Now) => Ok(()),
            // Nobody has lost it.
            Ok(Deleted::Before) if over.before == Standing::Released => Ok(()),
            Ok(Deleted::Before) => {
                self.count_loss(seat, LossReason::NodeDeleted);
                Err(seat.lost(LossReason::NodeDeleted))
            }
            Err(Failure::Refused(error)) => {
                self.garbage.nudge();
                // A single node that may not be deleted goes with its session alone.
                let single = seat.claim().kind == Kind::Single;
                if let Some(on) = over.connection.as_ref().filter(|_| single) {
                    on.kill(Cause::Failed(error));
                }
                Err(self.error(seat.path(), Failure::Refused(error)))
            }
            Err(failure) => {
                if failure == Failure::Dead {
                    self.delete_later(&over.ids);
                }
                warn!(
                    target: "zoolock::session",
                    "the node of {} is deleted in the background: {failure:?}", seat.path()
                );
                Ok(())
            }
        }
    }

    /// Gives up waiting: the seat's nodes are deleted in the background.
    pub(crate) fn give_up(self: &Arc<Self>, seat: &Arc<Seat>) {
        self.seats.remove(seat);
        let Some(over) = seat.end(Ending::Release, Moment::now, &self.garbage) else {
            return;
        };
        self.delete_later(&over.ids);
        // Of a create that was answered. One under way is deleted by whoever has the answer.
        let own = over.connection.filter(|_| over.named);
        if let Some(connection) = own.filter(|_| seat.claim().kind == Kind::Single) {
            let seat = Arc::clone(seat);
            connection.run(move |wire| {
                // What fails goes with the session.
                let _ = delete_single(&seat, wire);
            });
        }
    }

    /// Deletes what is on the garbage list under these ids, in the background. Without a
    /// connection that waits for the next one.
    pub(super) fn delete_later(self: &Arc<Self>, ids: &[String]) {
        match self.live() {
            Some(connection) => self.delete_behind(&connection, ids.to_vec()),
            // The next one may be there, and the nodes on it, but nobody else can use it yet.
            None => self.garbage.hurry(ids),
        }
    }

    /// Deletes behind all that waits for a worker already.
    pub(crate) fn delete_behind(self: &Arc<Self>, connection: &Arc<Connection>, ids: Vec<String>) {
        if ids.is_empty() {
            return;
        }
        let session = Arc::clone(self);
        connection.run(move |wire| {
            for id in &ids {
                // A failure is a retry later.
                let _ = session.garbage.delete(wire, id);
            }
            session.garbage.nudge();
        });
    }

    /// Works off the garbage list on a worker, unless one is at it on this connection. One that
    /// is stuck on a dead connection does not count.
    pub(super) fn sweep(self: &Arc<Self>, connection: &Arc<Connection>) {
        if self.garbage.len() > 0 && connection.start_sweep() {
            let sweep = Sweep { session: Arc::clone(self), connection: Arc::clone(connection) };
            connection.run(move |wire| sweep.session.garbage.work_off(wire));
        }
    }

    /// Before the connection is closed: deletes what is left on earlier ones. What is on this one
    /// goes with it.
    pub(super) fn last_sweep(self: &Arc<Self>, connection: &Arc<Connection>) {
        self.garbage.expedite(connection);
        if self.garbage.is_over() {
            return;
        }
        let session = Arc::clone(self);
        let until = Until::within(connection.timeout() / 3);
        // What is not answered in time is left to the end of its session.
        let _ = connection.call(&until, move |wire| {
            session.garbage.work_off(wire);
            Ok(())
        });
    }

    pub(crate) fn garbage(&self) -> &Garbage {
        &self.garbage
    }
}
