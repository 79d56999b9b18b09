//! The trait of lock objects. It hides the in-process queue and the ZooKeeper queue from the
//! handles of users.

use std::fmt;
use std::sync::Arc;

use super::site::Site;
use crate::base::error::Result;
use crate::base::wait::Wait;
use crate::held::guard::Releases;
use crate::held::hold::Hold;
use crate::session::Grant;

impl<T: RawLock> Releases for T {
    fn release(&self, hold: &Hold) -> Result<()> {
        self.release_once(Some(hold.grant()))
    }
}

/// A lock object with one hold, or with one hold for each thread.
pub(crate) trait RawLock: Releases + fmt::Debug {
    fn site(&self) -> &Site;

    /// Acquires the lock in both queues. Returns `None` if another contender is ahead, now or until
    /// the deadline.
    fn acquire(&self, wait: Wait) -> Result<Option<Arc<Grant>>>;

    /// Releases the lock once. If `only` is given, releases the lock only if that is the current
    /// hold.
    fn release_once(&self, only: Option<&Arc<Grant>>) -> Result<()>;

    /// Returns the grant of the calling thread. If any thread may unlock the object, returns the
    /// grant of the object.
    fn grant(&self) -> Option<Arc<Grant>>;

    /// Returns how many times the calling thread has locked without unlocking.
    fn depth(&self) -> u32;

    fn path(&self) -> &str {
        self.site().path()
    }

    /// Returns the hold of the calling thread. If any thread may unlock the object, returns the
    /// hold of the object.
    fn hold(&self) -> Option<Hold> {
        self.grant().map(|grant| self.hold_of(grant))
    }

    fn hold_of(&self, grant: Arc<Grant>) -> Hold {
        Hold::new(self.site().inner(), grant, 0)
    }
}
