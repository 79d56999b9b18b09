//! A client that uses the library as its plan says and checks the results.

mod deeds;
pub(crate) mod events;
mod promises;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kernel::{Process, thread};
use zoolock::crossbeam_channel::RecvTimeoutError;
use zoolock::observer::{Acquired, Ended, Observer};
use zoolock::{
    Client, ClientState, Contender, DistributedLock, DistributedReentrantLock, DistributedRwLock,
    DistributedSemaphore, EphemeralLock, Error, Guard, Hold, HoldState, Leadership, Lock, LockId,
    LockOptions, Locker, MultiLock, Permits, ReadLock, ReentrantGuard, Result, Term, WriteLock,
};
use zoolock_judge::Unlocked;

use crate::histories;
use crate::network::Net;
use crate::plan::{
    ClientPlan, Deed, End, Kind, ObjectPlan, Options, Place, ThreadPlan, Wait, What,
};
use crate::witness::{self, Held, Kept, Mode, circles, delays, limit, violation, witness};

const TIMEOUT: RecvTimeoutError = RecvTimeoutError::Timeout;
/// How much later than its deadline a call may return, which is the time that threads need to run.
pub(crate) const SLACK: Duration = Duration::from_millis(100);

/// State that the world and the clients share.
#[derive(Default)]
pub(crate) struct Board {
    pub are_healed: bool,
    /// Programs that have carried out their plans, and those that have closed.
    pub done: BTreeSet<Process>,
    pub closed: BTreeSet<Process>,
    /// How long each machine stood still, and until when.
    pub stalls: Vec<(Process, Duration, Duration)>,
    /// Machines whose clock was set, and when.
    pub steps: Vec<(Process, Duration)>,
    pub sessions: Vec<(Process, Client)>,
    /// Number of operators that still have a right to give back.
    pub operators: usize,
    pub net: Option<Net>,
}

thread_local! {
    static BOARD: RefCell<Board> = RefCell::default();
}

pub(crate) fn board<T>(act: impl FnOnce(&mut Board) -> T) -> T {
    BOARD.with_borrow_mut(act)
}

/// Looks at the client of a process. `None` if it has none, or the look would have to wait for another thread.
pub(crate) fn look_at<T>(process: Process, look: impl FnOnce(&Client) -> T) -> Option<T> {
    board(|board| {
        let (_, client) = board.sessions.iter().find(|(one, _)| *one == process)?;
        kernel::peek(process, || look(client))
    })
}

enum Object {
    Exclusive(DistributedLock),
    Reentrant(DistributedReentrantLock),
    Single(EphemeralLock),
    Read(ReadLock),
    Write(WriteLock, ReadLock),
    Several(MultiLock),
    Semaphore(DistributedSemaphore),
    Leadership,
}

impl Board {
    /// Notes that the running program has closed.
    pub(crate) fn is_over(&mut self) {
        let (process, _) = kernel::whoami();
        self.done.insert(process);
        self.closed.insert(process);
    }

    /// Returns how long a machine has stood still since then.
    pub(crate) fn stalled(&self, process: Process, since: Duration) -> Duration {
        let own = self.stalls.iter().filter(|(one, _, until)| *one == process && *until >= since);
        own.map(|(_, time, _)| *time).sum()
    }

    /// Returns whether a lease may have lost more than the elapsed time since then, because the machine stood still or
    /// its clock was set.
    pub(crate) fn has_jumped(&self, process: Process, since: Duration) -> bool {
        let was_set = |(one, when): &(Process, Duration)| *one == process && *when >= since;
        !self.stalled(process, since).is_zero() || self.steps.iter().any(was_set)
    }
}

/// Observer that counts grants and ends, and calls the client from its callbacks.
#[derive(Default)]
struct Told {
    acquired: AtomicU64,
    ended: AtomicU64,
    client: Mutex<Option<Client>>,
}

impl Told {
    fn client(&self) -> Option<Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, client: Option<Client>) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }
}

/// Checks that no observer runs on the thread that reads answers or keeps the time, which must not wait for it.
fn judge_caller() {
    let (_, name) = kernel::whoami();
    if matches!(&*name, "zookeeper-reader" | "zookeeper-timer") {
        violation(format!("an observer is called by the {name}"));
    }
}

impl Observer for Told {
    fn acquired(&self, _: &Acquired<'_>) {
        judge_caller();
        self.acquired.fetch_add(1, Ordering::Relaxed);
    }

    fn ended(&self, _: &Ended<'_>) {
        judge_caller();
        if self.ended.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
            && let Some(client) = self.client()
        {
            kernel::count("option: an observer has asked");
            let _ = client.contenders("/a");
        }
    }
}

/// Returns what the judges learn from the answer of an unlock.
fn said(answer: Option<()>) -> Unlocked {
    answer.map_or(Unlocked::Silent, |()| Unlocked::Fine)
}

