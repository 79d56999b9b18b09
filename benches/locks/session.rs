//! What a lock is asked to do when it is measured, for those that run in a program of ours.

use std::error::Error;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What is to be locked at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Mutex,
    Read,
    Write,
}

/// A client with a session, or whatever it has of that kind, of its own.
pub(crate) trait Session: Send + Sync {
    /// A lock that several threads may use at once. Takes no request.
    fn lock(&self, path: &str, side: Side) -> Outcome<Box<dyn Exclusive>>;

    /// How many requests it has sent, if it counts them.
    fn requests(&self) -> Option<u64> {
        None
    }
}

/// A lock, which is given back by the thread that has it.
pub(crate) trait Exclusive: Send + Sync {
    /// Waits for as long as it takes.
    fn lock(&self) -> Outcome<()>;

    fn unlock(&self) -> Outcome<()>;

    /// False if somebody else has it.
    fn try_lock(&self) -> Outcome<bool>;
}

/// What to say when there is no such thing.
pub(crate) fn lacks<T>(what: &str) -> Outcome<T> {
    Err(format!("it has no {what}").into())
}
