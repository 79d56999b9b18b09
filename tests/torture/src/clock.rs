//! The time that all processes of the run agree on.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the machine's monotonic clock.
pub(crate) type Nanos = u64;

pub(crate) fn now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(crate) fn after(begin: Nanos, span: Duration) -> Nanos {
    begin + span.as_nanos() as u64
}

pub(crate) fn millis(nanos: i64) -> f64 {
    (nanos as f64 / 1e4).round() / 1e2
}

/// How much later `late` is than `early`; negative if it is earlier.
pub(crate) fn difference(late: Nanos, early: Nanos) -> i64 {
    late as i64 - early as i64
}
