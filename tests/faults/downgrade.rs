//! A read under an own write, and the faults that come in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedRwLock, Error, Hold, HoldState, Lock, LossReason};
use zoolock_test_support::{FaultProxy, Op, Then, fresh_path, wait_until};

use common::{
    SESSION, SOON, Visitor, assert_lost, await_lost, await_nothing_left, await_resumed, children,
    client, client_of, delete_node, place, shared_proxy,
};

/// What a downgrade asks for, in one write.
const REQUESTS: [Op; 2] = [Op::Create, Op::GetChildren];

/// A thread that writes, behind which another client's writer is queued.
struct Writing {
    proxy: FaultProxy,
    client: Client,
    path: String,
    lock: DistributedRwLock,
    rival: Option<Visitor>,
    _rivals: Client,
}

fn hold_of(lock: &impl Lock) -> Hold {
    lock.holds().pop().expect("it is held")
}

fn await_nodes(path: &str, count: usize) {
    wait_until(&format!("{path} has {count} nodes"), SOON, || children(path).len() == count);
}

impl Writing {
    fn start() -> Writing {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let path = fresh_path("downgrade");
        let lock = DistributedRwLock::new(&client, &path).unwrap();
        lock.write_lock().lock().unwrap();
        let rivals = common::client();
        let rival = DistributedRwLock::new(&rivals, &path).unwrap();
        let rival = Visitor::start(rival.write_lock());
        await_nodes(&path, 2);
        Writing { proxy, client, path, lock, rival: Some(rival), _rivals: rivals }
    }

    fn write(&self) -> Hold {
        hold_of(&self.lock.write_lock())
    }

    fn cut_off(&self) {
        self.proxy.refuse(true);
        self.proxy.cut();
        let write = self.write();
        wait_until("it is suspended", SOON, || write.state() == HoldState::Suspended);
    }

    /// The lock for reading, while this happens beside it.
    fn read_beside<'s>(&'s self, act: impl FnOnce() + Send + 's) -> zoolock::Result<()> {
        thread::scope(|scope| {
            scope.spawn(act);
            self.lock.read_lock().lock()
        })
    }

    /// Both are held in one place, one node each, also over a cut, and nobody comes in until both are
    /// unlocked.
    #[track_caller]
    fn ends_well(mut self, what: &str) {
        let is_in = || self.rival.as_ref().is_some_and(Visitor::is_in);
        let (read, write) = (self.lock.read_lock(), self.lock.write_lock());
        let holds = [hold_of(&read), hold_of(&write)];
        let seen = || {
            let tokens = holds.each_ref().map(|hold| hold.fencing_token().unwrap());
            (holds.each_ref().map(Hold::node), tokens, children(&self.path))
        };
        wait_until("both are held, by one node each", SOON, || {
            let (nodes, _, there) = seen();
            let are = holds.iter().all(|hold| hold.state() == HoldState::Held);
            are && there.len() == 3 && nodes.iter().all(|node| there.contains(node))
        });
        let before = seen();
        println!("{what}: {before:?}");
        assert_eq!(place(&before.0[0]), place(&before.0[1]), "{what}");
        assert_eq!(before.1[0], before.1[1], "{what}");
        let resumed = self.client.stats().resumed;
        self.proxy.cut();
        await_resumed(&self.client, resumed + 1);
        assert_eq!(seen(), before, "{what}");
        assert!(!is_in(), "{what}");
        write.unlock().unwrap();
        self.proxy.cut();
        await_resumed(&self.client, resumed + 2);
        assert!(!is_in(), "{what}: past a read");
        wait_until("the read is held", SOON, || hold_of(&read).state() == HoldState::Held);
        assert_eq!(hold_of(&read).fencing_token().unwrap(), before.1[0], "{what}");
        read.unlock().unwrap();
        self.has_ended(what);
        assert_eq!(self.client.stats().holds_lost, 0, "{what}");
        // A create that nobody has answered is looked for until it cannot come any more.
        await_nothing_left(&self.client);
    }

    #[track_caller]
    fn has_ended(&mut self, what: &str) {
        println!("{what}: {:?}", self.client.stats());
        let rival = self.rival.take().expect("it waits");
        rival.comes_in();
        rival.leaves();
        await_nodes(&self.path, 0);
    }
}

