//! Moving seats: how a lock survives its connection. The crate cannot resume a session, but a
//! place in a queue is its sequence alone, so a node with the same sequence, on the next session,
//! is the same place.
//!
//! The new node is created first, and only then is the old one looked for, on the same
//! connection. Both existed together if it is seen, so at no instant was the place empty: nobody
//! else can have been granted. The other way round, the old session could expire between the two
//! steps, and a rival be granted before the new node is there. A node that was not confirmed in
//! this way grants nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::RecvTimeoutError;
use log::{debug, info, warn};

use super::Session;
use super::call::Failure;
use super::connection::Connection;
use super::garbage;
use super::seat::{Confirmed, Ending, Move, Seat, Whereabouts};
use super::wire::{Make, Wire};
use crate::clock::Moment;
use crate::data::Origin;
use crate::error::LossReason;

/// What became of moving a seat.
#[derive(Debug, PartialEq, Eq)]
enum Moved {
    /// It has its place on the new session.
    Here,
    /// The old node was gone. Its name.
    Gone(String),
    /// The lease of the hold ran out first.
    Late,
    /// Nobody wants it any more, or its place is not one that can move.
    Stays,
}

impl Session {
    /// Moves every hold to `connection`. To be called before anybody else can use that, so that
    /// holds come first: what is left of their leases runs out.
    pub(super) fn move_holds(self: &Arc<Self>, connection: &Arc<Connection>) {
        for seat in self.seats.all() {
            if seat.held_on().is_none() || seat.is_kept() {
                continue;
            }
            let (session, on) = (Arc::clone(self), Arc::clone(connection));
            connection.run(move |wire| session.move_hold(&seat, wire, &on));
        }
    }

    /// A server that refuses for now, such as one that has too much to do, is asked again while
    /// the lease runs.
    fn move_hold(self: &Arc<Self>, seat: &Arc<Seat>, wire: &Wire<'_>, on: &Arc<Connection>) {
        let moved = loop {
            match self.relocate(seat, wire, on) {
                Err(Failure::Refused(error)) => {
                    let path = seat.path();
                    warn!(target: "zoolock::session", "failed to move {path}: {error}");
                    let over = on.died().recv_timeout(on.timeout() / 32);
                    if over == Err(RecvTimeoutError::Disconnected) {
                        return;
                    }
                }
                moved => break moved,
            }
        };
        match moved {
            Ok(Moved::Here) => {
                info!(target: "zoolock::session", "{} is held on", seat.path());
                // For who goes on where its hold is.
                let _ = seat.wake().0.try_send(0);
                self.timer.set(Instant::now() + self.tick());
                on.pulse.ring();
            }
            Ok(Moved::Gone(name)) => {
                let ending = Ending::NotConfirmed(&name);
                if let Some(over) = seat.end(ending, Moment::now, &self.garbage) {
                    self.after_loss(seat, LossReason::NotConfirmed, &over);
                }
            }
            Ok(Moved::Late) => {
                self.lapse(Moment::now());
            }
            Ok(Moved::Stays) | Err(_) => {}
        }
    }

    /// Brings a waiting seat to the wire's connection if it has a place on an earlier one. False
    /// if it has none any more and must queue anew.
    pub(crate) fn settle(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        wire: &Wire<'_>,
        on: &Arc<Connection>,
    ) -> Result<bool, Failure> {
        match seat.whereabouts(on) {
            Whereabouts::Nowhere => return Ok(false),
            Whereabouts::Here => return Ok(true),
            Whereabouts::Unanswered(id) => {
                match garbage::find(wire, &seat.claim().directory, &id)? {
                    Some(name) => seat.entered(&id, &name),
                    None => return Ok(false),
                };
            }
            Whereabouts::Elsewhere => {}
        }
        Ok(self.relocate(seat, wire, on)? == Moved::Here)
    }

    /// A waiting seat gives up a place that is not on this connection: where places have no order,
    /// a new one is as good.
    pub(crate) fn leave_behind(self: &Arc<Self>, seat: &Seat, on: &Arc<Connection>) {
        if let Whereabouts::Elsewhere | Whereabouts::Unanswered(_) = seat.whereabouts(on) {
            self.delete_behind(on, seat.start_over(&self.garbage));
        }
    }

    fn relocate(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        wire: &Wire<'_>,
        on: &Arc<Connection>,
    ) -> Result<Moved, Failure> {
        if let Some(gone) = learn_origin(seat, wire)? {
            return Ok(Moved::Gone(gone));
        }
        let Some(begun) = seat.begin_move(on, &self.garbage) else {
            return Ok(Moved::Stays);
        };
        let moved = self.carry_out(&begun, seat, wire, on)?;
        self.delete_behind(on, begun.left_behind);
        Ok(moved)
    }

    fn carry_out(
        self: &Arc<Self>,
        begun: &Move,
        seat: &Arc<Seat>,
        wire: &Wire<'_>,
        on: &Arc<Connection>,
    ) -> Result<Moved, Failure> {
        let old = seat.claim().directory.child(&begun.from);
        // Never with the directory: where that is missing the old node is gone, too.
        match self.create(seat, wire, &begun.id, &begun.name, Make::Named) {
            Ok(()) => {}
            Err(Failure::Cancelled) => return Ok(Moved::Stays),
            Err(failure) if failure.is_no_node() => return Ok(Moved::Gone(begun.from.clone())),
            Err(failure) => return Err(failure),
        }
        match wire.data(&old, false) {
            Ok((data, stat)) => {
                seat.read(&data, stat.mzxid);
            }
            Err(failure) if failure.is_no_node() => return Ok(Moved::Gone(begun.from.clone())),
            Err(failure) => return Err(failure),
        }
        match seat.confirm(begun, Moment::now, &self.garbage) {
            Confirmed::Moved(left_behind) => {
                self.counters.seats_moved.fetch_add(1, Ordering::Relaxed);
                debug!(target: "zoolock::session", "{old} has moved to {}", begun.name);
                // Other holds may have yet to move, and their leases run out.
                self.delete_behind(on, left_behind);
                Ok(Moved::Here)
            }
            Confirmed::Late => Ok(Moved::Late),
            Confirmed::GivenUp => Ok(Moved::Stays),
            Confirmed::NoLease => Err(Failure::Dead),
        }
    }
}

/// Reads where the seat began, which the node that it moves to will say, unless that is known.
/// Returns the name of its node if that is gone.
fn learn_origin(seat: &Seat, wire: &Wire<'_>) -> Result<Option<String>, Failure> {
    let Some((name, _)) = seat.own().filter(|_| seat.origin().is_none()) else {
        return Ok(None);
    };
    match wire.data(&seat.claim().directory.child(&name), false) {
        Ok((_, stat)) => {
            seat.learn_origin(&name, Origin::from(&stat));
            Ok(None)
        }
        Err(failure) if failure.is_no_node() => Ok(Some(name)),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests;
