//! The outages of a client's connection, for calls that limit how long they wait for a connection.
//! This module does not send requests.

use std::time::{Duration, Instant};

use crate::base::signal::{Broadcast, Ended};
use crate::base::sys::{self, Mutex};

/// Whether a client has a connection, according to the events that it has received.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// When the current outage began.
    since: Mutex<Option<Instant>>,
    /// Sent when an outage begins.
    begun: Broadcast,
}

impl Outages {
    pub(crate) fn begin(&self) {
        self.since.lock().get_or_insert_with(sys::now);
        self.begun.send();
    }

    pub(crate) fn end(&self) {
        *self.since.lock() = None;
    }

    /// Returns a signal that is ready when the next outage begins.
    pub(crate) fn next(&self) -> Ended {
        self.begun.listen()
    }

    /// Returns the instant at which the current outage becomes too long for a call that began at
    /// `begun`. Returns `None` if the limit is too large for the clock.
    pub(crate) fn too_long_at(&self, begun: Instant, limit: Duration) -> Option<Instant> {
        let since = *self.since.lock();
        since?.max(begun).checked_add(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_that_is_over_is_not_counted() {
        let (outages, limit) = (Outages::default(), Duration::from_millis(20));
        let begun = sys::now();
        outages.begin();
        assert!(outages.too_long_at(begun, limit) >= begun.checked_add(limit));
        outages.end();
        assert_eq!(outages.too_long_at(begun, limit), None);
        let later = sys::now();
        outages.begin();
        assert!(outages.too_long_at(begun, limit) >= later.checked_add(limit));
    }
}
