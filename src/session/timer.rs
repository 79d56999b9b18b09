//! When background work is due next.

use std::sync::Arc;
use std::time::Instant;

use zookeeper::ZooKeeper;

use crate::base::sys::Mutex;

/// The earliest instant at which something is due. An alarm cannot be called off, so a later one
/// that was set before finds that it is not current and does nothing.
#[derive(Debug, Default)]
pub(super) struct Timer(Mutex<Option<Instant>>);

impl Timer {
    /// Has `attend` called at `when` or before. `attend` gets the instant of its alarm.
    pub(super) fn set<T>(
        &self,
        when: Instant,
        zk: &ZooKeeper,
        of: &Arc<T>,
        attend: fn(&Arc<T>, Instant),
    ) where
        T: Send + Sync + 'static,
    {
        let mut due = self.0.lock();
        if due.is_some_and(|due| due <= when) {
            return;
        }
        *due = Some(when);
        drop(due);
        let of = Arc::downgrade(of);
        zk.call_at(when, move || {
            of.upgrade().inspect(|of| attend(of, when));
        });
    }

    /// Returns whether the alarm for `when` is current, and takes it out.
    pub(super) fn fires(&self, when: Instant) -> bool {
        self.0.lock().take_if(|due| *due == when).is_some()
    }
}