/// A lock object, and its number in the plan. Another object of that number may be fresh, made for one call.
#[derive(Clone, Copy)]
struct Target<'a> {
    number: usize,
    is_fresh: bool,
    object: &'a Object,
}

/// State that the threads of a client share.
struct Shared {
    client: Client,
    name: String,
    hosts: String,
    plan: ClientPlan,
    leaderships: RefCell<Vec<Leadership>>,
    objects: Vec<Object>,
    is_closed: RefCell<bool>,
    /// When the waiters of each object were last cancelled.
    cancelled: Vec<Cell<Option<Duration>>>,
    /// Number of calls at each place that have begun, and that have returned.
    calls: [Cell<(u64, u64)>; Place::ALL.len()],
    told: Option<Arc<Told>>,
    is_gentle: bool,
}

/// Runs a client from connect to close.
pub(crate) fn run(number: usize, plan: &ClientPlan, hosts: &str) {
    let told = plan.is_observed.then(|| Arc::new(Told::default()));
    let Some(client) = connect(plan, hosts, told.as_ref()) else {
        return board(Board::is_over);
    };
    let (process, _) = kernel::whoami();
    board(|board| board.sessions.push((process, client.clone())));
    told.iter().for_each(|told| told.set(Some(client.clone())));
    let objects = plan.objects.iter().map(|object| make(&client, object)).collect();
    let shared = Rc::new(Shared {
        client: client.clone(),
        name: format!("client {number}"),
        hosts: hosts.to_owned(),
        plan: plan.clone(),
        leaderships: RefCell::default(),
        objects,
        is_closed: RefCell::new(false),
        cancelled: plan.objects.iter().map(|_| Cell::new(None)).collect(),
        calls: Default::default(),
        told,
        is_gentle: witness(|witness| witness.is_gentle),
    });
    let is_shut = Arc::new(AtomicBool::new(false));
    let leaderships = plan.objects.iter().filter_map(|object| lead(&shared, object, &is_shut));
    *shared.leaderships.borrow_mut() = leaderships.collect();
    events::follow_beside(&client, number, plan);
    run_all(plan.threads.iter().enumerate().map(|(index, plan)| {
        let (shared, plan) = (Rc::clone(&shared), plan.clone());
        let name = format!("thread {index}");
        (name.clone(), move || shared.thread(&name, &plan))
    }));
    await_calm();
    for leadership in shared.leaderships.take() {
        if !leadership.is_healthy() && !*shared.is_closed.borrow() {
            violation(format!("{}: a leadership is not well, and all is", shared.name));
        }
        leadership.shutdown();
    }
    is_shut.store(true, Ordering::Relaxed);
    if !*shared.is_closed.borrow() {
        shared.calm_round();
    }
    shared.end();
    board(|board| {
        board.is_over();
        board.sessions.retain(|(one, _)| *one != process);
    });
}

/// Runs threads with these names in this process and waits until all have ended.
pub(crate) fn run_all<F: FnOnce() + 'static>(threads: impl Iterator<Item = (String, F)>) {
    let (process, _) = kernel::whoami();
    let threads = threads.map(|(name, body)| thread::spawn_in(process, &name, body));
    let threads: Vec<_> = threads.collect();
    threads.into_iter().for_each(|thread| drop(thread.join()));
}

/// Reports that the plan is carried out, and waits until all faults are over.
pub(crate) fn await_calm() {
    let (process, _) = kernel::whoami();
    board(|board| board.done.insert(process));
    let are_healed = || board(|board| board.are_healed);
    kernel::block("the end of all faults", None, Some(&are_healed));
}

fn connect(plan: &ClientPlan, hosts: &str, told: Option<&Arc<Told>>) -> Option<Client> {
    for _ in 0..100 {
        let builder = Client::builder(hosts).session_timeout(plan.timeout);
        let builder = match told {
            Some(told) => builder.observer(Arc::clone(told)),
            None => builder,
        };
        let builder = match plan.deadlocks {
            Some(deadlocks) => {
                builder.deadlock_check(deadlocks.after).fail_on_deadlock(deadlocks.fails)
            }
            None => builder,
        };
        let connected = match plan.is_lazy {
            true => builder.connect_lazily(),
            false => builder.connect(),
        };
        match connected {
            Ok(client) => {
                kernel::count(if plan.is_lazy { "client: lazy" } else { "client: eager" });
                kernel::note(|| "is connected".to_owned());
                return Some(client);
            }
            Err(Error::Connect { .. }) => kernel::count("error: Connect"),
            Err(Error::Thread { .. }) => kernel::count("error: Thread"),
            Err(error) => violation(format!("connect: {error}")),
        }
        thread::sleep(Duration::from_secs(1));
    }
    None
}

