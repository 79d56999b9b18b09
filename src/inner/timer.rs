//! When background work is due next.

use std::time::Instant;

use crate::sys::Mutex;

/// The earliest instant at which something is due. An alarm cannot be called off, so a later one
/// that was set before finds that it is not current and does nothing.
#[derive(Debug, Default)]
pub(super) struct Timer(Mutex<Option<Instant>>);

impl Timer {
    /// Returns whether an alarm has to be set for `when`, because none is due before.
    pub(super) fn sets(&self, when: Instant) -> bool {
        let mut due = self.0.lock();
        let is_earlier = due.is_none_or(|due| when < due);
        if is_earlier {
            *due = Some(when);
        }
        is_earlier
    }

    /// Returns whether the alarm for `when` is current, and takes it out.
    pub(super) fn fires(&self, when: Instant) -> bool {
        self.0.lock().take_if(|due| *due == when).is_some()
    }
}
