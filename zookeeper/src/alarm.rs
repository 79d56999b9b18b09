//! A sleep that other threads can shorten. Uses no other file.

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
    /// Makes the thread wake at `at` or before. Wakes it now only if it would sleep longer.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn alarm_set_while_awake_ends_the_next_sleep() {
        let alarm = Alarm::default();
        alarm.set(Instant::now());
        let begun = Instant::now();
        alarm.sleep(begun + HOUR);
        assert!(begun.elapsed() < HOUR / 2, "slept {:?}", begun.elapsed());
    }

    #[test]
    fn earlier_alarm_ends_a_sleep_and_a_later_one_never_extends_it() {
        let alarm = Alarm::default();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| alarm.sleep(Instant::now() + HOUR));
            alarm.set(Instant::now() + HOUR * 2);
            alarm.set(Instant::now());
            sleeper.join().expect("the sleeper ends");
        });
    }
}
