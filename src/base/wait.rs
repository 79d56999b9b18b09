//! How long a call for a lock may wait: what `lock`, `try_lock` and all their variants come down to,
//! and when the waits of a call have to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use crate::base::calls::WaitingCall;
use crate::base::error::{Error, Result};
use crate::base::signal::Ended;
use crate::base::sys::{self, never, select_biased};

/// How long a call for a lock may wait: for its turn, and for a connection.
///
/// A `Duration` stands for [`within`](Wait::within), an `Instant` for [`until`](Wait::until).
///
/// In an outage of the servers, all threads of a pool would soon wait for a connection. A service
/// that has something better to do limits that wait on its own. The limit counts while the client
/// knows that it has no connection: when the network falls silent, that takes a quarter to two
/// thirds of the session timeout.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{DistributedLock, Error, Wait};
///
/// # fn f(lock: &DistributedLock) -> zoolock::Result<()> {
/// // A second for others, and next to nothing for a connection.
/// let wait = Wait::within(Duration::from_secs(1)).for_connection(Duration::from_millis(50));
/// match lock.acquire_within(wait) {
///     Ok(Some(guard)) => println!("it is ours, with token {}", guard.fencing_token()),
///     Ok(None) => println!("others have it"),
///     Err(Error::Disconnected { .. }) => println!("come back later"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    turn: ForTurn,
    connection: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForTurn {
    Try,
    /// A try if the deadline has passed at the call.
    Until(Option<Instant>),
    /// Never a try, which may wait for answers for longer: the thread may have been held up.
    Within(Option<Instant>),
}

impl Wait {
    /// Waits for the servers' answers only, for at most a third of the session timeout, and for no
    /// connection.
    pub const TRY: Wait = Wait { turn: ForTurn::Try, connection: None };

    /// Waits without a limit.
    pub const FOREVER: Wait = Wait { turn: ForTurn::Until(None), connection: None };

    /// Waits for at most `timeout` from now, which includes the wait for a connection. One that is
    /// too large for the clock is no limit, and zero is the same as [`TRY`](Wait::TRY).
    #[must_use]
    pub fn within(timeout: Duration) -> Wait {
        match timeout.is_zero() {
            true => Wait::TRY,
            false => {
                Wait { turn: ForTurn::Within(sys::now().checked_add(timeout)), ..Wait::FOREVER }
            }
        }
    }

    /// Waits until `deadline` at most, which includes the wait for a connection. A deadline that has
    /// passed is the same as [`TRY`](Wait::TRY).
    #[must_use]
    pub fn until(deadline: Instant) -> Wait {
        Wait { turn: ForTurn::Until(Some(deadline)), ..Wait::FOREVER }
    }

    /// Waits for at most `limit` at a time without a connection; zero does not wait for one. This
    /// counts from the call, or from when the connection breaks if that is later. A connection whose
    /// server falls silent breaks within a session timeout. After `limit` the call returns
    /// [`Error::Disconnected`], and its nodes are deleted as soon as there is a connection.
    #[must_use]
    pub fn for_connection(self, limit: Duration) -> Wait {
        Wait { connection: Some(limit), ..self }
    }

    /// Returns whether the call waits for nobody: it is [`TRY`](Wait::TRY), or the instant of
    /// [`until`](Wait::until) has passed.
    #[must_use]
    pub fn is_try(&self) -> bool {
        match self.turn {
            ForTurn::Try => true,
            ForTurn::Until(deadline) => deadline.is_some_and(|end| end <= sys::now()),
            ForTurn::Within(_) => false,
        }
    }

