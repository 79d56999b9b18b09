//! The same names and promises for every exclusive lock type.

use std::fmt::Debug;
use std::ops::Deref;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    AnyThread, Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, Guard, Hold,
    HoldState, Lock, LossReason, ReadLock, Result, ThisThread, WriteLock,
};
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use crate::{
    Arrivals, BRIEFLY, SOON, Task, assert_cancelled, assert_lost, await_nothing_left,
    await_resumed, children, client, client_of, never_two_inside, shared_proxy,
};

/// What the lock types have beside [`Lock`].
pub trait Exclusive: Lock + Clone + 'static {
    type Guard: Deref<Target = Hold> + Debug;
    fn at(client: &Client, path: &str) -> Self;
    fn acquire(&self) -> Result<Self::Guard>;
    fn release(guard: Self::Guard) -> Result<()>;
    fn cancel_waiters(&self);
}

macro_rules! exclusive {
    ($lock:ty, $owner:ty, $at:expr) => {
        impl Exclusive for $lock {
            type Guard = Guard<$owner>;

            fn at(client: &Client, path: &str) -> Self {
                $at(client, path).expect("a good path")
            }

            fn acquire(&self) -> Result<Self::Guard> {
                <$lock>::acquire(self)
            }

            fn release(guard: Self::Guard) -> Result<()> {
                guard.release()
            }

            fn cancel_waiters(&self) {
                <$lock>::cancel_waiters(self);
            }
        }
    };
}

exclusive!(DistributedLock, AnyThread, DistributedLock::new);
exclusive!(DistributedReentrantLock, ThisThread, DistributedReentrantLock::new);
exclusive!(WriteLock, ThisThread, |client, path: &str| {
    DistributedRwLock::new(client, path).map(|lock| lock.write_lock())
});
// Exclusive to writers only: for what one of them does alone.
exclusive!(ReadLock, ThisThread, |client, path: &str| {
    DistributedRwLock::new(client, path).map(|lock| lock.read_lock())
});

/// The one hold of a lock that is held.
pub fn hold_of(lock: &impl Lock) -> Hold {
    let holds = lock.holds();
    assert_eq!(holds.len(), 1, "{lock:?} has {holds:?}");
    holds.into_iter().next().expect("one hold")
}

/// Until this many nodes are in the lock's directory.
pub fn await_nodes(path: &str, count: usize) -> Vec<String> {
    let mut nodes = Vec::new();
    wait_until(&format!("{path} has {count} nodes"), SOON, || {
        nodes = children(path);
        nodes.len() == count
    });
    nodes
}

pub fn smoke<L: Exclusive>() {
    let client = client();
    let path = fresh_path("smoke");
    let lock = L::at(&client, &path);
    assert_eq!(lock.path(), path);
    assert!(!lock.is_held());
    assert!(lock.holds().is_empty(), "{:?}", lock.holds());

    lock.lock().unwrap();
    assert!(lock.is_held());
    let hold = hold_of(&lock);
    let (valid_for, nodes) = (hold.valid_for(), children(&path));
    println!("{hold:?}, valid for {valid_for:?}; on the server: {nodes:?}");
    assert_eq!(hold.state(), HoldState::Held);
    assert_eq!(nodes, [hold.node()]);
    assert_eq!(hold.path(), path);
    assert!(!valid_for.is_zero() && valid_for <= client.session_timeout());
    let stat = shared_probe().unwrap();
    let stat = stat.stat(&format!("{path}/{}", hold.node())).unwrap();
    let token = hold.fencing_token().unwrap();
    assert_eq!(Some(token), stat.map(|stat| stat.czxid as u64));
    lock.unlock().unwrap();

    assert!(!lock.is_held());
    assert_eq!(hold.state(), HoldState::Released);
    assert_eq!(hold.valid_for(), Duration::ZERO);
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
    let guard = lock.acquire().unwrap();
    assert!(guard.is_held() && lock.is_held(), "{guard:?}");
    L::release(guard).unwrap();
    assert!(!lock.is_held());
    client.close().unwrap();
}

pub fn excludes<L: Exclusive>() {
    const ENTRIES: u32 = 15;
    let clients = [client(), client()];
    let path = fresh_path("excludes");
    let locks = [L::at(&clients[0], &path), L::at(&clients[1], &path)];
    locks[0].lock().unwrap();
    assert!(!locks[1].try_lock().unwrap());
    locks[0].unlock().unwrap();

    let visitors = locks.iter().flat_map(|lock| [lock.clone(), lock.clone()]);
    never_two_inside(visitors, ENTRIES, |lock, inside| {
        lock.lock().unwrap();
        inside();
        lock.unlock().unwrap();
    });
}

pub fn fifo<L: Exclusive>() {
    let clients = [client(), client()];
    let path = fresh_path("fifo");
    let holder = L::at(&clients[0], &path);
    holder.lock().unwrap();
    let mut arrivals = Arrivals::new();
    for number in 0..6 {
        let lock = L::at(&clients[number % 2], &path);
        arrivals.join(move |inside| {
            lock.lock().unwrap();
            inside();
            lock.unlock().unwrap();
        });
        await_nodes(&path, number + 2);
    }
    assert!(arrivals.is_empty(), "in beside the holder");
    holder.unlock().unwrap();
    assert_eq!(arrivals.order(), [0, 1, 2, 3, 4, 5]);
}

