//! A program that uses the client as its plan says. It tells the judge its requests and their results.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use kernel::{Process, thread};
use zookeeper::{
    Acl, Batch, CreateMode, ErrorKind, LeaseKeeper, Listener, Names, Op, OpResult, Pending,
    SessionEvent, Stat, State, WatchedEvent, Watcher, ZooKeeper,
};

use super::answers::answered;
use super::history::mark;
use super::judge::{Asked, Made, Said, judge, report, session, sessions_are_over, stalled};
use super::session::Story;
use super::watches::told;
use super::{How, Node, ROOT, RawCall, RawPlan, RawWhat, Since, Whose};
use crate::client::{Board, SLACK, await_calm, board, run_all};
use crate::witness::witness;

const SECRET: &[u8] = b"somebody:secret";
/// A server whose leader was deposed may hang up this long after the last fault.
const SETTLED: Duration = Duration::from_secs(3);

/// A pending answer.
trait Answer {
    fn wait(self: Box<Self>) -> zookeeper::Result<Said>;
    fn call_back(self: Box<Self>, back: Box<dyn FnOnce(zookeeper::Result<Said>) + Send>);
    fn is_done(&self) -> bool;
}

impl<T: Into<Said> + Send + 'static> Answer for Pending<T> {
    fn wait(self: Box<Self>) -> zookeeper::Result<Said> {
        Pending::wait(*self).map(Into::into)
    }

    fn call_back(self: Box<Self>, back: Box<dyn FnOnce(zookeeper::Result<Said>) + Send>) {
        self.on_done(move |result| back(result.map(Into::into)));
    }

    fn is_done(&self) -> bool {
        Pending::is_done(self)
    }
}

/// Says what a call of the client returns.
macro_rules! said {
    ($($returned:ty: $value:pat => $said:expr;)+) => {$(
        impl From<$returned> for Said {
            fn from($value: $returned) -> Said {
                $said
            }
        }
    )+};
}

said! {
    (): () => Said::Done;
    (String, Stat): (path, stat) => Said::Created(path, stat);
    (String, i64): (path, czxid) => Said::CreatedBy(path, czxid);
    Stat: stat => Said::Set(stat);
    (Vec<u8>, Stat): (data, stat) => Said::Data(data, stat);
    Option<Stat>: found => Said::Found(found);
    (Names, Stat): (names, stat) => Said::Names(names.iter().map(str::to_owned).collect(), stat);
    Vec<OpResult>: results => Said::Several(results);
}

/// State that the threads of a program share.
struct Shared {
    process: Process,
    number: usize,
    plan: RawPlan,
    zk: ZooKeeper,
    /// Listeners of nodes with their numbers.
    ears: RefCell<Vec<(usize, Watcher)>>,
    keepers: RefCell<Vec<LeaseKeeper>>,
    knows_secret: Cell<bool>,
    is_closed: Cell<bool>,
}

/// Runs a program from connect to close.
pub(crate) fn run(number: usize, plan: &RawPlan, hosts: &str) {
    let process = kernel::own_process();
    let Some((zk, listener)) = connect(process, plan, hosts) else {
        return board(Board::is_over);
    };
    let known = zk.clone();
    judge(|judge| judge.connected(process, known));
    let shared = Rc::new(Shared {
        process,
        number,
        plan: plan.clone(),
        zk,
        ears: RefCell::default(),
        keepers: RefCell::default(),
        knows_secret: Cell::new(plan.has_credentials),
        is_closed: Cell::new(false),
    });
    run_all(plan.threads.iter().enumerate().map(|(index, plan)| {
        let (shared, plan) = (Rc::clone(&shared), plan.clone());
        (format!("thread {index}"), move || plan.carry_out(|what| shared.step(what)))
    }));
    await_calm();
    if !shared.is_closed.get() {
        shared.calm();
    }
    shared.end();
    drop(listener);
    board(Board::is_over);
}

