//! Creating a seat's node: the one place that decides who owns the answer.

use std::sync::Arc;

use super::Session;
use super::call::Failure;
use super::connection::Connection;
use super::garbage;
use super::seat::Seat;
use super::wire::{Make, Wire, rules_out};
use crate::node;

impl Session {
    /// Makes the seat's first node on `on`, whose wire this is, with a place at the end of its
    /// directory, and the directory if need be.
    pub(crate) fn enter(
        &self,
        seat: &Seat,
        wire: &Wire<'_>,
        on: &Arc<Connection>,
    ) -> Result<(), Failure> {
        loop {
            let (id, claim) = (seat.enter(on)?, seat.claim());
            let prefix = node::new_name_prefix(&id, claim.kind);
            match self.create(seat, wire, &id, &prefix, Make::Contender) {
                Err(failure) if failure.is_no_node() => self.make_directories(wire, claim)?,
                made => return made,
            }
        }
    }

    /// Creates the node that carries `id`, which has entered the seat before. Afterwards it is
    /// the seat's, or does not exist, or is on the garbage list.
    pub(crate) fn create(
        &self,
        seat: &Seat,
        wire: &Wire<'_>,
        id: &str,
        name: &str,
        make: Make,
    ) -> Result<(), Failure> {
        let claim = seat.claim();
        let path = claim.directory.child(name);
        let made = match wire.create(&path, &seat.data(), make) {
            Ok(made) => made,
            Err(failure) => match self.was_made(wire, seat, id, failure) {
                // It stays with the seat, and is garbage after that.
                None => return Err(failure),
                Some(Some(made)) => made,
                Some(None) => {
                    seat.strike(id);
                    self.garbage.never_was(id);
                    return Err(failure);
                }
            },
        };
        if !node::carries(&made, id) {
            // Answers have got out of step with requests: nothing here can be believed.
            wire.connection().mixed_up();
            return Err(Failure::Dead);
        }
        if seat.entered(id, &made) {
            return Ok(());
        }
        // Nobody wants it any more; the node is on the garbage list without its name.
        self.garbage.created(id, &made);
        let _ = self.garbage.delete(wire, id);
        Err(Failure::Cancelled)
    }

    /// The node that a create made although it failed, if that can be known: what an error means
    /// that the crate does not know is for the directory to say.
    fn was_made(
        &self,
        wire: &Wire<'_>,
        seat: &Seat,
        id: &str,
        failure: Failure,
    ) -> Option<Option<String>> {
        match failure {
            Failure::Refused(error) if rules_out(error) => Some(None),
            Failure::Refused(_) => garbage::find(wire, &seat.claim().directory, id).ok(),
            _ => None,
        }
    }
}
