//! A program that uses the library as its plan says, and looks at what it is told.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kernel::{Process, thread};
use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, Error, Hold, Leadership, Lock, LockOptions, MultiLock, Permits, ReadLock,
    Result, Term, WriteLock,
};

use crate::histories;
use crate::plan::{
    ClientPlan, Deed, End, Kind, ObjectPlan, Options, Place, Step, ThreadPlan, Wait, What,
};
use crate::witness::{self, DATA, Held, Mode, limit, violation, witness};

/// A call may be so much later than its deadline: what threads need to run.
const SLACK: Duration = Duration::from_millis(100);

/// What the world and its programs tell each other.
#[derive(Default)]
pub(crate) struct Board {
    pub are_healed: bool,
    /// Clients whose plans are done; that have closed.
    pub done: usize,
    pub closed: usize,
    /// For how long each machine stood still, and until when.
    pub stalls: Vec<(Process, Duration, Duration)>,
    pub sessions: Vec<(Process, Client)>,
}

thread_local! {
    static BOARD: RefCell<Board> = RefCell::default();
}

pub(crate) fn board<T>(act: impl FnOnce(&mut Board) -> T) -> T {
    BOARD.with_borrow_mut(act)
}

enum Object {
    Lock(Arc<dyn Lock>),
    Read(ReadLock),
    Write(WriteLock, ReadLock),
    Semaphore(DistributedSemaphore),
    Leadership,
}

/// What the threads of a client share.
struct Shared {
    client: Client,
    name: String,
    plan: ClientPlan,
    objects: Vec<Object>,
    is_closed: RefCell<bool>,
}

