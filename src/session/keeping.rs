//! Holds that stay with the process when their threads have let go: left to the next thread that waits,
//! or kept for one that may come, until somebody else wants the lock.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::Session;
use super::call::Failure;
use super::connection::Connection;
use super::seat::{Ending, Seat};
use super::wire::Wire;
use crate::clock::Moment;
use crate::node;

impl Session {
    /// Leaves what a hold has to a seat that another thread of the process may take over. None if the
    /// servers have to be told of its end.
    pub(crate) fn pass_on(&self, seat: &Arc<Seat>) -> Option<Arc<Seat>> {
        seat.pass_on(&self.seats)
    }

    /// The same, until somebody else wants the lock, and for so long after its grant at most.
    pub(crate) fn keep(self: &Arc<Self>, seat: &Arc<Seat>, time: Duration) -> Option<Arc<Seat>> {
        let until = seat.may_keep(time)?;
        let heir = seat.pass_on(&self.seats)?;
        if heir.is_unattended() {
            self.attend(&heir);
        }
        self.timer.set(until);
        Some(heir)
    }

    /// Gives a seat up that nobody has taken over. Nothing if somebody has.
    pub(crate) fn end_unwanted(self: &Arc<Self>, seat: &Arc<Seat>) {
        if let Some(over) = seat.end(Ending::Unwanted, Moment::now, &self.garbage) {
            self.seats.remove(seat);
            self.delete_unwanted(seat, over);
        }
    }

    /// What is kept is not kept over the end of its connection.
    pub(super) fn end_kept_on(self: &Arc<Self>, connection: &Arc<Connection>) {
        for seat in self.seats.all() {
            if seat.held_on().is_some_and(|on| Arc::ptr_eq(&on, connection)) {
                self.end_unwanted(&seat);
            }
        }
    }

    /// Does something with a seat, or with the one that has what it had: again, if it was passed on
    /// meanwhile.
    pub(super) fn on_heir(&self, seat: &Arc<Seat>, mut act: impl FnMut(&Arc<Seat>)) {
        let mut seat = self.heir(seat);
        loop {
            act(&seat);
            let heir = self.heir(&seat);
            if Arc::ptr_eq(&heir, &seat) {
                return;
            }
            seat = heir;
        }
    }

    /// The seat that has what this one had, if that was passed on.
    pub(super) fn heir(&self, seat: &Arc<Seat>) -> Arc<Seat> {
        let heir = self.seats.get(seat.number());
        heir.unwrap_or_else(|| Arc::clone(seat))
    }

    /// Something has changed in a seat's directory, where its node stands: somebody has come.
    pub(super) fn recall(self: &Arc<Self>, number: u64) {
        if let Some(seat) = self.seats.get(number) {
            self.on_heir(&seat, |seat| {
                seat.recall();
                self.end_unwanted(seat);
            });
        }
    }

    pub(super) fn recalls(&self) -> &Receiver<u64> {
        &self.recalls.1
    }

    /// Has the seat's directory watched from now on, and looks who is there already.
    fn attend(self: &Arc<Self>, seat: &Arc<Seat>) {
        let Some((name, connection)) = seat.own() else {
            return;
        };
        let directory = seat.claim().directory.clone();
        let full = format!("{}{}", connection.chroot(), directory.as_str());
        let (events, number) = (self.recalls.0.clone(), seat.number());
        seat.attended(connection.watches().listen(full, events, number));
        let session = Arc::clone(self);
        connection.run(move |wire| {
            if is_alone(wire, directory.as_str(), &name) != Ok(true) {
                session.recall(number);
            }
        });
    }
}

/// Sets the watch.
fn is_alone(wire: &Wire<'_>, directory: &str, own: &str) -> Result<bool, Failure> {
    let names = wire.children(directory, true)?;
    let contends = |name: &&String| node::kind_of(name).is_some() && *name != own;
    Ok(!names.iter().any(|name| contends(&name)))
}
