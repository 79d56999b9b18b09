//! A read under an own write, and the faults that come in between.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, Error, HoldState, LossReason};
use zoolock_test_support::{FaultProxy, Op, Then, fresh_path, wait_until};

use super::{Visitor, rw_of};
use common::basics::{await_nodes, hold_of};
use common::{
    SESSION, SOON, assert_lost, await_lost, await_nothing_left, children, client, client_of,
    delete_node, place, shared_proxy,
};

/// What a downgrade asks for, in one write.
const REQUESTS: [Op; 2] = [Op::Create, Op::GetChildren];

/// A thread that writes, behind which another client's writer is queued.
struct Writing {
    proxy: FaultProxy,
    client: Client,
    path: String,
    lock: zoolock::DistributedRwLock,
    rival: (Client, Visitor),
}

impl Writing {
    fn start(name: &str) -> Writing {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let path = fresh_path(name);
        let lock = rw_of(&client, &path);
        lock.write_lock().lock().unwrap();
        let rivals = common::client();
        let rival = Visitor::start(rw_of(&rivals, &path).write_lock());
        await_nodes(&path, 2);
        Writing { proxy, client, path, lock, rival: (rivals, rival) }
    }

    fn node(&self) -> String {
        hold_of(&self.lock.write_lock()).node()
    }

    /// Both are held in one place, one node each, and nobody comes in until both are unlocked.
    #[track_caller]
    fn ends_well(self, what: &str) {
        let (read, write) = (self.lock.read_lock(), self.lock.write_lock());
        wait_until("both are held", SOON, || {
            let holds = [hold_of(&read), hold_of(&write)];
            holds.iter().all(|hold| hold.state() == HoldState::Held)
        });
        let holds = [hold_of(&read), hold_of(&write)];
        let nodes = holds.each_ref().map(zoolock::Hold::node);
        let took = wait_until("there is one node each", SOON, || {
            let there = children(&self.path);
            there.len() == 3 && holds.iter().all(|hold| there.contains(&hold.node()))
        });
        let tokens = holds.each_ref().map(|hold| hold.fencing_token().unwrap());
        println!("{what}: {nodes:?}, tokens {tokens:?}, alone after {took:?}");
        assert_eq!(place(&nodes[0]), place(&nodes[1]), "{what}");
        assert_eq!(tokens[0], tokens[1], "{what}");
        assert!(!self.rival.1.is_in(), "{what}");
        write.unlock().unwrap();
        assert!(!self.rival.1.is_in(), "{what}: past a read");
        assert_eq!(hold_of(&read).state(), HoldState::Held, "{what}");
        read.unlock().unwrap();
        self.rival.1.comes_in();
        self.rival.1.leaves();
        await_nodes(&self.path, 0);
        let stats = self.client.stats();
        assert_eq!(stats.holds_lost, 0, "{what}: {stats:?}");
        // A create that nobody has answered is looked for until it cannot come any more.
        await_nothing_left(&self.client);
    }
}

#[test]
fn a_downgrade_that_is_cut_at_any_request_is_done_on_the_next_connection() {
    let cases = REQUESTS
        .iter()
        .flat_map(|op| [(op, false), (op, true)])
        .flat_map(|(op, answer)| [(op, answer, Then::Cut), (op, answer, Then::Hold)]);
    thread::scope(|scope| {
        for (&op, answer, then) in cases {
            scope.spawn(move || {
                let writing = Writing::start("downgrade-cut");
                let rule = writing.proxy.on(op).path_contains(&writing.path);
                let lost = match answer {
                    true => rule.drop_answer(then),
                    false => rule.drop_request(then),
                };
                let begun = Instant::now();
                let locked = writing.lock.read_lock().lock();
                let what = format!(
                    "{op:?}'s {} lost, then {then:?}: {:?}",
                    if answer { "answer" } else { "request" },
                    begun.elapsed()
                );
                assert!(lost.fired(), "{what}: {:#?}", writing.proxy.log());
                assert!(locked.is_ok(), "{what}: {locked:?}");
                writing.ends_well(&what);
            });
        }
    });
}