/// The life of a client.
pub(crate) fn run(number: usize, plan: &ClientPlan, hosts: &str) {
    let Some(client) = connect(plan, hosts) else {
        board(|board| (board.done, board.closed) = (board.done + 1, board.closed + 1));
        return;
    };
    let (process, _) = kernel::whoami();
    board(|board| board.sessions.push((process, client.clone())));
    let objects = plan.objects.iter().map(|object| make(&client, object)).collect();
    let shared = Rc::new(Shared {
        client: client.clone(),
        name: format!("client {number}"),
        plan: plan.clone(),
        objects,
        is_closed: RefCell::new(false),
    });
    let leaderships: Vec<Leadership> =
        plan.objects.iter().filter_map(|object| lead(&shared, object)).collect();
    let threads = plan.threads.iter().enumerate().map(|(index, plan)| {
        let (shared, plan) = (Rc::clone(&shared), plan.clone());
        let name = format!("thread {index}");
        thread::spawn_in(process, &name.clone(), move || shared.thread(&name, &plan))
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    board(|board| board.done += 1);
    let are_healed = || board(|board| board.are_healed);
    kernel::block("the end of all faults", None, Some(&are_healed));
    leaderships.into_iter().for_each(Leadership::shutdown);
    if !*shared.is_closed.borrow() {
        shared.calm_round(process);
    }
    shared.end(process);
    board(|board| {
        board.closed += 1;
        board.sessions.retain(|(one, _)| *one != process);
    });
}

fn connect(plan: &ClientPlan, hosts: &str) -> Option<Client> {
    for _ in 0..100 {
        match Client::connect(hosts, plan.timeout) {
            Ok(client) => {
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
        .background_release(plan.background_release);
    if let Some(time) = plan.keep_idle {
        options = options.keep_idle(time);
    }
    if let Some(time) = plan.hold_at_least {
        options = options.hold_at_least(time);
    }
    if plan.observes_queue {
        options = options
            .observe_queue(Duration::from_secs(1), |_| kernel::count("option: a place was told"));
    }
    options
}

fn make(client: &Client, plan: &ObjectPlan) -> Object {
    let (path, options) = (plan.place.path(), options(&plan.options));
    let made = match plan.kind {
        Kind::Exclusive => {
            DistributedLock::with(client, path, options).map(|lock| Object::Lock(Arc::new(lock)))
        }
        Kind::Reentrant => DistributedReentrantLock::with(client, path, options)
            .map(|lock| Object::Lock(Arc::new(lock))),
        Kind::Single => {
            EphemeralLock::with(client, path, options).map(|lock| Object::Lock(Arc::new(lock)))
        }
        Kind::Read => DistributedRwLock::with(client, path, options)
            .map(|lock| Object::Read(lock.read_lock())),
        Kind::Write => DistributedRwLock::with(client, path, options)
            .map(|lock| Object::Write(lock.write_lock(), lock.read_lock())),
        Kind::Semaphore => DistributedSemaphore::with(client, path, limit(plan.place), options)
            .map(Object::Semaphore),
        Kind::Several => several(client, path, options).map(|lock| Object::Lock(Arc::new(lock))),
        Kind::Leadership => Ok(Object::Leadership),
    };
    made.unwrap_or_else(|error| panic!("{plan:?}: {error}"))
}

/// The lock at the place, and one below that nobody else has.
fn several(client: &Client, path: &str, options: LockOptions) -> Result<MultiLock> {
    let own = DistributedLock::with(client, path, options.clone())?;
    let other = DistributedLock::with(client, format!("/several{path}"), options)?;
    MultiLock::new([own.into(), other.into()])
}

/// What kind of hold it is.
fn mode(kind: Kind, permits: u32) -> Mode {
    match kind {
        Kind::Read => Mode::Shared,
        Kind::Semaphore => Mode::Permits(permits),
        _ => Mode::Alone,
    }
}

/// A leader, which the witness sees as a holder for as long as it may act.
fn lead(shared: &Rc<Shared>, plan: &ObjectPlan) -> Option<Leadership> {
    if plan.kind != Kind::Leadership {
        return None;
    }
    let (process, _) = kernel::whoami();
    let (who, place) = (format!("{}, leader", shared.name), plan.place);
    let act = move |term: &Term| {
        let now = kernel::elapsed();
        kernel::count("call: a term");
        let holds = vec![Hold::clone(term)];
        let held = Held::new(process, who.clone(), Kind::Leadership, place, Mode::Alone, holds);
        let hold = witness::granted(held, now, None);
        let time = kernel::with_random(|random| random.u64(1..4_000));
        term.wait(Duration::from_millis(time));
        witness::left(hold);
        witness::ended(hold);
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

enum Taken {
    Lock,
    Permits(Permits),
}

impl Shared {
    fn thread(&self, name: &str, plan: &ThreadPlan) {
        thread::sleep(plan.begins);
        for step in &plan.steps {
            if !step.rest.is_zero() {
                thread::sleep(step.rest);
            }
            self.step(name, step);
        }
    }

    fn step(&self, name: &str, step: &Step) {
        match &step.what {
            What::Lock { object, wait, permits, while_held, end } => {
                self.use_lock(name, *object, *wait, *permits, while_held, *end);
            }
            What::Contenders(place) => {
                kernel::count("call: contenders");
                let _ = self.told("contenders", self.client.contenders(place.path()));
            }
            What::Revoke(place) => {
                kernel::count("call: revoke");
                let holder = self.holder(*place);
                if let Some(holder) = holder {
                    kernel::note(|| format!("asks {} to let go of {place}", holder.node));
                    let _ = self.told("revoke", self.client.revoke(&holder));
                }
            }
            What::BreakLock(place) => {
                kernel::count("call: break_lock");
                if let Some(holder) = self.holder(*place) {
                    kernel::note(|| format!("breaks {place}, which {} has", holder.node));
                    let node = format!("{}/{}", holder.path, holder.node);
                    witness(|witness| witness.broken.insert(node));
                    let _ = self.told("break_lock", self.client.break_lock(&holder));
                }
            }
            What::CancelWaiters { object } => {
                kernel::count("call: cancel_waiters");
                kernel::note(|| "cancels who waits".to_owned());
                if let Object::Semaphore(semaphore) = &self.objects[*object] {
                    semaphore.cancel_waiters();
                }
            }
            What::Close => {
                kernel::count("call: close");
                *self.is_closed.borrow_mut() = true;
                self.close();
            }
        }
    }

    fn holder(&self, place: Place) -> Option<zoolock::Contender> {
        let found = self.told("contenders", self.client.contenders(place.path()))?;
        found.into_iter().find(|contender| contender.holds)
    }

    /// Looks at an error, if it is one.
    fn told<T>(&self, call: &str, result: Result<T>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        kernel::note(|| format!("{call}: {error}"));
        let is_closed = *self.is_closed.borrow();
        match &error {
            Error::Disconnected { .. } => kernel::count("error: Disconnected"),
            Error::Lost { .. } => kernel::count("error: Lost"),
            Error::NotHeld { .. } => kernel::count("error: NotHeld"),
            Error::Cancelled { .. } => kernel::count("error: Cancelled"),
            Error::Closed if is_closed => kernel::count("error: Closed"),
            Error::InvalidPath { .. } => kernel::count("error: InvalidPath"),
            Error::InvalidArgument { .. } => kernel::count("error: InvalidArgument"),
            Error::Conflict { .. } => kernel::count("error: Conflict"),
            Error::WouldDeadlock { .. } => kernel::count("error: WouldDeadlock"),
            Error::Timeout { .. } => kernel::count("error: Timeout"),
            Error::Release { .. } => kernel::count("error: Release"),
            Error::Limit { .. } => kernel::count("error: Limit"),
            _ => violation(format!("{}: {call}: {error}", self.name)),
        }
        None
    }

    fn use_lock(
        &self,
        name: &str,
        object: usize,
        wait: Wait,
        permits: u32,
        deeds: &[Deed],
        end: End,
    ) {
        let plan = &self.plan.objects[object];
        let who = format!("{}, {name}", self.name);
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
        let begun = kernel::elapsed();
        let mode = mode(plan.kind, permits);
        histories::began(plan.kind, plan.place, mode);
        let taken = self.timed("lock", self.limit_of(wait), || self.take(object, wait, permits));
        let missed = match &taken {
            Ok(Some(_)) => None,
            Ok(None) => Some(true),
            Err(_) => Some(false),
        };
        histories::returned(plan.kind, plan.place, mode, begun, missed);
        let Some(Some(taken)) = self.told("lock", taken) else {
            return;
        };
        let holds = self.holds(object, &taken);
        if holds.is_empty() {
            // It is over already.
            return self.give_back(object, taken, end, None);
        }
        let (process, _) = kernel::whoami();
        // Of several, the one that others want as well.
        let holds = if plan.kind == Kind::Several { holds[..1].to_vec() } else { holds };
        let own = holds[0].clone();
        let held = Held::new(process, who.clone(), plan.kind, plan.place, mode, holds);
        let hold = witness::granted(held, begun, None);
        for deed in deeds {
            self.do_deed(&who, object, hold, &own, deed);
        }
        self.give_back(object, taken, end, Some(hold));
    }

    fn limit_of(&self, wait: Wait) -> Option<Duration> {
        match wait {
            Wait::Forever => None,
            Wait::Try => Some(self.client.session_timeout() / 3),
            Wait::For(time) => Some(time),
        }
    }

    /// Makes a call that has to be back in this time.
    fn timed<T>(&self, call: &str, limit: Option<Duration>, make: impl FnOnce() -> T) -> T {
        let begun = kernel::elapsed();
        let made = make();
        let took = kernel::elapsed() - begun;
        let (process, _) = kernel::whoami();
        let stalled: Duration = board(|board| {
            let own =
                board.stalls.iter().filter(|(one, _, until)| *one == process && *until >= begun);
            own.map(|(_, time, _)| *time).sum()
        });
        if let Some(limit) = limit
            && took > limit + stalled + SLACK
        {
            violation(format!("{}: {call} took {took:?} instead of {limit:?}", self.name));
        }
        made
    }

    fn take(&self, object: usize, wait: Wait, permits: u32) -> Result<Option<Taken>> {
        let lock = |lock: &dyn Lock| {
            let has = match wait {
                Wait::Forever => lock.lock().map(|()| true),
                Wait::Try => lock.try_lock(),
                Wait::For(time) => lock.try_lock_for(time),
            };
            has.map(|has| has.then_some(Taken::Lock))
        };
        match &self.objects[object] {
            Object::Lock(one) => lock(&**one),
            Object::Read(one) => lock(one),
            Object::Write(one, _) => lock(one),
            Object::Semaphore(semaphore) => {
                let taken = match wait {
                    Wait::Forever => semaphore.acquire(permits).map(Some),
                    Wait::Try => semaphore.try_acquire(permits),
                    Wait::For(time) => semaphore.try_acquire_for(permits, time),
                };
                taken.map(|taken| taken.map(Taken::Permits))
            }
            Object::Leadership => Ok(None),
        }
    }

    fn lock_of(&self, object: usize) -> Option<&dyn Lock> {
        match &self.objects[object] {
            Object::Lock(lock) => Some(&**lock),
            Object::Read(lock) => Some(lock),
            Object::Write(lock, _) => Some(lock),
            Object::Semaphore(_) | Object::Leadership => None,
        }
    }

    fn holds(&self, object: usize, taken: &Taken) -> Vec<Hold> {
        match taken {
            Taken::Lock => self.lock_of(object).map_or_else(Vec::new, Lock::holds),
            Taken::Permits(permits) => permits.holds(),
        }
    }

    fn do_deed(&self, who: &str, object: usize, hold: usize, own: &Hold, deed: &Deed) {
        let kind = self.plan.objects[object].kind;
        match deed {
            Deed::Work(time) => thread::sleep(*time),
            Deed::UntilAsked(time) => {
                kernel::count("deed: until asked");
                if let Some(asked) = self.told("revocation", own.revocation()) {
                    if kernel::recv_timeout(&asked, *time).is_ok() {
                        kernel::count("deed: was asked");
                    }
                }
            }
            Deed::EnterAgain if matches!(kind, Kind::Reentrant | Kind::Read | Kind::Write) => {
                let Some(lock) = self.lock_of(object) else {
                    return;
                };
                kernel::count("deed: entered again");
                if self.told("re-entry", lock.lock()).is_some() {
                    self.told("inner unlock", lock.unlock());
                }
            }
            Deed::ReadBelow => {
                let Object::Write(_, read) = &self.objects[object] else {
                    return;
                };
                kernel::count("deed: read below the write");
                let begun = kernel::elapsed();
                if self.told("read below", read.lock()).is_some() {
                    let holds = Lock::holds(read);
                    let (process, _) = kernel::whoami();
                    let place = self.plan.objects[object].place;
                    let seen = (!holds.is_empty()).then(|| {
                        let held = Held::new(
                            process,
                            who.to_owned(),
                            Kind::Read,
                            place,
                            Mode::Shared,
                            holds,
                        );
                        witness::granted(held, begun, Some(hold))
                    });
                    seen.map(witness::left);
                    self.told("unlock of the read below", read.unlock());
                    seen.map(witness::ended);
                }
            }
            Deed::Verify => {
                kernel::count("deed: verify");
                let token = own.fencing_token().unwrap_or_default();
                let before = own.is_held();
                let said = self.told("verify", self.client.verify(own.path(), token));
                if let (Some(true), false) = (said, before) {
                    kernel::count("verify: true of a hold that is over");
                }
            }
            Deed::Write => {
                kernel::count("deed: guarded write");
                let token = own.fencing_token().unwrap_or_default();
                let data = format!("{} {token}", witness::path_of(kind, own));
                let write = own.transaction().set(DATA, data, None);
                if self.told("commit", write.commit()).is_some() {
                    kernel::count("deed: was written");
                }
            }
            Deed::EnterAgain => {}
        }
    }

    fn give_back(&self, object: usize, taken: Taken, end: End, hold: Option<usize>) {
        hold.map(witness::left);
        kernel::note(|| format!("gives {} back ({end:?})", self.plan.objects[object].place));
        let limit = Some(
            self.client.session_timeout() / 3
                * if self.plan.objects[object].kind == Kind::Several { 2 } else { 1 },
        );
        let released = self.timed("unlock", limit, || match taken {
            Taken::Permits(permits) => match end {
                End::Unlock => permits.release(),
                End::Drop => {
                    drop(permits);
                    Ok(())
                }
                End::Panic => {
                    let _ = catch_unwind(AssertUnwindSafe(move || {
                        let _permits = permits;
                        resume_unwind(Box::new("as planned"));
                    }));
                    Ok(())
                }
            },
            Taken::Lock => self.lock_of(object).map_or(Ok(()), Lock::unlock),
        });
        self.told("unlock", released);
        hold.map(witness::ended);
    }

    fn close(&self) {
        kernel::note(|| "closes".to_owned());
        let limit = Some(self.client.session_timeout());
        let closed = self.timed("close", limit, || self.client.close());
        self.told("close", closed);
    }

    /// Everybody once more, when nothing is wrong: whoever waits is let in at once.
    fn calm_round(self: &Rc<Shared>, process: Process) {
        let threads = (0..self.objects.len()).map(|object| {
            let shared = Rc::clone(self);
            let name = format!("calm {object}");
            thread::spawn_in(process, &name.clone(), move || {
                for _ in 0..2 {
                    let deed = Deed::Work(Duration::from_millis(5));
                    shared.use_lock(&name, object, Wait::Forever, 1, &[deed], End::Unlock);
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Gauges go to zero, and everything ends.
    fn end(&self, process: Process) {
        if !*self.is_closed.borrow() {
            let longest =
                self.plan.objects.iter().filter_map(|object| {
                    object.options.keep_idle.max(object.options.hold_at_least)
                });
            let longest = longest.max().unwrap_or_default();
            let limit = kernel::elapsed() + self.client.session_timeout() * 5 + longest;
            loop {
                let stats = self.client.stats();
                if (stats.held, stats.waiting, stats.deleting) == (0, 0, 0) {
                    break;
                }
                if kernel::elapsed() > limit {
                    violation(format!("{}: gauges do not go to zero: {stats:?}", self.name));
                    break;
                }
                thread::sleep(Duration::from_millis(200));
            }
            *self.is_closed.borrow_mut() = true;
            self.close();
        }
        let _ = process;
    }
}