fn options(plan: &Options) -> LockOptions {
    let mut options = LockOptions::new()
        .local_handoffs(plan.local_handoffs)
        .background_release(plan.background_release)
        .abort_on_loss(plan.abort_on_loss);
    if let Some(time) = plan.keep_idle {
        options = options.keep_idle(time);
    }
    if let Some(time) = plan.hold_at_least {
        options = options.hold_at_least(time);
    }
    if let Some(time) = plan.hold_at_most {
        options = options.hold_at_most(time);
    }
    if let Some(time) = plan.lock_delay {
        options = options.lock_delay(time);
    }
    if let Some(number) = plan.identity {
        options = options.identity(witness::identity(number));
    }
    if plan.observes_queue {
        options = options.on_queue_position(Duration::from_secs(1), |_| {
            kernel::count("option: a queue position was told")
        });
    }
    options
}

fn make(client: &Client, plan: &ObjectPlan) -> Object {
    let (path, options) = (plan.place.path(), options(&plan.options));
    let made = match plan.kind {
        Kind::Exclusive => {
            DistributedLock::with_options(client, path, options).map(Object::Exclusive)
        }
        Kind::Reentrant => {
            DistributedReentrantLock::with_options(client, path, options).map(Object::Reentrant)
        }
        Kind::Single => EphemeralLock::with_options(client, path, options).map(Object::Single),
        Kind::Read => DistributedRwLock::with_options(client, path, options)
            .map(|lock| Object::Read(lock.read_lock())),
        Kind::Write => DistributedRwLock::with_options(client, path, options)
            .map(|lock| Object::Write(lock.write_lock(), lock.read_lock())),
        Kind::Semaphore => {
            DistributedSemaphore::with_options(client, path, limit(plan.place), options)
                .map(Object::Semaphore)
        }
        Kind::Several => {
            let of_read = Options { lock_delay: None, ..plan.options.clone() };
            several(client, path, options, self::options(&of_read)).map(Object::Several)
        }
        Kind::Leadership => Ok(Object::Leadership),
    };
    made.unwrap_or_else(|error| panic!("{plan:?}: {error}"))
}

/// Returns a multi-lock of the lock at the place, of one that all multi-locks share, and of a read that all share.
/// They are in any order. Some multi-locks take them one by one, as earlier releases did.
fn several(
    client: &Client,
    path: &str,
    options: LockOptions,
    of_read: LockOptions,
) -> Result<MultiLock> {
    let own = DistributedLock::with_options(client, path, options.clone())?;
    let other = DistributedLock::with_options(client, witness::SECOND, options)?;
    let read = DistributedRwLock::with_options(client, witness::READ, of_read)?.read_lock();
    let mut all: [Box<dyn Lock>; 3] = [own.into(), other.into(), read.into()];
    let is_one_by_one = kernel::with_random(|random| {
        random.shuffle(&mut all);
        random.u8(..3) == 0
    });
    MultiLock::new(all.map(|lock| match is_one_by_one {
        true => Box::new(Outside(lock)),
        false => lock,
    }))
}

/// A lock type of the program's own around one of the library.
#[derive(Debug)]
struct Outside(Box<dyn Lock>);

impl Lock for Outside {
    fn path(&self) -> &str {
        self.0.path()
    }

    fn id(&self) -> LockId {
        self.0.id()
    }

    fn lock_within(&self, wait: zoolock::Wait) -> Result<bool> {
        self.0.lock_within(wait)
    }

    fn unlock(&self) -> Result<()> {
        self.0.unlock()
    }

    fn is_held(&self) -> bool {
        self.0.is_held()
    }

    fn holds(&self) -> Vec<Hold> {
        self.0.holds()
    }
}

/// Returns the full path of a contender's node.
pub(crate) fn node_of(contender: &Contender) -> String {
    match contender.node.as_str() {
        "" => contender.path.clone(),
        node => format!("{}/{node}", contender.path),
    }
}

/// Returns how a hold of this kind excludes others.
fn mode(kind: Kind, permits: u32) -> Mode {
    match kind {
        Kind::Read => Mode::Shared,
        Kind::Semaphore => Mode::Permits(permits),
        _ => Mode::Alone,
    }
}

/// Panic payload that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        resume_unwind(Box::new("dropped"));
    }
}

