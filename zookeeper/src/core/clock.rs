//! The clocks of the machine at one instant. This module depends only on the system.

use std::time::{Duration, Instant, SystemTime};

use crate::sys;

/// Practically never: a deadline this far ahead does not pass.
pub(crate) const FOREVER: Duration = Duration::from_secs(1 << 32);

/// One reading of three clocks.
///
/// The monotonic clock stops while a machine is suspended (Linux `CLOCK_MONOTONIC`). The clock of the
/// time since boot does not (`CLOCK_BOOTTIME`). Both stop while a host pauses its virtual machine. The
/// system clock can be set, rightly or wrongly. Only all three together limit the time that may have
/// passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) monotonic: Instant,
    pub(crate) boot: Duration,
    pub(crate) system: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment { monotonic: sys::now(), boot: sys::since_boot(), system: sys::system_time() }
    }

    /// Returns the longest time that may have passed since `earlier`: that of the clock which has
    /// advanced furthest. A clock that was set back counts as zero, never as an error.
    pub(crate) fn at_most_since(self, earlier: Moment) -> Duration {
        let monotonic = self.monotonic.saturating_duration_since(earlier.monotonic);
        let boot = self.boot.saturating_sub(earlier.boot);
        let system = self.system.duration_since(earlier.system);
        monotonic.max(boot).max(system.unwrap_or(Duration::ZERO))
    }

    /// Returns a reading that is this much later by all clocks.
    #[cfg(test)]
    pub(crate) fn after(self, passed: Duration) -> Moment {
        let Moment { monotonic, boot, system } = self;
        Moment { monotonic: monotonic + passed, boot: boot + passed, system: system + passed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn clock_that_advanced_most_counts() {
        let second = Duration::from_secs(1);
        for hours in [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]] {
            let earlier = Moment::now();
            let [monotonic, boot, system] = hours.map(|hours| second + HOUR * hours);
            let later = Moment {
                monotonic: earlier.monotonic + monotonic,
                boot: earlier.boot + boot,
                system: earlier.system + system,
            };
            assert_eq!(later.at_most_since(earlier), HOUR + second, "{hours:?}");
            assert_eq!(earlier.at_most_since(later), Duration::ZERO, "set back: {hours:?}");
        }
    }
}
