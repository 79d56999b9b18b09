//! A kept lock whose process is not told, or forgets, that somebody has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zoolock::{DistributedLock, LockOptions};
use zoolock_test_support::{fresh_path, wait_until};

use super::{LONG, keeping, kept, turn};
use common::{SOON, Task, await_resumed, children, client, client_of, lock_of, shared_proxy};

/// The event comes while the hold goes from one turn to the next.
#[test]
fn turns_without_a_pause_do_not_keep_others_out() {
    let (own, others, path) = (client(), client(), fresh_path("pressed"));
    let lock = keeping(&own, &path, LONG);
    let over = Arc::new(AtomicBool::new(false));
    let (turning, end) = (lock.clone(), Arc::clone(&over));
    let turns = Task::spawn(move || {
        let mut turns = 0_u64;
        while !end.load(Ordering::SeqCst) {
            turn(&turning);
            turns += 1;
        }
        turns
    });
    let rival = lock_of(&others, &path);
    for entry in 0..20 {
        assert!(rival.try_lock_for(SOON).unwrap(), "entry {entry} was kept waiting");
        rival.unlock().unwrap();
    }
    over.store(true, Ordering::SeqCst);
    let turns = turns.result("the turns");
    println!("20 entries beside {turns} turns");
}

/// It is handed to threads that do not want it any more, on a connection that is not its first.
#[test]
fn left_to_nobody_after_a_cut_others_get_it() {
    let (proxy, path) = (shared_proxy(), fresh_path("left"));
    let own = client_of(&proxy.connect_string(), Duration::from_secs(10));
    let others = client();
    let options = LockOptions::new().keep_idle(LONG).local_handoffs(1_000);
    let lock = DistributedLock::with(&own, &path, options).unwrap();
    for round in 0..10 {
        kept(&lock, &own);
        lock.lock().unwrap();
        let (resumed, node) = (own.stats().resumed, children(&path));
        proxy.cut();
        await_resumed(&own, resumed + 1);
        assert_eq!(children(&path), node);
        let waiters: Vec<_> = (0..20)
            .map(|_| {
                let lock = lock.clone();
                Task::spawn_blocked(move || match lock.lock() {
                    Ok(()) => lock.unlock(),
                    Err(cancelled) => Err(cancelled),
                })
            })
            .collect();
        lock.cancel_waiters();
        lock.unlock().unwrap();
        let cancelled = waiters.iter().filter(|waiter| waiter.result("a waiter").is_err()).count();
        let nodes = children(&path);
        println!("round {round}: {cancelled} were cancelled, {nodes:?}");
        let rival = lock_of(&others, &path);
        assert!(rival.try_lock_for(SOON).unwrap(), "round {round}: {nodes:?}");
        rival.unlock().unwrap();
    }
}

/// Turns without a pause, until this is dropped.
struct Turns(Arc<AtomicBool>, Task<Result<(), zoolock::Error>>);

impl Turns {
    fn begin(lock: &DistributedLock) -> Turns {
        let over = Arc::new(AtomicBool::new(false));
        let (lock, end) = (lock.clone(), Arc::clone(&over));
        let turns = Task::spawn(move || {
            while !end.load(Ordering::SeqCst) {
                lock.lock()?;
                lock.unlock()?;
            }
            Ok(())
        });
        Turns(over, turns)
    }

    fn end(self) -> Result<(), zoolock::Error> {
        self.0.store(true, Ordering::SeqCst);
        self.1.result("the turns")
    }
}

/// That it is asked for is heard while the hold goes from one turn to the next.
#[test]
fn asked_for_between_turns_it_is_given_back() {
    let own = client_of(&zoolock_test_support::connect_string(), Duration::from_secs(4));
    let (others, path) = (client(), fresh_path("asked-between"));
    let lock = keeping(&own, &path, LONG);
    for round in 0..3 {
        let turns = Turns::begin(&lock);
        let mut asked = String::new();
        wait_until("its holder is asked", SOON, || {
            let who = others.contenders(&path).unwrap();
            asked = who.first().map_or(String::new(), |who| who.node.clone());
            who.first().is_some_and(|who| others.revoke(who).is_ok())
        });
        let took = wait_until("it is given back", SOON, || !children(&path).contains(&asked));
        println!("round {round}: given back after {took:?}");
        turns.end().unwrap();
    }
}

/// The connection ends while the hold is being kept.
#[test]
fn cut_at_the_unlock_others_do_not_wait_for_the_lease() {
    let (proxy, path) = (shared_proxy(), fresh_path("cut-at-unlock"));
    let proxy = Arc::new(proxy);
    let own = client_of(&proxy.connect_string(), Duration::from_secs(20));
    let others = client();
    let lock = keeping(&own, &path, LONG);
    let rival = lock_of(&others, &path);
    for round in 0..10 {
        kept(&lock, &own);
        lock.lock().unwrap();
        let cutting = {
            let proxy = Arc::clone(&proxy);
            Task::spawn(move || proxy.cut())
        };
        lock.unlock().unwrap();
        cutting.result("the cut");
        let begun = Instant::now();
        let in_time = rival.try_lock_for(SOON).unwrap();
        println!("round {round}: {in_time} after {:?}, {:?}", begun.elapsed(), own.stats());
        assert!(in_time, "round {round}");
        rival.unlock().unwrap();
    }
}