fn connect(
    process: Process,
    plan: &RawPlan,
    hosts: &str,
) -> Option<(ZooKeeper, Listener<SessionEvent>)> {
    for _ in 0..100 {
        let client = judge(|judge| judge.enter(process, plan.timeout));
        let told = move |event: &SessionEvent| session(process, client, *event);
        let listener = Listener::new(told);
        let mut builder = ZooKeeper::builder(hosts)
            .session_timeout(plan.timeout)
            .request_timeout(plan.timeout)
            .subscribe(&listener);
        if plan.has_credentials {
            builder = builder.auth("digest", SECRET);
        }
        match builder.connect() {
            Ok(zk) => return Some((zk, listener)),
            Err(error) => kernel::note(|| format!("connect: {error}")),
        }
        // The failed client ends in the background.
        thread::sleep(Duration::from_secs(1));
    }
    None
}

impl Shared {
    /// Looks at what its client has told.
    fn story<T>(&self, look: impl FnOnce(&mut Story) -> T) -> T {
        judge(|judge| look(&mut judge.program(self.process).story))
    }

    fn fail(&self, problem: String) {
        report(self.process, [problem]);
    }

    fn step(&self, what: &RawWhat) {
        match what {
            RawWhat::Calls { calls, how, limit, session } => {
                kernel::count(match how {
                    How::Wait => "raw: calls that are waited for",
                    How::Callback => "raw: calls that are told of",
                    How::Never => "raw: calls whose answers nobody wants",
                });
                self.call(calls, *how, *limit, *session);
            }
            RawWhat::Keep => self.keep(),
            RawWhat::LetGo => {
                self.story(|story| story.is_kept = false);
                drop(self.keepers.take());
            }
            RawWhat::Renew => {
                kernel::count("raw: a lease is renewed");
                let _ = self.zk.renew_lease();
                self.look();
            }
            RawWhat::Look => {
                self.look();
            }
            RawWhat::Unwatch => {
                let mut ears = self.ears.borrow_mut();
                if !ears.is_empty() {
                    kernel::count("raw: a listener is dropped");
                    let (number, ear) = ears.remove(0);
                    drop(ears);
                    drop(ear);
                    judge(|judge| judge.dropped(number));
                }
            }
            RawWhat::Credentials => {
                if self.zk.add_auth("digest", SECRET).is_ok() {
                    kernel::count("raw: credentials are added");
                    self.knows_secret.set(true);
                }
            }
            RawWhat::Secret => self.use_secret(),
            RawWhat::Close => {
                kernel::count("raw: a client is closed early");
                self.close();
            }
        }
    }

    /// Checks the lease and returns the time that is left of it.
    fn look(&self) -> Duration {
        let lease = self.zk.lease();
        report(self.process, self.story(|story| story.looked(lease)));
        lease.valid_for
    }

    fn keep(&self) {
        kernel::count("raw: a lease is kept");
        let before = self.zk.lease();
        let keeper = self.zk.keep_lease();
        let after = self.zk.lease();
        let is_certain = before.term == after.term && !after.valid_for.is_zero();
        let mut keepers = self.keepers.borrow_mut();
        if keepers.is_empty() {
            judge(|judge| {
                let program = judge.program(self.process);
                program.kept_since = kernel::elapsed();
                let story = &mut program.story;
                story.is_kept = is_certain && after.session_id == story.session;
            });
        }
        keepers.push(keeper);
    }

    /// Creates or reads a node that needs the credentials.
    fn use_secret(&self) {
        let path = format!("{ROOT}/secret{}", self.number);
        // Read before the request, because another thread may add credentials meanwhile.
        let is_known = self.knows_secret.get();
        let made = self.made(judge(|judge| judge.batch()), Some(self.plan.timeout), None, None);
        let is_made = judge(|judge| judge.history.is_there(&path));
        let number = judge(|judge| judge.begin(made, Asked::Secret { is_known }, false));
        let result = if is_known && !is_made {
            let acl = Acl::creator_all();
            self.zk.create(&path, b"secret", &acl, CreateMode::Persistent).map(Into::into)
        } else {
            kernel::count("raw: a secret is read");
            self.zk.get_data(&path).map(Into::into)
        };
        answered(number, result, false);
    }