    /// Returns until when the call may wait; `None` if there is no limit, or for
    /// [`TRY`](Wait::TRY).
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.turn {
            ForTurn::Try => None,
            ForTurn::Until(deadline) | ForTurn::Within(deadline) => deadline,
        }
    }

    /// Returns how long the same call waits for one more lock: not at all if its time is over.
    pub(crate) fn for_another(self) -> Wait {
        match self.deadline().is_some_and(|end| end <= sys::now()) {
            true => Wait { turn: ForTurn::Try, ..self },
            false => self,
        }
    }

    /// Returns how long the call may wait at a time [for a connection](Wait::for_connection); `None`
    /// if only the deadline counts.
    #[must_use]
    pub fn connection_limit(&self) -> Option<Duration> {
        self.connection
    }
}

impl From<Duration> for Wait {
    fn from(timeout: Duration) -> Wait {
        Wait::within(timeout)
    }
}

impl From<Instant> for Wait {
    fn from(deadline: Instant) -> Wait {
        Wait::until(deadline)
    }
}

/// Why a wait has ended before what it was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    Deadline,
    Cancelled,
    /// The client was closed.
    Closed,
}

/// What a call waits for, and when its waits have to end: at the deadline, or when the call is ended
/// before.
#[derive(Debug)]
pub(crate) struct Until {
    /// It waits for others. Otherwise it waits only for answers.
    pub(crate) waits: bool,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancelled: Ended,
    call: Option<WaitingCall>,
    /// Another contender was seen ahead, so that the lock is busy at the deadline.
    seen_ahead: AtomicBool,
}

impl Until {
    /// Waits for others until the deadline, or until it is cancelled.
    pub(crate) fn new(deadline: Option<Instant>, cancelled: Ended) -> Until {
        let seen_ahead = AtomicBool::new(false);
        Until { waits: true, deadline, cancelled, call: None, seen_ahead }
    }

    /// Like [`new`](Until::new), for a call that others may end.
    pub(crate) fn of(call: WaitingCall, deadline: Option<Instant>) -> Until {
        let cancelled = call.ended().clone();
        Until { call: Some(call), ..Until::new(deadline, cancelled) }
    }

    /// Waits for answers for `limit` from now, and cannot be cancelled.
    pub(crate) fn within(limit: Duration) -> Until {
        Until { waits: false, ..Until::new(Some(sys::now() + limit), never()) }
    }

    /// Returns a channel that is ready at the deadline.
    pub(crate) fn expiry(&self) -> Receiver<Instant> {
        self.deadline.map_or_else(never, sys::at)
    }

    /// Waits for a message on this channel, or for its end.
    pub(crate) fn wait_for<T>(&self, news: &Receiver<T>, closed: &Ended) -> Result<(), Stopped> {
        select_biased! {
            recv(closed) -> _ => {
                sys::reached("the close ends a wait");
                Err(Stopped::Closed)
            }
            recv(self.cancelled) -> _ => {
                sys::reached("a cancel ends a wait");
                Err(Stopped::Cancelled)
            }
            recv(news) -> _ => Ok(()),
            recv(self.expiry()) -> _ => {
                sys::reached("a deadline ends a wait");
                Err(Stopped::Deadline)
            }
        }
    }

    /// Returns the time until the deadline.
    pub(crate) fn left(&self) -> Duration {
        let left = |deadline: Instant| deadline.saturating_duration_since(sys::now());
        self.deadline.map_or(Duration::MAX, left)
    }

    /// Notes that another contender is ahead.
    pub(crate) fn note_ahead(&self) {
        self.seen_ahead.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_seen_ahead(&self) -> bool {
        self.seen_ahead.load(Ordering::Relaxed)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Returns what the call got, with the reason if it was ended.
    pub(crate) fn explain<T>(&self, got: Result<T>) -> Result<T> {
        let is_by_outage = || self.call.as_ref().is_some_and(WaitingCall::is_by_outage);
        got.map_err(|error| match error {
            Error::Cancelled { path } if is_by_outage() => Error::Disconnected { path },
            error => error,
        })
    }
}

/// Returns what a call without a limit got. A lock of this crate never returns without it.
pub(crate) fn surely<T>(got: Option<T>, path: &str) -> Result<T> {
    got.ok_or_else(|| Error::not_held(path))
}
