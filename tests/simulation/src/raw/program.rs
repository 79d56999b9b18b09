//! A program that uses the client according to its plan, and reports its requests and their results to the checker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use kernel::{Process, thread};
use zookeeper::{CreateMode, LeaseKeeper, Listener, SessionEvent, State, Watcher, ZooKeeper};

use super::answers::answered;
use super::calls::Sent;
use super::checker::{Made, Program, checker, report, session, sessions_are_over};
use super::{How, Node, RawCall, RawPlan, RawWhat, Whose};
use crate::client::{Board, SLACK, await_calm, board, run_all, stalled};
use crate::coverage::count_variant;
use crate::network;

/// After a leader was deposed, its followers may close connections for this long after the last fault.
const SETTLED: Duration = Duration::from_secs(3);

pub(super) struct Shared {
    pub(super) process: Process,
    pub(super) number: usize,
    pub(super) plan: RawPlan,
    zk: ZooKeeper,
    /// Listeners for events of nodes, with their numbers.
    pub(super) listeners: RefCell<Vec<(usize, Watcher)>>,
    keepers: RefCell<Vec<LeaseKeeper>>,
    is_closed: Cell<bool>,
}

pub(crate) fn run(number: usize, plan: &RawPlan, hosts: &str) {
    let process = kernel::own_process();
    let Some((zk, listener)) = connect(plan, hosts) else { return board(Board::is_over) };
    let known = zk.clone();
    checker(|checker| checker.program(process).zk = Some(known));
    let shared = Rc::new(Shared {
        process,
        number,
        plan: plan.clone(),
        zk,
        listeners: RefCell::default(),
        keepers: RefCell::default(),
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

fn connect(plan: &RawPlan, hosts: &str) -> Option<(ZooKeeper, Listener<SessionEvent>)> {
    let process = kernel::own_process();
    for _ in 0..100 {
        let client = checker(|checker| checker.enter(process, plan.timeout));
        let received = move |event: &SessionEvent| session(process, client, *event);
        let listener = Listener::new(received);
        let builder = ZooKeeper::builder(hosts)
            .session_timeout(plan.timeout)
            .request_timeout(plan.timeout)
            .subscribe(&listener);
        match builder.connect() {
            Ok(zk) => return Some((zk, listener)),
            Err(error) => kernel::note(|| format!("connect: {error}")),
        }
        // Give the client that failed to connect time to end in the background.
        thread::sleep(Duration::from_secs(1));
    }
    None
}

impl Shared {
    /// Provides access to the checker's record of this program.
    fn own<T>(&self, look: impl FnOnce(&mut Program) -> T) -> T {
        checker(|checker| look(checker.program(self.process)))
    }

    fn fail(&self, problem: String) {
        report(self.process, problem);
    }

    fn step(&self, what: &RawWhat) {
        match what {
            RawWhat::Calls { calls, how, limit, session } => {
                count_variant("raw", how);
                self.call(calls, *how, *limit, *session);
            }
            RawWhat::Keep => self.keep(),
            RawWhat::LetGo => {
                self.own(|own| own.is_kept = false);
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
            RawWhat::Close => {
                kernel::count("raw: a client is closed early");
                self.close();
            }
        }
    }

    /// Reads and checks the lease, and returns how long it is still valid.
    fn look(&self) -> Duration {
        let lease = self.zk.lease();
        self.own(|own| own.looked(self.process, lease));
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
            self.own(|own| own.is_kept = is_certain && after.session_id == own.session);
        }
        keepers.push(keeper);
    }

    fn close(&self) {
        let process = self.process;
        checker(|checker| checker.program(process).is_closing = true);
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
            // If the client is already closed, closing it again does nothing.
            return;
        }
        let (rules, all) = (checker(|checker| checker.rules), self.own(|own| own.all.clone()));
        if closed.is_ok() && rules.one_leader {
            // The servers soon execute what they have accepted.
            kernel::after(rules.slowest + SLACK, move || sessions_are_over(process, all));
        }
    }

    fn call(&self, calls: &[RawCall], how: How, limit: Duration, session: Option<Whose>) {
        let wanted = session.map(|whose| match whose {
            Whose::Present => self.zk.session_id(),
            Whose::Former => self.own(|own| own.former),
        });
        let zk = self.zk.with_timeout(limit);
        let zk = wanted.map_or(zk.clone(), |wanted| zk.in_session(wanted));
        let batch = checker(|checker| {
            checker.batches += 1;
            checker.batches
        });
        let (process, is_unheard, limit) = (self.process, how == How::Never, Some(limit));
        let made =
            Made { process, batch, limit, wanted, is_unheard, is_shared: false, listener: None };
        let pending: Vec<Sent> =
            zk.submit(|batch| calls.iter().map(|call| self.ask(batch, made, call)).collect());
        match how {
            How::Never => drop(pending),
            How::Callback => {
                for (number, answer) in pending {
                    // The callback usually runs on one of the client's own threads.
                    answer.call_back(Box::new(move |result| {
                        answered(number, result, thread::must_not_wait());
                    }));
                }
            }
            How::Wait => self.wait(pending),
        }
    }

    /// Waits for the last answer first. When it arrives, all others must have arrived.
    fn wait(&self, pending: Vec<Sent>) {
        let is_repeated = |call: &Sent| checker(|checker| checker.is_repeated(call.0));
        let (repeated, mut once): (Vec<_>, Vec<_>) = pending.into_iter().partition(is_repeated);
        if let Some((number, last)) = once.pop() {
            let kind = answered(number, last.wait(), false);
            let left = once.iter().find(|(other, answer)| {
                let may_wait = || checker(|checker| checker.are_shared([number, *other]));
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

    /// Checks, after all faults, that everything works, no events are missing, and no needless requests are sent.
    fn calm(&self) {
        thread::sleep(SETTLED);
        let timeout = self.plan.timeout;
        self.until("it is connected", timeout * 5 + Duration::from_secs(5), || {
            self.zk.state() == State::Connected
        });
        self.until("all calls are answered", timeout * 3, || {
            checker(|checker| checker.open(self.process)) == 0
        });
        let (node, mode) = (Node::Own(9), CreateMode::Ephemeral);
        for call in [
            RawCall::Sync,
            RawCall::Create { node, mode, is_shared: true },
            RawCall::Get(node, true),
            RawCall::Set(node),
            RawCall::Children(Node::Shared(0), false),
            RawCall::Delete(node, true),
        ] {
            self.call(&[call], How::Wait, timeout, None);
        }
        checker(|checker| checker.check_events(self.process));
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

    /// Returns how many requests the client sends during `act`. It must not reconnect in the meantime.
    fn requests_in(&self, act: impl FnOnce()) -> u64 {
        let before = self.zk.counts();
        act();
        let after = self.zk.counts();
        let is_throttled = checker(|checker| checker.rules.throttle);
        if after.connections != before.connections && !is_throttled {
            self.fail(format!("a healthy connection is lost: {before:?}, {after:?}"));
        }
        after.requests - before.requests
    }

    /// Checks that a lease that is kept stays well above zero, with at most four writes per session timeout.
    fn keep_calm(&self) {
        let (slowest, is_throttled) =
            checker(|checker| (checker.rules.slowest, checker.rules.throttle));
        self.step(&RawWhat::LetGo);
        self.keep();
        let timeout = self.zk.session_timeout();
        let renewed = self.zk.renew_lease();
        let begun = kernel::elapsed();
        let least = (timeout * 2 / 5).saturating_sub(slowest * 2);
        let ends = self.own(|own| own.lease_ends);
        // If servers are throttling, it may take several attempts to renew the lease.
        let fail = |problem| {
            if !is_throttled {
                self.fail(problem);
            }
        };
        let requests = self.requests_in(|| {
            if let Err(error) = &renewed {
                fail(format!("a lease is not renewed: {error}"));
            }
            while kernel::elapsed() < begun + timeout * 3 {
                thread::sleep(timeout / 7);
                let left = self.look();
                if left < least {
                    fail(format!("a lease that is kept has only {left:?} left"));
                }
            }
        });
        if requests > 3 * 4 + 2 {
            fail(format!("{requests} requests for a lease that is kept for three timeouts"));
        }
        if self.own(|own| own.lease_ends) != ends {
            fail("a lease that is kept ends".to_owned());
        }
        self.step(&RawWhat::LetGo);
    }

    /// Checks that an idle client sends only heartbeats, about one in every quarter of the session timeout.
    fn rest(&self) {
        let requests = self.requests_in(|| thread::sleep(self.zk.session_timeout() * 3));
        let is_throttled = checker(|checker| checker.rules.throttle);
        if !(6..=14).contains(&requests) && !is_throttled {
            self.fail(format!("{requests} requests in three idle timeouts"));
        }
    }

    /// Ends the client, and checks that the client reports that it has ended.
    fn end(self: Rc<Shared>) {
        let is_closed = self.is_closed.get();
        let zk = self.own(|own| own.zk.take());
        if !is_closed && self.plan.is_dropped {
            kernel::count("raw: a client is dropped");
            self.own(|own| own.is_closing = true);
        } else if !is_closed {
            self.close();
        }
        drop(zk);
        // The listeners are kept until the client has ended.
        let (process, timeout) = (self.process, self.plan.timeout);
        let listeners = self.listeners.take();
        let breaks = self.plan.is_dropped && kernel::with_random(|random| random.bool());
        drop(self);
        if breaks {
            network::act(|world| world.cut(process));
        }
        thread::sleep(timeout / 2);
        if !checker(|checker| checker.program(process).is_closed()) {
            report(process, "the end of the client is not reported".to_owned());
        }
        drop(listeners);
    }
}
