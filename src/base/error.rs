//! The only error type of the crate, and the reasons why a hold is lost.

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
/// A lock that is taken is *not* an error: `try_lock` and its variants return `Ok(false)` or
/// `Ok(None)`. If there is no live connection, the calls cannot find out whether the lock is taken,
/// and return [`Error::Disconnected`].
///
/// | error | what to do |
/// |---|---|
/// | [`Disconnected`](Error::Disconnected) | call again; the client reconnects |
/// | [`MaybeDone`](Error::MaybeDone) | read the node to find out whether the write was carried out |
/// | [`CloseTimeout`](Error::CloseTimeout) | nothing; the servers end the session themselves |
/// | [`Lost`](Error::Lost) | stop the work that the lock protects, then lock again if needed |
/// | [`Connect`](Error::Connect) | check the address or the credentials, and try again later; its [`failure`](crate::ConnectFailure) is the step that failed |
/// | [`SpawnThread`](Error::SpawnThread) | raise the limits on threads and memory of the process |
/// | [`PermissionDenied`](Error::PermissionDenied) | check credentials and ACLs |
/// | [`LimitExceeded`](Error::LimitExceeded) | hold fewer locks, or use more clients; after an outage, try again later |
/// | [`Multiple`](Error::Multiple) | handle each failure |
/// | [`Cancelled`](Error::Cancelled), [`Closed`](Error::Closed) | nothing unusual: the program itself cancelled the call, or closed the client |
/// | [`Conflict`](Error::Conflict) | read again, and check whether the write is still needed |
/// | [`NotHeld`](Error::NotHeld), [`NotOwner`](Error::NotOwner) | fix the caller, which unlocks too often or on the wrong thread |
/// | [`WouldDeadlock`](Error::WouldDeadlock) | share the lock object; unlock the read before taking the write |
/// | [`InvalidPath`](Error::InvalidPath), [`InvalidArgument`](Error::InvalidArgument) | fix the program or the setting; the text contains the reason |
/// | [`ZooKeeper`](Error::ZooKeeper) | check its cause, and the server's log |
///
/// [`kind`](Error::kind) groups the errors by the answer that a service gives to its own client.
/// [`is_retryable`](Error::is_retryable) returns whether the call can be repeated, and
/// [`is_maybe_done`](Error::is_maybe_done) returns whether the outcome of the call is unknown.
///
/// The texts are in lower case, without a full stop. Each text names the object, what is wrong with
/// it, and the cause. Because the text already includes the cause, [`source`](StdError::source)
/// returns `None`.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum Error {
    /// A lock cannot be at this path. ZooKeeper's rules apply to any path: a path is absolute, and
    /// does not contain empty parts, the parts `.` and `..`, control or private characters, or
    /// characters above U+FFEF. This crate adds four rules. The path is neither the root nor below
    /// `/zookeeper`. Each part has at most 255 bytes, and the whole path, without the chroot, at
    /// most 4096. A part must not have the name [of a contender](crate::guide::names#paths). Calls
    /// that lock also return this error if an existing node is in the way.
    #[non_exhaustive]
    InvalidPath {
        /// The path that the caller passed.
        path: String,
        /// The rule that the path breaks, and where.
        reason: String,
    },
    /// An argument other than a path, or a setting, cannot be used.
    #[non_exhaustive]
    InvalidArgument {
        /// The argument or setting.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// No server in the list could be used when the client was created.
    #[non_exhaustive]
    Connect {
        /// The connect string.
        hosts: String,
        /// The answer of each server that the client has tried.
        cause: String,
        /// The step that failed, as an enum for programs.
        failure: ConnectFailure,
    },
    /// The operating system refused to start a thread for a new [`Client`](crate::Client) or
    /// [`Leadership`](crate::Leadership).
    #[non_exhaustive]
    SpawnThread {
        /// The message of the operating system.
        cause: String,
    },
    /// The servers did not confirm `Client::close` in time.
    #[non_exhaustive]
    CloseTimeout {
        /// The limit of the wait. The time counts from the call, or from when the connection broke
        /// if that was earlier.
        after: Duration,
    },
    /// The client cannot find out whether the lock is free. Either there is no live connection, or
    /// it broke before the answer arrived, or the call timed out before the answer arrived and had
    /// not found another contender ahead. The client reconnects by itself: call again. The call has
    /// changed nothing, and holds nothing.
    #[non_exhaustive]
    Disconnected {
        /// The lock's path.
        path: String,
    },
    /// The answer to a write was lost. The servers may have carried out the write, or may still do
    /// so. Returned by [`Transaction::commit`](crate::Transaction::commit),
    /// [`Client::revoke`](crate::Client::revoke), [`Client::break_lock`](crate::Client::break_lock)
    /// and [`Registration::end_session`](crate::Registration::end_session). A release that gets no
    /// answer does not return an error, because the client repeats the deletion until the node is
    /// gone.
    #[non_exhaustive]
    MaybeDone {
        /// The lock's path.
        path: String,
    },
    /// The hold ended before it was released. Another client may already hold the lock.
    #[non_exhaustive]
    Lost {
        /// The lock's path.
        path: String,
        /// How the hold was lost.
        reason: LossReason,
    },
    /// The lock is held, but a node is not in the state that the
    /// [`Transaction`](crate::Transaction) requires. The servers carried out none of its writes.
    #[non_exhaustive]
    Conflict {
        /// The path of the node.
        path: String,
        /// How the node differs from the required state.
        reason: ConflictReason,
    },
    /// The call was `unlock()` on a lock that is not locked, or `release()` on a hold that has
    /// already ended.
    #[non_exhaustive]
    NotHeld {
        /// The lock's path.
        path: String,
    },
    /// The call was `unlock()` on a lock that another thread of this process owns.
    #[non_exhaustive]
    NotOwner {
        /// The lock's path.
        path: String,
        /// The thread that owns the lock.
        owner: ThreadId,
    },
    /// The calling thread already holds this lock, through another object of the same client or as
    /// a reader. The call would wait for that hold, or queue behind a writer that waits for it.
    #[non_exhaustive]
    WouldDeadlock {
        /// The lock's path.
        path: String,
    },
    /// The [`CancelToken`](crate::CancelToken) of the call was cancelled.
    #[non_exhaustive]
    Cancelled {
        /// The lock's path.
        path: String,
    },
    /// The client has been closed.
    Closed,
    /// The server refused the request, because the ACL does not allow it with these credentials.
    #[non_exhaustive]
    PermissionDenied {
        /// The lock's path. If the request concerned a node that cannot be deleted, or that the
        /// program reads or writes, this is the path of that node.
        path: String,
    },
    /// A limit of this library was reached.
    #[non_exhaustive]
    LimitExceeded {
        /// What is limited.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// Some of several locks could not be released. The call tried to release all of them, and
    /// released those without a failure in this list.
    #[non_exhaustive]
    Multiple {
        /// The failures, in the order in which they happened. If an error prevented a call from
        /// acquiring all of its locks, that error is first. The others happened while the call gave
        /// back the locks that it had already acquired.
        failures: Vec<Error>,
    },
    /// The server answered with an error that none of the other variants covers.
    #[non_exhaustive]
    ZooKeeper {
        /// The lock's path.
        path: String,
        /// The server's error.
        cause: Arc<dyn StdError + Send + Sync>,
    },
}

/// A kind of [`Error`]. The kinds differ in how a service responds to the failure.
///
/// The numbers are suggested HTTP status codes. If [`is_maybe_done`](Error::is_maybe_done) is true,
/// answer 504 instead: the client of the service has to read before it tries again.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The servers cannot be reached, or have not answered in time. Answer 503, and try again.
    Unavailable,
    /// A limit of this library was reached, or a server throttles the requests of its clients.
    /// Answer 503 or 429, and try again later.
    Busy,
    /// The lock was lost. Answer 503. If [`commit`](crate::Transaction::commit) returned the error,
    /// the servers did not carry out the transaction's writes.
    Lost,
    /// The program itself cancelled the call, or closed the client. Answer 503.
    Cancelled,
    /// A node is not in the state that the call requires. Answer 409.
    Conflict,
    /// The servers refused the credentials, or an ACL does not allow the call. Answer 500.
    Denied,
    /// The program or a setting is wrong. Answer 500, or 400 if the constructor of a lock refused a
    /// path that a user chose.
    Misuse,
    /// Any other failure. Answer 500.
    Other,
}

