//! How long a call for a lock may wait: what `lock`, `try_lock` and all their variants come down
//! to.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::sys;

/// How long a call for a lock may wait, for [`Lock::lock_within`](crate::Lock::lock_within).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For the servers' answers only, for at most a third of the session timeout.
    Try,
    /// Until this instant at most, which includes the wait for a connection; `None` waits without a
    /// limit. An instant that has passed is the same as `Try`.
    Until(Option<Instant>),
}

impl Wait {
    pub(crate) const FOREVER: Wait = Wait::Until(None);

    /// Turns a timeout into a deadline. One too large for the clock waits forever.
    pub(crate) fn within(timeout: Duration) -> Wait {
        Wait::Until(sys::now().checked_add(timeout))
    }

    pub(crate) fn until(deadline: Instant) -> Wait {
        Wait::Until(Some(deadline))
    }

    /// Turns a deadline that has passed into a try.
    pub(crate) fn now(self) -> Wait {
        match self {
            Wait::Until(Some(end)) if end <= sys::now() => Wait::Try,
            wait => wait,
        }
    }
}

/// Returns what a call without a limit got. A lock of this crate never returns without it.
pub(crate) fn surely<T>(got: Option<T>, path: &str) -> Result<T> {
    got.ok_or_else(|| Error::NotHeld { path: path.to_owned() })
}
