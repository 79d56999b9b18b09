//! `LockOptions::local_handoffs`: the threads of one object leave the lock to each other without a
//! word to the servers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::bounded;
use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, Error, Guard, Hold, HoldState, Lock,
    LockOptions, LossReason, Result,
};
use zoolock_test_support::{
    Direction, Op, Probe, Server, connect_string, fresh_path, shared_probe, wait_until,
};

use common::basics::hold_of;
use common::{
    BRIEFLY, SESSION, SOON, Stage, Subject, Task, Visitor, Witness, assert_lost, await_lost,
    await_nothing_left, await_resumed, children, client, client_of, delete_node,
    every_subject_that, exists, in_time, in_use, lock_of, warnings,
};

/// A deletion is noticed with a quarter of this and a heartbeat.
const SHORT: Duration = Duration::from_secs(8);

fn handing_on(times: u32) -> LockOptions {
    LockOptions::new().local_handoffs(times)
}

fn lock_with(client: &Client, path: &str, times: u32) -> DistributedLock {
    DistributedLock::with(client, path, handing_on(times)).unwrap()
}

/// Threads that lock and unlock one object without a pause, so that it is handed on and on, until
/// they are stopped or something is wrong.
struct Passers {
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicUsize>,
    threads: Vec<Task<Result<u32>>>,
}

impl Passers {
    /// Each does `visit` inside, and does not leave before another one has asked for the lock.
    fn start<L: Lock + Clone + 'static>(
        lock: &L,
        threads: usize,
        visit: impl Fn(&Hold) + Clone + Send + 'static,
    ) -> Passers {
        let stop = Arc::new(AtomicBool::new(false));
        let [asking, turns] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let passer = |_| {
            let (lock, visit, all) = (lock.clone(), visit.clone(), Arc::clone(&turns));
            let (stop, asking) = (Arc::clone(&stop), Arc::clone(&asking));
            Task::spawn(move || {
                let mut turns = 0;
                while !stop.load(Ordering::SeqCst) {
                    asking.fetch_add(1, Ordering::SeqCst);
                    let locked = lock.lock();
                    asking.fetch_sub(1, Ordering::SeqCst);
                    locked?;
                    let holds = lock.holds();
                    holds.iter().for_each(&visit);
                    all.fetch_add(1, Ordering::SeqCst);
                    let alone = || asking.load(Ordering::SeqCst) == 0;
                    while alone() && lock.is_held() && !stop.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                    lock.unlock()?;
                    turns += 1;
                }
                Ok(turns)
            })
        };
        let threads = (0..threads).map(passer).collect();
        Passers { stop, turns, threads }
    }

    fn turns(&self) -> usize {
        self.turns.load(Ordering::SeqCst)
    }

    /// The turns that each has had.
    #[track_caller]
    fn stop(self) -> Vec<Result<u32>> {
        self.stop.store(true, Ordering::SeqCst);
        self.ended()
    }

    /// The same when something else ends them.
    #[track_caller]
    fn ended(self) -> Vec<Result<u32>> {
        self.threads.iter().map(|turns| turns.result("a thread that passes on")).collect()
    }
}

/// Of each visit of another client, queued while all of a crowd want the same lock object: how many
/// turns the crowd has had first.
fn turns_before_each_visit(times: u32) -> Vec<u32> {
    let ([ours, rivals], path) = ([client(), client()], fresh_path("rival"));
    let lock = lock_with(&ours, &path, times);
    let theirs = [lock_of(&rivals, &path), lock_of(&rivals, &path)];
    let (witness, turns) = (Arc::new(Witness::default()), Arc::new(AtomicU32::new(0)));
    let (seen, count) = (Arc::clone(&witness), Arc::clone(&turns));
    let crowd = Passers::start(&lock, 16, move |_| {
        seen.visit(thread::yield_now);
        count.fetch_add(1, Ordering::SeqCst);
    });
    let mut inside = Visitor::start_asleep(theirs[1].clone());
    inside.comes_in();
    let visit = |visit: usize| {
        wait_until("one of the crowd queues", SOON, || children(&path).len() == 2);
        let next = Visitor::start_asleep(theirs[visit % 2].clone());
        wait_until("the next visitor queues", SOON, || children(&path).len() == 3);
        let before = turns.load(Ordering::SeqCst);
        std::mem::replace(&mut inside, next).leaves();
        inside.comes_in();
        turns.load(Ordering::SeqCst) - before
    };
    let before_each = (0..8).map(visit).collect();
    inside.leaves();
    witness.saw(crowd.stop().into_iter().map(|turns| turns.unwrap()).sum());
    before_each
}

