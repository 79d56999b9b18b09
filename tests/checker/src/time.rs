//! Instants and durations, in nanoseconds on the clock of the history.

use std::time::Duration;

/// Nanoseconds since a fixed instant, which is the same for the whole history.
pub type Nanos = u64;

/// Returns the instant at this time after another one.
pub fn after(begin: Nanos, span: Duration) -> Nanos {
    begin.saturating_add(nanos(span) as Nanos)
}

/// Returns a duration in milliseconds, to two decimal places.
pub fn millis(nanos: i64) -> f64 {
    (nanos as f64 / 1e4).round() / 1e2
}

/// Returns how much later `late` is than `early`. The result is negative if it is earlier.
pub fn difference(late: Nanos, early: Nanos) -> i64 {
    late as i64 - early as i64
}

/// Returns a duration in nanoseconds.
pub(crate) fn nanos(span: Duration) -> i64 {
    span.as_nanos().try_into().unwrap_or(i64::MAX)
}
