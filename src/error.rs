//! The one error type of the crate, and why a hold was lost. It knows no other layer.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use crate::path::PathError;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// That somebody else holds a lock is *not* an error: `try_lock` and its relatives say `Ok(false)`
/// or `Ok(None)`. Not knowing is one: without a live connection they say [`Error::Disconnected`].
///
/// The texts are lower case, without a full stop, and name the object and what was wrong with it.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum Error {
    /// The path is not one that a lock can live at.
    InvalidPath {
        /// The path as it was given.
        path: String,
        /// Which rule it breaks, and where.
        reason: String,
    },
    /// Another argument is not usable.
    InvalidArgument {
        /// Which argument.
        what: &'static str,
        /// What was wrong with it.
        reason: String,
    },
    /// No server of the list could be reached when the client was made.
    Connect {
        /// The connect string.
        hosts: String,
        /// What each server that was tried said.
        cause: String,
    },
    /// An answer that the call cannot do without did not come in time.
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// There is no live connection, or it broke before the answer came, so whether the lock is
    /// free is not known. The client reconnects by itself: try again.
    Disconnected {
        /// The lock's path.
        path: String,
    },
    /// The hold is over although nobody released it. Another client may hold the lock by now.
    Lost {
        /// The lock's path.
        path: String,
        /// How it came about.
        reason: LossReason,
    },
    /// `unlock()` of a lock that is not locked, or `release()` of a hold that is over.
    NotHeld {
        /// The lock's path.
        path: String,
    },
    /// `unlock()` of a lock that another thread of this process owns.
    NotOwner {
        /// The lock's path.
        path: String,
        /// The thread that owns it.
        owner: ThreadId,
    },
    /// The calling thread holds this lock through another object of the same client, so the call
    /// would wait for itself.
    WouldDeadlock {
        /// The lock's path.
        path: String,
    },
    /// `cancel_waiters()` was called while this call was waiting.
    Cancelled {
        /// The lock's path.
        path: String,
    },
    /// The client has been closed.
    Closed,
    /// The server refused for want of permission: the credentials or the ACL do not fit.
    Denied {
        /// The znode concerned.
        path: String,
    },
    /// A limit of this library was reached.
    Limit {
        /// What there would be too much of.
        what: &'static str,
        /// The most there may be.
        max: usize,
    },
    /// The server answered with an error that has no meaning of its own here.
    ZooKeeper {
        /// The znode concerned.
        path: String,
        /// The server's error.
        cause: Arc<dyn StdError + Send + Sync>,
    },
}

/// How a hold was lost.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The certified lease ran out before the servers were heard of again: they may have expired
    /// the session and let the next contender in.
    LeaseExpired,
    /// The node that stands for the hold was deleted by somebody else.
    NodeDeleted,
    /// The connection broke, and the next one found that the node was gone: the servers had ended
    /// the session before its time, or somebody deleted the node meanwhile.
    NotConfirmed,
    /// The client was closed while the lock was held.
    ClientClosed,
}

impl Error {
    /// Is it worth calling again? True for [`Error::Disconnected`] and [`Error::Timeout`], which
    /// pass when the connection is back.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Disconnected { .. } | Error::Timeout { .. })
    }

    /// Was a hold lost?
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Error::Lost { .. })
    }

    /// Is the client closed?
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Error::Closed)
    }

    /// Was the call ended by `cancel_waiters()`?
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Error::Cancelled { .. })
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Error {
        let PathError { path, reason } = error;
        Error::InvalidPath { path, reason }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::LeaseExpired => "its lease ran out",
            LossReason::NodeDeleted => "its node was deleted",
            LossReason::NotConfirmed => "its node was gone when the connection was back",
            LossReason::ClientClosed => "the client was closed",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidPath { path, reason } => write!(f, "invalid path {path:?}: {reason}"),
            Error::InvalidArgument { what, reason } => write!(f, "invalid {what}: {reason}"),
            Error::Connect { hosts, cause } => {
                write!(f, "failed to connect to ZooKeeper at {hosts:?}: {cause}")
            }
            Error::Timeout { what, after } => write!(f, "no {what} within {after:?}"),
            Error::Disconnected { path } => {
                write!(
                    f,
                    "no connection to ZooKeeper, or no answer in time, for {path:?}"
                )
            }
            Error::Lost { path, reason } => write!(f, "lock {path:?} was lost: {reason}"),
            Error::NotHeld { path } => write!(f, "lock {path:?} is not held"),
            Error::NotOwner { path, owner } => {
                write!(f, "lock {path:?} is owned by another thread ({owner:?})")
            }
            Error::WouldDeadlock { path } => write!(
                f,
                "this thread holds lock {path:?} through another object and would wait for itself"
            ),
            Error::Cancelled { path } => write!(f, "waiting for lock {path:?} was cancelled"),
            Error::Closed => f.write_str("the client is closed"),
            Error::Denied { path } => write!(f, "permission denied at {path:?}"),
            Error::Limit { what, max } => write!(f, "too much: {what} is limited to {max}"),
            Error::ZooKeeper { path, cause } => write!(f, "request at {path:?} failed: {cause}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::ZooKeeper { cause, .. } => Some(&**cause),
            _ => None,
        }
    }
}
