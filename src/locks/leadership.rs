//! Leadership: a thread that contends for a lock again and again, and runs a function each time it
//! holds the lock. This module uses the object beneath the lock types, because a shutdown has to be
//! able to end the thread's wait. It gets the state of the connection from the session.

use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use log::{Level, error, warn};

use crate::base::contender::Contender;
use crate::base::error::{Error, Result};
use crate::base::kind::LockKind;
use crate::base::names;
use crate::base::options::LockOptions;
use crate::base::panics::caught;
use crate::base::sys::thread::{self, JoinHandle};
use crate::base::sys::{self, Mutex, never, select};
use crate::base::wait::{CancelToken, Wait};
use crate::client::Client;
use crate::held::guard::{AnyThread, Guard};
use crate::held::hold::Hold;
use crate::process::{RawLock, Site, TwoLevel};
use crate::session::Inner;

/// The first pause after a failure. Each further failure in a row doubles it, up to a third of the
/// session timeout.
const PAUSE: Duration = Duration::from_millis(100);

/// Elects one of several processes as the leader, which runs a function while the others stand by.
///
/// A `Leadership` has a thread that waits for the lock at a path. Each time the thread acquires the
/// lock, it calls the function with a new [`Term`], and releases the lock when the function
/// returns. Then the thread queues again, at the end. It also does so if the lock is lost, if a
/// call fails, or if the function panics. It stops at [`shutdown`](Leadership::shutdown), when the
/// `Leadership` is dropped, and when the client ends.
///
/// ```text
///                        the lock              `lead` returns
///  contends, stands by -----------> term runs -----------------> released --.
///    ^                                  |  lost: `lead` has to return       |
///    '----------------------------------'-----------------------------------'
/// ```
///
/// # Guarantees
/// Those of [`DistributedLock`](crate::DistributedLock): no two terms run at the same time if the
/// function respects [`Term::deadline`]. The [fencing tokens](crate::Hold::fencing_token) of terms
/// increase.
///
/// # Fairness
/// Candidates lead in the order in which they queued. A candidate that has lost its session queues
/// at the end.
///
/// # When the session dies
/// The term is over: [`Term::is_over`] returns true from the exact end of its lease on, and
/// [`ended`](Hold::ended) wakes its receivers. The function must return then. The next term does
/// not begin until it has returned.
///
/// Any process can make a leader step down: call [`Client::revoke`] with the result of
/// [`leader`](Leadership::leader). The leader queues again, behind the others.
///
/// # Errors
/// Only [`Error::Closed`] ends the contest. Other errors are logged as warnings. The thread tries
/// again after a pause, which is 100 ms at first and grows up to a third of the session timeout.
/// [`is_healthy`](Leadership::is_healthy) reports errors that last too long.
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Client, Leadership};
///
/// # fn step(_term: u64) {}
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::connect("127.0.0.1:2181", Duration::from_secs(10))?;
/// let leadership = Leadership::start(&client, "/services/billing", |term| {
///     // Once a second, for as long as this process leads.
///     while !term.wait_timeout(Duration::from_secs(1)) {
///         step(term.fencing_token());
///     }
/// })?;
/// # let terminated = zoolock::crossbeam_channel::never::<()>();
/// let _ = terminated.recv(); // until the process has to end
/// leadership.shutdown();
/// # Ok(())
/// # }
/// ```
#[doc(alias("Election", "LeaderLatch", "LeaderSelector"))]
#[derive(Debug)]
#[must_use = "dropping it ends the contest for leadership"]
pub struct Leadership {
    shared: Arc<Shared>,
    /// `None` once the thread has been joined.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    lock: Arc<TwoLevel>,
    stopping: CancelToken,
    contest: Mutex<Contest>,
}

/// State of the contest. `failing` is the time of the first of the failures in a row.
#[derive(Debug)]
enum Contest {
    /// The thread is in a call for the lock.
    Contends { since: Instant, failing: Option<Instant> },
    /// The thread pauses after a failure.
    Pauses { failing: Instant },
    /// The function runs. `overdue` is when a check first found the function still running after
    /// the end of its term.
    Leads { term: Arc<Term>, overdue: Option<Instant> },
}

