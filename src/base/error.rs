//! The one error type of the crate, and the reasons of a loss.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zookeeper::ConnectFailure;

use crate::base::sys::thread::ThreadId;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// Finding a lock taken is *not* an error: `try_lock` and its relatives return `Ok(false)` or
/// `Ok(None)`. If they cannot find out, because there is no live connection, they return the error
/// [`Error::Disconnected`].
///
/// | error | what to do |
/// |---|---|
/// | [`Disconnected`](Error::Disconnected) | call again; the client reconnects |
/// | [`CloseTimeout`](Error::CloseTimeout) | nothing; the servers end the session themselves |
/// | [`Lost`](Error::Lost) | stop what the lock guards, then lock again if needed |
/// | [`Connect`](Error::Connect) | check the address, and try later; its [`failure`](crate::ConnectFailure) tells what failed |
/// | [`AuthFailed`](Error::AuthFailed) | check the credentials |
/// | [`SpawnThread`](Error::SpawnThread) | raise the process's limits of threads and memory |
/// | [`PermissionDenied`](Error::PermissionDenied) | check credentials and ACLs |
/// | [`LimitExceeded`](Error::LimitExceeded) | hold fewer locks, or use more clients; after an outage, try again later |
/// | [`Multiple`](Error::Multiple) | look at each failure |
/// | [`Cancelled`](Error::Cancelled), [`Closed`](Error::Closed) | nothing unusual: the program itself cancelled the call, or closed the client |
/// | [`Conflict`](Error::Conflict) | read again, and check whether the write is still needed |
/// | [`NotHeld`](Error::NotHeld), [`NotOwner`](Error::NotOwner) | fix the caller, which unlocks too often or on the wrong thread |
/// | [`WouldDeadlock`](Error::WouldDeadlock) | share the lock object; unlock the read before taking the write |
/// | [`InvalidPath`](Error::InvalidPath), [`InvalidArgument`](Error::InvalidArgument) | fix the program or the setting; the text says what is wrong |
/// | [`ZooKeeper`](Error::ZooKeeper) | see its source, and the server's log |
///
/// The texts are in lower case, without a full stop. Each names the object and what is wrong with
/// it.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum Error {
    /// A lock cannot live at this path. ZooKeeper's rules apply to any path: it is absolute, and
    /// has no empty part, no part `.` or `..`, no control or private characters, and no characters
    /// above U+FFEF. This crate adds four rules. The path is not the root, and not in `/zookeeper`.
    /// It has at most 255 bytes in a part, and 4096 in all without the chroot. No part has the name
    /// [of a contender](crate::guide::names#paths). Calls that lock also return this if an existing
    /// node is in the way.
    InvalidPath {
        /// The path as it was given.
        path: String,
        /// The rule that it breaks, and where.
        reason: String,
    },
    /// Another argument, or a setting, cannot be used.
    InvalidArgument {
        /// The argument or setting.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// No server of the list could be reached when the client was created.
    Connect {
        /// The connect string.
        hosts: String,
        /// The answer of each server that was tried.
        cause: String,
        /// What failed, for programs.
        failure: ConnectFailure,
    },
    /// A server refused the credentials when the client was created.
    AuthFailed {
        /// The connect string.
        hosts: String,
        /// The answer of each server that was tried.
        cause: String,
    },
    /// The operating system refused a thread to a new [`Client`](crate::Client) or
    /// [`Leadership`](crate::Leadership).
    SpawnThread {
        /// The message of the operating system.
        cause: String,
    },
    /// `Client::close` was not confirmed in time.
    CloseTimeout {
        /// What the call waited for.
        what: &'static str,
        /// The limit of the wait, from the call or from the end of the connection before it.
        after: Duration,
    },
    /// There is no live connection, it broke before the answer came, or the call's time was over
    /// before, and nobody was seen ahead. So the client does not know whether the lock is free. It
    /// reconnects by itself: try again.
    Disconnected {
        /// The lock's path.
        path: String,
    },
    /// The hold ended without a release. Another client may hold the lock by now.
    Lost {
        /// The lock's path.
        path: String,
        /// How the hold was lost.
        reason: LossReason,
    },
    /// The lock is held, but a node is not in the state that the
    /// [`Transaction`](crate::Transaction) requires. No write of the transaction was carried out.
    Conflict {
        /// The path of the node.
        path: String,
        /// How the node differs.
        reason: ConflictReason,
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
    /// The calling thread already holds this lock, through another object of the same client or as
    /// a reader. The call would wait for that hold, or behind a writer that waits for it.
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
    /// The server refused the request for lack of permission: the ACL does not allow it with these
    /// credentials.
    PermissionDenied {
        /// The lock's path. For a node that cannot be deleted, or that the program reads or writes,
        /// the path of this node.
        path: String,
    },
    /// A limit of this library was reached.
    LimitExceeded {
        /// What is limited.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// Some of several locks could not be released. The call tried all of them: locks without a
    /// failure here are released.
    Multiple {
        /// The failures, in the order in which they happened. After a call that could not take all
        /// of its locks, the first is the cause, if that was a failure. The others are from giving
        /// back the locks that it had taken.
        failures: Vec<Error>,
    },
    /// The server answered with an error that has no other variant here.
    ZooKeeper {
        /// The lock's path.
        path: String,
        /// The server's error.
        cause: Arc<dyn StdError + Send + Sync>,
    },
}

/// How a hold was lost.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The certified lease ran out before the client heard from the servers again. They may have
    /// expired the session and let the next contender in. Or the servers reported that the session
    /// has ended, which an operator can bring about early.
    LeaseExpired,
    /// Another client deleted the node that stands for the hold.
    NodeDeleted,
    /// The client was closed while the lock was held.
    ClientClosed,
    /// It was held for longer than
    /// [`LockOptions::hold_at_most`](crate::LockOptions::hold_at_most) allows.
    HeldTooLong,
}

/// How a node differs from what a [`Transaction`](crate::Transaction) requires.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConflictReason {
    /// The node has another version, because a client has written to it.
    BadVersion,
    /// The node does not exist.
    NoNode,
    /// The node already exists.
    NodeExists,
    /// The node cannot be created, because it has no parent.
    NoParent,
    /// The node cannot be deleted, because it has children.
    NotEmpty,
}