#[test]
fn another_client_waits_for_one_turn_of_a_crowd_more_than_may_be_handed_on() {
    for times in [0, 1, 32] {
        let turns = turns_before_each_visit(times);
        println!("{times} times in a row: {turns:?} turns before each visit");
        assert!(turns.iter().all(|turns| (1..=times + 1).contains(turns)), "{turns:?}");
    }
}

/// What a thread sees that has just been handed a lock of two objects at one path.
fn seen_inside(lock: &DistributedReentrantLock, other: &DistributedReentrantLock) -> ThreadId {
    for depth in [1, 2] {
        lock.lock().unwrap();
        assert_eq!(lock.hold_count(), depth);
    }
    lock.unlock().unwrap();
    let through_other = other.try_lock_for(SOON);
    assert!(matches!(through_other, Err(Error::WouldDeadlock { .. })), "{through_other:?}");
    thread::current().id()
}

#[test]
fn the_thread_that_took_over_is_the_owner_and_the_earlier_one_is_a_stranger() {
    let (client, path) = (client(), fresh_path("owner"));
    let new = || DistributedReentrantLock::with(&client, &path, handing_on(4)).unwrap();
    let (lock, other) = (new(), new());
    lock.lock().unwrap();
    let ((inside, is_in), (let_go, told)) = (bounded(1), bounded::<()>(1));
    let (own, through) = (lock.clone(), other.clone());
    let next = Task::spawn_blocked(move || {
        inside.send(seen_inside(&own, &through)).unwrap();
        let _ = told.recv();
        own.unlock()
    });
    let node = hold_of(&lock).node();
    lock.unlock().unwrap();
    let heir = is_in.recv_timeout(SOON).expect("the next thread is in");
    assert_eq!((lock.hold_count(), lock.is_held()), (0, false));
    let unlocked = lock.unlock();
    println!("the earlier owner's unlock: {unlocked:?}");
    let told = matches!(unlocked, Err(Error::NotOwner { owner, .. }) if owner == heir);
    assert!(told, "{unlocked:?}, the owner is {heir:?}");
    // It has nothing any more that it could wait for for ever.
    let through_other = other.try_lock_for(BRIEFLY);
    assert!(matches!(through_other, Ok(false)), "{through_other:?}");
    assert_eq!(children(&path), [node]);
    drop(let_go);
    next.result("the next owner").unwrap();
    lock.lock().unwrap();
    lock.unlock().unwrap();
    await_nothing_left(&client);
}

#[test]
fn a_second_guard_releases_nothing_and_a_panic_and_the_last_handle_pass_it_on_or_back() {
    let (client, path) = (client(), fresh_path("passed-on"));
    warnings(&path);
    let lock = lock_with(&client, &path, 8);
    let stale = lock.acquire().unwrap();
    let panicking = lock.clone();
    let first = Task::spawn_blocked(move || {
        let _guard = panicking.acquire().unwrap();
        std::panic::resume_unwind(Box::new("inside"));
    });
    let second = Visitor::start_asleep(lock.clone());
    lock.unlock().unwrap();
    let heir = second.hold();
    let released = stale.release();
    assert!(matches!(released, Err(Error::NotHeld { .. })), "{released:?}");
    assert_eq!(heir.state(), HoldState::Held);
    drop::<Task<()>>(first);
    let last = lock.clone();
    let last = Task::spawn_blocked(move || last.lock());
    drop(lock);
    second.leaves();
    last.result("the last one").unwrap();
    await_nothing_left(&client);
    wait_until("the node is gone", SOON, || children(&path).is_empty());
    let logged = warnings(&path);
    assert!(logged.iter().any(|line| line.contains("last handle")), "{logged:?}");
}

