//! A sleep that other threads can shorten. This module does not depend on others.

use std::time::Instant;

use crate::sys::{self, Condvar, Mutex};

/// Wakes one thread, at the earliest requested instant.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    /// The earliest instant requested since the thread last woke.
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Alarm {
    /// Makes the thread wake at `at` or earlier. Notifies it now only if it would sleep longer.
    pub(crate) fn set(&self, at: Instant) {
        let mut earliest = self.at.lock();
        if earliest.is_none_or(|earliest| at < earliest) {
            *earliest = Some(at);
            self.changed.notify_one();
        }
    }

    /// Sleeps until `until`, or until the earliest instant that was set since the last sleep.
    pub(crate) fn sleep(&self, until: Instant) {
        let mut earliest = self.at.lock();
        let mut at = earliest.map_or(until, |at| at.min(until));
        *earliest = Some(at);
        while sys::now() < at {
            self.changed.wait_until(&mut earliest, at);
            at = earliest.map_or(at, |earlier| earlier.min(at));
        }
        *earliest = None;
    }
}
