//! The seats of a session: registered, granted, released, given up, and lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use log::{debug, error};
use zookeeper::Stat;

use super::Session;
use super::call::{Failure, Until};
use super::connection::Connection;
use super::death::Cause;
use super::seat::{Claim, Ending, NotGranted, Over, Seat, Standing};
use crate::clock::Moment;
use crate::data::Origin;
use crate::error::{LossReason, Result};
use crate::node::Kind;

/// What became of granting a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    /// It is held.
    Held,
    /// Its node was deleted by somebody.
    NodeGone,
}

impl Session {
    /// A new waiting seat, registered.
    pub(crate) fn seat(&self, claim: Claim) -> Result<Arc<Seat>> {
        self.seats.add(claim)
    }

    /// So many that are taken together.
    pub(crate) fn seats(&self, claim: &Claim, count: usize) -> Result<Vec<Arc<Seat>>> {
        self.seats.add_group(claim, count)
    }

    /// Ends every wait and every hold, and takes no new ones.
    pub(super) fn end_all_seats(&self) {
        for seat in self.seats.close() {
            let over = seat.end(Ending::Close, Moment::now, &self.garbage);
            let before = over.map(|over| over.before);
            if let Some(Standing::Held | Standing::Suspended) = before {
                self.count_loss(&seat, LossReason::ClientClosed);
            }
        }
    }

    /// Does the claim's owner hold a seat in the same directory already that it would have to wait
    /// for? Then it would wait for itself.
    pub(crate) fn holds_here(&self, claim: &Claim) -> bool {
        let same = |seat: &Arc<Seat>| {
            let held = seat.claim();
            held.directory == claim.directory
                && claim.kind.waits_for(held.kind)
                && seat.owner() == claim.owner
        };
        let held = |seat: &Arc<Seat>| {
            matches!(seat.standing(Moment::now()), Standing::Held | Standing::Suspended)
        };
        claim.owner.is_some() && self.seats.all().iter().any(|seat| same(seat) && held(seat))
    }

    /// Makes a waiting seat that is first in its queue a held one. `name` is its node, made on
    /// `connection`. A lease shorter than 9/20 of the session timeout is renewed first, with one
    /// request: if the connection falls silent right after the grant, that is noticed a quarter
    /// of the session timeout later, and a fifth is left to reconnect with.
    pub(crate) fn grant(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        connection: &Arc<Connection>,
        name: &str,
        until: &Until,
    ) -> std::result::Result<Grant, Failure> {
        let (_, left) = connection.lease(Moment::now());
        if left < connection.timeout() / 20 * 9 {
            let path = seat.claim().directory.child(name);
            if !connection.call(until, move |wire| wire.heartbeat(&path))? {
                return Ok(Grant::NodeGone);
            }
        }
        match seat.grant(connection, name) {
            Ok(()) => {}
            Err(NotGranted::GivenUp) => return Err(Failure::Dead),
            Err(NotGranted::NoLease) => {
                connection.kill(Cause::Silent(connection.timeout()));
                return Err(Failure::Dead);
            }
        }
        self.timer.set(Instant::now() + self.tick());
        connection.pulse.set(connection.keep_due());
        debug!(target: "zoolock::queue", "{} holds {}", name, seat.path());
        Ok(Grant::Held)
    }
}

impl Session {
    /// Marks every hold lost whose lease has run out. Returns how long the next one runs, if
    /// anything is still held.
    pub(super) fn lapse(self: &Arc<Self>, now: Moment) -> Option<Duration> {
        let seats = self.seats.all();
        let over = |seat: &&Arc<Seat>| matches!(seat.standing(now), Standing::Lost(_));
        let ends = |seat: &Arc<Seat>| {
            Some((Arc::clone(seat), seat.end(Ending::Lapse, || now, &self.garbage)?))
        };
        let kept_too_long = |seat: &&Arc<Seat>| seat.is_kept_too_long(now.monotonic);
        let unwanted = seats.iter().filter(kept_too_long);
        unwanted.for_each(|seat| self.end_unwanted(seat));
        // All are announced before any is written to the log, which may take its time.
        let lost: Vec<_> = seats.iter().filter(over).filter_map(ends).collect();
        for (seat, over) in lost {
            self.after_loss(&seat, LossReason::LeaseExpired, &over);
        }
        let left = seats.iter().map(|seat| seat.valid_for(now));
        left.filter(|left| !left.is_zero()).min()
    }

    /// How long the shortest lease still runs of the holds that have yet to move: the next
    /// connection must be there by then.
    pub(super) fn pressed(&self, now: Moment) -> Option<Duration> {
        let seats = self.seats.all();
        let suspended = seats.iter().filter(|seat| {
            let moves = seat.claim().kind != Kind::Single && !seat.is_kept();
            moves && seat.standing(now) == Standing::Suspended
        });
        suspended.map(|seat| seat.valid_for(now)).min()
    }

    pub(super) fn after_loss(self: &Arc<Self>, seat: &Seat, reason: LossReason, over: &Over) {
        self.seats.remove(seat);
        if over.before != Standing::Released {
            self.count_loss(seat, reason);
        }
        self.delete_later(&over.ids);
        // A single node goes with its session alone, so that must not live on.
        let left = seat.claim().kind == Kind::Single && reason != LossReason::NodeDeleted;
        if let Some(connection) = over.connection.as_ref().filter(|_| left) {
            connection.kill(Cause::HoldLost);
        }
    }