/// A lock behind a proxy, held, and the next thread that waits for it.
struct Held {
    stage: Stage,
    lock: DistributedLock,
    guard: Guard,
    next: Visitor,
}

impl Held {
    fn new(timeout: Duration) -> Held {
        let stage = Stage::new("handed-on", timeout);
        let lock = lock_with(&stage.client, &stage.path, 100);
        let guard = lock.acquire().unwrap();
        let next = Visitor::start_asleep(lock.clone());
        Held { stage, lock, guard, next }
    }

    fn await_suspended(&self) {
        wait_until("suspended", SOON, || self.guard.state() == HoldState::Suspended);
    }

    /// The release is not a hand-off: the next thread has a node of its own.
    #[track_caller]
    fn not_handed_on(self, why: &str) {
        let earlier = self.guard.hold();
        let released = self.guard.release();
        println!("{why}: {released:?}, it was {earlier:?}");
        let is_lost = matches!(earlier.state(), HoldState::Lost(_));
        assert_eq!(released.is_err_and(|error| error.is_lost()), is_lost, "{why}");
        self.stage.proxy.restore();
        let heir = self.next.hold();
        assert_ne!(heir.node(), earlier.node(), "{why}: handed on");
        assert_eq!(heir.state(), HoldState::Held);
        self.next.leaves();
        await_nothing_left(&self.stage.client);
        assert_eq!(children(&self.stage.path), [""; 0]);
        assert!(self.lock.try_lock_for(SOON).unwrap());
        self.lock.unlock().unwrap();
    }
}

#[test]
fn nothing_is_handed_on_that_is_asked_for_or_lost_or_without_a_connection() {
    let ways: [(&str, Duration, fn(&Held)); 5] = [
        ("asked for", SESSION, |held| {
            let asked = held.guard.revocation().unwrap();
            let others = client();
            others.revoke(&others.contenders(&held.stage.path).unwrap()[0]).unwrap();
            asked.recv_timeout(SOON).expect("asked");
        }),
        ("deleted", SESSION, |held| {
            let _watched = held.guard.revocation().unwrap();
            delete_node(&held.guard);
            await_lost(&held.guard);
        }),
        ("away", SESSION, |held| {
            held.stage.proxy.refuse(true);
            held.stage.proxy.cut();
            held.await_suspended();
        }),
        ("silent", SESSION, |held| {
            held.stage.proxy.black_hole(Direction::Both);
            held.await_suspended();
        }),
        ("expired", Duration::from_secs(2), |held| {
            held.stage.proxy.black_hole(Direction::Both);
            await_lost(&held.guard);
        }),
    ];
    thread::scope(|scope| {
        for (why, timeout, comes) in ways {
            scope.spawn(move || {
                let held = Held::new(timeout);
                comes(&held);
                held.not_handed_on(why);
            });
        }
    });
}

#[test]
fn nothing_is_handed_on_with_less_than_a_third_of_a_lease() {
    let stage = Stage::new("short", SHORT);
    let ahead = lock_of(&client(), &stage.path);
    ahead.lock().unwrap();
    let lock = lock_with(&stage.client, &stage.path, 100);
    let waiting = lock.clone();
    let waiting = Task::spawn(move || waiting.acquire());
    // Its lease is not renewed while it waits, and is long enough to be granted with it.
    let begun = Instant::now();
    wait_until("it has waited for long", SOON, || begun.elapsed() > SHORT * 47 / 100);
    let heartbeat = stage.proxy.on(Op::SetData).path_contains("no-such-node").hold_answer();
    ahead.unlock().unwrap();
    let guard = waiting.result("the waiter").unwrap();
    let next = Visitor::start_asleep(lock.clone());
    assert!(heartbeat.wait(SOON), "{:#?}", stage.proxy.log());
    wait_until("less than a third is left", SOON, || guard.hold().valid_for() < SHORT / 3);
    println!("{:?}", guard.hold());
    Held { stage, lock, guard, next }.not_handed_on("a short lease");
}

