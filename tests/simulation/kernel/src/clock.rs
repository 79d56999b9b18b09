//! The clocks of a machine.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::scheduler::{own_process, with};

/// The time at which every run begins, in seconds since 1970.
const BEGIN: u64 = 1_700_000_000;

/// Returns the real instant that stands for the start of a run. Only its differences from other instants matter.
fn begin() -> Instant {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    *BEGIN.get_or_init(Instant::now)
}

/// Returns the monotonic clock of the process, which does not advance while the machine is suspended. Like a real
/// clock, it has advanced whenever a thread reads it again.
pub fn now() -> Instant {
    let process = own_process();
    let passed = with(|kernel| {
        kernel.now += u64::from(kernel.running().is_some());
        kernel.now.saturating_sub(kernel.machines[process.0].asleep)
    });
    begin() + Duration::from_nanos(passed)
}

/// Returns the time since the machine was booted, which does not advance only while the host pauses the machine.
pub fn since_boot() -> Duration {
    let process = own_process();
    let passed = with(|kernel| kernel.now.saturating_sub(kernel.machines[process.0].paused));
    Duration::from_nanos(passed)
}

/// Returns the true time of the run, which no fault changes.
pub fn instant() -> Instant {
    begin() + crate::scheduler::elapsed()
}

/// Returns the system clock of the process.
pub fn system_time() -> SystemTime {
    let process = own_process();
    let nanoseconds = with(|kernel| {
        let passed = i64::try_from(kernel.now).unwrap_or(i64::MAX);
        (BEGIN as i64 * 1_000_000_000) + passed + kernel.machines[process.0].ahead
    });
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default())
}

/// Converts an instant to nanoseconds since the start of the run.
pub(crate) fn count(instant: Instant) -> u64 {
    u64::try_from(instant.saturating_duration_since(begin()).as_nanos()).unwrap_or(u64::MAX / 2)
}
