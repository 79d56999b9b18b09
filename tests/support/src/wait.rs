//! Waits for conditions, with a deadline. Only this file sleeps.

use std::thread;
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Polls `condition` until it is true, and returns how long that took.
///
/// Checks the condition at least once, and a last time after the deadline. If it is still false then, panics with
/// `what` and the time.
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    if poll(deadline, || condition().then_some(())).is_none() {
        panic!("waited {:.1?} in vain until {what}", start.elapsed());
    }
    start.elapsed()
}

/// Polls until `look` returns a value. Returns `None` if it does not within `deadline`.
pub fn poll<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + deadline;
    let mut pause = FIRST_PAUSE;
    loop {
        let last = Instant::now() >= end;
        if let Some(found) = look() {
            return Some(found);
        }
        if last {
            return None;
        }
        thread::sleep(pause.min(end.saturating_duration_since(Instant::now())));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