impl Leadership {
    /// Starts a thread that calls `lead` for each term. Does not wait for a connection.
    ///
    /// The term ends when `lead` returns, and the next candidate in the queue leads. If there are
    /// no other candidates, `lead` is called again at once. A function with nothing to do should
    /// therefore [wait](Term::wait). With [`hold_at_least`](LockOptions::hold_at_least), at least
    /// that time passes between the start of this term and the start of the next one, in any
    /// process.
    ///
    /// # Errors
    /// [`Error::InvalidPath`], [`Error::InvalidArgument`]; [`Error::SpawnThread`] if the operating
    /// system cannot create a thread.
    pub fn start(
        client: &Client,
        path: impl AsRef<str>,
        lead: impl FnMut(&Term) + Send + 'static,
    ) -> Result<Leadership> {
        Leadership::start_with_options(client, path, LockOptions::new(), lead)
    }

    /// Starts a thread like [`start`](Leadership::start), with these options. With
    /// [`hold_at_least`](LockOptions::hold_at_least), at least that time passes between the start
    /// of this term and the start of the next one, in any process.
    /// [`local_handoffs`](LockOptions::local_handoffs), the option for other threads of the
    /// process, has no effect.
    ///
    /// # Errors
    /// Those of [`start`](Leadership::start).
    pub fn start_with_options(
        client: &Client,
        path: impl AsRef<str>,
        options: LockOptions,
        lead: impl FnMut(&Term) + Send + 'static,
    ) -> Result<Leadership> {
        Leadership::of(LockKind::Exclusive, client, path.as_ref(), options, lead)
    }

    /// Takes part in the election of a Curator `LeaderLatch` at `path`, with the same rules as
    /// [`start`](Leadership::start). To Curator's latches, this process is another latch. What
    /// Curator calls the id of a participant is the identity here. Use this for a service whose
    /// Java instances keep their latches.
    ///
    /// A latch ignores all contenders that are not latches. If a call finds such contenders at
    /// `path`, for example those of [`start`](Leadership::start) or of a lock, it fails with
    /// [`Error::InvalidPath`], which is logged, and [`is_healthy`](Leadership::is_healthy) returns
    /// false. The same happens to `start` where there are latches. If such contenders arrive while
    /// this process stands by or leads, they may lead at the same time. One of them is logged as an
    /// error within four session timeouts, counted from the beginning of the term or from the
    /// contender's arrival. Before you switch, end all instances of one kind, or use another path.
    ///
    /// # Errors
    /// Those of [`start`](Leadership::start).
    pub fn start_in_latch(
        client: &Client,
        path: impl AsRef<str>,
        options: LockOptions,
        lead: impl FnMut(&Term) + Send + 'static,
    ) -> Result<Leadership> {
        Leadership::of(LockKind::Latch, client, path.as_ref(), options, lead)
    }

    fn of(
        kind: LockKind,
        client: &Client,
        path: &str,
        options: LockOptions,
        lead: impl FnMut(&Term) + Send + 'static,
    ) -> Result<Leadership> {
        // All terms of a `Leadership` run on a single thread.
        let options = LockOptions { local_handoffs: 0, ..options };
        let lock = TwoLevel::new(Site::new(client, path, kind, options)?);
        let contest = Mutex::new(Contest::Contends { since: sys::now(), failing: None });
        let shared = Arc::new(Shared { lock, stopping: CancelToken::new(), contest });
        look_for_others(&shared);
        let contending = Arc::clone(&shared);
        let thread = thread::Builder::new().name("zoolock-leadership".into());
        let thread = thread.spawn(move || contending.run(lead));
        let thread = thread.map_err(|cause| Error::SpawnThread { cause: cause.to_string() })?;
        Ok(Leadership { shared, thread: Some(thread) })
    }