    fn close(&self) {
        let process = self.process;
        judge(|judge| judge.program(process).is_closing = true);
        let was_closed = self.is_closed.replace(true);
        let begun = kernel::elapsed();
        let closed = self.zk.close();
        kernel::note(|| format!("close: {closed:?}"));
        let took = kernel::elapsed() - begun;
        let limit = self.plan.timeout + stalled(process, begun) + SLACK;
        if took > limit {
            self.fail(format!("close took {took:?} instead of {limit:?}"));
        }
        if was_closed {
            // A second close does nothing.
            return;
        }
        let (rules, all) = (judge(|judge| judge.rules), self.story(|story| story.all.clone()));
        if closed.is_ok() && rules.one_leader {
            // The servers carry out soon what they have accepted.
            kernel::after(rules.slowest + SLACK, move || sessions_are_over(process, all));
        }
    }

    // ---- calls

    fn made(
        &self,
        batch: usize,
        limit: Option<Duration>,
        wanted: Option<i64>,
        listener: Option<usize>,
    ) -> Made {
        let (process, is_unheard, is_shared) = (self.process, false, false);
        Made { process, batch, limit, wanted, is_unheard, is_shared, listener }
    }

    fn call(&self, calls: &[RawCall], how: How, limit: Duration, session: Option<Whose>) {
        let wanted = session.map(|whose| match whose {
            Whose::Present => self.zk.session_id(),
            Whose::Former => self.story(|story| story.former),
        });
        let zk = self.zk.with_timeout(limit);
        let zk = wanted.map_or(zk.clone(), |wanted| zk.in_session(wanted));
        let mut made = self.made(judge(|judge| judge.batch()), Some(limit), wanted, None);
        made.is_unheard = how == How::Never;
        witness(|witness| witness.calls += calls.len() as u64);
        let pending = zk.submit(|batch| {
            let all: Vec<_> = calls.iter().map(|call| self.ask(batch, made, call)).collect();
            all
        });
        match how {
            How::Never => drop(pending),
            How::Callback => {
                for (number, answer) in pending {
                    let zk = zk.clone();
                    answer.call_back(Box::new(move |result| called_back(number, result, &zk)));
                }
            }
            How::Wait => self.wait(pending),
        }
    }

    /// Waits for the last answer first: the others must be there by then.
    fn wait(&self, pending: Vec<(usize, Box<dyn Answer>)>) {
        let is_repeated = |call: &(usize, _)| judge(|judge| judge.is_repeated(call.0));
        let (repeated, mut once): (Vec<_>, Vec<_>) = pending.into_iter().partition(is_repeated);
        if let Some((number, last)) = once.pop() {
            let kind = answered(number, last.wait(), false);
            let left = once.iter().find(|(other, answer)| {
                let may_wait = || judge(|judge| judge.are_shared([number, *other]));
                kind.is_none() && !answer.is_done() && !may_wait()
            });
            if let Some((left, _)) = left {
                self.fail(format!("call {number} is answered, and {left} is not"));
            }
        }
        for (number, answer) in once.into_iter().chain(repeated) {
            answered(number, answer.wait(), false);
        }
    }

    fn path(&self, node: Node) -> String {
        let tail = || "x".repeat(self.plan.tail);
        match node {
            Node::Shared(index) => format!("{ROOT}/s{index}{}", tail()),
            Node::Own(index) => format!("{ROOT}/o{}-{index}{}", self.number, tail()),
            Node::Child(index) => {
                let number = judge(|judge| judge.next());
                format!("{ROOT}/s{index}{}/c{number}", tail())
            }
            Node::Made => judge(|judge| {
                let made = &mut judge.program(self.process).made;
                match made.is_empty() {
                    true => format!("{ROOT}/nothing"),
                    false => made.remove(0),
                }
            }),
        }
    }