#[test]
fn a_downgrade_that_is_cut_at_any_request_is_done_on_the_next_connection() {
    thread::scope(|scope| {
        for op in REQUESTS {
            for (answer, then) in [false, true]
                .into_iter()
                .flat_map(|answer| [(answer, Then::Cut), (answer, Then::Hold)])
            {
                scope.spawn(move || {
                    let writing = Writing::start();
                    let rule = writing.proxy.on(op).path_contains(&writing.path);
                    let lost = match answer {
                        true => rule.drop_answer(then),
                        false => rule.drop_request(then),
                    };
                    writing.lock.read_lock().lock().unwrap();
                    assert!(lost.fired(), "{:#?}", writing.proxy.log());
                    writing.ends_well(&format!("{op:?}, answer: {answer}, then {then:?}"));
                });
            }
        }
    });
}

#[test]
fn a_downgrade_while_the_session_is_resumed_keeps_the_place() {
    // The handshake, and the heartbeat that certifies the lease anew.
    let steps = [Op::Connect, Op::SetData].map(|op| [(op, false), (op, true)]);
    for (op, answer) in steps.into_iter().flatten() {
        for cut_again in [false, true] {
            let writing = Writing::start();
            let proxy = &writing.proxy;
            let rule = proxy.on(op);
            let step = if answer { rule.hold_answer() } else { rule.hold_request() };
            proxy.cut();
            assert!(step.wait(SOON), "{:#?}", proxy.log());
            let creates = proxy.requests(Op::Create);
            let locked = writing.read_beside(|| {
                // Its create is on its way behind that, if that may be.
                let until = Instant::now() + Duration::from_millis(300);
                while proxy.requests(Op::Create) == creates && Instant::now() < until {
                    thread::yield_now();
                }
                match cut_again {
                    true => proxy.cut(),
                    false => step.release(),
                }
            });
            locked.unwrap();
            writing.ends_well(&format!("{op:?}, answer: {answer}, cut again: {cut_again}"));
        }
    }
}

/// The last of it costs a heartbeat more.
#[test]
fn a_downgrade_with_little_of_its_lease_left_has_it_renewed_also_if_that_is_cut() {
    const LITTLE: Duration = Duration::from_secs(4);
    assert!(LITTLE < SESSION / 20 * 9);
    for answer in [false, true] {
        let writing = Writing::start();
        let (proxy, write) = (&writing.proxy, writing.write());
        writing.cut_off();
        wait_until("little is left", SOON, || write.valid_for() < LITTLE);
        let rule = proxy.on(Op::SetData);
        let lost = match answer {
            true => rule.drop_answer(Then::Cut),
            false => rule.drop_request(Then::Cut),
        };
        writing.read_beside(|| proxy.refuse(false)).unwrap();
        let left = hold_of(&writing.lock.read_lock()).valid_for();
        assert!(lost.fired(), "{:#?}", proxy.log());
        assert!(left > LITTLE, "answer: {answer}, {left:?} left");
        writing.ends_well(&format!("answer: {answer}, {left:?} left"));
    }
}

#[test]
fn a_downgrade_without_a_connection_waits_for_the_next_one_or_says_so() {
    let writing = Writing::start();
    let read = writing.lock.read_lock();
    writing.cut_off();
    for tried in [read.try_lock(), read.try_lock_for(Duration::from_millis(100))] {
        assert!(matches!(tried, Err(Error::Disconnected { .. })), "{tried:?}");
    }
    assert_eq!(read.hold_count(), 0);
    writing.read_beside(|| writing.proxy.refuse(false)).unwrap();
    writing.ends_well("a connection came");
}

