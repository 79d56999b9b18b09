//! The one error type of the crate, and why a hold was lost. It knows no other file.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::sys::thread::ThreadId;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// That somebody else holds a lock is *not* an error: `try_lock` and its relatives say `Ok(false)`
/// or `Ok(None)`. Not knowing is one: without a live connection they say [`Error::Disconnected`].
///
/// | error | what to do |
/// |---|---|
/// | [`Disconnected`](Error::Disconnected) | call again; the client reconnects |
/// | [`Timeout`](Error::Timeout) | nothing; the servers end the session themselves |
/// | [`Lost`](Error::Lost) | stop what the lock guards, then lock again if need be |
/// | [`Connect`](Error::Connect) | check the address, try later |
/// | [`Refused`](Error::Refused) | check the credentials |
/// | [`Thread`](Error::Thread) | raise the process's limits of threads and memory |
/// | [`Denied`](Error::Denied) | check credentials and ACLs |
/// | [`Limit`](Error::Limit) | hold fewer locks, or have more clients; behind an outage, try again later |
/// | [`Release`](Error::Release) | look at each failure |
/// | [`Cancelled`](Error::Cancelled), [`Closed`](Error::Closed) | as the program wishes: it asked for that |
/// | [`Conflict`](Error::Conflict) | read again, and see whether it still has to be written |
/// | [`NotHeld`](Error::NotHeld), [`NotOwner`](Error::NotOwner) | a bug of the caller, who unlocks too much or elsewhere |
/// | [`WouldDeadlock`](Error::WouldDeadlock) | share the lock object; unlock the read before taking the write |
/// | [`InvalidPath`](Error::InvalidPath), [`InvalidArgument`](Error::InvalidArgument) | a bug, or a wrong setting; the text says which rule |
/// | [`ZooKeeper`](Error::ZooKeeper) | see its source, and the server's log |
///
/// The texts are lower case, without a full stop, and name the object and what was wrong with it.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub enum Error {
    /// The path is not one that a lock can live at. The rules are ZooKeeper's for any path (absolute,
    /// no empty part, no `.` or `..`, no control or private characters, nothing above U+FFEF), and four of
    /// this crate: not the root, not in `/zookeeper`, at most 255 bytes a part and 4096 in all,
    /// without the chroot, and no part that is named [as a contender](crate::guide::names#paths). Also, from calls that lock: a node that is there already and in the way.
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
    /// A server refused the credentials when the client was made.
    Refused {
        /// The connect string.
        hosts: String,
        /// What each server that was tried said.
        cause: String,
    },
    /// The operating system refused a thread to a new [`Client`](crate::Client) or
    /// [`Leadership`](crate::Leadership).
    Thread {
        /// What the operating system said.
        cause: String,
    },
    /// `Client::close` was not confirmed in time.
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long at most, since the call or the end of the connection before it.
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
    /// The lock is held, but a node is not as the [`Transaction`](crate::Transaction) says, so nothing of it
    /// was carried out.
    Conflict {
        /// The path of the node.
        path: String,
        /// What does not fit.
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
    /// The calling thread holds this lock already, through another object of the same client or as
    /// a reader, so the call would wait for itself.
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
        /// The lock's path; of a node of ours that cannot be deleted, or one that is read or written for a user,
        /// that node's.
        path: String,
    },
    /// A limit of this library was reached.
    Limit {
        /// What there would be too much of.
        what: &'static str,
        /// The most there may be.
        max: usize,
    },
    /// Of several locks that were to be released together, some failed. All were visited: those
    /// that no failure names are released.
    Release {
        /// What failed, in the order in which it happened. After a call that could not take all
        /// of its locks, the first is why, if that was a failure, and the others are of giving
        /// back what it had taken.
        failures: Vec<Error>,
    },
    /// The server answered with an error that has no meaning of its own here.
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
    /// The certified lease ran out before the servers were heard of again, so that they may have expired
    /// the session and let the next contender in; or they said that they have, before its time if an
    /// operator wanted it so.
    LeaseExpired,
    /// The node that stands for the hold was deleted by somebody else.
    NodeDeleted,
    /// The client was closed while the lock was held.
    ClientClosed,
}

