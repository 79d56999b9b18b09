//! What all processes of a run share: times, sizes, and the random numbers that a seed gives.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;

/// The servers' `tickTime`.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// The session timeout, five ticks.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(2500);
/// How long `try_lock`, `unlock` and `fencing_token` may wait for an answer.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_nanos(TIMEOUT.as_nanos() as u64 / 3);

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