    /// Returns whether this process leads now. Never blocks.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.shared.leads()
    }

    /// Returns the current leader, of any process, or `None` if there is none. Use the answer only
    /// for display and for forwarding requests, because it may already be out of date when it
    /// arrives. The leader's [identity](LockOptions::identity) may contain an address. While a lock
    /// stays busy because of [`hold_at_least`](LockOptions::hold_at_least), this returns the leader
    /// whose term has ended. Costs one list request and one read for each candidate; blocks for at
    /// most a session timeout.
    ///
    /// # Errors
    /// [`Error::Disconnected`] without a connection or an answer in time, [`Error::Closed`],
    /// [`Error::PermissionDenied`].
    pub fn leader(&self) -> Result<Option<Contender>> {
        let candidates = self.shared.lock.site().contenders()?;
        Ok(candidates.into_iter().find(|candidate| candidate.holds))
    }

    /// Returns whether the contest continues normally, for a liveness probe. Standing by while
    /// another process leads is healthy. Never blocks.
    ///
    /// Returns false when the contest has ended, and when one of these conditions lasts longer than
    /// a session timeout:
    /// - Calls for the lock fail.
    /// - No connection of the client lasts.
    /// - The function has not returned although its term is over.
    ///
    /// For the last two conditions, the time is counted from the first call of this method that
    /// detects them.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let inner = self.shared.inner();
        let runs = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        runs && self.shared.contest.lock().is_well(inner)
    }

    /// Ends the contest in an orderly way. The running term [is over](Term::is_over); when the
    /// function has returned, the lock is released, and the next candidate leads.
    ///
    /// Blocks until the function has returned, and for at most a third of the session timeout after
    /// that. Does not block if it is called from the function itself.
    pub fn shutdown(mut self) {
        self.shared.stopping.cancel();
        let is_another = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
        // The thread catches panics of the function, but not those of the function's destructor.
        let ended = self.thread.take().filter(is_another).map(JoinHandle::join);
        ended.into_iter().for_each(|ended| ended.unwrap_or_else(mem::forget));
    }
}

/// Ends the contest like [`shutdown`](Leadership::shutdown), without waiting.
impl Drop for Leadership {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
    }
}

impl Shared {
    fn inner(&self) -> &Inner {
        self.lock.site().inner()
    }

    fn leads(&self) -> bool {
        matches!(&*self.contest.lock(), Contest::Leads { term, .. } if term.is_held())
    }

    fn run(&self, mut lead: impl FnMut(&Term)) {
        let (mut failing, mut pause) = (None, PAUSE);
        loop {
            let since = sys::now();
            *self.contest.lock() = Contest::Contends { since, failing };
            // The program has to ensure that the state which its function shares with other code
            // stays valid after a panic.
            let problem = match caught(|| self.one_term(&mut lead, &mut failing)) {
                Some(Ok(())) => {
                    pause = PAUSE;
                    continue;
                }
                Some(Err(Error::Closed | Error::Cancelled { .. })) => return,
                Some(Err(error)) => error.to_string(),
                None => "it panicked".to_owned(),
            };
            let path = self.lock.path();
            // A logger may panic, for example if it prints to a closed stream.
            let _ = caught(|| {
                warn!(target: "zoolock", "leadership of {path} failed: {problem}; retrying in {pause:?}");
            });
            let failing = *failing.get_or_insert_with(sys::now);
            *self.contest.lock() = Contest::Pauses { failing };
            if sys::recv_timeout(self.stopping.cancelled(), pause) != Err(RecvTimeoutError::Timeout)
            {
                sys::reached("a contest ends during its pause");
                return;
            }
            pause = (pause * 2).min(self.inner().requests.patience());
        }
    }

    /// Runs one term. Resets `failing` as soon as it has the lock.
    fn one_term(&self, lead: &mut impl FnMut(&Term), failing: &mut Option<Instant>) -> Result<()> {
        let stopping = self.stopping.clone();
        let Some(grant) = self.lock.acquire(Wait::FOREVER.cancelled_by(&stopping))? else {
            return Ok(()); // impossible without a deadline
        };
        *failing = None;
        let guard: Guard<AnyThread> =
            Guard::new(self.lock.hold_of(grant), Arc::clone(&self.lock) as _);
        let hold = guard.hold();
        let asked = hold.revocation().cloned();
        if let (Ok(asked), false) = (asked, stopping.is_cancelled()) {
            let term = Arc::new(Term { hold, stopping, asked });
            *self.contest.lock() = Contest::Leads { term: Arc::clone(&term), overdue: None };
            lead(&term);
        }
        match guard.release() {
            Err(error) if error.is_lost() => {
                warn!(target: "zoolock", "leadership of {}: {error}", self.lock.path());
                Ok(())
            }
            released => released,
        }
    }
}