/// Why a node does not fit a [`Transaction`](crate::Transaction).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConflictReason {
    /// It has another version: somebody has written to it.
    BadVersion,
    /// It is not there.
    NoNode,
    /// It is there already.
    NodeExists,
    /// It cannot be created, since there is none above it.
    NoParent,
    /// It cannot be deleted, since there are others below it.
    NotEmpty,
}

impl Error {
    /// Why the hold was lost that it tells of.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        match self {
            Error::Lost { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    /// Is it worth calling again? True for [`Error::Disconnected`] and [`Error::Timeout`], which
    /// pass when the connection is back, and for [`Error::Release`] if the first failure is one of
    /// these: it is what ended the call.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Disconnected { .. } | Error::Timeout { .. } => true,
            Error::Release { failures } => failures.first().is_some_and(Error::is_retryable),
            _ => false,
        }
    }

    /// Was a hold lost? With [`Error::Release`], was one of them?
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.any(|error| matches!(error, Error::Lost { .. }))
    }

    /// Is the client closed? With [`Error::Release`], is that of one of the locks?
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.any(|error| matches!(error, Error::Closed))
    }

    /// Was the call ended by `cancel_waiters()`?
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.any(|error| matches!(error, Error::Cancelled { .. }))
    }

    /// This error, or one of those that it is made of.
    fn any(&self, is_it: fn(&Error) -> bool) -> bool {
        match self {
            Error::Release { failures } => failures.iter().any(|error| error.any(is_it)),
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
        })
    }
}

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConflictReason::BadVersion => "it has another version",
            ConflictReason::NoNode => "it is not there",
            ConflictReason::NodeExists => "it is there already",
            ConflictReason::NoParent => "there is no node above it",
            ConflictReason::NotEmpty => "it has children",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidPath { path, reason } => write!(f, "invalid path {path:?}: {reason}"),
            Error::InvalidArgument { what, reason } => write!(f, "invalid {what}: {reason}"),
            Error::Connect { hosts, cause } | Error::Refused { hosts, cause } => {
                write!(f, "failed to connect to ZooKeeper at {hosts:?}: {cause}")
            }
            Error::Thread { cause } => write!(f, "failed to start a thread: {cause}"),
            Error::Timeout { what, after } => write!(f, "no {what} within {after:?}"),
            Error::Disconnected { path } => {
                write!(f, "no connection to ZooKeeper, or no answer in time, for {path:?}")
            }
            Error::Lost { path, reason } => write!(f, "lock {path:?} was lost: {reason}"),
            Error::Conflict { path, reason } => {
                write!(f, "nothing was written, because of {path:?}: {reason}")
            }
            Error::NotHeld { path } => write!(f, "lock {path:?} is not held"),
            Error::NotOwner { path, owner } => {
                write!(f, "lock {path:?} is owned by another thread ({owner:?})")
            }
            Error::WouldDeadlock { path } => write!(
                f,
                "this thread holds lock {path:?} already, in another way, and would wait for itself"
            ),
            Error::Cancelled { path } => write!(f, "waiting for lock {path:?} was cancelled"),
            Error::Closed => f.write_str("the client is closed"),
            Error::Denied { path } => write!(f, "permission denied at {path:?}"),
            Error::Limit { what, max } => write!(f, "too much: {what} is limited to {max}"),
            Error::Release { failures } => {
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
            Error::Release { failures } => failures.first().map(|first| first as _),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_failures_tell_what_each_of_them_tells() {
        let path = |path: &str| path.to_owned();
        let disconnected = Error::Disconnected { path: path("/b") };
        let lost = Error::Lost { path: path("/a"), reason: LossReason::LeaseExpired };
        let failures = vec![disconnected.clone(), lost.clone()];
        let both = Error::Release { failures };
        println!("{both}");
        let expected = format!("failed on some of several locks: {disconnected}; {lost}");
        assert_eq!(both.to_string(), expected);
        let source = both.source().map(ToString::to_string);
        assert_eq!(source, Some(disconnected.to_string()));
        assert!(both.is_retryable() && both.is_lost());
        assert!(!both.is_closed() && !both.is_cancelled());

        let failures = vec![lost, disconnected, Error::Closed];
        let unlocking = Error::Release { failures };
        assert!(!unlocking.is_retryable() && unlocking.is_lost() && unlocking.is_closed());
    }
}