/// Starts a leadership. The witness sees the leader as a holder while it acts.
fn lead(shared: &Rc<Shared>, plan: &ObjectPlan, is_shut: &Arc<AtomicBool>) -> Option<Leadership> {
    if plan.kind != Kind::Leadership {
        return None;
    }
    let (who, place) = (format!("{}, leader", shared.name), plan.place);
    let is_shut = Arc::clone(is_shut);
    let act = move |term: &Term| {
        let now = kernel::elapsed();
        if is_shut.load(Ordering::Relaxed) {
            violation(format!("{who}: a term behind the shutdown"));
        }
        kernel::count("call: a term");
        let holds = vec![Hold::clone(term)];
        holds.iter().for_each(|own| witness::unchecked_turn(place, Kind::Leadership, own));
        let held = Held::new(who.clone(), Kind::Leadership, place, Mode::Alone, holds);
        let hold = witness::granted(held, now, None);
        let time = kernel::with_random(|random| random.u64(1..4_000));
        term.wait(Duration::from_millis(time));
        witness::left(hold);
        witness::ended(hold, Unlocked::Silent);
        if kernel::with_random(|random| random.u8(..32)) == 0 {
            resume_unwind(Box::new(Bomb));
        }
    };
    match Leadership::new(&shared.client, place.path(), options(&plan.options), act) {
        Ok(leadership) => Some(leadership),
        Err(Error::Thread { .. }) => None,
        Err(error) => {
            violation(format!("{plan:?}: {error}"));
            None
        }
    }
}

/// Result of a call for a lock.
enum Taken<'a> {
    Lock,
    Guard(Guard),
    Own(ReentrantGuard),
    Several(Locker<'a>),
    Permits(Permits),
}

impl Taken<'_> {
    fn release(self) -> Result<()> {
        match self {
            Taken::Lock => Ok(()),
            Taken::Guard(guard) => guard.release(),
            Taken::Own(guard) => guard.release(),
            Taken::Several(guard) => guard.release(),
            Taken::Permits(permits) => permits.release(),
        }
    }
}

/// Returns a wait that is limited without a connection.
fn connected(time: Option<Duration>, limit: Duration) -> zoolock::Wait {
    kernel::count("option: a wait is limited without a connection");
    time.map_or(zoolock::Wait::FOREVER, zoolock::Wait::within).for_connection(limit)
}

/// Takes a guard of any type.
macro_rules! guard {
    ($lock:expr, $wait:expr, $taken:path) => {
        match $wait {
            Wait::Forever => $lock.acquire().map(|guard| Some($taken(guard))),
            Wait::Try => $lock.try_acquire().map(|guard| guard.map($taken)),
            Wait::For(time) => $lock.try_acquire_for(time).map(|guard| guard.map($taken)),
            Wait::Connected(time, limit) => {
                let got = $lock.acquire_within(connected(time, limit));
                got.map(|guard| guard.map($taken))
            }
        }
    };
}

/// Calls a method that most kinds of locks have.
macro_rules! on_lock {
    ($object:expr, $lock:ident => $act:expr, $else:expr) => {
        match $object {
            Object::Exclusive($lock) => $act,
            Object::Reentrant($lock) => $act,
            Object::Single($lock) => $act,
            Object::Read($lock) => $act,
            Object::Write($lock, _) => $act,
            Object::Several(_) | Object::Semaphore(_) | Object::Leadership => $else,
        }
    };
}

fn lock_of(object: &Object) -> Option<&dyn Lock> {
    match object {
        Object::Several(lock) => Some(lock),
        lock => on_lock!(lock, lock => Some(lock), None),
    }
}

fn take(object: &Object, wait: Wait, permits: u32, is_guard: bool) -> Result<Option<Taken<'_>>> {
    match object {
        Object::Semaphore(semaphore) => {
            let taken = match wait {
                Wait::Forever => semaphore.acquire(permits).map(Some),
                Wait::Try => semaphore.try_acquire(permits),
                Wait::For(time) => semaphore.try_acquire_for(permits, time),
                Wait::Connected(time, limit) => {
                    semaphore.acquire_within(permits, connected(time, limit))
                }
            };
            taken.map(|taken| taken.map(Taken::Permits))
        }
        Object::Leadership => Ok(None),
        Object::Exclusive(lock) if is_guard => guard!(lock, wait, Taken::Guard),
        Object::Single(lock) if is_guard => guard!(lock, wait, Taken::Guard),
        Object::Reentrant(lock) if is_guard => guard!(lock, wait, Taken::Own),
        Object::Read(lock) if is_guard => guard!(lock, wait, Taken::Own),
        Object::Write(lock, _) if is_guard => guard!(lock, wait, Taken::Own),
        Object::Several(lock) if is_guard => guard!(lock, wait, Taken::Several),
        _ => {
            let Some(lock) = lock_of(object) else {
                return Ok(None);
            };
            let has = match wait {
                Wait::Forever => lock.lock().map(|()| true),
                Wait::Try => lock.try_lock(),
                Wait::For(time) => lock.try_lock_for(time),
                Wait::Connected(time, limit) => lock.lock_within(connected(time, limit)),
            };
            has.map(|has| has.then_some(Taken::Lock))
        }
    }
}

fn holds_of(object: &Object, taken: &Taken<'_>) -> Vec<Hold> {
    match taken {
        Taken::Permits(permits) => permits.holds(),
        _ => lock_of(object).map_or_else(Vec::new, Lock::holds),
    }
}

/// Returns the data of a guarded write: node, token and hold.
fn data(kind: Kind, own: &Hold, hold: usize) -> String {
    let token = own.fencing_token();
    format!("{} {token} {hold}", witness::path_of(kind, own))
}

