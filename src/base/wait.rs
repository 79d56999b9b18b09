//! How long a call for a lock may wait. `lock`, `try_lock` and all their variants take a [`Wait`].
//! This module also contains the token that cancels calls, and decides when the waits of a call
//! have to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvError};

use crate::base::error::{Error, Result};
use crate::base::outages::Outages;
use crate::base::signal::{Ended, Signal};
use crate::base::sys::{self, never, select_biased};

/// How long a call for a lock may wait: for other contenders, and for a connection.
///
/// A `Duration` stands for [`within`](Wait::within), an `Instant` for [`until`](Wait::until).
///
/// In an outage of the servers, all threads of a pool would soon wait for a connection. A service
/// that needs these threads for other work sets a separate limit for that wait. The limit counts
/// only after the client has detected that it has no connection. If the network falls silent, this
/// takes a quarter to two thirds of the session timeout.
///
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{DistributedLock, Error, Wait};
///
/// # fn f(lock: &DistributedLock) -> zoolock::Result<()> {
/// // Wait up to a second for other contenders, but only briefly for a connection.
/// let wait = Wait::within(Duration::from_secs(1)).for_connection(Duration::from_millis(50));
/// match lock.acquire_within(wait) {
///     Ok(Some(guard)) => println!("acquired, with token {}", guard.fencing_token()),
///     Ok(None) => println!("another client holds it"),
///     Err(Error::Disconnected { .. }) => println!("no connection, try again later"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Wait {
    turn: ForTurn,
    connection: Option<Duration>,
    cancel: Option<CancelToken>,
}

#[derive(Debug, Clone, Copy)]
enum ForTurn {
    Try,
    /// The call only tries if the deadline has already passed when it begins.
    Until(Option<Instant>),
    /// Counts as a wait even if the thread was delayed and the deadline has already passed, because
    /// a call that only tries may wait longer for answers.
    Within(Option<Instant>),
}

impl Wait {
    /// Waits only for the servers' answers, for at most a third of the session timeout. Does not
    /// wait for a connection.
    pub const TRY: Wait = Wait { turn: ForTurn::Try, connection: None, cancel: None };

    /// Waits without a limit. The result of such a call is never `Ok(None)` or `Ok(false)`.
    pub const FOREVER: Wait = Wait { turn: ForTurn::Until(None), ..Wait::TRY };

    /// Waits for at most `timeout` from now, which includes the wait for a connection. If the
    /// timeout is too large for the clock, there is no limit. Zero is the same as
    /// [`TRY`](Wait::TRY).
    #[must_use]
    pub fn within(timeout: Duration) -> Wait {
        match timeout.is_zero() {
            true => Wait::TRY,
            false => {
                Wait { turn: ForTurn::Within(sys::now().checked_add(timeout)), ..Wait::FOREVER }
            }
        }
    }

    /// Waits until `deadline` at most, which includes the wait for a connection. A deadline that
    /// has already passed is the same as [`TRY`](Wait::TRY).
    #[must_use]
    pub fn until(deadline: Instant) -> Wait {
        Wait { turn: ForTurn::Until(Some(deadline)), ..Wait::FOREVER }
    }

    /// Limits each wait for a connection to `limit`; with zero, the call does not wait for a
    /// connection. The time counts from the call, or from when the connection breaks if that is
    /// later. If the server falls silent, the connection breaks within a session timeout. After
    /// `limit` the call returns [`Error::Disconnected`], and the client deletes the call's nodes as
    /// soon as it has a connection.
    #[must_use]
    pub fn for_connection(self, limit: Duration) -> Wait {
        Wait { connection: Some(limit), ..self }
    }

    /// Lets this token cancel the call at any time while the call waits. The call then returns
    /// [`Error::Cancelled`], and the client deletes the call's nodes.
    #[must_use]
    pub fn cancelled_by(self, token: &CancelToken) -> Wait {
        Wait { cancel: Some(token.clone()), ..self }
    }

    /// Returns whether the call does not wait for other contenders: it is [`TRY`](Wait::TRY), or
    /// the instant of [`until`](Wait::until) has passed.
    #[must_use]
    pub fn is_try(&self) -> bool {
        match self.turn {
            ForTurn::Try => true,
            ForTurn::Until(deadline) => deadline.is_some_and(|end| end <= sys::now()),
            ForTurn::Within(_) => false,
        }
    }

