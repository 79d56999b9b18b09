//! A client process: it carries out the plan of one client, and reports everything that happens.

mod acquisition;
#[path = "../../../simulation/src/client/objects.rs"]
mod objects;
mod steps;

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zoolock::{CancelToken, Client, Error, Hold, Leadership, Term};
use zoolock_checker::{Call, Missed, Mode, Unlocked, WorkerId, after};

use crate::Outcome;
use crate::plan::{AcquisitionPlan, ClientPlan, Kind, ObjectPlan, Wait};
use crate::protocol::{Event, now};
use crate::run::{plan_of, shortened};
use objects::{Object, make, options};

const BETWEEN_CONNECTS: Duration = Duration::from_millis(100);

/// The input of a client process.
#[derive(Serialize, Deserialize)]
pub(crate) struct ClientOptions {
    /// The seed of the plan, and whether it is the variant of the plan with guarded writes.
    pub(crate) plan: (u64, bool),
    /// The number of the client in the plan.
    pub(crate) number: usize,
    pub(crate) connect: String,
    /// The socket of the run's reaper, if the client uses it.
    pub(crate) reaper: Option<PathBuf>,
}

/// What all threads of a client share.
pub(crate) struct Program {
    client: Client,
    number: usize,
    plan: ClientPlan,
    objects: Vec<Object>,
    /// For each object, the cancel token of its calls. When a token is cancelled, it is replaced by a new one.
    tokens: Vec<Mutex<CancelToken>>,
    leaderships: Mutex<Vec<Leadership>>,
    is_closed: AtomicBool,
    /// How many holds there were so far.
    holds: AtomicU32,
}

thread_local! {
    static NUMBER: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

pub(crate) fn run(options: ClientOptions) -> Outcome<()> {
    let ClientOptions { plan: (seed, guards), number, connect: hosts, reaper } = options;
    let plan = plan_of(seed, guards).clients.swap_remove(number);
    let client = connect(&hosts, &plan, reaper);
    let program = &*Box::leak(Box::new(Program {
        objects: plan.objects.iter().map(|object| make(&client, object)).collect(),
        tokens: plan.objects.iter().map(|_| Mutex::default()).collect(),
        client,
        number,
        plan,
        leaderships: Mutex::default(),
        is_closed: AtomicBool::new(false),
        holds: AtomicU32::new(0),
    }));
    let leaderships = program.plan.objects.iter().filter_map(|object| program.lead(object));
    program.leaderships.lock().unwrap_or_else(PoisonError::into_inner).extend(leaderships);
    let steps = |plan: &'static crate::plan::ThreadPlan| {
        thread::spawn(move || {
            thread::sleep(shortened(plan.begins));
            for step in &plan.steps {
                thread::sleep(shortened(step.rest));
                program.step(&step.what);
            }
        })
    };
    await_all(program.plan.threads.iter().map(steps))?;
    Event::Idle.report();
    io::stdin().read_to_end(&mut Vec::new())?;
    while program.end_leadership() {}
    if !program.is_closed.load(Ordering::SeqCst) {
        // At this point, all clients are releasing their locks, so each lock can be acquired.
        let take = |object| {
            let acquisition = AcquisitionPlan::plain(object, Wait::Forever);
            thread::spawn(move || program.acquire(&acquisition))
        };
        await_all((0..program.objects.len()).map(take))?;
        program.close();
    }
    Ok(())
}

fn await_all<T>(threads: impl Iterator<Item = JoinHandle<T>>) -> Outcome<()> {
    let threads: Vec<_> = threads.collect();
    let mut ended = threads.into_iter().map(JoinHandle::join);
    ended.try_for_each(|end| end.map(drop)).map_err(|_| "a thread panicked".into())
}

/// Connects. Repeats this after errors, because faults may already have begun.
fn connect(hosts: &str, plan: &ClientPlan, reaper: Option<PathBuf>) -> Client {
    let mut settings = Client::builder(hosts).session_timeout(plan.timeout);
    if let Some(socket) = reaper {
        settings = settings.reaper(socket);
    }
    loop {
        let builder = settings.clone();
        let connected = if plan.is_lazy { builder.connect_lazily() } else { builder.connect() };
        match connected {
            Ok(client) => return client,
            Err(_) => thread::sleep(BETWEEN_CONNECTS),
        }
    }
}