/// Timed tries of a busy lock fail, and not before their time.
#[track_caller]
pub fn timed_tries_fail(busy: &impl Lock, timeout: Duration) {
    for timeout in [timeout, Duration::ZERO] {
        let begun = Instant::now();
        let locked = busy.try_lock_for(timeout).unwrap();
        let took = begun.elapsed();
        println!("try_lock_for({timeout:?}): {locked} after {took:?}");
        assert!(!locked && took >= timeout && took < SOON, "{timeout:?}");
    }
    let begun = Instant::now();
    assert!(!busy.try_lock_until(begun + timeout).unwrap());
    assert!(begun.elapsed() >= timeout, "{:?}", begun.elapsed());
}

pub fn times_out<L: Exclusive>() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    let clients = [client(), client()];
    let path = fresh_path("times_out");
    let (holder, other) = (L::at(&clients[0], &path), L::at(&clients[1], &path));
    holder.lock().unwrap();
    let node = hold_of(&holder).node();
    timed_tries_fail(&other, TIMEOUT);
    assert!(!other.try_lock().unwrap());
    assert_eq!(await_nodes(&path, 1), [node]);
    assert!(holder.is_held() && !other.is_held());
    holder.unlock().unwrap();
    assert!(other.try_lock_for(SOON).unwrap());
    other.unlock().unwrap();
    assert!(other.try_lock_for(Duration::MAX).unwrap());
    other.unlock().unwrap();
}

pub fn cleans_up<L: Exclusive>() {
    let client = client();
    let path = fresh_path("cleans_up");
    let lock = L::at(&client, &path);
    lock.lock().unwrap();
    assert_eq!(children(&path).len(), 1);
    lock.unlock().unwrap();
    assert_eq!(children(&path), [""; 0], "after unlock");
    drop(lock.acquire().unwrap());
    assert_eq!(children(&path), [""; 0], "after the drop of a guard");
    L::release(lock.acquire().unwrap()).unwrap();
    assert_eq!(children(&path), [""; 0], "after the release of a guard");

    let holder = L::at(&client, &path);
    let guard = thread::spawn(move || {
        // On a thread of its own, so that the waits below are not for this thread itself.
        holder.lock().unwrap();
        holder
    });
    let holder = guard.join().unwrap();
    let node = children(&path);
    assert!(!lock.try_lock_for(BRIEFLY).unwrap());
    assert_eq!(await_nodes(&path, 1), node, "after a timeout");
    let waiting = lock.clone();
    let waiter = Task::spawn(move || waiting.lock());
    await_nodes(&path, 2);
    lock.cancel_waiters();
    let cancelled = waiter.result("a cancelled waiter");
    println!("cancelled: {cancelled:?}");
    assert_cancelled(&cancelled, &path);
    assert_eq!(await_nodes(&path, 1), node, "after a cancelled wait");
    drop(holder);
    await_nodes(&path, 0);
    assert!(lock.try_lock_for(SOON).unwrap(), "{:?}", client.stats());
    lock.unlock().unwrap();
    await_nothing_left(&client);
}

pub fn survives_cut<L: Exclusive>() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(6));
    let path = fresh_path("survives_cut");
    let lock = L::at(&client, &path);

    lock.lock().unwrap();
    lock.unlock().unwrap();
    proxy.cut();
    lock.lock().unwrap();
    lock.unlock().unwrap();
    println!("cut while idle: {:?}", client.stats());

    let rivals = crate::client();
    let rival = L::at(&rivals, &path);
    rival.lock().unwrap();
    let waiting = lock.clone();
    let waiter = Task::spawn(move || {
        waiting.lock().unwrap();
        let token = hold_of(&waiting).fencing_token();
        waiting.unlock().unwrap();
        token
    });
    let before = await_nodes(&path, 2);
    proxy.cut();
    await_resumed(&client, 2);
    assert_eq!(children(&path), before);
    assert!(!waiter.is_done(), "the rival still holds the lock");
    let token = hold_of(&rival).fencing_token().unwrap();
    rival.unlock().unwrap();
    let later = waiter.result("a waiter after a cut").unwrap();
    println!("cut while waiting: {before:?}; tokens {token}, {later}");
    assert!(later > token);
    await_nodes(&path, 0);
}

pub fn survives_cut_while_held<L: Exclusive>() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(3));
    let path = fresh_path("survives_cut");
    let lock = L::at(&client, &path);

    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let token = hold.fencing_token().unwrap();
    proxy.cut();
    await_resumed(&client, 1);
    assert_eq!(hold.state(), HoldState::Held);
    assert_eq!(hold.fencing_token().unwrap(), token);

    proxy.refuse(true);
    proxy.cut();
    wait_until("suspended", SOON, || hold.state() == HoldState::Suspended);
    assert!(lock.is_held() && hold.is_held());
    let begun = Instant::now();
    let unlocked = lock.unlock();
    println!("unlock while suspended: {unlocked:?}, {:?}", begun.elapsed());
    unlocked.unwrap();
    assert_eq!(hold.state(), HoldState::Released);
    proxy.refuse(false);
    await_nodes(&path, 0);
    lock.lock().unwrap();

    let hold = hold_of(&lock);
    proxy.refuse(true);
    proxy.cut();
    let took = wait_until("lost", SOON, || !lock.is_held());
    let lost = HoldState::Lost(LossReason::LeaseExpired);
    assert_eq!(hold.state(), lost);
    let unlocked = lock.unlock();
    println!("lost {took:?} after the cut; unlock: {unlocked:?}");
    assert_lost(&unlocked, &path, LossReason::LeaseExpired);
    assert_eq!(hold.state(), lost, "a lost hold stays lost");
    proxy.refuse(false);
    assert!(lock.try_lock_for(SOON).unwrap(), "{:?}", client.stats());
    lock.unlock().unwrap();
    await_nodes(&path, 0);
}
