//! The register of a client's live seats.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::seat::{Claim, Seat};
use crate::error::{Error, Result};
use crate::signal::Signal;

/// The most bytes of node paths a client may have. A session that owns 38,000 nodes, closed, makes
/// one transaction so large that a standalone server cannot restart (ZOOKEEPER-4306).
const MOST_PATH_BYTES: usize = 512 * 1024;
/// What a node's name adds to its directory's path: `/_c_`, 36 characters of id, a marker and ten
/// digits.
const NAME_BYTES: usize = 64;

/// All live seats: those that wait and those that hold.
#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<Registry>);

#[derive(Debug, Default)]
struct Registry {
    by_number: HashMap<u64, Arc<Seat>>,
    next: u64,
    path_bytes: usize,
    closed: bool,
}

impl Seats {
    pub(super) fn add(&self, claim: Claim) -> Result<Arc<Seat>> {
        let mut registry = self.0.lock();
        registry.make_room(&claim, 1)?;
        Ok(registry.add(claim, None))
    }

    /// So many that are taken together.
    pub(super) fn add_group(&self, claim: &Claim, count: usize) -> Result<Vec<Arc<Seat>>> {
        let mut registry = self.0.lock();
        registry.make_room(claim, count)?;
        let any_ended = Arc::new(Signal::new());
        let seats = (0..count).map(|_| registry.add(claim.clone(), Some(Arc::clone(&any_ended))));
        Ok(seats.collect())
    }

    /// Not one whose place another one has [taken](Seats::replace).
    pub(super) fn remove(&self, seat: &Seat) {
        let mut registry = self.0.lock();
        let there = registry.by_number.get(&seat.number());
        if there.is_some_and(|there| ptr::eq(Arc::as_ptr(there), seat)) {
            registry.by_number.remove(&seat.number());
            registry.path_bytes -= path_bytes(seat.claim());
        }
    }

    /// Puts a seat in the place of the one with its number. False if that is not there any more.
    pub(super) fn replace(&self, seat: &Arc<Seat>) -> bool {
        let mut registry = self.0.lock();
        let old = registry.by_number.get_mut(&seat.number());
        old.map(|old| *old = Arc::clone(seat)).is_some()
    }

    pub(super) fn get(&self, number: u64) -> Option<Arc<Seat>> {
        self.0.lock().by_number.get(&number).cloned()
    }

    /// The seats as they are now, to be looked at without the mutex.
    pub(super) fn all(&self) -> Vec<Arc<Seat>> {
        self.0.lock().by_number.values().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().by_number.len()
    }

    /// Takes no more, and lets go of all there are.
    pub(super) fn close(&self) -> Vec<Arc<Seat>> {
        let mut registry = self.0.lock();
        registry.closed = true;
        std::mem::take(&mut registry.by_number).into_values().collect()
    }
}

impl Registry {
    fn make_room(&mut self, claim: &Claim, count: usize) -> Result<()> {
        if self.closed {
            return Err(Error::Closed);
        }
        let bytes = path_bytes(claim).saturating_mul(count);
        if self.path_bytes.saturating_add(bytes) > MOST_PATH_BYTES {
            return Err(Error::Limit {
                what: "bytes of node paths of one client",
                max: MOST_PATH_BYTES,
            });
        }
        self.path_bytes += bytes;
        Ok(())
    }

    fn add(&mut self, claim: Claim, any_ended: Option<Arc<Signal>>) -> Arc<Seat> {
        self.next += 1;
        let seat = Arc::new(Seat::new(self.next, claim, any_ended));
        self.by_number.insert(self.next, Arc::clone(&seat));
        seat
    }
}

fn path_bytes(claim: &Claim) -> usize {
    claim.directory.as_str().len() + NAME_BYTES
}
