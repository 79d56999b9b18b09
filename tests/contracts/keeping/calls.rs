//! A kept lock whose process is not told, or forgets, that somebody has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zoolock::{DistributedLock, LockOptions};
use zoolock_test_support::fresh_path;

use super::{LONG, keeping, kept, turn};
use common::{Task, await_resumed, children, client, client_of, lock_of, shared_proxy};

/// Much longer than two round trips and some turns.
const PATIENCE: Duration = Duration::from_secs(8);

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
    let begun = Instant::now();
    let (mut entries, mut longest, mut in_time) = (0, Duration::ZERO, true);
    while in_time && begun.elapsed() < Duration::from_secs(8) {
        let asked = Instant::now();
        in_time = rival.try_lock_for(PATIENCE).unwrap();
        longest = longest.max(asked.elapsed());
        if in_time {
            entries += 1;
            rival.unlock().unwrap();
        }
    }
    over.store(true, Ordering::SeqCst);
    let turns = turns.result("the turns");
    println!("{entries} entries beside {turns} turns, longest wait {longest:?}");
    assert!(in_time, "entry {} was kept waiting for {longest:?}", entries + 1);
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
        assert!(rival.try_lock_for(PATIENCE).unwrap(), "round {round}: {nodes:?}");
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
    for round in 0..5 {
        let turns = Turns::begin(&lock);
        std::thread::sleep(Duration::from_millis(1500));
        let before = children(&path);
        let who = others.contenders(&path).unwrap();
        others.revoke(&who[0]).unwrap();
        let begun = Instant::now();
        while children(&path) == before && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("round {round}: given back after {:?}", begun.elapsed());
        turns.end().unwrap();
        assert!(begun.elapsed() < PATIENCE, "round {round}");
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
        let in_time = rival.try_lock_for(PATIENCE).unwrap();
        println!("round {round}: {in_time} after {:?}, {:?}", begun.elapsed(), own.stats());
        assert!(in_time, "round {round}");
        rival.unlock().unwrap();
    }
}