impl Target<'_> {
    /// Returns the number of an object that other calls use, too.
    fn shared(self) -> Option<usize> {
        (!self.is_fresh).then_some(self.number)
    }
}

impl Shared {
    /// Returns the object of this number that all calls share.
    fn target(&self, number: usize) -> Target<'_> {
        Target { number, is_fresh: false, object: &self.objects[number] }
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

    /// Asks all leaderships for their health. What is to be told depends on when it was asked for before.
    fn look_at_leaderships(&self) {
        let leaderships = self.leaderships.take();
        for leadership in &leaderships {
            kernel::count("call: health");
            let _ = leadership.is_healthy();
        }
        self.leaderships.borrow_mut().extend(leaderships);
    }

    fn step(&self, name: &str, what: &What) {
        match what {
            What::Lock { object, is_fresh, wait, permits, while_held, end } => {
                let number = *object;
                let fresh = is_fresh.then(|| make(&self.client, &self.plan.objects[number]));
                let object = fresh.as_ref().unwrap_or(&self.objects[number]);
                let target = Target { number, is_fresh: *is_fresh, object };
                self.use_lock(name, target, *wait, *permits, while_held, *end);
            }
            What::Contenders(place) => {
                kernel::count("call: contenders");
                let _ = self.told("contenders", self.client.contenders(place.path()));
                self.verify_former();
            }
            What::Revoke(place) => {
                kernel::count("call: revoke");
                let holder = self.holder(*place);
                if let Some(holder) = holder {
                    kernel::note(|| format!("asks {} to let go of {place}", holder.node));
                    let (path, token) = (node_of(&holder), holder.token);
                    witness::asks(&path, token);
                    let was_there = witness::is_there(&path, token);
                    // Time between the look and the request, in half of the cases.
                    let rest = kernel::with_random(|random| random.u64(..200).saturating_sub(100));
                    thread::sleep(Duration::from_millis(rest));
                    let is_gone = was_there && !witness::is_there(&path, token);
                    let asked = self.told("revoke", self.client.revoke(&holder));
                    // A stranger may have created a node of the same name since.
                    let is_sure = is_gone && !witness(|witness| witness.has_strangers);
                    if is_sure && asked.is_some() {
                        violation(format!("{} has asked {path}, which was gone", self.name));
                    }
                }
            }
            What::BreakLock(place) => {
                kernel::count("call: break_lock");
                if let Some(holder) = self.holder(*place) {
                    kernel::note(|| format!("breaks {place}, which {} has", holder.node));
                    witness(|witness| witness.broken.insert(node_of(&holder)));
                    let broken = self.told("break_lock", self.client.break_lock(&holder));
                    if broken.is_some() && holder.node.is_empty() {
                        violation(format!("{} has broken {place}, a single node", self.name));
                    }
                }
            }
            What::CancelWaiters { object } => {
                kernel::count("call: cancel_waiters");
                kernel::note(|| "cancels who waits".to_owned());
                self.cancelled[*object].set(Some(Duration::MAX));
                witness::cancels(*object);
                match &self.objects[*object] {
                    Object::Semaphore(semaphore) => semaphore.cancel_waiters(),
                    lock => on_lock!(lock, lock => lock.cancel_waiters(), ()),
                }
                // Waiters that came before the cancellation took effect are cancelled, too.
                self.cancelled[*object].set(Some(kernel::elapsed()));
                witness::cancels(*object);
            }
            What::Turns { object, count } => self.take_turns(*object, *count),
            What::Narrow { object, time } => {
                let Object::Semaphore(semaphore) = &self.objects[*object] else {
                    return;
                };
                kernel::count("call: set_limit");
                let most = semaphore.limit();
                self.told("set_limit", semaphore.set_limit(1));
                thread::sleep(*time);
                let place = self.plan.objects[*object].place;
                self.told("set_limit", semaphore.set_limit(limit(place)));
                witness::freed(place);
                if let Some(free) = self.told("available", semaphore.available())
                    && free > most.max(limit(self.plan.objects[*object].place))
                {
                    violation(format!("{}: {free} permits are free of {most}", self.name));
                }
            }
            What::LocksBelow => self.locks_below(),
            What::Odd { object, odd, time } => self.do_odd(name, *object, *odd, *time),
            What::BadName(place) => {
                kernel::count("call: a contender's name in a path");
                let path = format!("{place}/_c_{:032x}-lock-0000000001/x", 7);
                if let Ok(lock) = DistributedLock::new(&self.client, path) {
                    self.told("try lock", lock.try_lock());
                    let _ = lock.unlock();
                }
                let restless = LockOptions::new().on_queue_position(Duration::ZERO, |_| {});
                if DistributedLock::with_options(&self.client, place.path(), restless).is_ok() {
                    violation(format!("{} is to be told its place without a pause", self.name));
                }
            }
            What::Close => {
                kernel::count("call: close");
                *self.is_closed.borrow_mut() = true;
                let ((process, _), client) = (kernel::whoami(), self.client.clone());
                let other = thread::spawn_in(process, "second close", move || client.close());
                self.close();
                let _ = other.join();
            }
        }
    }

