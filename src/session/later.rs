//! Calls that happen later, on a thread of the client: when an answer arrives, or at an instant. A
//! scheduled call does not keep its object alive.

use std::sync::Arc;
use std::time::Instant;

use zookeeper::Pending;

use super::requests::Requests;
use crate::base::sys::Mutex;

/// Calls `then` with this object and the answer to a request, if the object still exists.
pub(super) fn on_done<T: Send + Sync + 'static, A: Send + 'static>(
    answer: Pending<A>,
    of: &Arc<T>,
    then: impl FnOnce(&Arc<T>, zookeeper::Result<A>) + Send + 'static,
) {
    let of = Arc::downgrade(of);
    answer.on_done(move |answer| drop(of.upgrade().inspect(|of| then(of, answer))));
}

/// The earliest instant at which something is due. An alarm cannot be cancelled. Instead, an alarm
/// that was replaced by an earlier one detects that it is not current, and does nothing.
#[derive(Debug, Default)]
pub(super) struct Timer(Mutex<Option<Instant>>);

impl Timer {
    /// Schedules a call of `attend` at `when` or earlier. `attend` receives the instant of its
    /// alarm.
    pub(super) fn set<T: Send + Sync + 'static>(
        &self,
        when: Instant,
        requests: &Requests,
        of: &Arc<T>,
        attend: fn(&Arc<T>, Instant),
    ) {
        let mut due = self.0.lock();
        if due.is_some_and(|due| due <= when) {
            return;
        }
        *due = Some(when);
        drop(due);
        requests.call_at(when, of, move |of| attend(of, when));
    }

    /// Returns whether the alarm for `when` is current, and removes it.
    pub(super) fn fires(&self, when: Instant) -> bool {
        self.0.lock().take_if(|due| *due == when).is_some()
    }
}