/// How a hold was lost.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// The certified lease ran out before the client received another answer from the servers,
    /// which may have expired the session and granted the lock to the next contender. This is also
    /// the reason if the servers reported that the session is over: an operator can end it early.
    LeaseExpired,
    /// Another client deleted the node that represents the hold.
    NodeDeleted,
    /// The client was closed while the lock was held.
    ClientClosed,
    /// The lock was held for longer than
    /// [`LockOptions::hold_at_most`](crate::LockOptions::hold_at_most) allows.
    HeldTooLong,
}

/// How a node differs from the state that a [`Transaction`](crate::Transaction) requires.
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
    /// Creates [`Error::NotHeld`], for your own implementation of [`Lock`](crate::Lock).
    #[must_use]
    pub fn not_held(path: impl AsRef<str>) -> Error {
        Error::NotHeld { path: path.as_ref().to_owned() }
    }

    /// Creates [`Error::Disconnected`], for your own implementation of [`Lock`](crate::Lock).
    #[must_use]
    pub fn disconnected(path: impl AsRef<str>) -> Error {
        Error::Disconnected { path: path.as_ref().to_owned() }
    }

    /// Creates [`Error::Cancelled`], for your own implementation of [`Lock`](crate::Lock).
    #[must_use]
    pub fn cancelled(path: impl AsRef<str>) -> Error {
        Error::Cancelled { path: path.as_ref().to_owned() }
    }

    pub(crate) fn invalid(what: &'static str, reason: impl Into<String>) -> Error {
        Error::InvalidArgument { what, reason: reason.into() }
    }

    /// Returns why the hold was lost, if this error reports a loss.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        match self {
            Error::Lost { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    /// Returns the kind of this failure. For [`Error::Multiple`], returns the kind of the first
    /// failure, which is the cause.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Connect { failure: ConnectFailure::Credentials, .. }
            | Error::PermissionDenied { .. } => ErrorKind::Denied,
            Error::Connect { .. }
            | Error::Disconnected { .. }
            | Error::MaybeDone { .. }
            | Error::CloseTimeout { .. } => ErrorKind::Unavailable,
            Error::LimitExceeded { .. } => ErrorKind::Busy,
            Error::Lost { .. } => ErrorKind::Lost,
            Error::Cancelled { .. } | Error::Closed => ErrorKind::Cancelled,
            Error::Conflict { .. } => ErrorKind::Conflict,
            Error::InvalidPath { .. }
            | Error::InvalidArgument { .. }
            | Error::NotHeld { .. }
            | Error::NotOwner { .. }
            | Error::WouldDeadlock { .. } => ErrorKind::Misuse,
            Error::Multiple { failures } => failures.first().map_or(ErrorKind::Other, Error::kind),
            Error::ZooKeeper { cause, .. } => match cause.downcast_ref::<zookeeper::Error>() {
                Some(cause) if cause.is_busy() => ErrorKind::Busy,
                _ => ErrorKind::Other,
            },
            Error::SpawnThread { .. } => ErrorKind::Other,
        }
    }

    /// Returns whether the call has had no effect so far and may succeed if it is repeated. True
    /// for [`ErrorKind::Unavailable`] and [`ErrorKind::Busy`], unless
    /// [`is_maybe_done`](Error::is_maybe_done) is true.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::Busy) && !self.is_maybe_done()
    }

    /// Returns whether the outcome is unknown: the servers may have carried out the call, or may
    /// still do so. True for [`Error::MaybeDone`] and [`Error::CloseTimeout`]. If this is false for
    /// an error of [`commit`](crate::Transaction::commit), it is certain that none of the
    /// transaction's writes was or will be carried out. If a later release fails, that does not
    /// undo a commit that returned `Ok`.
    #[must_use]
    pub fn is_maybe_done(&self) -> bool {
        self.any(|error| matches!(error, Error::MaybeDone { .. } | Error::CloseTimeout { .. }))
    }

    /// Returns whether a hold was lost. For [`Error::Multiple`], returns whether one of its
    /// failures is a lost hold.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.any(|error| matches!(error, Error::Lost { .. }))
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
            LossReason::HeldTooLong => {
                "it was held for longer than hold_at_most or expire_in allows"
            }
        })
    }
}

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConflictReason::BadVersion => "the node has another version",
            ConflictReason::NoNode => "the node does not exist",
            ConflictReason::NodeExists => "the node already exists",
            ConflictReason::NoParent => "its parent node does not exist",
            ConflictReason::NotEmpty => "the node has children",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidPath { path, reason } => write!(f, "invalid path {path:?}: {reason}"),
            Error::InvalidArgument { what, reason } => write!(f, "invalid {what}: {reason}"),
            Error::Connect { hosts, cause, .. } => {
                write!(f, "failed to connect to ZooKeeper at {hosts:?}: {cause}")
            }
            Error::SpawnThread { cause } => write!(f, "failed to start a thread: {cause}"),
            Error::CloseTimeout { after } => {
                write!(f, "no server confirmed the end of the session within {after:?}")
            }
            Error::Disconnected { path } => {
                write!(f, "no connection to ZooKeeper, or no answer in time, for {path:?}")
            }
            Error::MaybeDone { path } => {
                write!(f, "no answer for {path:?}: the write may or may not have been carried out")
            }
            Error::Lost { path, reason } => write!(f, "lock {path:?} was lost: {reason}"),
            Error::Conflict { path, reason } => {
                write!(f, "nothing was written: conflict at {path:?}: {reason}")
            }
            Error::NotHeld { path } => write!(f, "lock {path:?} is not held"),
            Error::NotOwner { path, owner } => {
                write!(f, "lock {path:?} is owned by another thread ({owner:?})")
            }
            Error::WouldDeadlock { path } => write!(
                f,
                "this thread already holds lock {path:?} through another object or in another mode, and would wait for itself"
            ),
            Error::Cancelled { path } => write!(f, "waiting for lock {path:?} was cancelled"),
            Error::Closed => f.write_str("the client is closed"),
            Error::PermissionDenied { path } => write!(f, "permission denied at {path:?}"),
            Error::LimitExceeded { what, max } => {
                write!(f, "limit exceeded: at most {max} {what} are allowed")
            }
            Error::Multiple { failures } => {
                let all: Vec<_> = failures.iter().map(Error::to_string).collect();
                write!(f, "failed on some of the locks: {}", all.join("; "))
            }
            Error::ZooKeeper { path, cause } => write!(f, "request at {path:?} failed: {cause}"),
        }
    }
}

