//! Measurements: how long calls waited and locks were held, and how calls and holds ended.
//!
//! An [`Observer`] is notified of every call for a lock of its client, and of the end of every
//! hold. It receives the [kind](LockKind) of the lock, and the [name](crate::LockOptions::name)
//! that its user gave it. It does not receive the path, because the number of different paths is
//! unlimited. To use an observer, pass it to
//! [`ClientBuilder::observer`](crate::ClientBuilder::observer). With the feature `metrics`,
//! `zoolock::metrics::MetricsObserver` is a ready-made one, and with the feature `tracing`,
//! `zoolock::tracing::TracingObserver`.
//!
//! ```no_run
//! use std::time::Duration;
//! use zoolock::observer::{Called, Ended, HoldOutcome, Observer};
//! use zoolock::{Client, DistributedLock, LockOptions};
//!
//! struct Slow;
//!
//! impl Observer for Slow {
//!     fn called(&self, call: &Called<'_>) {
//!         if call.waited > Duration::from_secs(1) {
//!             println!("{} {:?}: waited {:?}", call.lock, call.name, call.waited);
//!         }
//!     }
//!
//!     fn ended(&self, hold: &Ended<'_>) {
//!         if let HoldOutcome::Lost(reason) = hold.outcome {
//!             println!("{} {:?}: lost after {:?}: {reason}", hold.lock, hold.name, hold.held);
//!         }
//!     }
//! }
//!
//! # fn main() -> zoolock::Result<()> {
//! let client = Client::builder("127.0.0.1:2181").observer(Slow).connect()?;
//! let options = LockOptions::new().name("invoices");
//! let guard = DistributedLock::with_options(&client, "/locks/invoice/4711", options)?.acquire()?;
//! # drop(guard);
//! # Ok(())
//! # }
//! ```
//!
//! # What is reported
//! - Each call that locks is reported once, to [`called`](Observer::called), whether or not it
//!   acquired the lock. Each acquired hold is reported again at its end, to
//!   [`ended`](Observer::ended).
//! - If the owner of a lock locks it again, neither that call nor its unlock is reported. If
//!   threads [hand off](crate::LockOptions::local_handoffs) a lock, each of them reports that it
//!   acquired the lock, and later that its hold ended.
//! - Permits of a semaphore that are taken together are one hold. The members of a
//!   [`MultiLock`](crate::MultiLock) are reported separately.
//!
//! # On which thread
//! Calls and releases are reported on the threads that make them, before they return, and with no
//! mutex locked. An observer may therefore use the client and its locks, including the lock in the
//! report. Callers wait for a slow observer. If a release finds its node deleted, it reports that
//! loss. A thread of the client reports any other loss soon after it was detected, whether or not
//! the holder unlocks. Reports from different threads arrive in any order. If the observer panics,
//! it is still called the next time; the panic has no other effect.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::error::{Error, LossReason};
use crate::base::kind::LockKind;
use crate::base::panics::caught;
use crate::base::sys;

/// Receives reports of calls and holds; see the [module](self). The default methods do nothing.
pub trait Observer: Send + Sync {
    /// A call for a lock has ended.
    fn called(&self, call: &Called<'_>) {
        let _ = call;
    }

    /// A hold has ended.
    fn ended(&self, hold: &Ended<'_>) {
        let _ = hold;
    }
}

/// Allows a program to keep the observer, to read its results.
impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn called(&self, call: &Called<'_>) {
        (**self).called(call);
    }

    fn ended(&self, hold: &Ended<'_>) {
        (**self).ended(hold);
    }
}

/// A call for a lock that ended.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct Called<'a> {
    /// The type of the lock.
    pub lock: LockKind,
    /// The lock's [`LockOptions::name`](crate::LockOptions::name).
    pub name: &'a str,
    /// Time from the call to its end. This includes the wait for threads of this process, for a
    /// connection, and in the queue.
    pub waited: Duration,
    /// How many contenders, including holders, were ahead on the servers when the call queued. For
    /// a semaphore: how many calls were waiting. Waiting threads of this process do not count.
    /// `None` in three cases: another thread handed off the lock to the call, the call only tried
    /// to get permits of a semaphore, or it ended before the number was known.
    pub queue: Option<usize>,
    /// How the call ended.
    pub outcome: CallOutcome<'a>,
}

