//! The reading side of a read-write lock: the holds of each thread of this process. Threads do not
//! wait for each other here. Each thread has its own position in the ZooKeeper queue.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::raw::RawLock;
use super::site::Site;
use super::two_level::TwoLevel;
use crate::base::error::{Error, LossReason, Result};
use crate::base::kind::LockKind;
use crate::base::names;
use crate::base::panics::{log_drop, log_last_handle};
use crate::base::sys::Mutex;
use crate::base::sys::thread::{self, ThreadId};
use crate::base::wait::{Until, Wait};
use crate::observer::Report;
use crate::queue::Recipe;
use crate::session::{Grant, release};

/// The reads of one lock object.
pub(crate) struct Readers {
    reads: Mutex<HashMap<ThreadId, Read>>,
    site: Site,
    /// The writing side, which contains the write hold of the calling thread.
    write: Arc<TwoLevel>,
}

/// The hold of one thread, and how often the thread has locked it.
struct Read {
    grant: Arc<Grant>,
    depth: u32,
}

impl Readers {
    pub(crate) fn new(write: Arc<TwoLevel>) -> Arc<Readers> {
        let facts = &write.site().facts;
        let (directory, options) = (facts.directory.clone(), facts.options.clone());
        let site = write.site().part(directory, LockKind::Read, options);
        Arc::new(Readers { reads: Mutex::default(), site, write })
    }

    /// Acquires a read *under* a write: while the thread itself holds the write lock.
    fn under(
        &self,
        write: &Arc<Grant>,
        until: &Until,
        report: Option<&Report>,
    ) -> Result<Option<Arc<Grant>>> {
        write.check()?;
        if !names::sequence(&write.list()[0].name).is_some_and(names::is_normal) {
            // The position of the write node does not follow from its number, so the read shares
            // this node.
            write.nodes().mark_read_under();
            let read = write.nodes().share(write);
            return read.map_or_else(|| write.check().map(|()| None), |read| Ok(Some(read)));
        }
        let read = self.site.take(Recipe::Under(write), None, until, report);
        // After one of these errors, the call owns no node: it created none, or gave its node up.
        if !matches!(read, Err(Error::LimitExceeded { .. } | Error::PermissionDenied { .. })) {
            write.nodes().mark_read_under();
        }
        if let Err(Error::Lost { reason: LossReason::NodeDeleted, .. }) = &read {
            self.site.inner().holds.node_gone(write.nodes());
            // The hold may have been lost earlier, for another reason.
            write.check()?;
        }
        read
    }
}

impl RawLock for Readers {
    fn site(&self) -> &Site {
        &self.site
    }

    fn acquire(&self, wait: Wait) -> Result<Option<Arc<Grant>>> {
        let me = thread::current().id();
        if let Some(grant) = self.grant() {
            wait.check(self.path())?;
            grant.check()?;
            if let Some(read) = self.reads.lock().get_mut(&me) {
                read.depth += 1;
            }
            return Ok(Some(grant));
        }
        self.site.observe(&wait, |until, report| {
            let grant = match self.write.grant() {
                Some(write) => self.under(&write, until, report)?,
                None => self.site.take(Recipe::Queue(LockKind::Read), None, until, report)?,
            };
            if let Some(grant) = &grant {
                let grant = Arc::clone(grant);
                self.reads.lock().insert(me, Read { grant, depth: 1 });
            }
            Ok(grant)
        })
    }

    fn release_once(&self, only: Option<&Arc<Grant>>) -> Result<()> {
        let me = thread::current().id();
        let mut reads = self.reads.lock();
        let is_it = |read: &&mut Read| only.is_none_or(|only| Arc::ptr_eq(only, &read.grant));
        let Some(read) = reads.get_mut(&me).filter(is_it) else {
            drop(reads);
            return Err(self.site.refusal());
        };
        let grant = Arc::clone(&read.grant);
        read.depth -= 1;
        let is_last = read.depth == 0;
        if is_last {
            reads.remove(&me);
        }
        drop(reads);
        if is_last { release(&self.site.inner().holds, &grant) } else { grant.check() }
    }

    fn grant(&self) -> Option<Arc<Grant>> {
        let reads = self.reads.lock();
        reads.get(&thread::current().id()).map(|read| Arc::clone(&read.grant))
    }

    fn depth(&self) -> u32 {
        let reads = self.reads.lock();
        reads.get(&thread::current().id()).map_or(0, |read| read.depth)
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
        log_last_handle(&format!("read lock {}", self.path()));
        for read in reads.into_values() {
            log_drop("lock", release(&self.site.inner().holds, &read.grant));
        }
    }
}