    /// Returns the instant until which the call may wait. Returns `None` without a limit, and for
    /// [`TRY`](Wait::TRY).
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.turn {
            ForTurn::Try => None,
            ForTurn::Until(deadline) | ForTurn::Within(deadline) => deadline,
        }
    }

    /// Returns how long the same call waits for one more lock. If its time is over, the call only
    /// tries that lock.
    pub(crate) fn for_another(&self) -> Wait {
        match self.deadline().is_some_and(|end| end <= sys::now()) {
            true => Wait { turn: ForTurn::Try, ..self.clone() },
            false => self.clone(),
        }
    }

    /// Returns how long each wait [for a connection](Wait::for_connection) may take. Returns `None`
    /// if only the deadline limits such a wait.
    #[must_use]
    pub fn connection_limit(&self) -> Option<Duration> {
        self.connection
    }

    /// Returns the token that [cancels](Wait::cancelled_by) the call, for your own implementations
    /// of [`Lock`](crate::Lock).
    #[must_use]
    pub fn cancel_token(&self) -> Option<&CancelToken> {
        self.cancel.as_ref()
    }

    /// Returns an error if the call was cancelled before it began.
    pub(crate) fn check(&self, path: &str) -> Result<()> {
        match self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            true => Err(Error::cancelled(path)),
            false => Ok(()),
        }
    }
}

/// Cancels calls that wait for locks, from another thread. It cancels all calls whose [`Wait`]
/// contains [this token](Wait::cancelled_by) or a clone of it. They may be calls for any locks,
/// semaphores and [`MultiLock`](crate::MultiLock)s, of any clients.
///
/// A token stays cancelled. A call that begins later returns [`Error::Cancelled`] at once without
/// sending a request, even if it only tries, or if its thread already holds the lock. Therefore, a
/// token that is cancelled just before the call also cancels the call. To cancel calls separately,
/// create one token for each.
///
/// A cancelled call holds nothing, and the client deletes the call's nodes. If the lock is granted
/// at the same moment, the call may return the lock instead. Existing holds and calls that unlock
/// are not affected.
///
/// ```no_run
/// use std::thread;
/// use zoolock::{CancelToken, DistributedLock, Error, Wait};
///
/// # fn f(lock: DistributedLock, stop: impl FnOnce()) -> zoolock::Result<()> {
/// let token = CancelToken::new();
/// let wait = Wait::FOREVER.cancelled_by(&token);
/// let worker = thread::spawn(move || match lock.acquire_within(wait) {
///     Ok(_guard) => println!("acquired"),
///     Err(Error::Cancelled { .. }) => println!("cancelled"),
///     Err(error) => println!("{error}"),
/// });
/// stop();
/// token.cancel();
/// # worker.join().unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<Signal>);

impl CancelToken {
    /// Creates a token that is not cancelled.
    #[must_use]
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Cancels all calls with this token, including calls that begin later. Does not block. A call
    /// for several locks first gives back the locks that it has already acquired.
    pub fn cancel(&self) {
        self.0.raise();
    }

    /// Returns whether this token was cancelled. Never blocks.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_raised()
    }

    /// Returns a signal that is ready when the token is cancelled.
    pub(crate) fn cancelled(&self) -> &Ended {
        self.0.ended()
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

/// Why a wait ended before the awaited event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    Deadline,
    Cancelled,
    /// There was no connection for longer than the call allows.
    Outage,
    /// The client was closed.
    Closed,
}

/// What a call waits for, and when its waits have to end: at the deadline, or earlier if something
/// else ends the call.
#[derive(Debug)]
pub(crate) struct Until {
    /// The call waits for other contenders. Otherwise it waits only for answers.
    pub(crate) waits: bool,
    pub(crate) deadline: Option<Instant>,
    cancelled: Ended,
    /// The outages, the maximum duration of one outage, and the instant from which outages count.
    outages: Option<(Arc<Outages>, Duration, Instant)>,
    /// A list has shown another contender ahead. In that case, the call reports the lock as busy at
    /// the deadline.
    seen_ahead: AtomicBool,
}