#[test]
fn who_asks_while_it_is_handed_on_and_on_is_heard() {
    let stage = Stage::new("asked_between", Duration::from_secs(6));
    let lock = lock_with(&stage.client, &stage.path, u32::MAX);
    let passers = Passers::start(&lock, 3, |_| thread::sleep(Duration::from_millis(1)));
    let others = client();
    for round in 0..3 {
        let mut node = String::new();
        // On a slow machine nobody may wait for once, and the node changes.
        wait_until("its holder is asked", SOON, || {
            let contenders = others.contenders(&stage.path).unwrap();
            contenders.first().is_some_and(|contender| {
                node = format!("{}/{}", stage.path, contender.node);
                others.revoke(contender).is_ok()
            })
        });
        // The watch comes with a quarter of the session timeout.
        let took = wait_until("it was released", SOON, || !exists(&node));
        println!("round {round}: let go after {took:?}");
    }
    println!("{:?} turns", passers.stop().into_iter().map(Result::unwrap).collect::<Vec<_>>());
    await_nothing_left(&stage.client);
    assert_eq!(stage.client.stats().holds_lost, 0);
}

/// A deletion comes so long after the hand-off, and the node was watched before or not.
#[test]
fn a_loss_after_the_hand_off_is_told_to_the_one_that_took_over() {
    let deletions = [(0, true), (0, false), (3, false)].map(Some).into_iter();
    thread::scope(|scope| {
        for deleted in deletions.chain([None]) {
            scope.spawn(move || {
                let timeout = if deleted.is_some() { SHORT } else { SHORT / 2 };
                let stage = Stage::new("taken-over", timeout);
                let lock = lock_with(&stage.client, &stage.path, 1000);
                // The heartbeats are for others.
                let others: Vec<_> = (0..6)
                    .map(|n| lock_of(&stage.client, &format!("{}-{n}", stage.path)))
                    .collect();
                others.iter().for_each(|other| other.lock().unwrap());
                let guard = lock.acquire().unwrap();
                let is_watched = matches!(deleted, Some((_, true)));
                let _asked = is_watched.then(|| guard.revocation().unwrap());
                let next = Visitor::start_asleep(lock.clone());
                guard.release().unwrap();
                let (heir, begun) = (next.hold(), Instant::now());
                let why = match deleted {
                    Some((thirds, _)) => {
                        let pause = timeout * thirds / 9;
                        wait_until("it has held for a while", SOON, || begun.elapsed() >= pause);
                        delete_node(&heir);
                        // The watch that there was, or else the next one, and not a heartbeat.
                        let limit = timeout / if is_watched { 5 } else { 2 };
                        in_time(&format!("{deleted:?}"), limit, || await_lost(&heir));
                        let counted = || stage.client.stats().holds_lost == 1;
                        wait_until("it is counted", SOON, counted);
                        LossReason::NodeDeleted
                    }
                    None => {
                        stage.proxy.black_hole(Direction::Both);
                        await_lost(&heir);
                        LossReason::LeaseExpired
                    }
                };
                assert_eq!(
                    (heir.state(), heir.valid_for()),
                    (HoldState::Lost(why), Duration::ZERO)
                );
                assert_lost(&next.leaves_saying(), &stage.path, why);
                stage.proxy.restore();
                assert!(lock.try_lock_for(SOON).unwrap());
                lock.unlock().unwrap();
            });
        }
    });
}

