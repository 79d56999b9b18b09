//! Answers that no server gives: cut short, too long, for another request, nonsense.
//!
//! What the `zookeeper` crate 0.8.0 makes of them is not always an error, and is not tested where
//! it cannot be helped: a child count of i32::MAX aborts the process, since it reserves the space.
//! A frame length of -1 makes it wait for ever, and an answer with another request's id is taken
//! for the one to the oldest request; deadlines of this library end the former, and what carries
//! no id of its own cannot be told from an answer in the latter.

mod damages;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{EphemeralLock, Error, HoldState};
use zoolock_test_support::{fresh_path, wait_until};

use self::damages::{
    DAMAGES, Damage, another_path, cut_short, event_not_utf8, no_body, timed_out, unknown_error,
};
use super::{Line, has_one_node_until_unlocked};
use crate::lock::core::hold_of;
use crate::util::relay::{CREATE, Fate, Frame, GET_CHILDREN, GET_DATA, Relay};
use crate::util::{
    SESSION, SOON, Task, await_no_seats, children, client, client_of, exists, in_time, lock_of,
    place, shared_address, stat,
};

/// Damages the first answer to such a request once it is told to, then no more.
fn damaging(op: i32, damage: fn(&Frame<'_>) -> Fate) -> (Relay, Arc<AtomicBool>) {
    damaging_in_turn(vec![op], damage)
}

/// The same for several requests, each after the one before.
fn damaging_in_turn(ops: Vec<i32>, damage: fn(&Frame<'_>) -> Fate) -> (Relay, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let (arm, turn) = (Arc::clone(&armed), AtomicUsize::new(0));
    let relay = Relay::start(shared_address(), move |frame| {
        let at = turn.load(Ordering::SeqCst);
        let is_it = arm.load(Ordering::SeqCst) && frame.is_answer;
        let is_it = is_it && frame.op.is_some() && frame.op == ops.get(at).copied();
        let take_turn = || turn.compare_exchange(at, at + 1, Ordering::SeqCst, Ordering::SeqCst);
        match is_it && take_turn().is_ok() {
            true => damage(frame),
            false => Fate::Pass,
        }
    });
    (relay, armed)
}

/// An acquisition during which one answer is damaged ends in time and without a panic, whatever
/// it ends with, and the next one works.
fn survives(op: i32, (what, damage): Damage) {
    const SHORT: Duration = Duration::from_secs(3);
    const DEADLINE: Duration = Duration::from_secs(5);
    let (relay, armed) = damaging(op, damage);
    let client = client_of(&relay.connect_string(), SHORT);
    let path = fresh_path("garbled");
    let lock = lock_of(&client, &path);
    // Makes the directory.
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let rivals = crate::util::client();
    let rival = lock_of(&rivals, &path);
    if op == GET_DATA {
        // Only who waits reads a node.
        rival.lock().unwrap();
    }
    armed.store(true, Ordering::SeqCst);
    let trying = {
        let (lock, what) = (lock.clone(), format!("op {op}, {what}"));
        let limit = DEADLINE + Duration::from_secs(1);
        Task::spawn(move || in_time(&what, limit, || lock.try_lock_for(DEADLINE)))
    };
    if op == GET_DATA {
        wait_until("the answer was damaged", SOON, || relay.changed() == 1);
        rival.unlock().unwrap();
    }
    let seen = trying.result(what);
    assert_eq!(relay.changed(), 1, "op {op}, {what}: no such answer came");
    if matches!(seen, Ok(true)) {
        lock.unlock().unwrap();
    }
    assert!(lock.try_lock_for(SOON).unwrap(), "op {op}, {what}: {client:?}");
    has_one_node_until_unlocked(&lock);
    assert!(rival.try_lock_for(SOON).unwrap());
    rival.unlock().unwrap();
    assert!(children(&path).is_empty());
}

fn all_damages(op: i32, survives: fn(i32, Damage)) {
    // An error in place of a create's answer has a test of its own.
    let damages =
        DAMAGES.into_iter().filter(|(what, _)| op != CREATE || *what != "an unknown error");
    let all = damages.map(|damage| (damage.0, thread::spawn(move || survives(op, damage))));
    let all: Vec<_> = all.collect();
    let results = all.into_iter().map(|(what, thread)| (what, thread.join()));
    let failed = results.filter(|(_, result)| result.is_err());
    let failed: Vec<_> = failed.map(|(what, _)| what).collect();
    assert!(failed.is_empty(), "op {op}: {failed:?}");
}

#[test]
fn a_garbled_list_ends_no_caller_and_nothing_else() {
    all_damages(GET_CHILDREN, survives);
}

#[test]
fn a_garbled_answer_to_a_create_ends_no_caller_and_nothing_else() {
    all_damages(CREATE, survives);
}

#[test]
fn a_garbled_answer_to_a_read_ends_no_caller_and_nothing_else() {
    all_damages(GET_DATA, survives);
}

/// A move during which one answer is damaged: the hold is moved, or lost, and said to be so.
fn a_hold_survives_or_is_lost(op: i32, (what, damage): Damage) {
    const SHORT: Duration = Duration::from_secs(4);
    let (relay, armed) = damaging(op, damage);
    let client = client_of(&relay.connect_string(), SHORT);
    let path = fresh_path("garbled-move");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let before = place(&hold.node()).to_owned();
    let rivals = crate::util::client();
    let mut line = Line::at(&path);
    line.join(&rivals);
    armed.store(true, Ordering::SeqCst);
    relay.cut();
    let mut state = HoldState::Suspended;
    wait_until("the answer was damaged, and it is settled", SOON, || {
        let let_in = line.is_let_in();
        state = hold.state();
        assert!(!let_in || !hold.is_held(), "op {op}, {what}: two holders: {hold:?}");
        let moved = client.stats().seats_moved > 0;
        relay.changed() == 1 && (moved || !matches!(state, HoldState::Held | HoldState::Suspended))
    });
    println!("op {op}, {what}: {state:?}, {:?}", client.stats());
    match client.stats().seats_moved {
        0 => assert!(lock.unlock().is_err_and(|error| error.is_lost())),
        _ => {
            assert_eq!(place(&hold.node()), before);
            lock.unlock().unwrap();
        }
    }
    line.comes_in_order();
    wait_until("no node is left", SOON, || children(&path).is_empty());
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}

#[test]
fn a_garbled_answer_during_a_move_moves_the_hold_again_or_loses_it() {
    for op in [CREATE, GET_DATA] {
        all_damages(op, a_hold_survives_or_is_lost);
    }
}

/// The crate only logs an event that it cannot read, so nobody is woken by that one. Deadlines count
/// all the same, and whoever waits the next time is let in. If its thread for events ends, the
/// connection does, and who waits looks again on the next one.
#[test]
fn a_garbled_event_is_missed_but_no_deadline_and_no_later_event() {
    const DEADLINE: Duration = Duration::from_secs(4);
    let damages: [Damage; 3] =
        [("without a body", no_body), ("not UTF-8", event_not_utf8), ("cut short", cut_short)];
    for (what, damage) in damages {
        let [watched, damaged] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (watches, damages) = (Arc::clone(&watched), Arc::clone(&damaged));
        let relay = Relay::start(shared_address(), move |frame| {
            let is_event = frame.is_answer && frame.body.starts_with(&[0xff; 4]);
            if frame.is_answer && frame.op == Some(GET_DATA) {
                watches.store(true, Ordering::SeqCst);
            }
            match is_event && !damages.swap(true, Ordering::SeqCst) {
                true => damage(frame),
                false => Fate::Pass,
            }
        });
        let others = client();
        let waiting = client_of(&relay.connect_string(), Duration::from_secs(3));
        let path = fresh_path("garbled-event");
        let held = lock_of(&others, &path);
        held.lock().unwrap();
        let lock = lock_of(&waiting, &path);
        let trying = {
            let lock = lock.clone();
            let limit = DEADLINE + Duration::from_secs(1);
            Task::spawn(move || in_time(what, limit, || lock.try_lock_for(DEADLINE)))
        };
        wait_until("it watches", SOON, || watched.load(Ordering::SeqCst));
        held.unlock().unwrap();
        let got = trying.result(what);
        println!("{what}: {got:?}");
        assert!(
            what != "not UTF-8" || matches!(got, Ok(true)),
            "the thread has ended, and nobody noticed"
        );
        if let Ok(true) = got {
            lock.unlock().unwrap();
        }
        assert!(damaged.load(Ordering::SeqCst), "{what}: no event came");
        held.lock().unwrap();
        let mut line = Line::at(&path);
        line.join(&waiting);
        line.join(&others);
        held.unlock().unwrap();
        let begun = Instant::now();
        line.comes_in_order();
        println!("{what}: both let in {:?} later, {:?}", begun.elapsed(), waiting.stats());
    }
}

/// Some errors do not say whether the node was made: a time-out of the server's own, or one that
/// is newer than the client.
#[test]
fn a_create_answered_with_an_error_that_proves_nothing_leaves_no_node() {
    for (what, damage) in
        [("unknown", unknown_error as fn(&Frame<'_>) -> Fate), ("timeout", timed_out)]
    {
        let (relay, armed) = damaging(CREATE, damage);
        let client = client_of(&relay.connect_string(), SESSION);
        let path = fresh_path("unproven");
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        lock.unlock().unwrap();
        armed.store(true, Ordering::SeqCst);
        let seen = lock.try_lock_for(SOON);
        println!("{what}: {seen:?}; then {:?}, {:?}", children(&path), client.stats());
        assert_eq!(relay.changed(), 1);
        if matches!(seen, Ok(true)) {
            lock.unlock().unwrap();
        }
        wait_until("no node is left", SOON, || children(&path).is_empty());
        assert!(lock.try_lock_for(SOON).unwrap());
        has_one_node_until_unlocked(&lock);
    }
}

/// The name of a single node does not say who made it, but its data do. Where the look at them is
/// refused, too, nobody knows, and the connection is given up: the node goes with its session.
#[test]
fn a_single_node_whose_create_and_look_are_refused_goes_with_its_session() {
    for (refused, connections) in [(vec![CREATE], 1), (vec![CREATE, GET_DATA], 2)] {
        for waits in [true, false] {
            let what = format!("refused {refused:?}, waits: {waits}");
            let (relay, armed) = damaging_in_turn(refused.clone(), unknown_error);
            let client = client_of(&relay.connect_string(), SESSION);
            let path = fresh_path("single-unproven");
            let lock = EphemeralLock::new(&client, &path).unwrap();
            lock.lock().unwrap();
            lock.unlock().unwrap();
            armed.store(true, Ordering::SeqCst);
            let locked = {
                let lock = lock.clone();
                let call = move || match waits {
                    true => lock.lock().map(|()| true),
                    false => lock.try_lock(),
                };
                Task::spawn(call).result(&what)
            };
            println!("{what}: {locked:?}, {:?}", client.stats());
            assert_eq!(relay.changed(), refused.len() as u64, "{what}");
            // A try is over with its connection.
            let is_over = !waits && connections > 1;
            match locked {
                Err(Error::Disconnected { path: at }) if is_over => assert_eq!(at, path),
                Ok(true) if !is_over => {
                    let node = stat(&path);
                    let token = hold_of(&lock).fencing_token().unwrap();
                    assert_eq!(token, node.czxid as u64, "{what}: another node than its own");
                    lock.unlock().unwrap();
                }
                other => panic!("{what}: {other:?}"),
            }
            let took = wait_until("nothing is left", SOON, || !exists(&path));
            await_no_seats(&client);
            println!("{what}: nothing is left after {took:?}");
            assert!(lock.try_lock_for(SOON).unwrap(), "{what}");
            assert_eq!(client.stats().connections, connections, "{what}");
            lock.unlock().unwrap();
            let rivals = crate::util::client();
            let rival = EphemeralLock::new(&rivals, &path).unwrap();
            assert!(rival.try_lock().unwrap(), "{what}: a rival");
            rival.unlock().unwrap();
        }
    }
}

#[test]
fn a_create_that_is_answered_with_the_path_of_another_node_is_not_believed() {
    let (relay, armed) = damaging(CREATE, another_path);
    let fooled = client_of(&relay.connect_string(), SESSION);
    let path = fresh_path("another-path");
    let others = client();
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    let lock = lock_of(&fooled, &path);
    armed.store(true, Ordering::SeqCst);
    let locking = {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    wait_until("the answer was changed", SOON, || relay.changed() == 1);
    assert!(held.is_held());
    held.unlock().unwrap();
    locking.result("lock()").unwrap();
    println!("{:?}", fooled.stats());
    has_one_node_until_unlocked(&lock);
}
