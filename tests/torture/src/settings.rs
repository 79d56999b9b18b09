//! Settings shared by all processes of a run: times, sizes, and the random numbers of a seed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use zoolock_judge::Margins;

/// The servers' `tickTime`.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// The session timeout, five ticks.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(2500);
/// The longest wait of `try_lock` and `unlock` for an answer.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_nanos(TIMEOUT.as_nanos() as u64 / 3);

/// Tolerances for the clock and the machine.
pub(crate) const MARGINS: Margins = Margins {
    overshoot: Duration::from_secs(1),
    // Little is left of a lease of about half the session timeout.
    machine_late: Duration::from_nanos(TIMEOUT.as_nanos() as u64 / 25),
    // Heartbeats and the end of the phase reveal calls that have not returned.
    let_in: Duration::MAX,
    least_late_writes: 10,
};

/// The sleep of the thread that only sleeps.
pub(crate) const NAP: Duration = Duration::from_millis(20);
/// How often a client process reports its current calls.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
pub(crate) const PROCESSES: usize = 4;

pub(crate) fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// The generator of one process, thread or phase. The same numbers give the same choices, whatever the others
/// do.
pub(crate) fn rng(seed: u64, parts: &[u64]) -> Rng {
    let mix = |seed: u64, part: &u64| Rng::with_seed(seed.rotate_left(17) ^ part).u64(..);
    Rng::with_seed(parts.iter().fold(seed, mix))
}