    fn holder(&self, place: Place) -> Option<zoolock::Contender> {
        let found = self.told("contenders", self.client.contenders(place.path()))?;
        // Several permits have several holders.
        let mut holders: Vec<_> = found.into_iter().filter(|contender| contender.holds).collect();
        let count = holders.len();
        let chosen = (count > 0).then(|| kernel::with_random(|random| random.usize(..count)));
        chosen.map(|chosen| holders.swap_remove(chosen))
    }

    /// Checks that all locks are found in order, and nothing else.
    fn locks_below(&self) {
        kernel::count("call: locks_below");
        let Some(locks) = self.told("locks_below", self.client.locks_below("/")) else {
            return;
        };
        let mut last: Vec<String> = Vec::new();
        for found in locks {
            let Some(contenders) = self.told("contenders", found) else {
                return;
            };
            let Some(first) = contenders.first() else {
                violation(format!("{}: a lock without contenders was found", self.name));
                continue;
            };
            let parts: Vec<String> = first.path.split('/').map(str::to_owned).collect();
            if parts <= last || first.path.starts_with(witness::FOLDER) {
                let path = &first.path;
                violation(format!("{}: found {path} behind {}", self.name, last.join("/")));
            }
            last = parts;
        }
    }

    fn use_lock(
        &self,
        name: &str,
        object: Target<'_>,
        wait: Wait,
        permits: u32,
        deeds: &[Deed],
        end: End,
    ) {
        let plan = &self.plan.objects[object.number];
        let who = format!("{}, {name}", self.name);
        if object.is_fresh {
            kernel::count("call: an object for one call");
        }
        let permits = permits.min(limit(plan.place));
        kernel::note(|| format!("wants {} ({:?}, {wait:?})", plan.place, plan.kind));
        witness(|witness| witness.calls += 1);
        kernel::count(match plan.kind {
            Kind::Exclusive => "kind: exclusive",
            Kind::Reentrant => "kind: reentrant",
            Kind::Read => "kind: read",
            Kind::Write => "kind: write",
            Kind::Single => "kind: single node",
            Kind::Semaphore => "kind: semaphore",
            Kind::Several => "kind: several",
            Kind::Leadership => "kind: leadership",
        });
        let is_guard = !matches!(end, End::Unlock | End::Downgrade);
        let call = if matches!(wait, Wait::Forever) { "lock" } else { "try lock" };
        let Some((taken, held)) = self.get(call, &who, object, wait, permits, is_guard) else {
            return;
        };
        let Some((hold, own)) = held else {
            // The hold has already ended.
            return self.give_back(object, taken, end, None);
        };
        for deed in deeds {
            self.do_deed(&who, object, hold, &own, deed);
        }
        let read = match end {
            End::Downgrade => self.read_below(&who, object, hold),
            _ => None,
        };
        let may_go = deeds.iter().any(|deed| matches!(deed, Deed::WriteLate(_) | Deed::Prolong(_)));
        let stays = if may_go { None } else { self.is_to_stay(plan, &own) };
        self.give_back(object, taken, end, Some((hold, own.clone())));
        stays.into_iter().for_each(|stays| self.judge_stay(plan, &own, stays));
        if let (Some(read), Object::Write(_, lock)) = (read, object.object) {
            kernel::count("deed: goes on as a read");
            thread::sleep(Duration::from_millis(30));
            read.into_iter().for_each(witness::left);
            let said = said(self.told("unlock", lock.unlock()));
            read.into_iter().for_each(|read| witness::ended(read, said));
        }
        if deeds.iter().any(|deed| matches!(deed, Deed::Verify)) {
            self.verify(&own, plan.kind);
        }
    }

