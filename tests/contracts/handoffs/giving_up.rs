//! Waiters that give up just when the lock is handed on to them.

use std::sync::atomic::AtomicU32;
use std::time::Instant;

use zoolock::Error;
use zoolock_test_support::{fresh_path, wait_until};

use super::*;
use common::{Witness, await_nothing_left, children, client, lock_of};

#[test]
fn the_last_waiter_that_gives_up_at_the_hand_off_leaves_nothing() {
    const ROUNDS: u32 = 300;
    let client = client();
    let path = fresh_path("last");
    let lock = lock_with(&client, &path, 1000);
    let (mut took, mut gave_up) = (0, 0);
    for round in 0..ROUNDS {
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
        // Around the instant when the waiter gives up.
        let moment = end + Duration::from_micros(u64::from(round % 30) * 10);
        while Instant::now() < moment - Duration::from_micros(150) {
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
fn impatient_threads_of_two_clients_are_never_two_inside_and_leave_nothing() {
    const THREADS: u32 = 10;
    const VISITS: u32 = 200;
    let [ours, rivals] = [client(), client()];
    let path = fresh_path("impatient");
    let (lock, rival) = (lock_with(&ours, &path, 5), lock_with(&rivals, &path, 2));
    let witness = Arc::new(Witness::default());
    let visits = Arc::new(AtomicU32::new(0));
    let impatient = |number: u32| {
        let lock = [&lock, &lock, &rival][number as usize % 3].clone();
        let (witness, visits) = (Arc::clone(&witness), Arc::clone(&visits));
        Task::spawn(move || {
            for round in 0.. {
                if visits.load(Ordering::SeqCst) >= VISITS {
                    break;
                }
                // More patient from time to time: a busy machine is slow.
                let timeout = (round * 7 + number * 3) % 40 * (1 + round / 40);
                let timeout = Duration::from_micros(u64::from(timeout) * 250);
                match lock.try_lock_for(timeout) {
                    Ok(true) => {
                        witness.visit(thread::yield_now);
                        visits.fetch_add(1, Ordering::SeqCst);
                        lock.unlock().unwrap();
                    }
                    Ok(false) | Err(Error::Disconnected { .. } | Error::Cancelled { .. }) => {}
                    Err(error) => panic!("thread {number}, round {round}: {error}"),
                }
                if round % 16 == number {
                    lock.cancel_waiters();
                }
            }
        })
    };
    let threads: Vec<_> = (0..THREADS).map(impatient).collect();
    threads.iter().for_each(|t| t.result("one of many"));
    let visits = visits.load(Ordering::SeqCst);
    println!("{visits} visits");
    witness.saw(visits);
    for client in [&ours, &rivals] {
        await_nothing_left(client);
        assert_eq!(client.stats().holds_lost, 0);
    }
    assert_eq!(children(&path), [""; 0]);
    for lock in [lock, rival] {
        assert!(lock.try_lock_for(SOON).unwrap());
        lock.unlock().unwrap();
    }
}

#[test]
fn a_close_in_the_middle_of_hand_offs_ends_everybody_and_leaves_no_node() {
    for round in 0..5 {
        let [ours, rivals] = [client(), client()];
        let path = fresh_path("closed");
        let lock = lock_with(&ours, &path, 1_000_000);
        let turns = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&turns);
        let passers = Passers::start(&lock, 6, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        wait_until("they take turns", SOON, || turns.load(Ordering::SeqCst) > 50 * (round + 1));
        ours.close().unwrap();
        for turns in passers.ended() {
            let told = match &turns {
                Err(Error::Closed) => true,
                Err(error) => error.is_lost(),
                Ok(_) => false,
            };
            assert!(told, "round {round}: {turns:?}");
        }
        assert_eq!(children(&path), [""; 0], "round {round}");
        let rival = lock_of(&rivals, &path);
        assert!(rival.try_lock().unwrap());
        rival.unlock().unwrap();
        assert_eq!(common::in_use(&ours.stats()), 0, "round {round}");
    }
}
