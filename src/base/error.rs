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
/// | [`MaybeDone`](Error::MaybeDone) | read whether the write was carried out |
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
/// | [`ZooKeeper`](Error::ZooKeeper) | see its cause, and the server's log |
///
/// [`kind`](Error::kind) groups them by what a service answers. [`is_retryable`](Error::is_retryable)
/// and [`is_maybe_done`](Error::is_maybe_done) are about the call that failed.
///
/// The texts are in lower case, without a full stop. Each names the object and what is wrong with
/// it, including the cause. Therefore [`source`](StdError::source) returns nothing.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum Error {
    /// A lock cannot live at this path. ZooKeeper's rules apply to any path: it is absolute, and
    /// has no empty part, no part `.` or `..`, no control or private characters, and no characters
    /// above U+FFEF. This crate adds four rules. The path is not the root, and not in `/zookeeper`.
    /// It has at most 255 bytes in a part, and 4096 in all without the chroot. No part has the name
    /// [of a contender](crate::guide::names#paths). Calls that lock also return this if an existing
    /// node is in the way.
    #[non_exhaustive]
    InvalidPath {
        /// The path as it was given.
        path: String,
        /// The rule that it breaks, and where.
        reason: String,
    },
    /// Another argument, or a setting, cannot be used.
    #[non_exhaustive]
    InvalidArgument {
        /// The argument or setting.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// No server of the list could be reached when the client was created.
    #[non_exhaustive]
    Connect {
        /// The connect string.
        hosts: String,
        /// The answer of each server that was tried.
        cause: String,
        /// What failed, for programs.
        failure: ConnectFailure,
    },
    /// A server refused the credentials when the client was created.
    #[non_exhaustive]
    AuthFailed {
        /// The connect string.
        hosts: String,
        /// The answer of each server that was tried.
        cause: String,
    },
    /// The operating system refused a thread to a new [`Client`](crate::Client) or
    /// [`Leadership`](crate::Leadership).
    #[non_exhaustive]
    SpawnThread {
        /// The message of the operating system.
        cause: String,
    },
    /// `Client::close` was not confirmed in time.
    #[non_exhaustive]
    CloseTimeout {
        /// The limit of the wait, from the call or from the end of the connection before it.
        after: Duration,
    },
    /// There is no live connection, it broke before the answer came, or the call's time was over
    /// before, and no other contender was seen ahead. Therefore the client does not know whether
    /// the lock is free. It reconnects by itself: call again. The call has changed nothing, and
    /// holds nothing.
    #[non_exhaustive]
    Disconnected {
        /// The lock's path.
        path: String,
    },
    /// The answer to a write was lost: the servers may have carried it out, or may yet do so.
    /// Returned by [`Transaction::commit`](crate::Transaction::commit),
    /// [`Client::revoke`](crate::Client::revoke),
    /// [`Client::break_lock`](crate::Client::break_lock) and
    /// [`Registration::end_session`](crate::Registration::end_session). A release without an answer is not an
    /// error, because the client repeats the deletion until the node is gone.
    #[non_exhaustive]
    MaybeDone {
        /// The lock's path.
        path: String,
    },
    /// The hold ended without a release. Another client may hold the lock by now.
    #[non_exhaustive]
    Lost {
        /// The lock's path.
        path: String,
        /// How the hold was lost.
        reason: LossReason,
    },
    /// The lock is held, but a node is not in the state that the
    /// [`Transaction`](crate::Transaction) requires. No write of the transaction was carried out.
    #[non_exhaustive]
    Conflict {
        /// The path of the node.
        path: String,
        /// How the node differs.
        reason: ConflictReason,
    },
    /// `unlock()` of a lock that is not locked, or `release()` of a hold that is over.
    #[non_exhaustive]
    NotHeld {
        /// The lock's path.
        path: String,
    },
    /// `unlock()` of a lock that another thread of this process owns.
    #[non_exhaustive]
    NotOwner {
        /// The lock's path.
        path: String,
        /// The thread that owns it.
        owner: ThreadId,
    },
    /// The calling thread already holds this lock, through another object of the same client or as
    /// a reader. The call would wait for that hold, or behind a writer that waits for it.
    #[non_exhaustive]
    WouldDeadlock {
        /// The lock's path.
        path: String,
    },
    /// `cancel_waiters()` was called while this call was waiting.
    #[non_exhaustive]
    Cancelled {
        /// The lock's path.
        path: String,
    },
    /// The client has been closed.
    Closed,
    /// The server refused the request for lack of permission: the ACL does not allow it with these
    /// credentials.
    #[non_exhaustive]
    PermissionDenied {
        /// The lock's path. For a node that cannot be deleted, or that the program reads or writes,
        /// the path of this node.
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
    /// Some of several locks could not be released. The call tried all of them: locks without a
    /// failure here are released.
    #[non_exhaustive]
    Multiple {
        /// The failures, in the order in which they happened. After a call that could not take all
        /// of its locks, the first is the cause, if that was a failure. The others are from giving
        /// back the locks that it had taken.
        failures: Vec<Error>,
    },
    /// The server answered with an error that has no other variant here.
    #[non_exhaustive]
    ZooKeeper {
        /// The lock's path.
        path: String,
        /// The server's error.
        cause: Arc<dyn StdError + Send + Sync>,
    },
}

/// What kind of failure an [`Error`] is, by what a service does about it.
///
/// The answers are suggestions for the status codes of HTTP. Where
/// [`is_maybe_done`](Error::is_maybe_done) is true, answer 504 instead: the client has to read
/// before it tries again.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The servers cannot be reached, or have not answered in time. Answer 503, and try again.
    Unavailable,
    /// A limit of this library was reached, or a server throttles its clients. Answer 503 or 429,
    /// and try again later.
    Busy,
    /// The lock was lost. Answer 503. The writes of a [`Transaction`](crate::Transaction) were not
    /// carried out.
    Lost,
    /// The program itself cancelled the call, or closed the client. Answer 503.
    Cancelled,
    /// A node is not as the call requires. Answer 409.
    Conflict,
    /// The servers refused the credentials, or an ACL does not allow the call. Answer 500.
    Denied,
    /// The program or a setting is wrong. Answer 500, or 400 for a path that a user has chosen.
    Misuse,
    /// Any other failure. Answer 500.
    Other,
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
    /// Creates [`Error::NotHeld`], for a [`Lock`](crate::Lock) of your own.
    #[must_use]
    pub fn not_held(path: impl AsRef<str>) -> Error {
        Error::NotHeld { path: path.as_ref().to_owned() }
    }

    /// Creates [`Error::Disconnected`], for a [`Lock`](crate::Lock) of your own.
    #[must_use]
    pub fn disconnected(path: impl AsRef<str>) -> Error {
        Error::Disconnected { path: path.as_ref().to_owned() }
    }

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

    /// Returns what kind of failure this is. For [`Error::Multiple`], returns the kind of the first
    /// failure, which is the cause.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Connect { .. }
            | Error::Disconnected { .. }
            | Error::MaybeDone { .. }
            | Error::CloseTimeout { .. } => ErrorKind::Unavailable,
            Error::LimitExceeded { .. } => ErrorKind::Busy,
            Error::Lost { .. } => ErrorKind::Lost,
            Error::Cancelled { .. } | Error::Closed => ErrorKind::Cancelled,
            Error::Conflict { .. } => ErrorKind::Conflict,
            Error::PermissionDenied { .. } | Error::AuthFailed { .. } => ErrorKind::Denied,
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

    /// Returns whether the same call may succeed later, and has done nothing so far. True for
    /// [`ErrorKind::Unavailable`] and [`ErrorKind::Busy`], unless
    /// [`is_maybe_done`](Error::is_maybe_done) is true.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::Busy) && !self.is_maybe_done()
    }

    /// Returns whether the outcome is unknown: the call may have been carried out, or may yet be.
    /// True for [`Error::MaybeDone`] and [`Error::CloseTimeout`]. False is certain: no write of a
    /// [`Transaction`](crate::Transaction) was carried out, nor will be.
    #[must_use]
    pub fn is_maybe_done(&self) -> bool {
        self.any(|error| matches!(error, Error::MaybeDone { .. } | Error::CloseTimeout { .. }))
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
            Error::CloseTimeout { after } => {
                write!(f, "no server has confirmed the end of the session within {after:?}")
            }
            Error::Disconnected { path } => {
                write!(f, "no connection to ZooKeeper, or no answer in time, for {path:?}")
            }
            Error::MaybeDone { path } => {
                write!(f, "no answer for {path:?}: it may or may not have been carried out")
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
        println!("{both}");
        let expected = format!("failed on some of several locks: {disconnected}; {lost}");
        assert_eq!(both.to_string(), expected);
        assert!(both.source().is_none(), "it is printed already");
        assert!(both.is_retryable() && both.is_lost());
        assert!(!both.is_closed() && !both.is_cancelled());

        let failures = vec![lost, disconnected, Error::Closed];
        let unlocking = Error::Multiple { failures };
        assert_eq!(unlocking.kind(), ErrorKind::Lost);
        assert!(!unlocking.is_retryable() && unlocking.is_lost() && unlocking.is_closed());
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
            println!("{error}");
            let seen = (error.kind(), error.is_retryable(), error.is_maybe_done());
            assert_eq!(seen, (kind, is_retryable, is_maybe_done));
        }
    }
}
