//! Leadership: a thread that contends for a lock again and again, and runs a function each time it has it. It
//! has the object beneath the lock types, so that a shutdown can end its wait, and asks the session how the
//! connection is.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use log::warn;

use crate::client::Client;
use crate::contenders::Contender;
use crate::error::{Error, Result};
use crate::guard::{AnyThread, Guard};
use crate::hold::Hold;
use crate::level::{Ownership, Site, TwoLevel};
use crate::names::Mode;
use crate::options::LockOptions;
use crate::panics::caught;
use crate::session::Session;
use crate::signal::{Ended, Signal, Until};
use crate::sys::thread::{self, JoinHandle};
use crate::sys::{self, Mutex, select};

/// The first pause after something went wrong; each one more in a row takes twice as long, up to a third of
/// the session timeout.
const PAUSE: Duration = Duration::from_millis(100);

/// One of several processes leads: it runs a function, the others stand by.
///
/// A thread of its own waits for the lock at a path. Each time it has it, it calls the function with the
/// [`Term`] that this begins, and releases the lock when the function returns. Then it waits for its next
/// term, at the end of the queue; so it does when the lock was lost, after every error, and when the function
/// has panicked, until [`shutdown`](Leadership::shutdown) or the end of the client.
///
/// ```text
///                        the lock              `lead` returns
///  contends, stands by -----------> term runs -----------------> released --.
///    ^                                  |  lost: `lead` has to return       |
///    '----------------------------------'-----------------------------------'
/// ```
///
/// # Guarantees
/// Those of [`DistributedLock`](crate::DistributedLock): no two terms run at the same time, as long as the function keeps
/// to [`Term::deadline`]. Terms have rising [fencing tokens](crate::Hold::fencing_token).
///
/// # Fairness
/// Candidates lead in the order in which they came. One that has lost its session comes last.
///
/// # When the session dies
/// The term is over: [`Term::is_over`] is true from the very end of its lease, and [`lost`](Hold::lost) wakes whoever
/// waits for it. The function has to return then; there is no next term before it has.
///
/// To have a leader step down, from wherever: [`Client::revoke`] what [`leader`](Leadership::leader) tells. It
/// contends again, behind the others.
///
/// # Errors
/// None ends the contest but [`Error::Closed`]. Others are logged as warnings, and tried again after a pause
/// of 100 ms at first and a third of the session timeout at most; [`health`](Leadership::health) tells when
/// that goes on for too long.
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Client, Leadership, LockOptions};
///
/// # fn step(_term: u64) {}
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::connect("127.0.0.1:2181", Duration::from_secs(10))?;
/// let leadership = Leadership::new(&client, "/services/billing", LockOptions::new(), |term| {
///     // Once a second, for as long as this process leads.
///     while !term.wait(Duration::from_secs(1)) {
///         step(term.token());
///     }
/// })?;
/// # let terminated = zoolock::crossbeam_channel::never::<()>();
/// let _ = terminated.recv(); // until the process is asked to end
/// leadership.shutdown();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the contest ends with it"]
pub struct Leadership {
    shared: Arc<Shared>,
    /// None when it was waited for.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    lock: Arc<TwoLevel>,
    stopping: Signal,
    contest: Mutex<Contest>,
}

/// How the contest stands. What fails does so since the first of all failures in a row.
#[derive(Debug)]
enum Contest {
    /// In a call for the lock.
    Contends { since: Instant, failing: Option<Instant> },
    /// Behind a failure.
    Pauses { failing: Instant },
    /// The function runs. It was seen to run though its term was over, since then.
    Leads { term: Arc<Term>, overdue: Option<Instant> },
}