    /// Returns a listener, either a new one or one that already listens to other nodes.
    fn ear(&self) -> (usize, Watcher) {
        let mut ears = self.ears.borrow_mut();
        let index = kernel::with_random(|random| random.usize(..ears.len() + 3));
        if let Some((number, ear)) = ears.get(index) {
            return (*number, ear.clone());
        }
        let (process, number) = (self.process, judge(|judge| judge.listener()));
        let ear = Watcher::new(move |event: &WatchedEvent| told(process, number, event));
        ears.push((number, ear.clone()));
        (number, ear)
    }

    fn ask(&self, batch: &mut Batch<'_>, made: Made, call: &RawCall) -> (usize, Box<dyn Answer>) {
        let begin = |made: Made, asked: Asked| judge(|judge| judge.begin(made, asked, false));
        // Begins a read of a node. Returns its number, the node's path, and who listens to it.
        let read = |node: Node, is_watched: bool, asked: fn(String) -> Asked| {
            let path = self.path(node);
            let ear = is_watched.then(|| self.ear());
            let made = Made { listener: ear.as_ref().map(|(number, _)| *number), ..made };
            (begin(made, asked(path.clone())), path, ear.map(|(_, ear)| ear))
        };
        match call {
            RawCall::Create { node, is_ephemeral, is_sequential, is_shared } => {
                let path = self.path(*node);
                let asked = Asked::Create { path: path.clone(), is_sequential: *is_sequential };
                let number = begin(Made { is_shared: *is_shared, ..made }, asked);
                self.made_perhaps(&path, *node, *is_sequential);
                let mode = mode(*is_ephemeral, *is_sequential);
                let (acl, data) = (Acl::open(), mark(number));
                let answer: Box<dyn Answer> = match is_shared {
                    true => Box::new(batch.shared_create(&path, &data, &acl, mode)),
                    false => Box::new(batch.create(&path, &data, &acl, mode)),
                };
                (number, answer)
            }
            RawCall::Delete(node, is_shared) => {
                let path = self.path(*node);
                let asked = Asked::Delete { path: path.clone(), is_repeated: false };
                let number = begin(Made { is_shared: *is_shared, ..made }, asked);
                let answer: Box<dyn Answer> = match is_shared {
                    true => Box::new(batch.shared_delete(&path)),
                    false => Box::new(batch.delete(&path, None)),
                };
                (number, answer)
            }
            RawCall::DeleteEventually(node) => {
                let path = self.path(*node);
                let asked = Asked::Delete { path: path.clone(), is_repeated: true };
                let made = Made { limit: None, ..made };
                (begin(made, asked), Box::new(batch.delete_eventually(&path)))
            }
            RawCall::Set(node) => {
                let path = self.path(*node);
                let number = begin(made, Asked::Set(path.clone()));
                (number, Box::new(batch.set_data(&path, &mark(number), None)))
            }
            RawCall::Get(node, is_watched) => {
                let (number, path, ear) = read(*node, *is_watched, Asked::Get);
                (number, Box::new(batch.get_data(&path, ear.as_ref())))
            }
            RawCall::Exists(node, is_watched) => {
                let (number, path, ear) = read(*node, *is_watched, Asked::Exists);
                (number, Box::new(batch.exists(&path, ear.as_ref())))
            }
            RawCall::Children(node, is_watched) => {
                let (number, path, ear) = read(*node, *is_watched, Asked::Children);
                (number, Box::new(batch.get_children(&path, ear.as_ref())))
            }
            RawCall::Watch(nodes, since) => {
                let (listener, ear) = self.ear();
                let mut paths: Vec<String> = nodes.iter().map(|node| self.path(*node)).collect();
                paths.sort_unstable();
                paths.dedup();
                let since = match since {
                    Since::Ever => 0,
                    Since::Before(count) => judge(|judge| judge.newest(self.process)) - count,
                    Since::Future => i64::MAX,
                };
                let asked = Asked::Watch { paths: paths.clone(), since };
                let number = begin(Made { listener: Some(listener), ..made }, asked);
                (number, Box::new(batch.set_watches(since, &paths, &ear)))
            }
            RawCall::Sync => (begin(made, Asked::Sync), Box::new(batch.sync(ROOT))),
            RawCall::Renew => (begin(made, Asked::Other), Box::new(batch.renew_lease())),
            RawCall::Several(calls) => self.ask_several(batch, made, calls),
        }
    }

