//! Numbers to watch: how long calls waited, how long locks were held, and what came of both.
//!
//! An [`Observer`] is told of every call for a lock of its client, and of the end of every hold, by the
//! [kind](LockKind) of the lock and the [name](crate::LockOptions::name) that its user gave it: never by its
//! path, of which there may be any number. It is given to [`ClientBuilder::observer`]. With the feature
//! `metrics` there is one ready made, `zoolock::metrics::MetricsObserver`.
//!
//! ```no_run
//! use std::time::Duration;
//! use zoolock::observer::{Acquired, Ended, Observer, Outcome};
//! use zoolock::{Client, DistributedLock, LockOptions};
//!
//! struct Slow;
//!
//! impl Observer for Slow {
//!     fn acquired(&self, call: &Acquired<'_>) {
//!         if call.waited > Duration::from_secs(1) {
//!             println!("{} {:?}: waited {:?}", call.lock, call.name, call.waited);
//!         }
//!     }
//!
//!     fn ended(&self, hold: &Ended<'_>) {
//!         if let Outcome::Lost(reason) = hold.outcome {
//!             println!("{} {:?}: lost after {:?}: {reason}", hold.lock, hold.name, hold.held);
//!         }
//!     }
//! }
//!
//! # fn main() -> zoolock::Result<()> {
//! let client = Client::builder("127.0.0.1:2181").observer(Slow).connect()?;
//! let options = LockOptions::new().name("invoices");
//! let guard = DistributedLock::with(&client, "/locks/invoice/4711", options)?.acquire()?;
//! # drop(guard);
//! # Ok(())
//! # }
//! ```
//!
//! # What is told
//! - Each call that locks is told once, as [`acquired`](Observer::acquired) or as
//!   [`not_acquired`](Observer::not_acquired), and each hold that was acquired once more, as
//!   [`ended`](Observer::ended).
//! - A thread that enters again what it holds has not acquired anything, and its unlocks but the last have
//!   ended nothing. A lock that was [handed on](crate::LockOptions::local_handoffs) or
//!   [kept](crate::LockOptions::keep_idle) is acquired and ended by each thread.
//! - Permits of a semaphore that are taken together are one hold. Of a [`MultiLock`](crate::MultiLock) each
//!   member is told.
//!
//! # On which thread
//! Calls and releases are told on their own threads, before they return, with nothing locked: an observer may
//! use the client and its locks, also the one that it is told of. What it takes its time for is what its callers
//! wait for. A loss is told by the release that finds it out, or else soon after it was noticed, by a thread that
//! the client has for that, whether the holder unlocks or not. What two threads do may be told in any order. An
//! observer that panics is called again the next time, and nothing else comes of it.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(doc)]
use crate::ClientBuilder;
use crate::error::{Error, LossReason};
use crate::panics::caught;
use crate::sys;

/// Is told what becomes of calls and holds; see the [module](self). The methods do nothing unless they are
/// written.
pub trait Observer: Send + Sync {
    /// A call has its lock.
    fn acquired(&self, call: &Acquired<'_>) {
        let _ = call;
    }

    /// A call has ended without the lock.
    fn not_acquired(&self, call: &NotAcquired<'_>) {
        let _ = call;
    }

    /// A hold has ended.
    fn ended(&self, hold: &Ended<'_>) {
        let _ = hold;
    }
}

/// Whoever has given it away can look what it has been told.
impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn acquired(&self, call: &Acquired<'_>) {
        (**self).acquired(call);
    }

    fn not_acquired(&self, call: &NotAcquired<'_>) {
        (**self).not_acquired(call);
    }

    fn ended(&self, hold: &Ended<'_>) {
        (**self).ended(hold);
    }
}

/// A type of lock.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// [`DistributedLock`](crate::DistributedLock)
    Exclusive,
    /// [`DistributedReentrantLock`](crate::DistributedReentrantLock)
    Reentrant,
    /// [`ReadLock`](crate::ReadLock)
    Read,
    /// [`WriteLock`](crate::WriteLock)
    Write,
    /// [`DistributedSemaphore`](crate::DistributedSemaphore)
    Semaphore,
    /// [`EphemeralLock`](crate::EphemeralLock)
    Ephemeral,
}

impl LockKind {
    /// What it is called as a label: in lower case, one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LockKind::Exclusive => "exclusive",
            LockKind::Reentrant => "reentrant",
            LockKind::Read => "read",
            LockKind::Write => "write",
            LockKind::Semaphore => "semaphore",
            LockKind::Ephemeral => "ephemeral",
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A call that has its lock.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct Acquired<'a> {
    /// The type of the lock.
    pub lock: LockKind,
    /// What [`LockOptions::name`](crate::LockOptions::name) says.
    pub name: &'a str,
    /// From the call to the grant: for the threads of this process, for a connection, and in the queue.
    pub waited: Duration,
    /// How many were before it in the queue on the servers when it came there, holders included; of a
    /// semaphore, how many waited. Threads of this process that wait for each other are not in it. None if it
    /// did not come there: the lock was left by another thread, or a semaphore was only tried.
    pub queue: Option<usize>,
}

