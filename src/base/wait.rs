//! How long a call for a lock may wait: what `lock`, `try_lock` and all their variants come down to,
//! the token that cancels calls, and when the waits of a call have to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvError};

use crate::base::error::{Error, Result};
use crate::base::outages::Outages;
use crate::base::signal::{Ended, Signal};
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
#[derive(Debug, Clone)]
pub struct Wait {
    turn: ForTurn,
    connection: Option<Duration>,
    cancel: Option<CancelToken>,
}

#[derive(Debug, Clone, Copy)]
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
    pub const TRY: Wait = Wait { turn: ForTurn::Try, connection: None, cancel: None };

    /// Waits without a limit.
    pub const FOREVER: Wait = Wait { turn: ForTurn::Until(None), ..Wait::TRY };

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

    /// Lets this token cancel the call, whatever the call waits for. The call then returns
    /// [`Error::Cancelled`], and its nodes are deleted.
    #[must_use]
    pub fn cancelled_by(self, token: &CancelToken) -> Wait {
        Wait { cancel: Some(token.clone()), ..self }
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
    pub(crate) fn for_another(&self) -> Wait {
        match self.deadline().is_some_and(|end| end <= sys::now()) {
            true => Wait { turn: ForTurn::Try, ..self.clone() },
            false => self.clone(),
        }
    }

    /// Returns how long the call may wait at a time [for a connection](Wait::for_connection); `None`
    /// if only the deadline counts.
    #[must_use]
    pub fn connection_limit(&self) -> Option<Duration> {
        self.connection
    }

    /// Returns the token that [cancels](Wait::cancelled_by) the call, for locks of your own.
    #[must_use]
    pub fn cancel_token(&self) -> Option<&CancelToken> {
        self.cancel.as_ref()
    }

    /// Returns an error if the call was cancelled before it began.
    pub(crate) fn check(&self, path: &str) -> Result<()> {
        match self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            true => {
                sys::reached("a call is cancelled before it begins");
                Err(Error::Cancelled { path: path.to_owned() })
            }
            false => Ok(()),
        }
    }
}

/// Cancels calls that wait for locks, from another thread: all calls whose [`Wait`] has
/// [this token](Wait::cancelled_by) or a clone of it. They may be calls for any locks, semaphores
/// and [`MultiLock`](crate::MultiLock)s, of any clients.
///
/// A token stays cancelled. A call that begins later returns [`Error::Cancelled`] at once and sends
/// no request, even if it only tries or locks again what its thread holds. So a cancel that comes
/// just before the call is not missed. For calls that are cancelled separately, create a token each.
///
/// A cancelled call holds nothing, and its nodes are deleted. If the lock is granted at the same
/// moment, the call may return the lock instead. Holds are not affected, and neither are calls that
/// unlock.
///
/// ```no_run
/// use std::thread;
/// use zoolock::{CancelToken, DistributedLock, Error, Wait};
///
/// # fn f(lock: DistributedLock, stop: impl FnOnce()) -> zoolock::Result<()> {
/// let token = CancelToken::new();
/// let wait = Wait::FOREVER.cancelled_by(&token);
/// let worker = thread::spawn(move || match lock.acquire_within(wait) {
///     Ok(_guard) => println!("it is ours"),
///     Err(Error::Cancelled { .. }) => println!("never mind"),
///     Err(error) => println!("{error}"),
/// });
/// stop();
/// token.cancel();
/// # worker.join().unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CancelToken(Arc<Signal>);

impl CancelToken {
    /// Creates a token that is not cancelled.
    #[must_use]
    pub fn new() -> CancelToken {
        CancelToken(Arc::new(Signal::new()))
    }

    /// Cancels all calls with this token, those that wait and those that begin later. Does not
    /// block. A call for several locks first gives back those that it has taken.
    pub fn cancel(&self) {
        self.0.raise();
    }

    /// Returns whether it was cancelled. Never blocks.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_raised()
    }

    /// Returns a signal that is ready when it was cancelled.
    pub(crate) fn cancelled(&self) -> &Ended {
        self.0.ended()
    }
}

impl Default for CancelToken {
    fn default() -> CancelToken {
        CancelToken::new()
    }
}

impl From<&Wait> for Wait {
    fn from(wait: &Wait) -> Wait {
        wait.clone()
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
    /// There was no connection for longer than the call allows.
    Outage,
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
    /// The outages, of which one may last for this long. Those before this instant do not count.
    outages: Option<(Arc<Outages>, Duration, Instant)>,
    /// Another contender was seen ahead, so that the lock is busy at the deadline.
    seen_ahead: AtomicBool,
}

impl Until {
    /// Waits as long as `wait` says, and for answers for at most `patience` if that is a try.
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

    /// Waits for answers for `limit` from now, and cannot be cancelled.
    pub(crate) fn within(limit: Duration) -> Until {
        Until::new(&Wait::TRY, limit, None)
    }

    /// Waits for a message on this channel, or for its end, until the deadline.
    pub(crate) fn wait_for<T>(&self, news: &Receiver<T>, closed: &Ended) -> Result<(), Stopped> {
        match self.receive(news, closed, self.deadline)? {
            Some(_) => Ok(()),
            None => {
                sys::reached("a deadline ends a wait");
                Err(Stopped::Deadline)
            }
        }
    }

    /// Receives what comes on this channel, `None` if nothing came by this instant.
    pub(crate) fn receive<T>(
        &self,
        news: &Receiver<T>,
        closed: &Ended,
        by: Option<Instant>,
    ) -> Result<Option<Result<T, RecvError>>, Stopped> {
        loop {
            let (too_long, outage) = self.outage();
            let first = by.into_iter().chain(too_long).min();
            select_biased! {
                recv(closed) -> _ => {
                    sys::reached("the close ends a wait");
                    return Err(Stopped::Closed);
                }
                recv(self.cancelled) -> _ => {
                    sys::reached("a cancel ends a wait");
                    return Err(Stopped::Cancelled);
                }
                recv(news) -> received => return Ok(Some(received)),
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

    /// Returns when the current outage is longer than the call allows, and a signal of the next one,
    /// for which the first may differ.
    pub(crate) fn outage(&self) -> (Option<Instant>, Ended) {
        // In this order, so that none is missed.
        let next = self.outages.as_ref().map_or_else(never, |(outages, ..)| outages.next());
        (self.too_long_at(), next)
    }

    fn too_long_at(&self) -> Option<Instant> {
        let (outages, limit, begun) = self.outages.as_ref()?;
        outages.too_long_at(*begun, *limit)
    }

    /// Returns an error if the current outage is longer than the call allows.
    pub(crate) fn check_outage(&self) -> Result<(), Stopped> {
        match self.too_long_at().is_some_and(|end| end <= sys::now()) {
            true => {
                sys::reached("an outage is longer than a waiting call allows");
                Err(Stopped::Outage)
            }
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

/// Returns what a call without a limit got. A lock of this crate never returns without it.
pub(crate) fn surely<T>(got: Option<T>, path: &str) -> Result<T> {
    got.ok_or_else(|| Error::not_held(path))
}