#[test]
fn a_downgrade_that_nobody_waits_for_any_more_leaves_no_node() {
    for op in REQUESTS {
        let writing = Writing::start();
        let (own, read) = (writing.write().node(), writing.lock.read_lock());
        let answer = writing.proxy.on(op).path_contains(&writing.path).hold_answer();
        let gave_up = read.try_lock_for(Duration::from_millis(200));
        assert!(
            answer.wait(SOON) && matches!(gave_up, Err(Error::Disconnected { .. })),
            "{gave_up:?}"
        );
        assert_eq!((read.hold_count(), read.is_held()), (0, false));
        let over = AtomicBool::new(false);
        let cancelled = thread::scope(|scope| {
            scope.spawn(|| {
                wait_until("it is cancelled", SOON, || {
                    read.cancel_waiters();
                    over.load(Ordering::SeqCst)
                });
                answer.release();
            });
            let cancelled = writing.lock.read_lock().lock();
            over.store(true, Ordering::SeqCst);
            cancelled
        });
        assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{op:?}: {cancelled:?}");
        wait_until("only the write and its rival are left", SOON, || {
            let there = children(&writing.path);
            there.len() == 2 && there.contains(&own)
        });
        read.lock().unwrap();
        writing.ends_well("after all that");
    }
}

#[test]
fn a_downgrade_whose_write_goes_while_it_is_asked_for_is_told_and_leaves_no_node() {
    let mut writing = Writing::start();
    let (proxy, write) = (&writing.proxy, writing.write());
    let create = proxy.on(Op::Create).path_contains(&writing.path).hold_request();
    let seen = writing.read_beside(|| {
        assert!(create.wait(SOON), "{:#?}", proxy.log());
        delete_node(&write);
        create.release();
    });
    assert_lost(&seen, &writing.path, LossReason::NodeDeleted);
    assert_lost(&writing.lock.write_lock().unlock(), &writing.path, LossReason::NodeDeleted);
    await_nodes(&writing.path, 1);
    writing.has_ended("the write went");
}

#[test]
fn a_downgrade_that_waits_for_a_connection_until_its_write_is_lost_is_told() {
    let mut writing = Writing::start();
    let (read, write) = (writing.lock.read_lock(), writing.write());
    writing.cut_off();
    let seen = writing.read_beside(|| {
        await_lost(&write);
        writing.proxy.refuse(false);
    });
    assert_lost(&seen, &writing.path, LossReason::LeaseExpired);
    assert_lost(&writing.lock.write_lock().unlock(), &writing.path, LossReason::LeaseExpired);
    writing.has_ended("the write was lost");
    read.lock().unwrap();
    read.unlock().unwrap();
}

#[test]
fn a_close_ends_a_downgrade() {
    for op in REQUESTS {
        let mut writing = Writing::start();
        let answer = writing.proxy.on(op).path_contains(&writing.path).hold_answer();
        let seen = writing.read_beside(|| {
            assert!(answer.wait(SOON), "{:#?}", writing.proxy.log());
            let _ = writing.client.close();
        });
        answer.release();
        let closed = LossReason::ClientClosed;
        let told = matches!(&seen, Err(Error::Lost { reason, .. }) if *reason == closed);
        assert!(told || matches!(seen, Err(Error::Closed)), "{op:?}: {seen:?}");
        writing.has_ended("closed");
    }
}

/// The rival sees no gap, whatever happens to the connection of who downgrades.
#[test]
fn downgrades_under_cut_after_cut_let_no_writer_slip_in() {
    let proxy = shared_proxy();
    let ours = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("cuts");
    let lock = DistributedRwLock::new(&ours, &path).unwrap();
    let others = client();
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..25 {
        lock.write_lock().lock().unwrap();
        let token = hold_of(&lock.write_lock()).fencing_token().unwrap();
        let rival = Visitor::start(DistributedRwLock::new(&others, &path).unwrap().write_lock());
        await_nodes(&path, 2);
        let resumed = ours.stats().resumed;
        let pause = Duration::from_micros(random.u64(..4_000));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(pause);
                proxy.cut();
            });
            lock.read_lock().lock().unwrap();
            lock.write_lock().unlock().unwrap();
        });
        if round % 2 == 0 {
            await_resumed(&ours, resumed + 1);
        }
        let read = hold_of(&lock.read_lock());
        assert!(!rival.is_in(), "round {round}: a writer slipped in beside {read:?}");
        assert_eq!(read.fencing_token().unwrap(), token, "round {round}");
        lock.read_lock().unlock().unwrap();
        rival.comes_in();
        rival.leaves();
    }
    println!("{:?}", ours.stats());
    assert_eq!(ours.stats().holds_lost, 0);
}