    /// Records a node that a call may create, so that a later step deletes it.
    fn made_perhaps(&self, path: &str, node: Node, is_sequential: bool) {
        if matches!(node, Node::Child(_)) && !is_sequential {
            judge(|judge| judge.program(self.process).made.push(path.to_owned()));
        }
    }

    fn ask_several(
        &self,
        batch: &mut Batch<'_>,
        made: Made,
        calls: &[RawCall],
    ) -> (usize, Box<dyn Answer>) {
        kernel::count("raw: a transaction");
        let acl = Acl::open();
        // The parts have the numbers after the whole.
        let number = judge(|judge| {
            let parts = (1..=calls.len()).map(|part| judge.next() + part).collect();
            judge.begin(made, Asked::Several(parts), false)
        });
        let parts = calls.iter().map(|call| {
            let (node, is_ephemeral, is_sequential) = match call {
                RawCall::Create { node, is_ephemeral, is_sequential, .. } => {
                    (*node, *is_ephemeral, *is_sequential)
                }
                RawCall::Set(node) | RawCall::Delete(node, _) => (*node, false, false),
                _ => (Node::Own(0), false, false),
            };
            let path = self.path(node);
            let asked = match call {
                RawCall::Create { .. } => Asked::Create { path: path.clone(), is_sequential },
                RawCall::Delete(..) => Asked::Delete { path: path.clone(), is_repeated: false },
                _ => Asked::Set(path.clone()),
            };
            if let RawCall::Create { .. } = call {
                self.made_perhaps(&path, node, is_sequential);
            }
            let part = judge(|judge| judge.begin(made, asked.clone(), true));
            (path, asked, mark(part), mode(is_ephemeral, is_sequential))
        });
        let parts: Vec<_> = parts.collect();
        let ops = parts.iter().map(|(path, asked, data, mode)| match asked {
            Asked::Create { .. } => Op::Create(path, data, &acl, *mode),
            Asked::Delete { .. } => Op::Delete(path, None),
            _ => Op::SetData(path, data, None),
        });
        let ops: Vec<Op<'_>> = ops.collect();
        (number, Box::new(batch.multi(&ops)))
    }

    // ---- when no faults are left

    /// Checks that everything works, that no event is missing and that no needless request is sent.
    fn calm(&self) {
        thread::sleep(SETTLED);
        let timeout = self.plan.timeout;
        self.until("it is connected", timeout * 5 + Duration::from_secs(5), || {
            self.zk.state() == State::Connected
        });
        self.until("all calls are answered", timeout * 3, || {
            judge(|judge| judge.open(self.process)) == 0
        });
        let node = Node::Own(9);
        for call in [
            RawCall::Sync,
            RawCall::Create { node, is_ephemeral: true, is_sequential: false, is_shared: true },
            RawCall::Get(node, true),
            RawCall::Set(node),
            RawCall::Children(Node::Shared(0), false),
            RawCall::Delete(node, true),
        ] {
            self.call(&[call], How::Wait, timeout, None);
        }
        let untold = judge(|judge| judge.check_told(self.process));
        report(self.process, untold);
        self.keep_calm();
        self.rest();
    }

    fn until(&self, what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
        let end = kernel::elapsed() + limit;
        while !is_so() {
            if kernel::elapsed() > end {
                return self.fail(format!("not in {limit:?}: {what}"));
            }
            thread::sleep(limit / 100);
        }
    }