#[test]
fn a_downgrade_while_the_session_is_resumed_keeps_the_place() {
    // The handshake, and the heartbeat that certifies the lease anew.
    let steps = [Op::Connect, Op::SetData].map(|op| [(op, false), (op, true)]);
    for (op, answer) in steps.into_iter().flatten() {
        for cut_again in [false, true] {
            let writing = Writing::start("downgrade-resuming");
            let rule = writing.proxy.on(op);
            let step = match answer {
                true => rule.hold_answer(),
                false => rule.hold_request(),
            };
            writing.proxy.cut();
            assert!(step.wait(SOON), "{:#?}", writing.proxy.log());
            let state = hold_of(&writing.lock.write_lock()).state();
            let creates = writing.proxy.requests(Op::Create);
            let proxy = &writing.proxy;
            let seen = thread::scope(|scope| {
                let released = scope.spawn(move || {
                    // Its create is on its way behind that, if that may be.
                    let until = Instant::now() + Duration::from_millis(300);
                    while proxy.requests(Op::Create) == creates && Instant::now() < until {
                        thread::yield_now();
                    }
                    let seen = proxy.requests(Op::Create) - creates;
                    match cut_again {
                        true => proxy.cut(),
                        false => step.release(),
                    }
                    seen
                });
                writing.lock.read_lock().lock().unwrap();
                released.join().unwrap()
            });
            let what = format!(
                "{op:?}, answer: {answer}, cut again: {cut_again}, {state:?}, {seen} creates beside it"
            );
            writing.ends_well(&what);
        }
    }
}

/// The last of it costs a heartbeat more.
#[test]
fn a_downgrade_with_little_of_its_lease_left_has_it_renewed_also_if_that_is_cut() {
    const LITTLE: Duration = Duration::from_secs(4);
    assert!(LITTLE < SESSION / 20 * 9);
    for answer in [false, true] {
        let writing = Writing::start("downgrade-short");
        let (read, write) = (writing.lock.read_lock(), hold_of(&writing.lock.write_lock()));
        let proxy = &writing.proxy;
        proxy.refuse(true);
        proxy.cut();
        wait_until("little is left", SOON, || write.valid_for() < LITTLE);
        let rule = proxy.on(Op::SetData);
        let lost = match answer {
            true => rule.drop_answer(Then::Cut),
            false => rule.drop_request(Then::Cut),
        };
        thread::scope(|scope| {
            scope.spawn(|| proxy.refuse(false));
            read.lock().unwrap();
        });
        let left = hold_of(&read).valid_for();
        let what = format!("answer: {answer}, {left:?} left");
        assert!(lost.fired(), "{what}: {:#?}", proxy.log());
        assert!(left > LITTLE, "{what}");
        writing.ends_well(&what);
    }
}

#[test]
fn a_downgrade_without_a_connection_waits_for_the_next_one_or_says_so() {
    let writing = Writing::start("downgrade-offline");
    let read = writing.lock.read_lock();
    writing.proxy.refuse(true);
    writing.proxy.cut();
    wait_until("it is suspended", SOON, || {
        hold_of(&writing.lock.write_lock()).state() == HoldState::Suspended
    });
    let tries = [read.try_lock(), read.try_lock_for(Duration::from_millis(100))];
    println!("{tries:?}");
    for tried in &tries {
        let told = matches!(tried, Err(Error::Disconnected { .. }));
        assert!(told, "{tried:?}");
    }
    assert_eq!(read.hold_count(), 0);
    let proxy = &writing.proxy;
    thread::scope(|scope| {
        scope.spawn(|| proxy.refuse(false));
        read.lock().unwrap();
    });
    writing.ends_well("a connection came");
}

#[test]
fn a_downgrade_that_nobody_waits_for_any_more_leaves_no_node() {
    for op in REQUESTS {
        let writing = Writing::start("downgrade-given-up");
        let own = writing.node();
        let read = writing.lock.read_lock();
        let answer = writing.proxy.on(op).path_contains(&writing.path).hold_answer();
        let gave_up = read.try_lock_for(Duration::from_millis(200));
        assert!(answer.fired());
        println!("{op:?}: {gave_up:?}");
        let told = matches!(gave_up, Err(Error::Disconnected { .. }));
        assert!(told, "{gave_up:?}");
        assert_eq!((read.hold_count(), read.is_held()), (0, false));
        // Cancelled, the same.
        let again = thread::scope(|scope| {
            let waiting = read.clone();
            scope.spawn(move || {
                // Cancels whoever waits until the answer is let through.
                while !answer.fired() {
                    thread::yield_now();
                }
                for _ in 0..200 {
                    waiting.cancel_waiters();
                    thread::sleep(Duration::from_millis(1));
                }
                answer.release();
            });
            read.lock()
        });
        println!("{op:?}, then: {again:?}");
        match again {
            Err(Error::Cancelled { .. }) => {}
            other => panic!("{other:?}"),
        }
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
    let writing = Writing::start("downgrade-gone");
    let proxy = &writing.proxy;
    let create = proxy.on(Op::Create).path_contains(&writing.path).hold_request();
    let write = hold_of(&writing.lock.write_lock());
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            assert!(create.wait(SOON), "{:#?}", proxy.log());
            delete_node(&write);
            create.release();
        });
        writing.lock.read_lock().lock()
    });
    println!("{seen:?}, {write:?}");
    assert_lost(&seen, &writing.path, LossReason::NodeDeleted);
    writing.rival.1.comes_in();
    assert_lost(&writing.lock.write_lock().unlock(), &writing.path, LossReason::NodeDeleted);
    await_nodes(&writing.path, 1);
    writing.rival.1.leaves();
    await_nodes(&writing.path, 0);
}

