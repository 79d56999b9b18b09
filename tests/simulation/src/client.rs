//! A client that uses the library according to its plan, and checks the results.

mod acquisition;
mod objects;
mod operations;
mod promises;
mod steps;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use acquisition::Target;
use kernel::{Process, thread};
use objects::{Object, make, options};
use zoolock::observer::{CallOutcome, Called, Ended, HoldOutcome, Observer};
use zoolock::{CancelToken, Client, Contender, Error, Hold, Leadership, Term};
use zoolock_checker::{Mode, Unlocked};

use crate::coverage::count_variant;
use crate::monitor::{self, Held, monitor, violation};
use crate::plan::{
    AcquisitionPlan, ClientPlan, Kind, ObjectPlan, Operation, Place, ThreadPlan, Wait,
};

/// How much later than its deadline a call may return, because threads need time to run.
pub(crate) const SLACK: Duration = Duration::from_millis(100);

/// State that the clients share with the world.
#[derive(Default)]
pub(crate) struct Board {
    pub are_healed: bool,
    /// The programs that have completed their plans, and the programs that have closed their clients.
    pub done: BTreeSet<Process>,
    pub closed: BTreeSet<Process>,
    /// For each pause of a machine: how long it takes, and when it ends. A duration of zero means that a clock was set.
    pub stalls: Vec<(Process, Duration, Duration)>,
    pub sessions: BTreeMap<Process, Client>,
    /// For each thread, what the observer has been notified of since the thread's last call.
    reports: BTreeMap<usize, Vec<(Report, Ahead)>>,
    /// The number of operators that have revoked a permission and not restored it yet.
    pub operators: usize,
}

thread_local! {
    static BOARD: RefCell<Board> = RefCell::default();
}

pub(crate) fn board<T>(act: impl FnOnce(&mut Board) -> T) -> T {
    BOARD.with_borrow_mut(act)
}

/// Records that a machine is paused for this long, beginning now.
pub(crate) fn stands_still(process: Process, time: Duration) {
    board(|board| board.stalls.push((process, time, kernel::elapsed() + time)));
}

/// Returns for how long a machine has been paused since `since`.
pub(crate) fn stalled(process: Process, since: Duration) -> Duration {
    let is_it = |(one, _, until): &&(_, _, _)| *one == process && *until >= since;
    board(|board| board.stalls.iter().filter(is_it).map(|(_, time, _)| *time).sum())
}

pub(crate) fn has_stalled(process: Process, since: Duration) -> bool {
    !stalled(process, since).is_zero()
}

/// Returns whether a lease may have become shorter than time has passed, because of a pause or a clock that was set.
pub(crate) fn has_jumped(process: Process, since: Duration) -> bool {
    let is_it = |(one, _, until): &(_, _, _)| *one == process && *until >= since;
    board(|board| board.stalls.iter().any(is_it))
}

impl Board {
    pub(crate) fn is_over(&mut self) {
        let process = kernel::own_process();
        self.done.insert(process);
        self.closed.insert(process);
    }
}

/// A notification that an observer receives about a call or a hold.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Report {
    Acquired,
    Busy,
    TimedOut,
    Cancelled,
    Failed,
    Ended(HoldOutcome),
}

/// How many contenders were ahead of a call when it queued, according to the observer.
type Ahead = Option<usize>;

/// An observer that counts grants and the ends of holds, and calls the client in its callbacks.
#[derive(Default)]
struct TestObserver {
    acquired: AtomicU64,
    ended: AtomicU64,
}

/// Checks that the running thread may wait. Threads that read answers or run timers must not.
fn may_wait(who: &str) {
    let (_, name) = kernel::whoami();
    if matches!(&*name, "zookeeper-reader" | "zookeeper-timer") {
        violation(format!("{who} is called by the {name}"));
    }
}

/// Records that the observer was notified.
fn record(report: Report, ahead: Ahead) {
    may_wait("an observer");
    board(|board| board.reports.entry(thread::number()).or_default().push((report, ahead)));
}

impl Observer for TestObserver {
    fn called(&self, call: &Called<'_>) {
        let report = match call.outcome {
            CallOutcome::Acquired => Report::Acquired,
            CallOutcome::Busy => Report::Busy,
            CallOutcome::TimedOut => Report::TimedOut,
            CallOutcome::Cancelled => Report::Cancelled,
            _ => Report::Failed,
        };
        self.acquired.fetch_add((report == Report::Acquired).into(), Ordering::Relaxed);
        record(report, call.queue);
    }

    fn ended(&self, hold: &Ended<'_>) {
        record(Report::Ended(hold.outcome), None);
        let client = || board(|board| board.sessions.get(&kernel::own_process()).cloned());
        if self.ended.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
            && let Some(client) = client()
        {
            kernel::count("option: an observer has asked");
            let _ = client.contenders("/a");
        }
    }
}

