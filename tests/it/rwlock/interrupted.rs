//! A read under an own write, and the faults that come in between.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, Error, HoldState, LossReason};
use zoolock_test_support::{FaultProxy, Op, Then, fresh_path, shared_probe, wait_until};

use super::{Visitor, rw_of};
use crate::lock::core::{await_nodes, hold_of};
use crate::util::{
    SESSION, SOON, assert_lost, await_lost, children, client, client_of, place, shared_proxy,
};

/// The requests of a downgrade and of a move.
const STEPS: [(Op, bool); 4] =
    [(Op::Create, false), (Op::Create, true), (Op::GetData, false), (Op::GetData, true)];

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
        let writing = Writing::start_unasked(name);
        // Else a move and a read would have to look for it first.
        hold_of(&writing.lock.write_lock()).fencing_token().unwrap();
        writing
    }

    fn start_unasked(name: &str) -> Writing {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let path = fresh_path(name);
        let lock = rw_of(&client, &path);
        lock.write_lock().lock().unwrap();
        let rivals = crate::util::client();
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
        assert_eq!(stats.seats_lost, 0, "{what}: {stats:?}");
        // A create that nobody has answered may come for as long as its session lives.
        wait_until("no more garbage is left", SOON, || self.client.stats().garbage <= 1);
    }
}

#[test]
fn a_downgrade_that_is_cut_at_any_request_is_done_on_the_next_connection() {
    let cases = STEPS
        .iter()
        .flat_map(|step| [(step, Then::Cut), (step, Then::Hold)])
        .flat_map(|(step, then)| [(step, then, false), (step, then, true)]);
    thread::scope(|scope| {
        for (&(op, answer), then, asked) in cases {
            scope.spawn(move || {
                let writing = match asked {
                    true => Writing::start("downgrade-cut"),
                    false => Writing::start_unasked("downgrade-cut"),
                };
                let part = match op {
                    Op::Create => writing.path.clone(),
                    _ => writing.node(),
                };
                let rule = writing.proxy.on(op).path_contains(&part);
                let lost = match answer {
                    true => rule.drop_answer(then),
                    false => rule.drop_request(then),
                };
                let begun = Instant::now();
                let locked = writing.lock.read_lock().lock();
                let what = format!(
                    "{op:?}'s {} lost, then {then:?}, token asked before: {asked}: {:?}",
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
fn a_downgrade_beside_the_move_of_its_write_keeps_the_place() {
    for (op, answer) in STEPS {
        for cut_again in [false, true] {
            let writing = Writing::start("downgrade-moving");
            let part = match op {
                Op::Create => writing.path.clone(),
                _ => writing.node(),
            };
            // A step of the move, which is the first such request on the next connection.
            let rule = writing.proxy.on(op).path_contains(&part);
            let step = match answer {
                true => rule.hold_answer(),
                false => rule.hold_request(),
            };
            writing.proxy.cut();
            assert!(step.wait(SOON), "{:#?}", writing.proxy.log());
            assert_eq!(hold_of(&writing.lock.write_lock()).state(), HoldState::Suspended);
            let creates = writing.proxy.requests(Op::Create);
            let proxy = &writing.proxy;
            let seen = thread::scope(|scope| {
                let released = scope.spawn(move || {
                    // Its create is on its way behind the move, if that may be.
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
                "{op:?}, answer: {answer}, cut again: {cut_again}, {seen} creates beside it"
            );
            writing.ends_well(&what);
        }
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
    for op in [Op::Create, Op::GetData] {
        let writing = Writing::start("downgrade-given-up");
        let part = match op {
            Op::Create => writing.path.clone(),
            _ => writing.node(),
        };
        let own = writing.node();
        let read = writing.lock.read_lock();
        let answer = writing.proxy.on(op).path_contains(&part).hold_answer();
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

/// The move of a write is about to be confirmed, and its thread looks for the old node right behind.
/// Returns what it is told when these nodes, of the old one and the new one, have gone by then.
fn reads_while_the_write_has_just_moved(
    writing: &Writing,
    old_goes: bool,
    new_goes: bool,
) -> zoolock::Result<()> {
    let old = writing.node();
    let proxy = &writing.proxy;
    let confirmed = proxy.on(Op::GetData).path_contains(&old).hold_answer();
    proxy.cut();
    assert!(confirmed.wait(SOON), "{:#?}", proxy.log());
    let looked = proxy.on(Op::GetData).path_contains(&old).hold_request();
    let creates = proxy.requests(Op::Create);
    let hold = hold_of(&writing.lock.write_lock());
    thread::scope(|scope| {
        let (old, hold) = (&old, &hold);
        scope.spawn(move || {
            wait_until("the read's create is sent", SOON, || proxy.requests(Op::Create) > creates);
            confirmed.release();
            assert!(looked.wait(SOON), "{:#?}", proxy.log());
            wait_until("the write has moved", SOON, || hold.node() != *old);
            let probe = shared_probe().unwrap();
            for (goes, node) in [(old_goes, old), (new_goes, &hold.node())] {
                if goes {
                    // The library may have been first with the old one.
                    let _ = probe.delete(&format!("{}/{node}", writing.path));
                }
            }
            looked.release();
        });
        writing.lock.read_lock().lock()
    })
}

#[test]
fn a_read_that_looks_for_a_write_that_has_just_moved_finds_it() {
    for old_goes in [true, false] {
        let writing = Writing::start("downgrade-moved");
        let seen = reads_while_the_write_has_just_moved(&writing, old_goes, false);
        let what = format!("the old node gone: {old_goes}: {seen:?}");
        assert!(seen.is_ok(), "{what}: {:#?}", writing.proxy.log());
        wait_until("the move is counted", SOON, || writing.client.stats().seats_moved == 1);
        writing.ends_well(&what);
    }
}

#[test]
fn a_read_that_looks_for_a_write_that_has_moved_and_is_gone_tells_its_loss() {
    let writing = Writing::start("downgrade-moved-gone");
    let seen = reads_while_the_write_has_just_moved(&writing, true, true);
    println!("{seen:?}");
    assert_lost(&seen, &writing.path, LossReason::NodeDeleted);
    let rival = &writing.rival.1;
    rival.comes_in();
    let write = writing.lock.write_lock();
    assert_lost(&write.unlock(), &writing.path, LossReason::NodeDeleted);
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
    for op in [Op::Create, Op::GetData] {
        let writing = Writing::start("downgrade-closed");
        let answer = writing.proxy.on(op).hold_answer();
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
        crate::util::Task::spawn(move || {
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
    assert_eq!(stats.seats_lost, 0, "{stats:?}");
    await_nodes(&path, 0);
}
