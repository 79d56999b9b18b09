//! The reading side of a read-write lock: what each thread of this process holds. Threads do not
//! wait for each other here; each has a place of its own in the queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use log::warn;
use parking_lot::Mutex;

use crate::attempt;
use crate::downgrade::downgrade;
use crate::error::{Error, Result};
use crate::guard::{Guard, Releases};
use crate::hold::Hold;
use crate::local::Ownership;
use crate::node::Kind;
use crate::queue;
use crate::session::{Claim, Seat, Until};
use crate::signal::Broadcast;
use crate::site::Site;
use crate::two_level::{Patience, TwoLevel};

/// The reads of one lock object.
#[derive(Debug)]
pub(crate) struct Readers {
    reads: Mutex<HashMap<ThreadId, Read>>,
    cancel: Broadcast,
    /// The writing side, which knows what the calling thread has there.
    write: Arc<TwoLevel>,
}

/// What one thread holds, and how often it has entered.
#[derive(Debug)]
struct Read {
    seat: Arc<Seat>,
    depth: u32,
}

impl Readers {
    pub(crate) fn new(write: Arc<TwoLevel>) -> Arc<Readers> {
        Arc::new(Readers { reads: Mutex::default(), cancel: Broadcast::new(), write })
    }

    pub(crate) fn path(&self) -> &str {
        self.write.path()
    }

    /// Enters. None if a writer is ahead.
    pub(crate) fn acquire(&self, patience: Patience) -> Result<Option<Arc<Seat>>> {
        let me = thread::current().id();
        if let Some(seat) = self.seat() {
            self.write.check(&seat)?;
            if let Some(read) = self.reads.lock().get_mut(&me) {
                read.depth += 1;
            }
            return Ok(Some(seat));
        }
        let seat = match self.write.seat() {
            Some(write) => Some(self.under(&write, patience)?),
            None => self.queue(patience)?,
        };
        if let Some(seat) = &seat {
            let seat = Arc::clone(seat);
            self.reads.lock().insert(me, Read { seat, depth: 1 });
        }
        Ok(seat)
    }

    fn queue(&self, patience: Patience) -> Result<Option<Arc<Seat>>> {
        match patience.now() {
            Patience::Try => attempt::attempt(self.site().session(), self.claim(), queue::attempt),
            Patience::Until(deadline) => {
                let until = Until { deadline, cancelled: self.cancel.listen() };
                attempt::wait(self.site().session(), self.claim(), &until, queue::wait)
            }
        }
    }

    fn under(&self, write: &Arc<Seat>, patience: Patience) -> Result<Arc<Seat>> {
        self.write.check(write)?;
        let session = self.site().session();
        let until = match patience.now() {
            Patience::Try => {
                let connection = session.require_live(self.path())?;
                Until::within(connection.timeout() / 3)
            }
            Patience::Until(deadline) => Until { deadline, cancelled: self.cancel.listen() },
        };
        downgrade(session, self.claim(), write, &until)
    }

    /// Releases once; with `only`, only if that is what is held.
    pub(crate) fn release(&self, only: Option<&Arc<Seat>>) -> Result<()> {
        let me = thread::current().id();
        let mut reads = self.reads.lock();
        let read =
            reads.get_mut(&me).filter(|read| only.is_none_or(|only| Arc::ptr_eq(only, &read.seat)));
        let Some(read) = read else {
            drop(reads);
            return Err(self.refuse());
        };
        let seat = Arc::clone(&read.seat);
        read.depth -= 1;
        if read.depth > 0 {
            drop(reads);
            return self.write.check(&seat);
        }
        reads.remove(&me);
        drop(reads);
        self.site().session().release(&seat)
    }

    fn refuse(&self) -> Error {
        match self.site().client.check_open() {
            Err(closed) => closed,
            Ok(()) => self.site().not_held(),
        }
    }

    pub(crate) fn guard<O>(self: &Arc<Self>, seat: Arc<Seat>) -> Guard<O> {
        let lock: Arc<dyn Releases> = Arc::clone(self) as _;
        Guard::new(self.view(seat), lock)
    }

    /// Of the calling thread.
    pub(crate) fn hold(&self) -> Option<Hold> {
        self.seat().map(|seat| self.view(seat))
    }

    fn seat(&self) -> Option<Arc<Seat>> {
        let reads = self.reads.lock();
        let read = reads.get(&thread::current().id())?;
        Some(Arc::clone(&read.seat))
    }

    pub(crate) fn depth(&self) -> u32 {
        let reads = self.reads.lock();
        reads.get(&thread::current().id()).map_or(0, |read| read.depth)
    }

    pub(crate) fn cancel_waiters(&self) {
        self.cancel.send();
    }

    fn view(&self, seat: Arc<Seat>) -> Hold {
        Hold::new(seat, Arc::clone(self.site().session()))
    }

    fn claim(&self) -> Claim {
        let site = self.site();
        site.claim(&site.path, Kind::Read, Ownership::ThisThread)
    }

    pub(crate) fn site(&self) -> &Site {
        self.write.site()
    }
}

impl Releases for Readers {
    fn release(&self, hold: &Hold) -> Result<()> {
        Readers::release(self, Some(hold.seat()))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let reads = std::mem::take(self.reads.get_mut());
        if reads.is_empty() {
            return;
        }
        warn!(
            target: "zoolock",
            "the last handle of read lock {} was dropped while it was held: releasing it",
            self.path()
        );
        let seats: Vec<_> = reads.into_values().map(|read| read.seat).collect();
        if let Err(error) = self.site().session().release_all(&seats) {
            warn!(target: "zoolock", "dropped a lock: {error}");
        }
    }
}