struct Shared {
    client: Client,
    name: String,
    hosts: String,
    plan: ClientPlan,
    leaderships: RefCell<Vec<Leadership>>,
    objects: Vec<Object>,
    is_closed: Cell<bool>,
    /// For each object, the cancel token of its calls. When a token is cancelled, it is replaced by a new one.
    tokens: Vec<RefCell<Token>>,
    /// For each place, how many calls have begun, and how many of them have returned.
    calls: [Cell<(u64, u64)>; Place::ALL.len()],
    observer: Option<Arc<TestObserver>>,
    /// How many ends of holds have to be reported, and how many have been reported.
    ends: Arc<[AtomicU64; 2]>,
}

/// A cancel token for calls, and the instant from which it has certainly been cancelled.
#[derive(Clone, Default)]
struct Token {
    token: CancelToken,
    cancelled: Rc<Cell<Option<Duration>>>,
}

pub(crate) fn run(number: usize, plan: &ClientPlan, hosts: &str) {
    let observer = plan.is_observed.then(|| Arc::new(TestObserver::default()));
    let Some(client) = connect(plan, hosts, observer.as_ref()) else {
        return board(Board::is_over);
    };
    let process = kernel::own_process();
    board(|board| board.sessions.insert(process, client.clone()));
    let objects = plan.objects.iter().map(|object| make(&client, object)).collect();
    let shared = Rc::new(Shared {
        client: client.clone(),
        name: format!("client {number}"),
        hosts: hosts.to_owned(),
        plan: plan.clone(),
        leaderships: RefCell::default(),
        objects,
        is_closed: Cell::new(false),
        tokens: plan.objects.iter().map(|_| RefCell::default()).collect(),
        calls: Default::default(),
        observer,
        ends: Arc::default(),
    });
    let is_shut = Arc::new(AtomicBool::new(false));
    let leaderships = plan.objects.iter().filter_map(|object| lead(&shared, object, &is_shut));
    *shared.leaderships.borrow_mut() = leaderships.collect();
    run_all(plan.threads.iter().enumerate().map(|(index, plan)| {
        let (shared, plan) = (Rc::clone(&shared), plan.clone());
        let name = format!("thread {index}");
        (name.clone(), move || shared.thread(&name, &plan))
    }));
    await_calm();
    for leadership in shared.leaderships.take() {
        if !leadership.is_healthy() && !shared.is_closed.get() {
            shared.fail("a leadership is unhealthy without a fault");
        }
        shared.end_leadership(leadership);
    }
    is_shut.store(true, Ordering::Relaxed);
    if !shared.is_closed.get() {
        shared.calm_round();
        shared.end();
    }
    board(Board::is_over);
    drop(board(|board| board.sessions.remove(&process)));
}

/// Runs threads with these names in this process, and waits until all of them have ended.
pub(crate) fn run_all<F: FnOnce() + 'static>(threads: impl Iterator<Item = (String, F)>) {
    let threads = threads.map(|(name, body)| thread::spawn_in(kernel::own_process(), &name, body));
    let threads: Vec<_> = threads.collect();
    threads.into_iter().for_each(|thread| drop(thread.join()));
}

/// Records that the plan is completed, and waits until all faults are over.
pub(crate) fn await_calm() {
    board(|board| board.done.insert(kernel::own_process()));
    let are_healed = || board(|board| board.are_healed);
    kernel::block("the end of all faults", None, Some(&are_healed));
}

fn connect(plan: &ClientPlan, hosts: &str, observer: Option<&Arc<TestObserver>>) -> Option<Client> {
    for _ in 0..100 {
        let builder = Client::builder(hosts).session_timeout(plan.timeout);
        let builder = match observer {
            Some(observer) => builder.observer(Arc::clone(observer)),
            None => builder,
        };
        let connected = if plan.is_lazy { builder.connect_lazily() } else { builder.connect() };
        match connected {
            Ok(client) => {
                kernel::count(if plan.is_lazy { "client: lazy" } else { "client: eager" });
                kernel::note(|| "is connected".to_owned());
                return Some(client);
            }
            Err(error @ (Error::Connect { .. } | Error::SpawnThread { .. })) => {
                count_variant("error", &error);
            }
            Err(error) => violation(format!("connect: {error}")),
        }
        thread::sleep(Duration::from_secs(1));
    }
    None
}

fn shuffle<T>(all: &mut [T]) {
    kernel::with_random(|random| random.shuffle(all));
}

pub(crate) fn node_of(contender: &Contender) -> String {
    match contender.node.as_str() {
        "" => contender.path.clone(),
        node => format!("{}/{node}", contender.path),
    }
}