impl Until {
    /// Creates the limits for `wait`. If the call only tries, it waits for answers for at most
    /// `patience`.
    pub(crate) fn new(wait: &Wait, patience: Duration, outages: Option<&Arc<Outages>>) -> Until {
        let (waits, now) = (!wait.is_try(), sys::now());
        let limit = wait.connection_limit().filter(|_| waits);
        Until {
            waits,
            deadline: if waits { wait.deadline() } else { Some(now + patience) },
            cancelled: wait.cancel.as_ref().map_or_else(never, |token| token.cancelled().clone()),
            outages: outages.zip(limit).map(|(outages, limit)| (Arc::clone(outages), limit, now)),
            seen_ahead: AtomicBool::new(false),
        }
    }

    /// Creates limits for a call that waits for answers for `limit` from now, and cannot be
    /// cancelled.
    pub(crate) fn within(limit: Duration) -> Until {
        Until::new(&Wait::TRY, limit, None)
    }

    /// Waits until this channel receives a message or is disconnected, but not beyond the deadline.
    pub(crate) fn wait_for<T>(&self, news: &Receiver<T>, closed: &Ended) -> Result<(), Stopped> {
        match self.receive(news, &[never(), never(), never()], closed, self.deadline)? {
            Some(_) => Ok(()),
            None => Err(Stopped::Deadline),
        }
    }

    /// Receives the next message on this channel. Returns an error if it is disconnected, or if one
    /// of `others` has ended. Returns `None` if none of these happens before the instant `by`.
    pub(crate) fn receive<T>(
        &self,
        news: &Receiver<T>,
        others: &[Ended; 3],
        closed: &Ended,
        by: Option<Instant>,
    ) -> Result<Option<Result<T, RecvError>>, Stopped> {
        loop {
            let (too_long, outage) = self.outage();
            let first = by.into_iter().chain(too_long).min();
            select_biased! {
                recv(closed) -> _ => return Err(Stopped::Closed),
                recv(self.cancelled) -> _ => return Err(Stopped::Cancelled),
                recv(news) -> received => return Ok(Some(received)),
                recv(others[0]) -> _ => return Ok(Some(Err(RecvError))),
                recv(others[1]) -> _ => return Ok(Some(Err(RecvError))),
                recv(others[2]) -> _ => return Ok(Some(Err(RecvError))),
                recv(outage) -> _ => {}
                recv(first.map_or_else(never, sys::at)) -> _ => {
                    self.check_outage()?;
                    if by.is_some_and(|by| by <= sys::now()) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Returns the instant at which the current outage becomes longer than the call allows, and a
    /// signal of the next outage, for which that instant may differ.
    fn outage(&self) -> (Option<Instant>, Ended) {
        // The signal is taken before the outage is read: otherwise, an outage could be missed.
        let next = self.outages.as_ref().map_or_else(never, |(outages, ..)| outages.next());
        (self.too_long_at(), next)
    }

    fn too_long_at(&self) -> Option<Instant> {
        let (outages, limit, begun) = self.outages.as_ref()?;
        outages.too_long_at(*begun, *limit)
    }

    /// Returns an error if the current outage is longer than the call allows.
    fn check_outage(&self) -> Result<(), Stopped> {
        match self.too_long_at().is_some_and(|end| end <= sys::now()) {
            true => Err(Stopped::Outage),
            false => Ok(()),
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
}

/// Unwraps the result of a call without a limit. With a lock of this crate, such a call never
/// returns `None`.
pub(crate) fn surely<T>(got: Option<T>, path: &str) -> Result<T> {
    got.ok_or_else(|| Error::not_held(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_over_makes_only_an_instant_a_try() {
        let short = Duration::from_nanos(1);
        let (within, until) = (Wait::within(short), Wait::until(sys::now() + short));
        let ends = [&within, &until].map(|wait| wait.deadline().unwrap());
        while ends.iter().any(|end| *end > sys::now()) {}
        assert_eq!([&within, &until].map(Wait::is_try), [false, true]);
        let until = Until::new(&within, Duration::from_secs(60), None);
        assert!(until.waits && until.is_over());
    }
}
