//! Threads of one process: on one object, and on several objects of one path.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    Client, ClientBuilder, ConnectionEvent, DistributedLock, DistributedReentrantLock, Error,
    Guard, Hold, HoldState, Lock, Locker, ReentrantGuard, Stats,
};
use zoolock_test_support::{fresh_path, wait_until};

use common::basics::{Exclusive, await_nodes, hold_of};
use common::{
    Arrivals, BRIEFLY, SOON, Task, Witness, assert_cancelled, await_nothing_left, children, client,
    client_of, never_two_inside, shared_proxy,
};

/// How many threads crowd at once.
const CROWD: usize = 20;

fn a_crowd_on_one_object<L: Exclusive>() {
    const ENTRIES: u32 = 5;
    let client = client();
    let path = fresh_path("crowd");
    let lock = L::at(&client, &path);
    let crowd = (0..CROWD).map(|_| lock.clone());
    never_two_inside(crowd, ENTRIES, |lock, inside| {
        let guard = lock.acquire().unwrap();
        inside();
        L::release(guard).unwrap();
    });
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn a_crowd_on_one_object_is_never_two_inside() {
    a_crowd_on_one_object::<DistributedLock>();
    a_crowd_on_one_object::<DistributedReentrantLock>();
}

/// Each in a thread of its own, all at once; returns when nothing is held any more.
#[track_caller]
pub(crate) fn exactly_one_try_succeeds<L: Lock + 'static>(crowd: impl IntoIterator<Item = L>) {
    let crowd: Vec<_> = crowd.into_iter().collect();
    let size = crowd.len();
    let barrier = || Arc::new(Barrier::new(size));
    let (start, end) = (barrier(), barrier());
    let tries = crowd.into_iter().map(|lock| {
        let (start, end) = (Arc::clone(&start), Arc::clone(&end));
        Task::spawn(move || {
            start.wait();
            let locked = lock.try_lock();
            end.wait();
            if matches!(locked, Ok(true)) {
                lock.unlock().unwrap();
            }
            locked
        })
    });
    let tries: Vec<_> = tries.collect();
    let tries: Vec<_> = tries.iter().map(|t| t.result("a try")).collect();
    let succeeded = tries.iter().filter(|t| matches!(t, Ok(true))).count();
    let failed = tries.iter().filter(|t| matches!(t, Ok(false))).count();
    assert_eq!((succeeded, failed), (1, size - 1), "{tries:?}");
}

fn one_try_of_a_crowd<L: Exclusive>() {
    let client = client();
    let lock = L::at(&client, &fresh_path("one_try"));
    exactly_one_try_succeeds((0..CROWD).map(|_| lock.clone()));
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
}

#[test]
fn of_a_crowd_that_tries_exactly_one_succeeds() {
    one_try_of_a_crowd::<DistributedLock>();
    one_try_of_a_crowd::<DistributedReentrantLock>();
}

#[test]
fn two_objects_on_one_path_exclude_each_other() {
    const ENTRIES: u32 = 15;
    let client = client();
    let path = fresh_path("objects");
    let any = DistributedLock::new(&client, &path).unwrap();
    let own = DistributedReentrantLock::new(&client, &path).unwrap();
    let locks: [Box<dyn Lock>; 4] = [
        any.into(),
        own.into(),
        DistributedLock::new(&client, &path).unwrap().into(),
        DistributedReentrantLock::new(&client, &path).unwrap().into(),
    ];
    locks[0].lock().unwrap();
    for other in &locks[1..] {
        assert!(!other.try_lock().unwrap(), "{other:?}");
        assert!(!other.is_held(), "{other:?}");
    }
    locks[0].unlock().unwrap();
    never_two_inside(locks, ENTRIES, |lock, inside| {
        lock.lock().unwrap();
        inside();
        lock.unlock().unwrap();
    });
}

