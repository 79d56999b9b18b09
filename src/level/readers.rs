//! The reading side of a read-write lock: what each thread of this process holds. Threads do not
//! wait for each other here. Each thread has a separate queue position.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use log::warn;

use super::local::Ownership;
use super::site::Site;
use super::two_level::TwoLevel;
use crate::error::{Error, LossReason, Result};
use crate::guard::Releases;
use crate::hold::Hold;
use crate::names::{self, Mode};
use crate::observer::Call;
use crate::patience::Patience;
use crate::recipe::{Queue, Recipe, Under};
use crate::session::Grant;
use crate::signal::{Broadcast, Until};
use crate::sys::thread::{self, ThreadId};
use crate::sys::{self, Mutex};

/// What a reader asks for, and who owns it.
const AS_READER: (Option<Mode>, Ownership) = (Some(Mode::Read), Ownership::ThisThread);

/// The reads of one lock object.
pub(crate) struct Readers {
    reads: Mutex<HashMap<ThreadId, Read>>,
    cancel: Broadcast,
    /// The writing side, which knows what the calling thread holds there.
    write: Arc<TwoLevel>,
}

/// The hold of one thread, and its entry count.
struct Read {
    grant: Arc<Grant>,
    depth: u32,
}

impl Readers {
    pub(crate) fn new(write: Arc<TwoLevel>) -> Arc<Readers> {
        Arc::new(Readers { reads: Mutex::default(), cancel: Broadcast::new(), write })
    }

    pub(crate) fn path(&self) -> &str {
        self.write.path()
    }

    /// Enters. Returns `None` if a writer is ahead.
    pub(crate) fn acquire(&self, patience: Patience) -> Result<Option<Arc<Grant>>> {
        let me = thread::current().id();
        if let Some(grant) = self.grant() {
            grant.check()?;
            if let Some(read) = self.reads.lock().get_mut(&me) {
                read.depth += 1;
            }
            return Ok(Some(grant));
        }
        self.site().observe(AS_READER, patience, |patience, call| {
            let grant = match self.write.grant() {
                Some(write) => self.under(&write, patience, call)?,
                None => self.take(&Queue(Mode::Read), patience, call)?,
            };
            if let Some(grant) = &grant {
                let grant = Arc::clone(grant);
                self.reads.lock().insert(me, Read { grant, depth: 1 });
            }
            Ok(grant)
        })
    }

    fn take(
        &self,
        recipe: &dyn Recipe,
        patience: Patience,
        call: Option<&Call>,
    ) -> Result<Option<Arc<Grant>>> {
        let site = self.site();
        let claim = site.claim(&site.path, AS_READER);
        match patience {
            Patience::Try => site.take(&claim, recipe, None, call),
            Patience::Until(deadline) => {
                let cancelled = self.cancel.listen();
                site.take(&claim, recipe, Some(&Until { deadline, cancelled }), call)
            }
        }
    }

    /// Takes the read under the thread's own write.
    fn under(
        &self,
        write: &Arc<Grant>,
        patience: Patience,
        call: Option<&Call>,
    ) -> Result<Option<Arc<Grant>>> {
        write.check()?;
        write.nodes().read_under();
        if !names::sequence(&write.list()[0].name).is_some_and(names::is_normal) {
            // Its number does not tell its position, so the read shares the write's node.
            return match write.share() {
                Some(read) => {
                    sys::reached("a read shares the node of its write");
                    Ok(Some(read))
                }
                None => write.check().map(|()| None),
            };
        }
        let read = self.take(&Under(write), patience, call);
        if let Err(Error::Lost { reason: LossReason::NodeDeleted, .. }) = &read {
            self.site().session().node_gone(write.nodes());
        }
        read
    }

    /// Releases once. With `only`, only if that is the current hold.
    pub(crate) fn release(&self, only: Option<&Arc<Grant>>) -> Result<()> {
        let me = thread::current().id();
        let mut reads = self.reads.lock();
        let read = reads
            .get_mut(&me)
            .filter(|read| only.is_none_or(|only| Arc::ptr_eq(only, &read.grant)));
        let Some(read) = read else {
            drop(reads);
            return Err(self.site().refuse());
        };
        let grant = Arc::clone(&read.grant);
        read.depth -= 1;
        if read.depth > 0 {
            drop(reads);
            return grant.check();
        }
        reads.remove(&me);
        drop(reads);
        self.site().session().release(&grant)
    }

    /// Returns the hold of the calling thread.
    pub(crate) fn hold(&self) -> Option<Hold> {
        self.grant().map(|grant| Hold::new(grant, 0))
    }

    fn grant(&self) -> Option<Arc<Grant>> {
        let reads = self.reads.lock();
        reads.get(&thread::current().id()).map(|read| Arc::clone(&read.grant))
    }

    pub(crate) fn depth(&self) -> u32 {
        let reads = self.reads.lock();
        reads.get(&thread::current().id()).map_or(0, |read| read.depth)
    }

    pub(crate) fn cancel_waiters(&self) {
        self.cancel.send();
    }

    pub(crate) fn site(&self) -> &Site {
        self.write.site()
    }
}

impl Releases for Readers {
    fn release(&self, hold: &Hold) -> Result<()> {
        Readers::release(self, Some(hold.grant()))
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, holders) = (self.path(), self.reads.lock().len());
        f.debug_struct("Readers").field("path", &path).field("holders", &holders).finish()
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let reads = std::mem::take(self.reads.get_mut());
        if reads.is_empty() {
            return;
        }
        sys::reached("the last handle of a held read lock is dropped");
        warn!(
            target: "zoolock",
            "the last handle of read lock {} was dropped while it was held: releasing it",
            self.path()
        );
        for read in reads.into_values() {
            if let Err(error) = self.site().session().release(&read.grant) {
                warn!(target: "zoolock", "dropped a lock: {error}");
            }
        }
    }
}