/// While threads hand it on as fast as they can, the loss falls into a hand-off now and then.
#[test]
fn a_deletion_in_the_middle_of_hand_offs_is_always_noticed() {
    /// Heartbeats are rare, and for others.
    const RARE: Duration = Duration::from_secs(30);
    let (client, root) = (client_of(&connect_string(), RARE), fresh_path("storm"));
    let others: Vec<_> = (0..20).map(|n| lock_of(&client, &format!("{root}/{n}"))).collect();
    others.iter().for_each(|other| other.lock().unwrap());
    let probe = shared_probe().unwrap();
    for round in 0..40 {
        let path = format!("{root}/round-{round}");
        let lock = lock_with(&client, &path, u32::MAX);
        // Has it watched.
        let passers = Passers::start(&lock, 3, |hold| drop(hold.revocation()));
        wait_until("it is handed on", SOON, || passers.turns() > 20);
        let lost = client.stats().holds_lost;
        wait_until("a node is deleted", SOON, || {
            let nodes = children(&path);
            nodes.iter().any(|node| probe.delete(&format!("{path}/{node}")).is_ok())
        });
        // It may have been the node of a thread that did not hold yet, which queues again then.
        let told = || client.stats().holds_lost > lost || !children(&path).is_empty();
        // By the watch: long before a heartbeat or the end of the row of turns.
        in_time(&format!("round {round}"), RARE / 10, || {
            wait_until("it is noticed", RARE / 2, told)
        });
        let turns = passers.stop();
        let mut lost = turns.iter().filter_map(|turns| turns.as_ref().err());
        assert!(lost.all(Error::is_lost), "{turns:?}");
        wait_until("nothing is left", SOON, || children(&path).is_empty());
    }
    others.iter().for_each(|other| other.unlock().unwrap());
}

/// Somebody writes to the node, which makes the client look at it, again and again: it is there.
#[test]
fn a_look_at_the_node_in_the_middle_of_hand_offs_is_no_loss() {
    let is_left = |one: Subject| one.is_plain() && one.may_be_left() && one.is_one_lock();
    every_subject_that(is_left, |subject| {
        let (client, path) = (client_of(&connect_string(), SHORT), fresh_path("looks"));
        let object = subject.with(&client, &path, handing_on(u32::MAX));
        let lock: Arc<dyn Lock> = Arc::from(Box::<dyn Lock>::from(object));
        let passers = Passers::start(&lock, 4, |hold| drop(hold.revocation()));
        let (probe, events) = (shared_probe().unwrap(), client.stats().events);
        wait_until("it has looked often", SOON, || {
            for node in subject.nodes(&path) {
                // It may be gone by now.
                if let Ok(Some((data, _))) = probe.get(&node) {
                    let _ = probe.set(&node, &data);
                }
            }
            client.stats().events > events + 300
        });
        let turns = passers.stop();
        println!("{}: {turns:?}, {:?}", subject.name, client.stats());
        assert_eq!(client.stats().holds_lost, 0, "{}: {turns:?}", subject.name);
        assert!(turns.iter().all(Result::is_ok), "{}: {turns:?}", subject.name);
        subject.await_nodes(&path, 0);
    });
}