#[test]
fn a_downgrade_that_waits_for_a_connection_until_its_write_is_lost_is_told() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(3));
    let path = fresh_path("downgrade-late");
    let lock = rw_of(&client, &path);
    lock.write_lock().lock().unwrap();
    let hold = hold_of(&lock.write_lock());
    proxy.refuse(true);
    proxy.cut();
    wait_until("it is suspended", SOON, || hold.state() == HoldState::Suspended);
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            await_lost(&hold);
            proxy.refuse(false);
        });
        lock.read_lock().lock()
    });
    println!("{seen:?}, {hold:?}");
    assert_lost(&seen, &path, LossReason::LeaseExpired);
    assert_lost(&lock.write_lock().unlock(), &path, LossReason::LeaseExpired);
    await_nodes(&path, 0);
    lock.read_lock().lock().unwrap();
    lock.read_lock().unlock().unwrap();
}

#[test]
fn a_close_ends_a_downgrade() {
    for op in REQUESTS {
        let writing = Writing::start("downgrade-closed");
        let answer = writing.proxy.on(op).path_contains(&writing.path).hold_answer();
        let begun = Instant::now();
        let seen = thread::scope(|scope| {
            scope.spawn(|| {
                assert!(answer.wait(SOON), "{:#?}", writing.proxy.log());
                let _ = writing.client.close();
            });
            let seen = writing.lock.read_lock().lock();
            println!("{op:?}: {seen:?} after {:?}", begun.elapsed());
            answer.release();
            seen
        });
        let told = matches!(
            seen,
            Err(Error::Closed | Error::Lost { reason: LossReason::ClientClosed, .. })
        );
        assert!(told, "{seen:?}");
        writing.rival.1.comes_in();
        writing.rival.1.leaves();
        await_nodes(&writing.path, 0);
    }
}

/// The rivals see no gap, whatever happens to the connection of who downgrades.
#[test]
fn downgrades_under_cut_after_cut_let_no_writer_slip_in() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    const ROUNDS: u64 = 25;
    let proxy = shared_proxy();
    let ours = client_of(&proxy.connect_string(), SESSION);
    let rivals = client();
    let path = fresh_path("downgrade-cuts");
    let lock = rw_of(&ours, &path);
    // Who writes changes it; under one's own write and read it must not change.
    let (value, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let rival = {
        let (lock, value) = (rw_of(&rivals, &path).write_lock(), Arc::clone(&value));
        let over = Arc::clone(&over);
        common::Task::spawn(move || {
            let mut turns = 0_u64;
            while !over.load(Ordering::SeqCst) {
                lock.lock().unwrap();
                value.fetch_add(1, Ordering::SeqCst);
                turns += 1;
                lock.unlock().unwrap();
            }
            turns
        })
    };
    let mut seed = 7_u64;
    for round in 0..ROUNDS {
        lock.write_lock().lock().unwrap();
        let seen = value.fetch_add(1, Ordering::SeqCst) + 1;
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pause = Duration::from_micros((seed >> 33) % 4_000);
        let connections = ours.stats().connections;
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(pause);
                proxy.cut();
            });
            lock.read_lock().lock().unwrap();
            lock.write_lock().unlock().unwrap();
        });
        if round % 2 == 0 {
            let hold = hold_of(&lock.read_lock());
            wait_until("it is held on the next connection", SOON, || {
                ours.stats().connections > connections && hold.state() == HoldState::Held
            });
        }
        let now = value.load(Ordering::SeqCst);
        assert_eq!(now, seen, "round {round}: a writer slipped in");
        assert!(lock.read_lock().is_held(), "round {round}");
        lock.read_lock().unlock().unwrap();
    }
    over.store(true, Ordering::SeqCst);
    let turns = rival.result("the rival");
    let stats = ours.stats();
    println!("{ROUNDS} downgrades, {turns} turns of the rival, {stats:?}");
    assert_eq!(value.load(Ordering::SeqCst), ROUNDS + turns);
    assert!(turns > 0);
    assert_eq!(stats.holds_lost, 0, "{stats:?}");
    await_nodes(&path, 0);
}