fn shuffle<T>(all: &mut [T]) {
    fastrand::shuffle(all);
}

impl Program {
    fn token_of(&self, object: usize) -> MutexGuard<'_, CancelToken> {
        self.tokens[object].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long a call that waits for a single answer may take.
    fn patience(&self) -> Duration {
        self.client.session_timeout() / 3
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let within = Some(self.client.session_timeout());
        let closed = self.timed(("close", 0, None), within, || self.client.close(), |_| None);
        self.checked("close", closed);
    }

    fn by(&self) -> WorkerId {
        WorkerId { process: self.number, thread: NUMBER.with(|number| *number) }
    }

    fn unexpected(&self, problem: String) {
        Event::Unexpected(format!("{}: {problem}", self.by())).report();
    }

    /// Makes a call, which must return within this time. The coordinator can observe it while it is in progress. `mode`
    /// is set if it requests a lock. If it does not get the lock, `missed` returns whether it certainly never held it.
    fn timed<T>(
        &self,
        (op, path, mode): (&'static str, usize, Option<Mode>),
        within: Option<Duration>,
        call: impl FnOnce() -> T,
        missed: impl FnOnce(&T) -> Option<bool>,
    ) -> T {
        let (by, started) = (self.by(), now());
        let deadline = within.map(|within| after(started, within));
        Event::Began { by, op: op.into(), path, mode, started, deadline }.report();
        let result = call();
        let ended = now();
        let missed = mode.and_then(|mode| Some(Missed { mode, certain: missed(&result)? }));
        let call = Call { op: op.into(), path, started, deadline, ended, missed };
        Event::Called(by, call).report();
        result
    }

    /// Returns the value of a call. Reports an error if the call's documentation does not allow it.
    fn checked<T>(&self, call: &str, result: zoolock::Result<T>) -> Option<T> {
        if let Err(error) = &result
            && !self.may_say(call, error)
        {
            self.unexpected(format!("{call}: {error}"));
        }
        result.ok()
    }

    fn may_say(&self, call: &str, error: &Error) -> bool {
        let waits_or_tries = matches!(call, "lock" | "try_lock" | "nested lock" | "read below");
        let keeps_on = matches!(call, "lock" | "unlock" | "revocation");
        match error {
            Error::Closed => self.is_closed.load(Ordering::SeqCst),
            Error::Multiple { failures, .. } => {
                failures.iter().all(|one| self.may_say(call, one) || self.may_say("unlock", one))
            }
            Error::Disconnected { .. } => !keeps_on,
            Error::MaybeDone { .. } => matches!(call, "commit" | "revoke" | "break_lock"),
            Error::Lost { .. } => !matches!(call, "verify" | "contenders" | "close"),
            // An ephemeral node may now be at the path of a directory that a lost hold used.
            Error::InvalidPath { .. } | Error::Cancelled { .. } => waits_or_tries,
            Error::InvalidArgument { .. } => waits_or_tries || matches!(call, "commit" | "revoke"),
            Error::WouldDeadlock { .. } => call == "nested lock",
            Error::NotHeld { .. } => matches!(call, "commit" | "revoke" | "break_lock"),
            Error::CloseTimeout { .. } => call == "close",
            _ => false,
        }
    }

    /// Starts a leadership, whose terms are holds of the lock.
    fn lead(&'static self, plan: &'static ObjectPlan) -> Option<Leadership> {
        let act = move |term: &Term| {
            let lock = zoolock_simulation::lock(plan.kind, plan.place);
            let begun = ("term", lock, Mode::Exclusive, now());
            let holding = self.begin(begun, vec![Hold::clone(term)], None);
            term.wait_timeout(Duration::from_millis(fastrand::u64(1..1_000)));
            holding.leave();
            holding.ended(Unlocked::Silent);
        };
        let (path, options) = (plan.place.path(), options(plan));
        let leads = plan.kind == Kind::Leadership;
        let leadership =
            leads.then(|| Leadership::start_with_options(&self.client, path, options, act));
        self.checked("lead", leadership.transpose())?
    }

    /// Ends a leadership. Returns false if the client has none.
    fn end_leadership(&self) -> bool {
        let one = self.leaderships.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let end = |one: Leadership| {
            let within = Some(self.patience());
            self.timed(("shutdown", 0, None), within, || one.shutdown(), |()| None);
        };
        one.map(end).is_some()
    }
}
