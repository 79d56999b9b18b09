//! The interface of a measured lock, for contestants that run in this program.

use std::error::Error;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The lock to take at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Mutex,
    Read,
    Write,
}

/// A client with its own session, or the equivalent in its protocol.
pub(crate) trait Session: Send + Sync {
    /// Returns a lock that several threads may use at once. Sends no request.
    fn lock(&self, path: &str, side: Side) -> Outcome<Box<dyn Exclusive>>;

    /// Returns how many requests the client has sent, if it counts them.
    fn requests(&self) -> Option<u64> {
        None
    }
}

/// A lock. The thread that locked it unlocks it.
pub(crate) trait Exclusive: Send + Sync {
    /// Waits without a limit.
    fn lock(&self) -> Outcome<()>;

    fn unlock(&self) -> Outcome<()>;

    /// Returns false if another client has the lock.
    fn try_lock(&self) -> Outcome<bool>;
}

/// Returns the error of a client that lacks a feature.
pub(crate) fn lacks<T>(what: &str) -> Outcome<T> {
    Err(format!("it has no {what}").into())
}
