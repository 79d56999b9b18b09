//! `LockOptions::local_handoffs`: threads of one object pass the lock on without a request.

mod losses;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread::{self};
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, Hold, HoldState, Lock, LockOptions, Result};
use zoolock_test_support::{connect_string, fresh_path, wait_until};

use common::{
    SESSION, SOON, Stage, Task, Visitor, Witness, await_nothing_left, children, client, client_of,
    exists, lock_of,
};

/// The client notices a deletion after a quarter of this and a heartbeat.
const SHORT: Duration = Duration::from_secs(8);

fn handing_on(times: u32) -> LockOptions {
    LockOptions::new().local_handoffs(times)
}

fn lock_with(client: &Client, path: &str, times: u32) -> DistributedLock {
    DistributedLock::with_options(client, path, handing_on(times)).unwrap()
}

/// Threads that lock and unlock one object without a pause. They stop when told or when a call fails.
struct Passers {
    stop: Arc<AtomicBool>,
    threads: Vec<Task<Result<u32>>>,
}

impl Passers {
    /// Each thread calls `visit` while it holds, and waits for another thread to queue before it leaves.
    fn start<L: Lock + Clone + 'static>(
        lock: &L,
        threads: usize,
        visit: impl Fn(&Hold) + Clone + Send + 'static,
    ) -> Passers {
        let stop = Arc::new(AtomicBool::new(false));
        let asking = Arc::new(AtomicUsize::new(0));
        let passer = |_| {
            let (lock, visit) = (lock.clone(), visit.clone());
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
        Passers { stop, threads }
    }

    /// Stops the threads, and returns the number of turns of each.
    #[track_caller]
    fn stop(self) -> Vec<Result<u32>> {
        self.stop.store(true, Ordering::SeqCst);
        self.ended()
    }

    /// The same for threads that end for another reason.
    #[track_caller]
    fn ended(self) -> Vec<Result<u32>> {
        self.threads.iter().map(|turns| turns.result("a thread that passes on")).collect()
    }
}

/// For each visit of another client, the number of turns that the crowd took first. The whole crowd wants one
/// lock object.
fn turns_before_each_visit(times: u32) -> Vec<u32> {
    let ([ours, rival, other], path) = ([(); 3].map(|()| client()), fresh_path("rival"));
    let lock = lock_with(&ours, &path, times);
    let theirs = [lock_of(&rival, &path), lock_of(&other, &path)];
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
fn other_client_waits_for_at_most_the_limit_of_handoffs_and_one() {
    for times in [0, 1, 32] {
        let turns = turns_before_each_visit(times);
        println!("{times} times in a row: {turns:?} turns before each visit");
        assert!(turns.iter().all(|turns| (1..=times + 1).contains(turns)), "{turns:?}");
    }
}

#[test]
fn revocation_is_heard_during_repeated_handoffs() {
    let stage = Stage::new("asked_between", Duration::from_secs(6));
    let lock = lock_with(&stage.client, &stage.path, u32::MAX);
    let passers = Passers::start(&lock, 3, |_| thread::sleep(Duration::from_millis(1)));
    let others = client();
    for round in 0..3 {
        let mut node = String::new();
        // On a slow machine no thread may wait at some moment, and the node changes.
        wait_until("its holder is asked", SOON, || {
            let contenders = others.contenders(&stage.path).unwrap();
            contenders.first().is_some_and(|contender| {
                node = format!("{}/{}", stage.path, contender.node);
                others.revoke(contender).is_ok()
            })
        });
        // The watch is set a quarter of the session timeout after the grant.
        let took = wait_until("it was released", SOON, || !exists(&node));
        println!("round {round}: let go after {took:?}");
    }
    println!("{:?} turns", passers.stop().into_iter().map(Result::unwrap).collect::<Vec<_>>());
    await_nothing_left(&stage.client);
    assert_eq!(stage.client.stats().holds_lost, 0);
}

/// "Nobody gets the lock for `time` after its grant, however early it is unlocked."
#[test]
fn minimum_hold_of_a_node_that_was_handed_on_counts_from_the_last_grant() {
    const AT_LEAST: Duration = Duration::from_millis(700);
    let (ours, others) = (client_of(&connect_string(), Duration::from_secs(120)), client());
    let path = fresh_path("at-least-again");
    let options = handing_on(8).hold_at_least(AT_LEAST);
    let lock = DistributedLock::with_options(&ours, &*path, options).unwrap();
    let first = Visitor::start_asleep(lock.clone());
    first.comes_in();
    let begun = Instant::now();
    wait_until("its time is over", SOON, || begun.elapsed() > AT_LEAST);
    let second = Visitor::start_asleep(lock.clone());
    let before = first.hold().node();
    let granted = Instant::now();
    first.leaves();
    let after = second.hold().node();
    assert_eq!(before, after, "the second has it without the servers");
    second.leaves();
    let rival = lock_of(&others, &path);
    rival.lock().unwrap();
    let passed = granted.elapsed();
    println!("somebody else has it {passed:?} after the grant");
    rival.unlock().unwrap();
    assert!(passed >= AT_LEAST, "{passed:?}");
}