/// A call that has ended without the lock.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct NotAcquired<'a> {
    /// The type of the lock.
    pub lock: LockKind,
    /// What [`LockOptions::name`](crate::LockOptions::name) says.
    pub name: &'a str,
    /// From the call to its end.
    pub waited: Duration,
    /// As [`Acquired::queue`]. None also if it was not known before its end.
    pub queue: Option<usize>,
    /// Why it has no lock.
    pub reason: Reason<'a>,
}

/// Why a call has no lock.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub enum Reason<'a> {
    /// It was not to wait, and somebody else was seen to have the lock.
    Busy,
    /// Somebody else had it until the deadline.
    TimedOut,
    /// By `cancel_waiters`.
    Cancelled,
    /// This is what it returned.
    Failed(&'a Error),
}

/// A hold that has ended.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct Ended<'a> {
    /// The type of the lock.
    pub lock: LockKind,
    /// What [`LockOptions::name`](crate::LockOptions::name) says.
    pub name: &'a str,
    /// From the grant to the unlock, or to when the loss was noticed.
    pub held: Duration,
    /// How it has ended.
    pub outcome: Outcome,
}

/// How a hold has ended.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its owner has let go of it, and was not told of a loss. With
    /// [`background_release`](crate::LockOptions::background_release) one that comes out later is counted by
    /// [`Stats::holds_lost`](crate::Stats::holds_lost) alone.
    Released,
    /// It was lost.
    Lost(LossReason),
}

/// The observer of a client.
#[derive(Clone)]
pub(crate) struct SharedObserver(Arc<dyn Observer>);

impl SharedObserver {
    pub(crate) fn new(observer: impl Observer + 'static) -> SharedObserver {
        SharedObserver(Arc::new(observer))
    }

    fn tell(&self, tell: impl FnOnce(&dyn Observer)) {
        let _ = caught(|| tell(&*self.0));
    }
}

impl fmt::Debug for SharedObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// Who is told of a lock, and as what.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) observer: SharedObserver,
    pub(crate) lock: LockKind,
    pub(crate) name: Arc<str>,
}

impl Observed {
    /// To be called where a callback may block.
    pub(crate) fn ended(&self, held: Duration, loss: Option<LossReason>) {
        let outcome = loss.map_or(Outcome::Released, Outcome::Lost);
        let ended = Ended { lock: self.lock, name: &self.name, held, outcome };
        self.observer.tell(|observer| observer.ended(&ended));
    }
}

/// A call that is to be told of.
#[derive(Debug)]
pub(crate) struct Call {
    observed: Observed,
    begun: Instant,
    waits: bool,
    queue: Cell<Option<usize>>,
    enters_again: Cell<bool>,
}

impl Call {
    pub(crate) fn begin(observed: Observed, waits: bool) -> Call {
        let (queue, enters_again) = (Cell::default(), Cell::default());
        Call { observed, begun: sys::now(), waits, queue, enters_again }
    }

    /// So many were ahead. The first time counts.
    pub(crate) fn has_ahead(&self, count: impl FnOnce() -> usize) {
        if self.queue.get().is_none() {
            self.queue.set(Some(count()));
        }
    }

    /// It takes nothing, and is not told of.
    pub(crate) fn enters_again(&self) {
        self.enters_again.set(true);
    }

    pub(crate) fn has_entered_again(&self) -> bool {
        self.enters_again.get()
    }

    pub(crate) fn observed(&self) -> &Observed {
        &self.observed
    }

    pub(crate) fn end(self, got: Result<bool, &Error>) {
        let Observed { observer, lock, name } = &self.observed;
        let (lock, name, waited, queue) =
            (*lock, &**name, sys::now() - self.begun, self.queue.get());
        let reason = match got {
            Ok(true) => {
                let acquired = Acquired { lock, name, waited, queue };
                return observer.tell(|observer| observer.acquired(&acquired));
            }
            Ok(false) if self.waits => Reason::TimedOut,
            Ok(false) => Reason::Busy,
            Err(Error::Cancelled { .. }) => Reason::Cancelled,
            Err(error) => Reason::Failed(error),
        };
        let call = NotAcquired { lock, name, waited, queue, reason };
        observer.tell(|observer| observer.not_acquired(&call));
    }
}