impl Leadership {
    /// Has `lead` called for each term, on a thread that this starts. Does not wait for a connection.
    ///
    /// The term ends when `lead` returns. Then the next in the queue leads; if there is none, `lead` is called
    /// again at once: one that has nothing to do should [wait](Term::wait). With
    /// [`hold_at_least`](LockOptions::hold_at_least) no term begins sooner than that behind the one before, whoever
    /// leads. Of the options, those for the other threads of a process have no effect:
    /// [`local_handoffs`](LockOptions::local_handoffs), [`keep_idle`](LockOptions::keep_idle).
    ///
    /// # Errors
    /// [`Error::InvalidPath`], [`Error::InvalidArgument`]; [`Error::Thread`] if the operating system refuses a thread.
    pub fn new(
        client: &Client,
        path: impl Into<String>,
        options: LockOptions,
        lead: impl FnMut(&Term) + Send + 'static,
    ) -> Result<Leadership> {
        let site = Site::new(client, &path.into(), options.without_handoffs())?;
        let lock = TwoLevel::at(site, Mode::Exclusive, Ownership::AnyThread);
        let contest = Contest::Contends { since: sys::now(), failing: None };
        let contest = Mutex::new(contest);
        let shared = Arc::new(Shared { lock, stopping: Signal::new(), contest });
        let contending = Arc::clone(&shared);
        let thread = thread::Builder::new().name("zoolock-leadership".into());
        let thread = thread.spawn(move || contending.run(lead));
        let thread = thread.map_err(|cause| Error::Thread { cause: cause.to_string() })?;
        Ok(Leadership { shared, thread: Some(thread) })
    }

    /// Does this process lead now? Reads the clocks; no I/O, never blocks.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        matches!(&*self.shared.contest.lock(), Contest::Leads { term, .. } if term.is_held())
    }

    /// Who leads now, whichever process that is: for people, and for handing requests on, since it may be out of
    /// date when it arrives. An address can stand in its [identity](LockOptions::identity). None if nobody
    /// does. A lock that is [held on](LockOptions::hold_at_least) shows the leader that has ended its term. One
    /// list and one read a candidate; blocks for at most a session timeout.
    ///
    /// # Errors
    /// [`Error::Disconnected`] without a connection or an answer in time, [`Error::Closed`],
    /// [`Error::Denied`].
    pub fn leader(&self) -> Result<Option<Contender>> {
        let candidates = self.shared.lock.site().contenders()?;
        Ok(candidates.into_iter().find(|candidate| candidate.holds))
    }

    /// Does the contest go on? For a liveness probe. That somebody else leads is well. False when it has ended,
    /// and when for longer than a session timeout calls for the lock failed, or there was no connection that
    /// lasts, or the function has not returned though its term is over; of the last two the time runs from
    /// the first call of this that sees it. No I/O, never blocks.
    #[must_use]
    pub fn health(&self) -> bool {
        let session = self.shared.session();
        let runs = self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        runs && self.shared.contest.lock().is_well(session)
    }

    /// Ends the contest in order: the running term [is over](Term::is_over), and when the function has returned the
    /// lock is released, so that the next candidate leads.
    ///
    /// Blocks until the function has returned, and for a third of the session timeout behind that at most; not at
    /// all where the function itself calls it.
    pub fn shutdown(mut self) {
        self.shared.stopping.raise();
        let is_another = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
        // It catches what panics.
        let _ = self.thread.take().filter(is_another).map(JoinHandle::join);
    }
}

/// Ends the contest as [`shutdown`](Leadership::shutdown) does, and waits for nothing.
impl Drop for Leadership {
    fn drop(&mut self) {
        self.shared.stopping.raise();
    }
}

impl Shared {
    fn session(&self) -> &Session {
        self.lock.site().session()
    }

    fn run(&self, mut lead: impl FnMut(&Term)) {
        let (mut failing, mut pause) = (None, PAUSE);
        while !is_ended(self.stopping.ended()) {
            let since = sys::now();
            *self.contest.lock() = Contest::Contends { since, failing };
            // Whoever shares something with the function has to see to it that it bears a panic.
            let problem = match caught(|| self.one_term(&mut lead, &mut failing)) {
                Some(Ok(())) => {
                    pause = PAUSE;
                    continue;
                }
                Some(Err(Error::Closed | Error::Cancelled { .. })) => {
                    return sys::reached("a candidate stops");
                }
                Some(Err(error)) => error.to_string(),
                None => {
                    sys::reached("a leader panics");
                    "it panicked".to_owned()
                }
            };
            sys::reached("a contest pauses behind a failure");
            let path = self.lock.path();
            // A logger panics if it prints to a stream that is closed.
            let _ = caught(|| {
                warn!(target: "zoolock", "leadership of {path}: once more in {pause:?}: {problem}");
            });
            let failing = *failing.get_or_insert_with(sys::now);
            *self.contest.lock() = Contest::Pauses { failing };
            if sys::recv_timeout(self.stopping.ended(), pause) != Err(RecvTimeoutError::Timeout) {
                sys::reached("a contest ends in its pause");
                return;
            }
            pause = (pause * 2).min(self.session().patience());
        }
    }