/// Around the instant when the lock is handed on to it.
#[test]
fn the_last_waiter_that_gives_up_at_the_hand_off_leaves_nothing() {
    let (client, path) = (client(), fresh_path("last"));
    let lock = lock_with(&client, &path, 1000);
    let (mut took, mut gave_up) = (0, 0);
    for round in 0..300_u64 {
        lock.lock().unwrap();
        let patience = Duration::from_millis(2);
        let (waiting, cancelled) = (lock.clone(), round % 2 == 0);
        let (begin, begun) = bounded(1);
        let waiter = Task::spawn(move || {
            begin.send(Instant::now() + patience).unwrap();
            match cancelled {
                true => waiting.lock().map(|()| true),
                false => waiting.try_lock_for(patience),
            }
        });
        let end = begun.recv_timeout(SOON).unwrap();
        let moment = end + Duration::from_micros(round % 30 * 10) - Duration::from_micros(150);
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        let canceller = lock.clone();
        let cancel = cancelled.then(|| thread::spawn(move || canceller.cancel_waiters()));
        lock.unlock().unwrap();
        if let Some(cancel) = cancel {
            cancel.join().unwrap();
            lock.cancel_waiters();
        }
        match waiter.result("the waiter") {
            Ok(true) => {
                lock.unlock().unwrap();
                took += 1;
            }
            Ok(false) | Err(Error::Cancelled { .. }) => gave_up += 1,
            // It came after the unlock, and had no answer in what was left of its time.
            Err(Error::Disconnected { .. }) if !cancelled => gave_up += 1,
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    println!("{took} took over, {gave_up} gave up");
    await_nothing_left(&client);
    wait_until("no node is left", SOON, || children(&path).is_empty());
    assert_eq!(client.stats().holds_lost, 0);
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
}

#[test]
fn a_close_in_the_middle_of_hand_offs_ends_everybody_and_leaves_no_node() {
    for round in 0..5 {
        let ([ours, rivals], path) = ([client(), client()], fresh_path("closed"));
        let passers = Passers::start(&lock_with(&ours, &path, 1_000_000), 6, |_| {});
        wait_until("they take turns", SOON, || passers.turns() > 50 * (round + 1));
        ours.close().unwrap();
        for turns in passers.ended() {
            let told = matches!(&turns, Err(error) if error.is_closed() || error.is_lost());
            assert!(told, "round {round}: {turns:?}");
        }
        assert_eq!(children(&path), [""; 0], "round {round}");
        let rival = lock_of(&rivals, &path);
        assert!(rival.try_lock().unwrap());
        rival.unlock().unwrap();
        assert_eq!(in_use(&ours.stats()), 0, "round {round}");
    }
}

#[test]
fn a_node_that_is_handed_on_for_longer_than_the_session_timeout_stays_alive() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    let (client, path) = (client_of(&connect_string(), TIMEOUT), fresh_path("long"));
    let lock = lock_with(&client, &path, u32::MAX);
    // By token: since when, and until when. On a slow machine nobody may wait for once, and the node
    // changes.
    let runs = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = Arc::clone(&runs);
    let passers = Passers::start(&lock, 4, move |hold| {
        let now = Instant::now();
        let token = hold.fencing_token().unwrap();
        seen.lock().unwrap().entry(token).or_insert((now, now)).1 = now;
        thread::sleep(Duration::from_millis(1));
    });
    wait_until("a node has had two session timeouts", 2 * SOON, || {
        runs.lock().unwrap().values().any(|(begin, end)| *end - *begin > TIMEOUT * 2)
    });
    let turns: Vec<_> = passers.stop().into_iter().map(Result::unwrap).collect();
    println!("{turns:?} turns, {:?}", client.stats());
    assert_eq!(client.stats().holds_lost, 0);
    await_nothing_left(&client);
}

#[test]
fn a_hold_that_was_taken_over_outlives_a_cut_and_is_handed_on() {
    let stage = Stage::new("outlives", SESSION);
    let lock = lock_with(&stage.client, &stage.path, 3);
    let guard = lock.acquire().unwrap();
    let (node, token) = (guard.node(), guard.fencing_token().unwrap());
    let next = Visitor::start_asleep(lock.clone());
    guard.release().unwrap();
    let heir = next.hold();
    stage.proxy.cut();
    await_resumed(&stage.client, 1);
    assert!(heir.is_held());
    assert_eq!((heir.node(), heir.fencing_token().unwrap()), (node.clone(), token));
    let last = Visitor::start_asleep(lock.clone());
    next.leaves();
    assert_eq!(last.hold().node(), node);
    last.leaves();
    await_nothing_left(&stage.client);
    assert_eq!(children(&stage.path), [""; 0]);
}

#[test]
fn the_one_watch_goes_with_the_node_and_none_is_left() {
    let server = Server::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    let client = client_of(&server.connect_string(), SHORT / 2);
    let watches = || server.metric("zk_watch_count").unwrap();
    let pause = |_: &Hold| thread::sleep(Duration::from_millis(1));
    let passers = Passers::start(&lock_with(&client, "/lock", u32::MAX), 4, pause);
    let took = wait_until("the node is watched", SOON, || watches() == 1);
    let node = || probe.children("/lock").unwrap();
    let (watched, before) = (node(), passers.turns());
    println!("{watched:?} is watched after {took:?}");
    // On a slow machine nobody may wait for once, and the node changes.
    wait_until("many turns more, or another node", SOON, || {
        let seen = watches();
        let same = node() == watched;
        assert!(seen == 1 || !same, "watched {seen} times");
        !same || passers.turns() > before + 500
    });
    passers.stop().into_iter().for_each(|turns| assert!(turns.is_ok(), "{turns:?}"));
    await_nothing_left(&client);
    wait_until("no watch is left", SOON, || watches() == 0);
}
