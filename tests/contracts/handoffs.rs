//! `LockOptions::local_handoffs`: threads of one object pass the lock on without a request.

mod losses;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::bounded;
use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, Error, Hold, HoldState, Lock, LockOptions,
    Result,
};
use zoolock_test_support::{Probe, Server, connect_string, fresh_path, shared_probe, wait_until};

use common::{
    BRIEFLY, SESSION, SOON, Stage, Task, Visitor, Witness, await_nodes, await_nothing_left,
    children, client, client_of, exists, hold_of, lock_of, warnings,
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
    turns: Arc<AtomicUsize>,
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

/// What a new owner sees after a hand-off, through two objects at one path.
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
fn handoff_moves_ownership_to_the_next_thread() {
    let (client, path) = (client(), fresh_path("owner"));
    let new = || DistributedReentrantLock::with_options(&client, &path, handing_on(4)).unwrap();
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
    // The thread holds nothing any more, so that waiting cannot be a deadlock.
    let through_other = other.try_lock_for(BRIEFLY);
    assert!(matches!(through_other, Ok(false)), "{through_other:?}");
    assert_eq!(await_nodes(&path, 1), [node]);
    drop(let_go);
    next.result("the next owner").unwrap();
    lock.lock().unwrap();
    lock.unlock().unwrap();
    await_nothing_left(&client);
}

#[test]
fn stale_guard_panic_and_last_handle_respect_a_handoff() {
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

#[test]
fn node_handed_on_beyond_a_session_timeout_stays_alive() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    let (client, path) = (client_of(&connect_string(), TIMEOUT), fresh_path("long"));
    let lock = lock_with(&client, &path, u32::MAX);
    // First and last moment of each token. On a slow machine no thread may wait at some moment, and the node
    // changes.
    let runs = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = Arc::clone(&runs);
    let passers = Passers::start(&lock, 4, move |hold| {
        let now = Instant::now();
        let token = hold.fencing_token();
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
fn handed_on_node_keeps_one_watch_and_leaves_none() {
    let server = Server::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    let client = client_of(&server.connect_string(), SHORT / 2);
    // Leaves out the watch on the directory, which lasts longer.
    let watched = || -> Vec<String> {
        let answer = server.four_letter("wchp").unwrap();
        answer.lines().filter(|line| line.starts_with("/lock/")).map(str::to_owned).collect()
    };
    let pause = |_: &Hold| thread::sleep(Duration::from_millis(1));
    let passers = Passers::start(&lock_with(&client, "/lock", u32::MAX), 4, pause);
    let mut nodes = Vec::new();
    let took = wait_until("the node is watched", SOON, || {
        nodes = watched();
        nodes.len() == 1
    });
    let before = passers.turns();
    println!("{nodes:?} is watched after {took:?}");
    // On a slow machine no thread may wait at some moment, and the node changes.
    wait_until("many turns more, or another node", SOON, || {
        let seen = watched();
        let same = probe.exists(&nodes[0]).unwrap();
        assert!(seen == nodes || !same, "{seen:?} is watched");
        !same || passers.turns() > before + 500
    });
    passers.stop().into_iter().for_each(|turns| assert!(turns.is_ok(), "{turns:?}"));
    await_nothing_left(&client);
    wait_until("no watch is left", SOON, || watched().is_empty());
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
