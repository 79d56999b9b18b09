//! Both clocks of the machine at one instant. It knows no other layer.

use std::time::{Duration, Instant, SystemTime};

/// One reading of the monotonic and the system clock.
///
/// The monotonic clock stands still while a machine is suspended (Linux `CLOCK_MONOTONIC`), the
/// system clock can be set. Only both together bound how much time may have passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) monotonic: Instant,
    pub(crate) system: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment {
            monotonic: Instant::now(),
            system: SystemTime::now(),
        }
    }

    /// The most time that may have passed since `earlier`: what the clock that went further says.
    /// A system clock that was set back counts as no time, never as an error.
    pub(crate) fn at_most_since(self, earlier: Moment) -> Duration {
        let monotonic = self.monotonic.saturating_duration_since(earlier.monotonic);
        let system = self.system.duration_since(earlier.system);
        monotonic.max(system.unwrap_or(Duration::ZERO))
    }
}