    pub(super) fn count_loss(&self, seat: &Seat, reason: LossReason) {
        self.counters.seats_lost.fetch_add(1, Ordering::Relaxed);
        error!(target: "zoolock", "lock {} was lost: {reason}", seat.path());
    }

    /// How often the timer looks while anything is held.
    pub(super) fn tick(&self) -> Duration {
        (self.timeout() / 20).min(Duration::from_millis(100))
    }

    // ---- the own nodes

    pub(super) fn any_held_on(&self, connection: &Arc<Connection>) -> Option<(Arc<Seat>, String)> {
        let on_it = |seat: &Arc<Seat>| {
            let on = seat.held_on()?;
            Arc::ptr_eq(&on, connection).then(|| (Arc::clone(seat), seat.node()))
        };
        self.seats.all().iter().find_map(on_it)
    }

    /// Sets the watch over the own node of every seat that has had it for a quarter of the
    /// session timeout. Short holds and waits cost nothing. Returns when the next is due.
    pub(super) fn watch_holds(self: &Arc<Self>, connection: &Arc<Connection>) -> Instant {
        let now = Instant::now();
        let mut next = now + connection.timeout();
        for seat in self.seats.all() {
            self.on_heir(&seat, |seat| match seat.watch_due(connection) {
                Some(due) if due <= now => self.watch(seat, connection),
                Some(due) => next = next.min(due),
                None => {}
            });
        }
        next
    }

    /// A watch over a seat's own node has fired.
    pub(super) fn review(self: &Arc<Self>, number: u64, connection: &Arc<Connection>) {
        if let Some(seat) = self.seats.get(number) {
            self.watch(&seat, connection);
        }
    }

    /// Has the own node of a hold watched from now on, if it is not yet.
    pub(crate) fn watch_now(self: &Arc<Self>, seat: &Arc<Seat>) {
        let on = seat.own().map(|(_, connection)| connection);
        if let Some(connection) = on.filter(|on| seat.watch_due(on).is_some()) {
            self.watch(seat, &connection);
        }
    }

    /// Looks whether the own node is there, and watches it from now on.
    fn watch(self: &Arc<Self>, seat: &Arc<Seat>, connection: &Arc<Connection>) {
        let mut seat = self.heir(seat);
        while !self.watch_one(&seat, connection) {
            let heir = self.heir(&seat);
            if Arc::ptr_eq(&heir, &seat) {
                return;
            }
            // Passed on meanwhile.
            seat = heir;
        }
    }

    /// False if the seat has no node on the connection.
    fn watch_one(self: &Arc<Self>, seat: &Arc<Seat>, connection: &Arc<Connection>) -> bool {
        let own = seat.own().filter(|(_, on)| Arc::ptr_eq(on, connection));
        let Some((name, _)) = own else {
            return false;
        };
        let path = seat.claim().directory.child(&name);
        let full = format!("{}{path}", connection.chroot());
        let events = self.seat_events.0.clone();
        let listening = connection.watches().listen(full, events, seat.number());
        if !seat.watched(&name, connection, listening) {
            return false;
        }
        let (session, seat) = (Arc::clone(self), Arc::clone(seat));
        connection.run(move |wire| match wire.data(&path, true) {
            Ok((data, stat)) => session.on_heir(&seat, |seat| {
                if session.is_own(seat, &name, &data, &stat) {
                    seat.learn_origin(&name, Origin::from(&stat));
                    if seat.read(&data, stat.mzxid) {
                        session.end_unwanted(seat);
                    }
                }
            }),
            Err(failure) if failure.is_no_node() => session.node_gone(&seat, &name),
            // To be tried again by the pulse.
            Err(_) => session.on_heir(&seat, |seat| seat.not_watched(&name)),
        });
        true
    }

    /// Is it the seat's own node `name` that was read? If somebody else's is in its place, it is
    /// gone.
    pub(crate) fn is_own(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        name: &str,
        data: &[u8],
        stat: &Stat,
    ) -> bool {
        let seat = &self.heir(seat);
        let is_own = seat.is_own(data, stat);
        if is_own != Some(true) {
            let connection = seat.own().map(|(_, connection)| connection);
            self.node_gone(seat, name);
            // It may be its own all the same, and goes with its session alone.
            if let Some(connection) = connection.filter(|_| is_own.is_none()) {
                connection.kill(Cause::HoldLost);
            }
        }
        is_own == Some(true)
    }

    /// The seat's own node is gone though nobody here deleted it. A hold is lost; a waiter looks
    /// for itself.
    pub(crate) fn node_gone(self: &Arc<Self>, seat: &Arc<Seat>, name: &str) {
        self.on_heir(seat, |seat| {
            if let Some(over) = seat.end(Ending::NodeGone(name), Moment::now, &self.garbage) {
                self.after_loss(seat, LossReason::NodeDeleted, &over);
            }
            let _ = seat.wake().0.try_send(0);
        });
    }

    pub(super) fn seat_events(&self) -> &Receiver<u64> {
        &self.seat_events.1
    }
}