/// Starts a leadership. To the monitor, the leader is a holder during its terms.
fn lead(shared: &Rc<Shared>, plan: &ObjectPlan, is_shut: &Arc<AtomicBool>) -> Option<Leadership> {
    if plan.kind != Kind::Leadership {
        return None;
    }
    let (who, place) = (format!("{}, leader", shared.name), plan.place);
    let is_shut = Arc::clone(is_shut);
    let act = move |term: &Term| {
        let now = kernel::elapsed();
        if is_shut.load(Ordering::Relaxed) {
            violation(format!("{who}: a term after the shutdown"));
        }
        kernel::count("call: a term");
        let (own, kind) = (Hold::clone(term), Kind::Leadership);
        let node = monitor::id_of(kind, &own);
        monitor::unchecked_acquisition(place, kind, &own);
        let held = Held::new(who.clone(), kind, place, Mode::Exclusive, vec![own]);
        let hold = monitor::granted(held, now, None, None);
        let time = kernel::with_random(|random| random.u64(1..4_000));
        let is_over = term.wait_timeout(Duration::from_millis(time));
        monitor::listened(hold, now);
        if is_over && term.is_held() && !term.is_stopping() {
            monitor::received_request(&node);
        }
        monitor::left(hold);
        monitor::ended(hold, Unlocked::Silent);
        if kernel::with_random(|random| random.u8(..32)) == 0 {
            resume_unwind(Box::new("as planned"));
        }
    };
    match Leadership::start_with_options(&shared.client, place.path(), options(plan), act) {
        Ok(leadership) => Some(leadership),
        Err(Error::SpawnThread { .. }) => None,
        Err(error) => {
            violation(format!("{plan:?}: {error}"));
            None
        }
    }
}

impl Shared {
    fn fail(&self, problem: impl fmt::Display) {
        violation(format!("{}: {problem}", self.name));
    }

    /// Returns the shared object with this number.
    fn target(&self, number: usize) -> Target<'_> {
        let (object, plan) = (&self.objects[number], &self.plan.objects[number]);
        Target { number, is_fresh: false, object, plan }
    }

    fn leads_at(&self, place: Place) -> bool {
        let leads = |object: &ObjectPlan| object.kind == Kind::Leadership && object.place == place;
        self.plan.objects.iter().any(leads)
    }

    fn thread(&self, name: &str, plan: &ThreadPlan) {
        plan.carry_out(|what| {
            self.look_at_leaderships();
            self.step(name, what);
        });
    }

    /// Polls the health of all leaderships. Earlier polls determine which answer is expected.
    fn look_at_leaderships(&self) {
        let leaderships = self.leaderships.take();
        for leadership in &leaderships {
            kernel::count("call: health");
            let _ = leadership.is_healthy();
        }
        self.leaderships.borrow_mut().extend(leaderships);
    }

    /// Shuts down a leadership, which notifies a running term immediately.
    fn end_leadership(&self, leadership: Leadership) {
        let limit = self.client.session_timeout() / 3;
        self.timed("shutdown", Some(limit), || leadership.shutdown());
    }

    fn close(&self) {
        self.is_closed.set(true);
        monitor(|monitor| monitor.closing.insert(kernel::own_process()));
        kernel::note(|| "closes".to_owned());
        let limit = Some(self.client.session_timeout());
        let closed = self.timed("close", limit, || self.client.close());
        self.checked("close", || closed);
    }

    /// Acquires every lock once more, now without faults. Every waiter must acquire it promptly.
    fn calm_round(self: &Rc<Shared>) {
        run_all((0..self.objects.len()).map(|object| {
            let shared = Rc::clone(self);
            let name = format!("calm {object}");
            (name.clone(), move || {
                for _ in 0..2 {
                    // Because of this pause, a thread may call while another one has just released the lock.
                    let rest = kernel::with_random(|random| random.u64(..100));
                    thread::sleep(Duration::from_millis(rest));
                    let while_held = vec![Operation::Work(Duration::from_millis(5))];
                    let acquisition = AcquisitionPlan {
                        while_held,
                        ..AcquisitionPlan::plain(object, Wait::Forever)
                    };
                    shared.use_lock(&name, shared.target(object), &acquisition);
                }
            })
        }));
    }

    /// Waits until the client holds nothing and has nothing left to do, and then closes it.
    fn end(&self) {
        let longest = self.plan.objects.iter().filter_map(|object| object.options.hold_at_least);
        let longest = longest.max().unwrap_or_default();
        let limit = kernel::elapsed() + self.client.session_timeout() * 5 + longest;
        loop {
            let stats = self.client.stats();
            // The observer is notified of every end of a hold, but shortly after it.
            let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
            let counted = self.observer.as_ref().map(|it| (count(&it.acquired), count(&it.ended)));
            let [expected, ended] = self.ends.each_ref().map(count);
            let are_reported =
                expected == ended && counted.is_none_or(|(acquired, ended)| acquired == ended);
            if are_reported && (stats.held, stats.waiting, stats.deleting) == (0, 0, 0) {
                break;
            }
            if kernel::elapsed() > limit {
                let ends = (expected, ended);
                self.fail(format!("gauges do not go to zero: {stats:?}, {counted:?}, {ends:?}"));
                break;
            }
            thread::sleep(Duration::from_millis(200));
        }
        self.check_nodes();
        promises::check_watches(&self.name);
        self.close();
    }
}