#[test]
fn a_thread_that_ended_while_it_held_lets_nobody_in_as_owner() {
    let [ours, rivals] = [client(), client()];
    let path = fresh_path("ended");
    let lock = DistributedReentrantLock::new(&ours, &path).unwrap();
    let ended = lock.clone();
    let owner = thread::spawn(move || {
        ended.lock().unwrap();
        thread::current().id()
    });
    let owner = owner.join().unwrap();
    for number in 0..50 {
        let later = lock.clone();
        let seen = thread::spawn(move || {
            let held = (later.is_held(), later.hold_count());
            (held, later.try_lock(), later.unlock())
        });
        let (held, locked, unlocked) = seen.join().unwrap();
        assert_eq!(held, (false, 0), "thread {number}");
        assert!(matches!(locked, Ok(false)), "thread {number}: {locked:?}");
        assert!(
            matches!(&unlocked, Err(Error::NotOwner { owner: by, .. }) if *by == owner),
            "thread {number}: {unlocked:?}"
        );
    }
    assert!(!lock.try_lock_for(Duration::from_millis(100)).unwrap());
    let rival = DistributedLock::new(&rivals, &path).unwrap();
    assert!(!rival.try_lock().unwrap());
    ours.close().unwrap();
    assert!(rival.try_lock().unwrap(), "close gives it back");
    rival.unlock().unwrap();
}

#[test]
fn what_any_thread_may_unlock_outlives_its_thread() {
    let client = client();
    let lock = DistributedLock::new(&client, fresh_path("outlives")).unwrap();
    let ended = lock.clone();
    thread::spawn(move || ended.lock().unwrap()).join().unwrap();
    assert!(lock.is_held());
    assert!(!lock.try_lock().unwrap());
    lock.unlock().unwrap();
    assert!(!lock.is_held());
}

#[test]
fn a_failed_second_level_gives_the_first_one_back() {
    let proxy = shared_proxy();
    let [ours, rivals] = [client_of(&proxy.connect_string(), SOON), client()];
    let path = fresh_path("given_back");
    let lock = DistributedReentrantLock::new(&ours, &path).unwrap();
    let rival = DistributedLock::new(&rivals, &path).unwrap();
    let on_another_thread = |what: &str| {
        let other = lock.clone();
        let tries = Task::spawn(move || (other.try_lock(), other.try_lock_for(BRIEFLY)));
        let tries = tries.result(what);
        println!("{what}: {tries:?}");
        tries
    };
    let works = |what: &str| {
        let other = lock.clone();
        let works = Task::spawn(move || {
            let locked = other.try_lock_for(SOON);
            (locked, other.unlock())
        });
        let works = works.result(what);
        assert!(matches!(works, (Ok(true), Ok(()))), "{what}: {works:?}");
    };

    rival.lock().unwrap();
    assert!(!lock.try_lock_for(BRIEFLY).unwrap());
    assert!(!lock.try_lock().unwrap());
    let tries = on_another_thread("while a rival holds");
    assert!(matches!(tries, (Ok(false), Ok(false))), "{tries:?}");
    // With a waiter on the first level behind the one that fails on the second.
    let (first, second) = (lock.clone(), lock.clone());
    let first = Task::spawn_blocked(move || first.try_lock_for(Duration::from_millis(700)));
    let second = Task::spawn(move || {
        let locked = second.try_lock_for(SOON);
        (locked, second.unlock())
    });
    let first = first.result("the first of two waiters");
    assert!(matches!(first, Ok(false)), "{first:?}");
    rival.unlock().unwrap();
    let second = second.result("the second of two waiters");
    assert!(matches!(second, (Ok(true), Ok(()))), "{second:?}");
    works("after the rival's unlock");

    proxy.refuse(true);
    proxy.cut();
    let disconnected = |r: &zoolock::Result<bool>| matches!(r, Err(Error::Disconnected { .. }));
    wait_until("it says so", SOON, || disconnected(&lock.try_lock()));
    let mine = lock.try_lock_for(BRIEFLY);
    assert!(disconnected(&mine), "{mine:?}");
    let tries = on_another_thread("while disconnected");
    assert!(disconnected(&tries.0) && disconnected(&tries.1), "{tries:?}");
    proxy.refuse(false);
    works("connected again");
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
    await_nodes(&path, 0);
}