/// Until the contest ends, checks from time to time whether there are contenders at the path that
/// ignore the leader, and logs one of them.
fn look_for_others(shared: &Arc<Shared>) {
    let requests = &shared.inner().requests;
    requests.call_at(requests.next_look(), shared, move |shared| {
        if shared.inner().requests.is_closed() {
            return;
        }
        if !shared.leads() {
            return look_for_others(shared);
        }
        let (site, shared) = (shared.lock.site(), Arc::clone(shared));
        site.inner().requests.list(&site.facts.directory, move |names| {
            let (names, kind) = (names.unwrap_or_default(), shared.lock.site().facts.kind);
            let is_other =
                |name: &&str| names::kind_of(name).is_some_and(|one| kind.is_apart_from(one));
            if let Some(name) = names.iter().find(is_other).filter(|_| shared.leads()) {
                sys::reached("a leader finds contenders that ignore it");
                let (path, name) = (shared.lock.path().to_owned(), name.to_owned());
                shared.inner().requests.note(Level::Error, move || {
                    error!(target: "zoolock", "leadership of {path}: {name} contends by other rules, so both may lead");
                });
            }
            look_for_others(&shared);
        });
    });
}

impl Contest {
    fn is_well(&mut self, inner: &Inner) -> bool {
        let (limit, long) = (inner.requests.timeout(), inner.requests.patience());
        match self {
            Contest::Contends { since, failing } => {
                // A call that has lasted this long on one connection already has its queue
                // position.
                match (sys::now() - *since > long, inner.subscribers.has_lasted(long)) {
                    (true, true) => *failing = None,
                    (true, false) => {
                        failing.get_or_insert_with(sys::now);
                    }
                    (false, _) => {}
                }
                failing.is_none_or(|since| sys::now() - since <= limit)
            }
            Contest::Pauses { failing } => sys::now() - *failing <= limit,
            Contest::Leads { term, .. } if !term.is_over() => true,
            Contest::Leads { overdue, .. } => {
                sys::now() - *overdue.get_or_insert_with(sys::now) <= limit
            }
        }
    }
}

/// One term of a [`Leadership`]. It derefs to its [`Hold`], which has the [fencing
/// token](Hold::fencing_token). The token is the number of the term, and increases from one leader
/// to the next. A leader registers it with a resource before it reads. The hold also has
/// [`ended`](Hold::ended) and [guarded writes](Hold::transaction). Other threads can have a clone
/// of the hold, `Hold::clone(term)`. The hold does not end at a shutdown: its [`wait`](Hold::wait)
/// returns only when the hold ends.
#[derive(Debug)]
pub struct Term {
    hold: Hold,
    stopping: CancelToken,
    asked: Receiver<()>,
}

impl Term {
    /// Returns the instant until which the leader may act, as far as is known now: no other process
    /// leads before that instant. The instant is in the past if the term was lost. While there is a
    /// connection, heartbeats move it forward. Call this before each action, and act only if the
    /// remaining time is enough. Never blocks.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        sys::now() + self.hold.valid_for()
    }

    /// Returns whether the function must return: because the term was lost, because of a
    /// [`Client::revoke`], or because of [`Leadership::shutdown`]. Never blocks.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !self.hold.is_held() || self.hold.is_asked_for() || self.is_stopping()
    }

    /// Returns whether [`Leadership::shutdown`] ends the term. In that case there is still time to
    /// clean up, until [`deadline`](Term::deadline).
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Blocks until the term [is over](Term::is_over).
    pub fn wait(&self) {
        self.wait_for(never());
    }

    /// Blocks until the term [is over](Term::is_over), and for at most `timeout`. Returns whether it
    /// is over.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.wait_for(sys::now().checked_add(timeout).map_or_else(never, sys::at));
        self.is_over()
    }

    fn wait_for(&self, expiry: Receiver<Instant>) {
        if !self.is_over() {
            select! {
                recv(self.hold.ended()) -> _ => {}
                recv(self.stopping.cancelled()) -> _ => {}
                recv(self.asked) -> _ => {
                    // Another thread may need this message.
                    self.hold.leave_request();
                }
                recv(expiry) -> _ => {}
            }
        }
    }
}

impl Deref for Term {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
