//! Instants and durations, in nanoseconds of the history's clock.

use std::time::Duration;

/// Nanoseconds since some instant that the whole history agrees on.
pub type Nanos = u64;

/// Returns the instant this long after another.
pub fn after(begin: Nanos, span: Duration) -> Nanos {
    begin.saturating_add(nanos(span) as Nanos)
}

/// Returns a span in milliseconds, to two decimal places.
pub fn millis(nanos: i64) -> f64 {
    (nanos as f64 / 1e4).round() / 1e2
}

/// Returns how much later `late` is than `early`; negative if it is earlier.
pub fn difference(late: Nanos, early: Nanos) -> i64 {
    late as i64 - early as i64
}

/// Returns a span in nanoseconds.
pub(crate) fn nanos(span: Duration) -> i64 {
    span.as_nanos().try_into().unwrap_or(i64::MAX)
}
