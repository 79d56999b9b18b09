//! A sleep that others can shorten, for the threads that mostly wait.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Farther than anyone looks ahead.
const FAR: Duration = Duration::from_secs(3600);

/// Wakes one thread, at the earliest instant that anybody asked for.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// What was asked for since the thread last woke; none means nothing.
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Alarm {
    pub(crate) fn new() -> Alarm {
        Alarm { at: Mutex::new(None), changed: Condvar::new() }
    }

    /// The thread shall be awake at `at` or before. Costs a wake-up only if it would not be.
    pub(crate) fn set(&self, at: Instant) {
        let mut earliest = self.at.lock();
        if earliest.is_none_or(|earliest| at < earliest) {
            *earliest = Some(at);
            self.changed.notify_one();
        }
    }

    /// Wakes it now.
    pub(crate) fn ring(&self) {
        self.set(Instant::now());
    }

    /// Sleeps until `until`, or the earliest instant that was set meanwhile or since the last
    /// sleep. What is set while the thread is awake is not forgotten. Returns the instant that it
    /// meant to wake at.
    pub(crate) fn sleep(&self, until: Instant) -> Instant {
        let mut earliest = self.at.lock();
        let until = until.min(Instant::now() + FAR);
        *earliest = Some(earliest.map_or(until, |at| at.min(until)));
        loop {
            let at = earliest.unwrap_or(until);
            if Instant::now() >= at {
                *earliest = None;
                return at;
            }
            self.changed.wait_until(&mut earliest, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_set_while_awake_ends_the_next_sleep() {
        let alarm = Alarm::new();
        alarm.ring();
        let begun = Instant::now();
        alarm.sleep(begun + FAR);
        assert!(begun.elapsed() < FAR / 2, "slept {:?}", begun.elapsed());
    }

    #[test]
    fn an_earlier_alarm_ends_a_sleep_and_a_later_one_does_not_lengthen_it() {
        let alarm = Alarm::new();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| alarm.sleep(Instant::now() + FAR));
            alarm.set(Instant::now() + FAR * 2);
            alarm.set(Instant::now());
            sleeper.join().expect("the sleeper ends");
        });
    }
}
