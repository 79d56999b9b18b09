//! What all processes of a run share: times, sizes, and the random numbers that a seed gives.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use zoolock_judge::Margins;

/// The servers' `tickTime`.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// The session timeout, five ticks.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(2500);
/// How long `try_lock` and `unlock` may wait for an answer.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_nanos(TIMEOUT.as_nanos() as u64 / 3);

/// What the clock and the machine may add.
pub(crate) const MARGINS: Margins = Margins {
    overshoot: Duration::from_secs(1),
    // Of a lease of about half the session timeout not much is left.
    machine_late: Duration::from_nanos(TIMEOUT.as_nanos() as u64 / 25),
    // Calls that have not returned are known by heartbeats and at the end of the phase.
    let_in: Duration::MAX,
    // The servers end sessions with a tick's delay, and another one is for all that comes behind
    // that.
    leader_again: TIMEOUT.saturating_add(TICK.saturating_mul(2)),
    rest: Duration::from_nanos(TIMEOUT.as_nanos() as u64 * 3 / 2),
    silence: Duration::from_nanos(TIMEOUT.as_nanos() as u64 / 2),
    effect: Duration::from_millis(100),
    nap: TICK,
    least_late_writes: 10,
};

/// How often a client process tells which calls it is in.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
pub(crate) const PROCESSES: usize = 4;

pub(crate) fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// The generator of one process, thread or phase. The same numbers give the same choices,
/// whatever the others do.
pub(crate) fn rng(seed: u64, parts: &[u64]) -> Rng {
    let mix = |seed: u64, part: &u64| Rng::with_seed(seed.rotate_left(17) ^ part).u64(..);
    Rng::with_seed(parts.iter().fold(seed, mix))
}
