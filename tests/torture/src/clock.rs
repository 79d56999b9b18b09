//! The clock that all processes of the run share.

use rustix::time::{ClockId, clock_gettime};

pub(crate) use zoolock_judge::{Nanos, after, difference, millis};

/// Nanoseconds of the machine's monotonic clock.
pub(crate) fn now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