    /// With the lock nothing is failing any more.
    fn one_term(&self, lead: &mut impl FnMut(&Term), failing: &mut Option<Instant>) -> Result<()> {
        let stopping = self.stopping.ended().clone();
        let until = Until { deadline: None, cancelled: stopping.clone() };
        let Some(grant) = self.lock.acquire_until(&until)? else {
            return Ok(()); // not without a deadline
        };
        *failing = None;
        let guard: Guard<AnyThread> = self.lock.guard(grant);
        let hold = guard.hold();
        let asked = hold.revocation();
        if let (Ok(asked), false) = (asked, is_ended(&stopping)) {
            let term = Arc::new(Term { hold, stopping, asked });
            let leads = Contest::Leads { term: Arc::clone(&term), overdue: None };
            *self.contest.lock() = leads;
            lead(&term);
        }
        match guard.release() {
            Err(error) if error.is_lost() => {
                sys::reached("a term ends by a loss");
                warn!(target: "zoolock", "leadership of {}: {error}", self.lock.path());
                Ok(())
            }
            released => released,
        }
    }
}

impl Contest {
    fn is_well(&mut self, session: &Session) -> bool {
        let (limit, long) = (session.timeout(), session.patience());
        match self {
            Contest::Contends { since, failing } => {
                // A call that goes on for so long on one connection has its place in the queue.
                match (sys::now() - *since > long, session.has_been_connected_for(long)) {
                    (true, true) => *failing = None,
                    (true, false) => {
                        sys::reached("a candidate has no connection that lasts");
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

fn is_ended(signal: &Ended) -> bool {
    signal.try_recv() == Err(TryRecvError::Disconnected)
}

/// One term of a [`Leadership`], and a view of its [`Hold`]: of its [fencing token](Hold::fencing_token), of
/// [`lost`](Hold::lost), and for [guarded writes](Hold::transaction). Other threads can have a clone of the hold,
/// `Hold::clone(term)`.
#[derive(Debug)]
pub struct Term {
    hold: Hold,
    stopping: Ended,
    asked: Receiver<()>,
}

impl Term {
    /// The number of the term, which rises from one leader to the next: the
    /// [fencing token](Hold::fencing_token), with which a leader claims what it writes to before it reads.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.hold.token()
    }

    /// Until when the leader may act, by what is known now: nobody else leads before. In the past when the term was
    /// lost. Heartbeats move it on while there is a connection: ask again before each act, and act only if
    /// there is enough time for it. Reads the clocks; no I/O, never blocks.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        sys::now() + self.hold.valid_for()
    }

    /// Has the function to return? Because the term was lost, because somebody has asked for it with
    /// [`Client::revoke`], or because of [`Leadership::shutdown`]. No I/O, never blocks.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_asked = self.hold.is_asked_for();
        !self.hold.is_held() || is_asked || self.is_stopping()
    }

    /// Is it to end because of [`Leadership::shutdown`]? Then there is still time to leave things in order, until
    /// [`deadline`](Term::deadline).
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        is_ended(&self.stopping)
    }

    /// Blocks for so long, or until the term [is over](Term::is_over) if that is sooner. True if it is over. Of
    /// several threads that wait, one is woken when somebody asks for it.
    pub fn wait(&self, time: Duration) -> bool {
        if !self.is_over() {
            select! {
                recv(self.hold.lost()) -> _ => sys::reached("a leader hears that its term is lost"),
                recv(self.stopping) -> _ => sys::reached("a leader hears that it is to stop"),
                recv(self.asked) -> _ => sys::reached("a leader is asked to let go"),
                default(time) => {}
            }
        }
        self.is_over()
    }
}

impl Deref for Term {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