impl StdError for Error {}

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
        let expected = format!("failed on some of the locks: {disconnected}; {lost}");
        assert_eq!(both.to_string(), expected);
        assert!(both.source().is_none(), "it is printed already");
        assert!(both.is_retryable() && both.is_lost());

        let failures = vec![lost, disconnected, Error::Closed];
        let unlocking = Error::Multiple { failures };
        assert_eq!(unlocking.kind(), ErrorKind::Lost);
        assert!(!unlocking.is_retryable() && unlocking.is_lost());
    }

    #[test]
    fn only_a_call_that_has_done_nothing_is_worth_repeating() {
        let path = "/a".to_owned();
        let closing = Error::CloseTimeout { after: Duration::from_secs(1) };
        let after_close = Error::Multiple { failures: vec![Error::Closed, closing.clone()] };
        for (error, kind, is_retryable, is_maybe_done) in [
            (Error::Disconnected { path: path.clone() }, ErrorKind::Unavailable, true, false),
            (Error::LimitExceeded { what: "path", max: 1 }, ErrorKind::Busy, true, false),
            (Error::MaybeDone { path: path.clone() }, ErrorKind::Unavailable, false, true),
            (closing, ErrorKind::Unavailable, false, true),
            (after_close, ErrorKind::Cancelled, false, true),
            (Error::NotHeld { path }, ErrorKind::Misuse, false, false),
        ] {
            let seen = (error.kind(), error.is_retryable(), error.is_maybe_done());
            assert_eq!(seen, (kind, is_retryable, is_maybe_done));
        }
    }
}
