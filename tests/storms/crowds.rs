//! Whole programs: many threads that take turns, with a witness that does not trust the lock.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{DistributedLock, DistributedReentrantLock, Lock};
use zoolock_test_support::fresh_path;

use common::{Task, Witness, children, client};

/// A thread for each lock enters some times and works inside, for so many milliseconds.
fn take_turns(what: &str, path: &str, locks: Vec<Box<dyn Lock>>, turns: u32, work: Range<u64>) {
    let begun = Instant::now();
    let witness = Arc::new(Witness::default());
    let threads = locks.len() as u32;
    let visitor = |(number, lock): (u64, Box<dyn Lock>)| {
        let witness = Arc::clone(&witness);
        let span = work.end - work.start;
        let stay = Duration::from_millis(work.start + number * 37 % span);
        Task::spawn(move || {
            for _ in 0..turns {
                let locked = lock.acquire().unwrap();
                witness.visit(|| thread::sleep(stay));
                locked.release().unwrap();
            }
        })
    };
    let visitors: Vec<_> = (0..).zip(locks).map(visitor).collect();
    for visitor in visitors {
        visitor.result(what);
    }
    let took = begun.elapsed();
    println!("{what}: {} turns in {took:?}", threads * turns);
    witness.saw(threads * turns);
    assert_eq!(children(path), [""; 0]);
}

#[test]
fn fifty_objects_on_one_path() {
    let client = client();
    let path = fresh_path("fifty_objects");
    let locks = (0..50).map(|_| DistributedLock::new(&client, &path).unwrap().into());
    take_turns("50 threads, an object each", &path, locks.collect(), 4, 0..3);
}

#[test]
fn fifty_threads_on_one_object() {
    let client = client();
    let path = fresh_path("fifty_threads");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    let locks = (0..50).map(|_| lock.clone().into());
    take_turns("50 threads, one object", &path, locks.collect(), 1, 100..200);
}

#[test]
fn five_clients() {
    let path = fresh_path("five_clients");
    let clients: Vec<_> = (0..5).map(|_| client()).collect();
    let at = |client| DistributedReentrantLock::new(client, &path).unwrap().into();
    let locks = clients.iter().map(at).collect();
    take_turns("5 threads, a client each", &path, locks, 20, 0..10);
}