#[test]
fn a_thread_that_would_wait_for_itself_is_told() {
    let client = client();
    let path = fresh_path("deadlock");
    let [first, second] = [(); 2].map(|()| DistributedReentrantLock::new(&client, &path).unwrap());
    first.lock().unwrap();
    let results = [
        ("lock", second.lock()),
        ("acquire", second.acquire().map(drop)),
        ("try_lock_for", second.try_lock_for(SOON).map(drop)),
    ];
    println!("{results:?}");
    for (what, result) in results {
        let told = matches!(&result, Err(Error::WouldDeadlock { path: at }) if *at == path);
        assert!(told, "{what}: {result:?}");
    }
    let tried = second.try_lock();
    assert!(matches!(tried, Ok(false)), "{tried:?}");
    assert_eq!(await_nodes(&path, 1), [hold_of(&first).node()]);
    // Another thread waits as usual.
    let other = second.clone();
    let waiter = Task::spawn(move || other.lock().and_then(|()| other.unlock()));
    await_nodes(&path, 2);
    first.unlock().unwrap();
    waiter.result("another thread").unwrap();
    second.lock().unwrap();
    second.unlock().unwrap();
}

#[test]
fn a_thread_that_would_wait_for_itself_behind_others_is_told() {
    let [ours, others] = [client(), client()];
    let path = fresh_path("deadlock");
    let at = |client| DistributedReentrantLock::new(client, &path).unwrap();
    let (first, second, third) = (at(&ours), at(&ours), at(&ours));
    first.lock().unwrap();
    let wait = |lock: &DistributedReentrantLock| {
        let lock = lock.clone();
        Task::spawn(move || lock.lock().and_then(|()| lock.unlock()))
    };
    // In the queue: another thread of this client, and another client, wait for this thread.
    let mut waiters = vec![wait(&second)];
    await_nodes(&path, 2);
    waiters.push(wait(&at(&others)));
    await_nodes(&path, 3);
    let timeout = Duration::from_secs(2);
    let in_the_queue = third.try_lock_for(timeout);
    // Not even there: the other thread is between the two levels of this object.
    let locally = second.try_lock_for(timeout);
    // A thread of another client is a stranger.
    let by_another_client = at(&others).try_lock_for(Duration::from_millis(100));
    println!("{in_the_queue:?}, {locally:?}, {by_another_client:?}");
    first.unlock().unwrap();
    for waiter in waiters {
        waiter.result("a waiter").unwrap();
    }
    let told = |r: &zoolock::Result<bool>| matches!(r, Err(Error::WouldDeadlock { .. }));
    assert!(told(&in_the_queue), "{in_the_queue:?}");
    assert!(matches!(by_another_client, Ok(false)), "{by_another_client:?}");
    assert!(told(&locally), "{locally:?}");
}

#[test]
fn what_any_thread_may_unlock_is_never_a_deadlock() {
    const TIMEOUT: Duration = Duration::from_millis(200);
    let client = client();
    let path = fresh_path("no_deadlock");
    let [first, second] = [(); 2].map(|()| DistributedLock::new(&client, &path).unwrap());
    first.lock().unwrap();
    let through_another = second.try_lock_for(TIMEOUT);
    let through_itself = first.try_lock_for(TIMEOUT);
    println!("{through_another:?}, {through_itself:?}");
    assert!(matches!(through_another, Ok(false)), "{through_another:?}");
    assert!(matches!(through_itself, Ok(false)), "{through_itself:?}");
    let waiting = second.clone();
    let waiter = Task::spawn(move || waiting.lock());
    await_nodes(&path, 2);
    first.unlock().unwrap();
    waiter.result("it was no deadlock").unwrap();
    assert!(second.is_held());
    second.unlock().unwrap();
}

