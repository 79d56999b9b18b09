//! Both clocks of the machine at one instant. It knows no other layer but the system.

use std::time::{Duration, Instant, SystemTime};

use crate::sys;

/// One reading of the monotonic and the system clock.
///
/// The monotonic clock stands still while a machine is suspended (Linux `CLOCK_MONOTONIC`), the
/// system clock can be set. Only both together bound how much time may have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) monotonic: Instant,
    pub(crate) system: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment { monotonic: sys::now(), system: sys::system_time() }
    }

    /// The most time that may have passed since `earlier`: what the clock that went further says.
    /// A system clock that was set back counts as no time, never as an error.
    pub(crate) fn at_most_since(self, earlier: Moment) -> Duration {
        let monotonic = self.monotonic.saturating_duration_since(earlier.monotonic);
        let system = self.system.duration_since(earlier.system);
        monotonic.max(system.unwrap_or(Duration::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn after(earlier: Moment, monotonic: Duration, system: Duration) -> Moment {
        Moment { monotonic: earlier.monotonic + monotonic, system: earlier.system + system }
    }

    #[test]
    fn the_clock_that_went_further_counts() {
        let earlier = Moment::now();
        let (second, zero) = (Duration::from_secs(1), Duration::ZERO);
        for (monotonic, system) in [(HOUR, second), (second, HOUR), (HOUR, HOUR), (zero, HOUR)] {
            let passed = after(earlier, monotonic, system).at_most_since(earlier);
            assert_eq!(passed, HOUR, "monotonic {monotonic:?}, system {system:?}");
        }
    }

    #[test]
    fn a_system_clock_set_back_counts_as_no_time() {
        let earlier = Moment::now();
        let set_back = Moment { monotonic: earlier.monotonic, system: earlier.system - HOUR };
        assert_eq!(set_back.at_most_since(earlier), Duration::ZERO);
    }

    #[test]
    fn a_moment_before_the_earlier_one_is_no_time_ago() {
        let later = Moment::now();
        let earlier = after(later, HOUR, HOUR);
        assert_eq!(later.at_most_since(earlier), Duration::ZERO);
    }
}