impl Error {
    pub(crate) fn invalid(what: &'static str, reason: impl Into<String>) -> Error {
        Error::InvalidArgument { what, reason: reason.into() }
    }

    /// Returns the reason of the loss that this error reports.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        match self {
            Error::Lost { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    /// Returns whether the call is worth repeating. True for [`Error::Disconnected`] and
    /// [`Error::CloseTimeout`], which pass when the connection is back. True for
    /// [`Error::Multiple`] if its first failure, which ended the call, is one of these.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Disconnected { .. } | Error::CloseTimeout { .. } => true,
            Error::Multiple { failures } => failures.first().is_some_and(Error::is_retryable),
            _ => false,
        }
    }

    /// Returns whether a hold was lost. For [`Error::Multiple`], returns whether one of its holds
    /// was lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.any(|error| matches!(error, Error::Lost { .. }))
    }

    /// Returns whether the client is closed. For [`Error::Multiple`], returns whether the client of
    /// one of its locks is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.any(|error| matches!(error, Error::Closed))
    }

    /// Returns whether `cancel_waiters()` ended the call.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.any(|error| matches!(error, Error::Cancelled { .. }))
    }

    /// Returns whether `is_it` is true for this error, or for one of those that it contains.
    fn any(&self, is_it: fn(&Error) -> bool) -> bool {
        match self {
            Error::Multiple { failures } => failures.iter().any(|error| error.any(is_it)),
            error => is_it(error),
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::LeaseExpired => "its lease ran out",
            LossReason::NodeDeleted => "its node was deleted",
            LossReason::ClientClosed => "the client was closed",
            LossReason::HeldTooLong => "it was held for longer than its options allow",
        })
    }
}

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConflictReason::BadVersion => "the node has another version",
            ConflictReason::NoNode => "there is no such node",
            ConflictReason::NodeExists => "the node exists already",
            ConflictReason::NoParent => "the node above it does not exist",
            ConflictReason::NotEmpty => "the node has children",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidPath { path, reason } => write!(f, "invalid path {path:?}: {reason}"),
            Error::InvalidArgument { what, reason } => write!(f, "invalid {what}: {reason}"),
            Error::Connect { hosts, cause, .. } | Error::AuthFailed { hosts, cause } => {
                write!(f, "failed to connect to ZooKeeper at {hosts:?}: {cause}")
            }
            Error::SpawnThread { cause } => write!(f, "failed to start a thread: {cause}"),
            Error::CloseTimeout { what, after } => write!(f, "no {what} within {after:?}"),
            Error::Disconnected { path } => {
                write!(f, "no connection to ZooKeeper, or no answer in time, for {path:?}")
            }
            Error::Lost { path, reason } => write!(f, "lock {path:?} was lost: {reason}"),
            Error::Conflict { path, reason } => {
                write!(f, "nothing was written: at {path:?}, {reason}")
            }
            Error::NotHeld { path } => write!(f, "lock {path:?} is not held"),
            Error::NotOwner { path, owner } => {
                write!(f, "lock {path:?} is owned by another thread ({owner:?})")
            }
            Error::WouldDeadlock { path } => write!(
                f,
                "this thread holds lock {path:?} through another object or mode, and would wait for itself"
            ),
            Error::Cancelled { path } => write!(f, "waiting for lock {path:?} was cancelled"),
            Error::Closed => f.write_str("the client is closed"),
            Error::PermissionDenied { path } => write!(f, "permission denied at {path:?}"),
            Error::LimitExceeded { what, max } => write!(f, "too much: {what} is limited to {max}"),
            Error::Multiple { failures } => {
                f.write_str("failed on some of several locks")?;
                for (index, failure) in failures.iter().enumerate() {
                    write!(f, "{}{failure}", if index == 0 { ": " } else { "; " })?;
                }
                Ok(())
            }
            Error::ZooKeeper { path, cause } => write!(f, "request at {path:?} failed: {cause}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::ZooKeeper { cause, .. } => Some(&**cause),
            Error::Multiple { failures } => failures.first().map(|first| first as _),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_error_reports_every_failure() {
        let path = |path: &str| path.to_owned();
        let disconnected = Error::Disconnected { path: path("/b") };
        let lost = Error::Lost { path: path("/a"), reason: LossReason::LeaseExpired };
        let failures = vec![disconnected.clone(), lost.clone()];
        let both = Error::Multiple { failures };
        println!("{both}");
        let expected = format!("failed on some of several locks: {disconnected}; {lost}");
        assert_eq!(both.to_string(), expected);
        let source = both.source().map(ToString::to_string);
        assert_eq!(source, Some(disconnected.to_string()));
        assert!(both.is_retryable() && both.is_lost());
        assert!(!both.is_closed() && !both.is_cancelled());

        let failures = vec![lost, disconnected, Error::Closed];
        let unlocking = Error::Multiple { failures };
        assert!(!unlocking.is_retryable() && unlocking.is_lost() && unlocking.is_closed());
    }
}