fn threads_get_in_in_the_order_of_their_calls<L: Exclusive>() {
    let client = client();
    let lock = L::at(&client, &fresh_path("local_fifo"));
    lock.lock().unwrap();
    let mut arrivals = Arrivals::new();
    for _ in 0..6 {
        let lock = lock.clone();
        arrivals.join_asleep(move |inside| {
            lock.lock().unwrap();
            inside();
            lock.unlock().unwrap();
        });
    }
    assert!(arrivals.is_empty(), "in beside the holder");
    lock.unlock().unwrap();
    assert_eq!(arrivals.order(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn threads_of_one_object_get_in_in_the_order_of_their_calls() {
    threads_get_in_in_the_order_of_their_calls::<DistributedLock>();
    threads_get_in_in_the_order_of_their_calls::<DistributedReentrantLock>();
}

fn cancel_wakes_local_waiters<L: Exclusive>() {
    let client = client();
    let path = fresh_path("cancel");
    let lock = L::at(&client, &path);
    lock.cancel_waiters();
    lock.lock().unwrap();
    let node = hold_of(&lock).node();
    let wait = |_| {
        let lock = lock.clone();
        Task::spawn_blocked(move || lock.lock())
    };
    let waiters = [0, 1, 2].map(wait);
    lock.cancel_waiters();
    for waiter in waiters {
        let result = waiter.result("a cancelled waiter");
        assert_cancelled(&result, &path);
    }
    assert!(lock.is_held());
    assert_eq!(children(&path), [node]);
    lock.cancel_waiters();
    let later = lock.clone();
    let later = Task::spawn_blocked(move || later.lock().and_then(|()| later.unlock()));
    lock.unlock().unwrap();
    later.result("a later call").unwrap();
}

#[test]
fn cancel_waiters_wakes_those_that_wait_locally_and_nobody_later() {
    cancel_wakes_local_waiters::<DistributedLock>();
    cancel_wakes_local_waiters::<DistributedReentrantLock>();
}

fn impatience_leaves_nothing_behind<L: Exclusive>() {
    const THREADS: u32 = 8;
    let [ours, rivals] = [client(), client()];
    let path = fresh_path("impatient");
    let [lock, rival] = [L::at(&ours, &path), L::at(&rivals, &path)];
    let witness = Arc::new(Witness::default());
    let end = Instant::now() + Duration::from_secs(2);
    let impatient = |number: u32| {
        let lock = [&lock, &rival][number as usize % 2].clone();
        let witness = Arc::clone(&witness);
        Task::spawn(move || {
            let (mut entered, mut refused, mut unknown, mut cancelled) = (0_u32, 0, 0, 0);
            for round in 0.. {
                if Instant::now() > end {
                    break;
                }
                let timeout = Duration::from_micros(u64::from((round * 7 + number * 3) % 40) * 250);
                match lock.try_lock_for(timeout) {
                    Ok(true) => {
                        witness.visit(thread::yield_now);
                        lock.unlock().unwrap();
                        entered += 1;
                    }
                    Ok(false) => refused += 1,
                    // No answer came in so short a time.
                    Err(Error::Disconnected { .. }) => unknown += 1,
                    Err(Error::Cancelled { .. }) => cancelled += 1,
                    Err(error) => panic!("thread {number}, round {round}: {error}"),
                }
                if round % 16 == number {
                    lock.cancel_waiters();
                }
            }
            [entered, refused, unknown, cancelled]
        })
    };
    let threads: Vec<_> = (0..THREADS).map(impatient).collect();
    let counts: Vec<_> = threads.iter().map(|t| t.result("one of many")).collect();
    println!("entered, refused, unknown, cancelled: {counts:?}");
    witness.saw(counts.iter().map(|[entered, ..]| entered).sum());
    await_nodes(&path, 0);
    for (lock, client) in [(&lock, &ours), (&rival, &rivals)] {
        assert!(lock.try_lock().unwrap(), "{lock:?}");
        lock.unlock().unwrap();
        await_nothing_left(client);
    }
}

#[test]
fn impatient_threads_leave_nothing_behind() {
    impatience_leaves_nothing_behind::<DistributedLock>();
    impatience_leaves_nothing_behind::<DistributedReentrantLock>();
}

fn work_alone(lock: &dyn Lock) {
    assert!(!lock.is_held(), "{lock:?}");
    {
        let _locked = lock.acquire().unwrap();
        assert!(lock.is_held(), "{lock:?}");
        assert_eq!(lock.holds()[0].state(), HoldState::Held);
        assert_eq!(children(lock.path()).len(), 1);
    }
    assert!(!lock.is_held(), "{lock:?}");
    let locked = lock.try_acquire().unwrap().expect("nobody else is there");
    locked.release().unwrap();
    assert_eq!(children(lock.path()), [""; 0]);
}

#[test]
fn every_lock_is_an_object_behind_any_pointer() {
    let client = client();
    let path = fresh_path("pointers");
    let any = DistributedLock::new(&client, format!("{path}/a")).unwrap();
    let own = DistributedReentrantLock::new(&client, format!("{path}/b")).unwrap();
    let boxed: [Box<dyn Lock>; 2] = [any.clone().into(), own.clone().into()];
    let shared: [Arc<dyn Lock>; 2] = [Arc::new(any.clone()), Arc::new(own.clone())];
    for lock in &boxed {
        work_alone(lock);
        work_alone(&**lock);
    }
    for lock in &shared {
        work_alone(lock);
        work_alone(&**lock);
    }
    work_alone(&any);
    work_alone(&&own);

    // They are the object they were made of.
    any.lock().unwrap();
    assert!(boxed[0].is_held() && shared[0].is_held());
    assert!(!boxed[0].try_lock().unwrap());
    assert_eq!(boxed[0].holds()[0].node(), hold_of(&any).node());
    shared[0].unlock().unwrap();
    assert!(!any.is_held());
    assert!(shared[1].try_lock_until(Instant::now() + SOON).unwrap());
    assert!(boxed[1].try_lock_for(SOON).unwrap());
    assert_eq!(own.hold_count(), 2);
    boxed[1].unlock().unwrap();
    own.unlock().unwrap();
}

#[test]
fn a_locker_locks_anything_for_as_long_as_it_lives() {
    let client = client();
    let path = fresh_path("locker");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    let rival = DistributedLock::new(&client, &path).unwrap();
    {
        let _outer = Locker::acquire(&lock).unwrap();
        let _inner = Locker::try_acquire(&lock).unwrap().expect("the same thread");
        assert_eq!(lock.hold_count(), 2);
        assert!(Locker::try_acquire(&rival).unwrap().is_none());
        let timeout = Duration::from_millis(100);
        assert!(Locker::try_acquire_for(&rival, timeout).unwrap().is_none());
    }
    assert_eq!(lock.hold_count(), 0);
    let locker = Locker::try_acquire_for(&rival, SOON).unwrap();
    locker.expect("it is free").release().unwrap();
    let any: &dyn Lock = &rival;
    let locker = any.try_acquire_for(SOON).unwrap().expect("it is free");
    let holds = locker.holds();
    let tokens: Vec<_> = holds.iter().flat_map(Hold::fencing_token).collect();
    println!("held with {tokens:?}");
    assert_eq!(tokens, [rival.hold().unwrap().fencing_token().unwrap()]);
    let soon = Instant::now() + Duration::from_millis(100);
    let busy: &dyn Lock = &lock;
    assert!(busy.try_acquire_until(soon).unwrap().is_none());
    drop(locker);
    let locker = any.try_acquire_until(Instant::now() + SOON).unwrap();
    locker.expect("it is free again").release().unwrap();
    let locker = Locker::acquire(&rival).unwrap();
    rival.unlock().unwrap();
    let released = locker.release();
    assert!(matches!(released, Err(Error::NotHeld { .. })), "{released:?}");
}

#[test]
fn the_public_types_can_go_where_they_are_said_to() {
    fn send<T: Send + 'static>() {}
    fn sync<T: Sync + 'static>() {}
    fn both<T: Send + Sync + 'static>() {}
    both::<Client>();
    send::<ClientBuilder>();
    both::<Stats>();
    both::<ConnectionEvent>();
    both::<Error>();
    both::<Hold>();
    both::<HoldState>();
    both::<DistributedLock>();
    both::<DistributedReentrantLock>();
    both::<Box<dyn Lock>>();
    both::<Guard>();
    // That it is not `Send` is an example in its documentation.
    sync::<ReentrantGuard>();
}