    /// Checks that a kept lease stays well above zero and costs no more than four writes a timeout.
    fn keep_calm(&self) {
        let (slowest, is_throttled) = judge(|judge| (judge.rules.slowest, judge.rules.throttle));
        self.step(&RawWhat::LetGo);
        self.keep();
        let timeout = self.zk.session_timeout();
        let renewed = self.zk.renew_lease();
        let begun = kernel::elapsed();
        let before = self.zk.counts();
        let mut ends = self.story(|story| story.lease_ends);
        if is_throttled {
            // With throttling the renewal may take several tries.
            thread::sleep(timeout);
            ends = self.story(|story| story.lease_ends);
        } else if let Err(error) = &renewed {
            self.fail(format!("a lease is not renewed: {error}"));
        }
        let least = (timeout * 2 / 5).saturating_sub(slowest * 2);
        while kernel::elapsed() < begun + timeout * 3 {
            thread::sleep(timeout / 7);
            let left = self.look();
            if left < least && !is_throttled {
                self.fail(format!("a lease that is kept has only {left:?} left"));
            }
        }
        let after = self.zk.counts();
        let requests = after.requests - before.requests;
        if requests > 3 * 4 + 2 && !is_throttled {
            self.fail(format!("{requests} requests for a lease that is kept for three timeouts"));
        }
        let told = self.story(|story| story.lease_ends);
        if (after.connections != before.connections || told != ends) && !is_throttled {
            self.fail(format!("a healthy connection is lost: {before:?}, {after:?}"));
        }
        self.step(&RawWhat::LetGo);
    }

    /// Checks that an idle client sends only heartbeats, about one each quarter of the timeout.
    fn rest(&self) {
        let timeout = self.zk.session_timeout();
        let before = self.zk.counts();
        thread::sleep(timeout * 3);
        let after = self.zk.counts();
        let requests = after.requests - before.requests;
        let is_throttled = judge(|judge| judge.rules.throttle);
        if !(6..=14).contains(&requests) && !is_throttled {
            self.fail(format!("{requests} requests in three timeouts in which nobody asks"));
        }
        if after.connections != before.connections && !is_throttled {
            self.fail(format!("a healthy connection is lost: {before:?}, {after:?}"));
        }
    }

    /// Ends the client and checks that it reports its end.
    fn end(self: Rc<Shared>) {
        let is_closed = self.is_closed.get();
        let zk = judge(|judge| judge.leave(self.process));
        if is_closed || !self.plan.is_dropped {
            if !is_closed {
                self.close();
            }
            let kind = self.zk.exists(ROOT).err().map(|error| error.kind());
            if kind != Some(ErrorKind::Closed) {
                self.fail(format!("a call of a client that is closed: {kind:?}"));
            }
        } else {
            kernel::count("raw: a client is dropped");
            judge(|judge| judge.program(self.process).is_closing = true);
        }
        drop(zk);
        // Listeners stay until the client itself has ended.
        let (process, timeout) = (self.process, self.plan.timeout);
        let ears = self.ears.take();
        drop(self);
        thread::sleep(timeout / 2);
        if !judge(|judge| judge.program(process).story.is_closed()) {
            report(process, ["the end of the client is not told".to_owned()]);
        }
        drop(ears);
    }
}

fn mode(is_ephemeral: bool, is_sequential: bool) -> CreateMode {
    match (is_ephemeral, is_sequential) {
        (false, false) => CreateMode::Persistent,
        (true, false) => CreateMode::Ephemeral,
        (false, true) => CreateMode::PersistentSequential,
        (true, true) => CreateMode::EphemeralSequential,
    }
}

/// Handles a result, mostly in a callback of the client, where waiting is forbidden.
fn called_back(number: usize, result: zookeeper::Result<Said>, zk: &ZooKeeper) {
    answered(number, result, thread::must_not_wait());
    if thread::must_not_wait() && number.is_multiple_of(5) {
        kernel::count("raw: a call in a callback");
        let kind = zk.exists(ROOT).err().map(|error| error.kind());
        if kind != Some(ErrorKind::WouldBlock) {
            report(kernel::own_process(), [format!("a call in a callback: {kind:?}")]);
        }
    }
}
