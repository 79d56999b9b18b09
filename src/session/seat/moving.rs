//! How a seat moves from one session to the next: the part that the seat's mutex decides.

use std::sync::Arc;

use super::{Place, Seat, Standing, State, new_id};
use crate::clock::Moment;
use crate::node;
use crate::session::connection::Connection;
use crate::session::garbage::{Garbage, Node};
use crate::session::tenancy::Berth;

/// Where a waiting seat is.
#[derive(Debug)]
pub(in crate::session) enum Whereabouts {
    /// It has no node.
    Nowhere,
    /// On this connection, under this name.
    Here,
    /// A create that was sent on another connection, and never answered.
    Unanswered(String),
    /// On another connection, under this name.
    Elsewhere,
}

/// A move that has begun: create `name` first, then look whether `from` is there.
#[derive(Debug)]
pub(in crate::session) struct Move {
    pub(in crate::session) id: String,
    pub(in crate::session) name: String,
    pub(in crate::session) from: String,
    /// The ids of what an interrupted move has left: garbage now.
    pub(in crate::session) left_behind: Vec<String>,
}

/// How confirming a move ended.
#[derive(Debug)]
pub(in crate::session) enum Confirmed {
    /// The seat is on the new session. The ids of its old node, which is garbage now.
    Moved(Vec<String>),
    /// Its lease has run out meanwhile.
    Late,
    /// Nobody wants it any more.
    GivenUp,
    /// The new connection is dead, or has no lease to hold on.
    NoLease,
}

impl Seat {
    /// Where the place is, seen from `connection`.
    pub(in crate::session) fn whereabouts(&self, connection: &Arc<Connection>) -> Whereabouts {
        match &self.core.lock().place {
            None => Whereabouts::Nowhere,
            Some(place) if place.name.is_none() => Whereabouts::Unanswered(place.id.clone()),
            Some(place) if place.is_on(connection) => Whereabouts::Here,
            Some(_) => Whereabouts::Elsewhere,
        }
    }

    /// The seat is about to move to `connection`: a node there enters the seat before its create
    /// is sent. What an interrupted move has left is garbage, and goes last. None if nobody wants
    /// the seat any more, or it has no place that can move there.
    pub(in crate::session) fn begin_move(
        &self,
        connection: &Arc<Connection>,
        garbage: &Garbage,
    ) -> Option<Move> {
        let mut core = self.core.lock();
        let place = core.place.as_ref().filter(|place| !place.is_on(connection))?;
        let from = place.name.clone()?;
        let id = new_id();
        let name = node::moved_name(self.claim.kind, &from, &id)?;
        if connection.is_dead() {
            return None;
        }
        let next = Node { id: id.clone(), name: None, connection: Arc::clone(connection) };
        let old = core.next.replace(next);
        let left_behind = self.discard(old.into_iter(), garbage);
        Some(Move { id, name, from, left_behind })
    }

    /// The old node was seen beside the new one, so that at no instant the place was empty: the
    /// new one is the place from now on, unless a hold's lease has run out by now.
    pub(in crate::session) fn confirm(
        &self,
        begun: &Move,
        clock: impl FnOnce() -> Moment,
        garbage: &Garbage,
    ) -> Confirmed {
        let mut core = self.core.lock();
        // Not before the mutex: somebody else may have seen the lease's end by then.
        let now = clock();
        let Some(next) = core.next.as_ref().filter(|next| next.id == begun.id) else {
            return Confirmed::GivenUp;
        };
        // First, so that the reaper sees a tenant unless it has begun to close by now.
        let mut berth = Berth::new(&next.connection, false);
        if berth.connection().is_dead() {
            return Confirmed::NoLease;
        }
        let state = match core.standing(now) {
            Standing::Waiting => State::Waiting,
            Standing::Held | Standing::Suspended => {
                let (term, left) = berth.connection().lease(now);
                if left.is_zero() || !berth.hold() {
                    return Confirmed::NoLease;
                }
                State::Held { term }
            }
            Standing::Lost(_) | Standing::Released => return Confirmed::Late,
        };
        core.next = None;
        let place = Place { id: begun.id.clone(), name: Some(begun.name.clone()), berth };
        let old = core.place.replace(place).map(Place::into_node);
        let watched = (core.watched.take(), core.recall.stop_listening());
        if matches!(state, State::Held { .. }) {
            core.name.clone_from(&begun.name);
        }
        core.state = state;
        let ids = self.discard(old.into_iter(), garbage);
        drop(core);
        drop(watched);
        Confirmed::Moved(ids)
    }
}