    /// Calls for a lock. Returns what it got, and the hold's number at the witness unless the hold has already ended.
    fn get<'a>(
        &self,
        call: &str,
        who: &str,
        object: Target<'a>,
        wait: Wait,
        permits: u32,
        is_guard: bool,
    ) -> Option<(Taken<'a>, Option<(usize, Hold)>)> {
        let ObjectPlan { kind, place, .. } = self.plan.objects[object.number];
        let (begun, mode) = (kernel::elapsed(), mode(kind, permits));
        let connections = self.client.stats().connections;
        let waits = !matches!(wait, Wait::Try);
        let waiting = waits.then(|| witness::waits(object.shared(), kind, place, mode));
        let in_circle = waits.then(|| circles::waits(who, kind, place));
        let taken = histories::call(kind, place, mode, || {
            let limit = self.limit_of(kind, wait);
            self.timed(call, limit, || self.take(object, wait, permits, is_guard))
        });
        if let (Some(number), Ok(Some(_))) = (waiting, &taken) {
            witness::in_order(number, who);
        }
        self.judge_circle(who, place, &taken);
        self.judge_outage(kind, begun, wait, taken.as_ref().err());
        drop(in_circle);
        waiting.into_iter().for_each(witness::waits_no_more);
        self.was_cancelled(object, begun, taken.as_ref().err());
        let taken = self.told(call, taken)??;
        let mut holds = holds_of(object.object, &taken);
        if kind == Kind::Several {
            // Only the first member is at a place that others lock, too.
            holds.truncate(1);
        }
        let hold = holds.first().cloned().map(|own| {
            let held = Held::new(who.to_owned(), kind, place, mode, holds);
            let hold = witness::granted(held, begun, None);
            let Options { hold_at_most: at_most, lock_delay, .. } =
                self.plan.objects[object.number].options;
            if lock_delay.is_some() {
                delays::names(kind, &own);
            }
            let lasts = |time| witness::lasts(hold, begun, time, Duration::ZERO);
            at_most.into_iter().for_each(lasts);
            self.judge_turn(object.number, &own, (begun, connections));
            (hold, own)
        });
        Some((taken, hold))
    }

    fn take<'a>(
        &self,
        object: Target<'a>,
        wait: Wait,
        permits: u32,
        is_guard: bool,
    ) -> Result<Option<Taken<'a>>> {
        let place = self.plan.objects[object.number].place;
        self.call_at(place, || take(object.object, wait, permits, is_guard))
    }

    /// Counts a call for a lock at this place.
    fn call_at<T>(&self, place: Place, call: impl FnOnce() -> T) -> T {
        let calls = &self.calls[place.0];
        calls.update(|(begun, returned)| (begun + 1, returned));
        let called = call();
        calls.update(|(begun, returned)| (begun, returned + 1));
        called
    }

    fn give_back(
        &self,
        object: Target<'_>,
        taken: Taken<'_>,
        end: End,
        hold: Option<(usize, Hold)>,
    ) {
        let plan = &self.plan.objects[object.number];
        let number = hold.as_ref().map(|(number, _)| *number);
        number.into_iter().for_each(witness::left);
        kernel::note(|| format!("gives {} back ({end:?})", plan.place));
        let limit = self.client.session_timeout() / 3 * plan.kind.members();
        let own = hold.map(|(_, own)| own);
        let node = own.as_ref().map(|own| (witness::path_of(plan.kind, own), own.fencing_token()));
        let was_lost = own.is_some_and(|own| matches!(own.state(), HoldState::Lost(_)));
        let members = match plan.kind {
            Kind::Several => holds_of(object.object, &taken),
            _ => Vec::new(),
        };
        let node_of = |hold: &Hold| witness::path_of(plan.kind, hold);
        if !members.is_empty()
            && witness::takes_robbery()
            && let Some(net) = board(|board| board.net.as_ref().map(Net::share))
        {
            for node in members.iter().map(node_of) {
                let _ = net.act(|world| world.ensemble.delete(&node, kernel::instant()));
            }
        }
        let is_gone = |hold: &&Hold| !witness::is_there(&node_of(hold), hold.fencing_token());
        let lost = members.iter().filter(is_gone).map(|hold| hold.path().to_owned());
        let lost: Vec<_> = lost.collect();
        let was_there = node.as_ref().is_none_or(|(path, token)| witness::is_there(path, *token));
        let connections = self.client.stats().connections;
        let others = self.calls[plan.place.0].get();
        let turns = node.as_ref().map_or(0, |node| witness::turns(plan.place, plan.kind, node.1));
        let (begun, was_connected) =
            (kernel::elapsed(), self.client.state() == ClientState::Connected);
        let released = self.timed("unlock", Some(limit), || match (taken, end) {
            (Taken::Lock, _) => lock_of(object.object).map_or(Ok(()), Lock::unlock),
            (taken, End::Drop) => {
                drop(taken);
                Ok(())
            }
            (taken, End::Panic) => {
                let _ = catch_unwind(AssertUnwindSafe(move || {
                    let _taken = taken;
                    resume_unwind(Box::new("as planned"));
                }));
                Ok(())
            }
            (taken, _) => taken.release(),
        });
        let is_silent = matches!(end, End::Drop | End::Panic);
        // Without numbers to order by, the read shares the node of the write that it continues.
        let is_shared = |(path, _): &(String, u64)| path.ends_with(&i32::MAX.to_string());
        let goes_on = matches!(end, End::Downgrade) && node.as_ref().is_some_and(is_shared);
        if let Some((path, token)) = &node
            && (was_connected, released.is_ok()) == (true, true)
            && !(goes_on || was_lost || is_silent)
            // With other options it may go in the background, and nobody hears of a refusal.
            && plan.options.is_plain()
            // The next thread may have the node.
            && witness::turns(plan.place, plan.kind, *token) == turns
        {
            promises::goes((path, *token), connections, (plan.place, plan.kind, turns));
        }
        let is_plain = plan.options.is_plain() && plan.kind != Kind::Single && !goes_on;
        // An answer has come, so the client knows what happened to the node.
        let is_connected = self.client.state() == ClientState::Connected;
        let is_answered = was_connected
            && is_connected
            // Counted later: the client may connect again in between.
            && self.client.stats().connections == connections
            // One request releases several locks.
            && kernel::elapsed() - begun < self.client.session_timeout() / 6
            // The request of a thread that gives up may include the deletion.
            && others.0 == others.1
            && self.calls[plan.place.0].get() == others
            // The calls of leaders are not counted.
            && !self.leads_at(plan.place);
        let may_go = self.client.stats().connections == connections
            && plan.options.hold_at_least.is_none()
            && plan.options.hold_at_most.is_none()
            // A multi-lock may take one member over locally while it waits for the next.
            && plan.kind != Kind::Several;
        let kept = node.clone().filter(|_| may_go);
        if let Err(error) = &released {
            if is_answered && plan.options.is_plain() {
                promises::names_all(error, &lost);
            }
            if let Some((path, _)) = &node
                && promises::names(error, plan.place.path())
            {
                delays::lost(path);
            }
        }
        if let Some((path, token)) = node
            && is_plain
            && is_answered
            && released.is_ok()
            && !was_lost
        {
            if !was_there && !is_silent {
                violation(format!("{}: {path} was deleted, and the unlock says Ok", self.name));
            }
            // A silent release does not report a refused deletion.
            let may_stay = is_silent && witness(|witness| witness.has_hidden);
            // It may have lasted for too long by then, and its node goes in the background.
            let is_lost = number.is_some_and(witness::is_lost);
            if witness::is_there(&path, token) && !may_stay && !is_lost {
                violation(format!("{}: {path} is there behind the unlock", self.name));
            }
            if !is_lost && !is_silent {
                delays::released(&path);
            }
        }
        // The next turn may have the node already.
        if let Some(node) = kept
            && witness::turns(plan.place, plan.kind, node.1) == turns
        {
            let (process, _) = kernel::whoami();
            let kept = Kept { process, connections, since: kernel::elapsed() };
            witness(|witness| witness.kept.insert(node, kept));
        }
        self.judge_unlock(was_lost && !is_silent, &released);
        let said = said(released.ok().filter(|()| !is_silent));
        number.into_iter().for_each(|number| witness::ended(number, said));
    }

    fn close(&self) {
        kernel::note(|| "closes".to_owned());
        let limit = Some(self.client.session_timeout());
        let closed = self.timed("close", limit, || self.client.close());
        self.told("close", closed);
    }

    /// Takes every lock once more without faults, where each waiter gets it at once.
    fn calm_round(self: &Rc<Shared>) {
        run_all((0..self.objects.len()).map(|object| {
            let shared = Rc::clone(self);
            let name = format!("calm {object}");
            (name.clone(), move || {
                for _ in 0..2 {
                    // A pause makes a thread come while another is just back.
                    let rest = kernel::with_random(|random| random.u64(..100));
                    thread::sleep(Duration::from_millis(rest));
                    let deed = Deed::Work(Duration::from_millis(5));
                    let target = shared.target(object);
                    shared.use_lock(&name, target, Wait::Forever, 1, &[deed], End::Unlock);
                }
            })
        }));
    }

    /// Waits until all gauges are zero, and closes the client.
    fn end(&self) {
        if !*self.is_closed.borrow() {
            let longest =
                self.plan.objects.iter().filter_map(|object| {
                    object.options.keep_idle.max(object.options.hold_at_least)
                });
            let longest = longest.max().unwrap_or_default();
            let limit = kernel::elapsed() + self.client.session_timeout() * 5 + longest;
            loop {
                let stats = self.client.stats();
                // The observer learns of every end, soon after it.
                let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
                let told =
                    self.told.as_ref().map(|told| (count(&told.acquired), count(&told.ended)));
                let is_told = told.is_none_or(|(acquired, ended)| acquired == ended);
                if is_told && (stats.held, stats.waiting, stats.deleting) == (0, 0, 0) {
                    break;
                }
                if kernel::elapsed() > limit {
                    let name = &self.name;
                    violation(format!("{name}: gauges do not go to zero: {stats:?}, {told:?}"));
                    break;
                }
                thread::sleep(Duration::from_millis(200));
            }
            self.judge_nodes();
            promises::judge_watches(&self.name);
            let events = self.client.stats().events;
            witness(|witness| witness.events += events);
            *self.is_closed.borrow_mut() = true;
            self.close();
        }
        self.told.iter().for_each(|told| told.set(None));
    }
}
