//! The sizes of the run that processes share.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The servers' `tickTime`.
pub(crate) const TICK: Duration = Duration::from_millis(500);
/// The session timeout, five ticks.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(2500);
/// How long `try_lock`, `unlock` and `fencing_token` may wait for an answer.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_nanos(TIMEOUT.as_nanos() as u64 / 3);

/// How often a client process says what it is at.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
pub(crate) const PROCESSES: usize = 4;

pub(crate) fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}