/// How a call for a lock ended.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub enum CallOutcome<'a> {
    /// The call acquired the lock.
    Acquired,
    /// The call only tried, and the lock was taken.
    Busy,
    /// Another contender was ahead until the deadline.
    TimedOut,
    /// A [`CancelToken`](crate::CancelToken) ended the call.
    Cancelled,
    /// The call returned this error.
    Failed(&'a Error),
}

impl CallOutcome<'_> {
    /// Returns the outcome as a label: `acquired`, `busy`, `timed_out`, `cancelled` or `failed`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CallOutcome::Acquired => "acquired",
            CallOutcome::Busy => "busy",
            CallOutcome::TimedOut => "timed_out",
            CallOutcome::Cancelled => "cancelled",
            CallOutcome::Failed(_) => "failed",
        }
    }
}

/// A hold that ended.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// The type of the lock.
    pub lock: LockKind,
    /// The lock's [`LockOptions::name`](crate::LockOptions::name).
    pub name: &'a str,
    /// Time from the grant to the unlock, or until the loss was noticed.
    pub held: Duration,
    /// How the hold ended.
    pub outcome: HoldOutcome,
}

/// How a hold ended.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldOutcome {
    /// The owner released the hold, and the release reported no loss. With
    /// [`background_release`](crate::LockOptions::background_release), if a loss is found later,
    /// only [`Stats::holds_lost`](crate::Stats::holds_lost) counts it.
    Released,
    /// The hold was lost.
    Lost(LossReason),
}

impl HoldOutcome {
    /// Returns the outcome as a label: `released`, or the reason of the loss, such as
    /// `lease_expired`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            HoldOutcome::Released => "released",
            HoldOutcome::Lost(LossReason::LeaseExpired) => "lease_expired",
            HoldOutcome::Lost(LossReason::NodeDeleted) => "node_deleted",
            HoldOutcome::Lost(LossReason::ClientClosed) => "client_closed",
            HoldOutcome::Lost(LossReason::HeldTooLong) => "held_too_long",
        }
    }
}

/// An observer, with the names under which it receives the reports of one lock.
#[derive(Clone)]
pub(crate) struct Observed {
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) lock: LockKind,
    pub(crate) name: Arc<str>,
}

impl Observed {
    fn tell(&self, tell: impl FnOnce(&dyn Observer)) {
        let _ = caught(|| tell(&*self.observer));
    }

    /// Notifies the observer. Call it only where blocking is allowed.
    pub(crate) fn ended(&self, held: Duration, loss: Option<LossReason>) {
        let outcome = loss.map_or(HoldOutcome::Released, HoldOutcome::Lost);
        let ended = Ended { lock: self.lock, name: &self.name, held, outcome };
        self.tell(|observer| observer.ended(&ended));
    }
}

/// What an observer receives about a call.
pub(crate) struct Report {
    pub(crate) observed: Observed,
    begun: Instant,
    waits: bool,
    queue: Cell<Option<usize>>,
}

impl Report {
    pub(crate) fn begin(observed: Observed, waits: bool) -> Report {
        Report { observed, begun: sys::now(), waits, queue: Cell::default() }
    }

    /// Records how many contenders were ahead. The first value above zero is kept. If the number is
    /// zero, the call acquires its lock at once, or has lost its session and queues again.
    pub(crate) fn record_ahead(&self, count: impl FnOnce() -> usize) {
        if self.queue.get().is_none_or(|ahead| ahead == 0) {
            self.queue.set(Some(count()));
        }
    }

    pub(crate) fn end(&self, got: Result<bool, &Error>) {
        let Observed { lock, ref name, .. } = self.observed;
        let (waited, queue) = (sys::now() - self.begun, self.queue.get());
        let outcome = match got {
            Ok(true) => CallOutcome::Acquired,
            Ok(false) if self.waits => CallOutcome::TimedOut,
            Ok(false) => CallOutcome::Busy,
            Err(Error::Cancelled { .. }) => CallOutcome::Cancelled,
            Err(error) => CallOutcome::Failed(error),
        };
        let call = Called { lock, name, waited, queue, outcome };
        self.observed.tell(|observer| observer.called(&call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Observer for () {}

    #[test]
    fn session_that_ended_with_nobody_ahead_does_not_count() {
        let (observer, lock) = (Arc::new(()), LockKind::Exclusive);
        let report = Report::begin(Observed { observer, lock, name: "".into() }, false);
        [0, 2, 3].into_iter().for_each(|ahead| report.record_ahead(|| ahead));
        assert_eq!(report.queue.get(), Some(2));
    }
}
