//! Calls at the wrong time, by the wrong thread, or with odd timeouts.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    ClientState, DistributedLock, DistributedReentrantLock, Error, HoldState, LossReason,
};
use zoolock_test_support::fresh_path;

use common::{children, client};

#[test]
fn unlock_without_lock_is_not_held() {
    let client = client();
    let path = fresh_path("not-held");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let reentrant = DistributedReentrantLock::new(&client, &path).unwrap();
    let not_held = |seen: zoolock::Result<()>| {
        assert!(matches!(&seen, Err(Error::NotHeld { path: at }) if *at == path), "{seen:?}");
    };
    not_held(lock.unlock());
    not_held(reentrant.unlock());
    lock.lock().unwrap();
    not_held(DistributedLock::new(&client, &path).unwrap().unlock());
    not_held(reentrant.unlock());
    lock.unlock().unwrap();
    not_held(lock.unlock());
    reentrant.lock().unwrap();
    reentrant.lock().unwrap();
    reentrant.unlock().unwrap();
    reentrant.unlock().unwrap();
    not_held(reentrant.unlock());
    assert!(lock.try_lock().unwrap(), "nothing was broken by it");
    lock.unlock().unwrap();
}

#[test]
fn unlock_by_another_thread_is_for_the_plain_lock_only() {
    let client = client();
    let path = fresh_path("other-thread");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let reentrant = DistributedReentrantLock::new(&client, &path).unwrap();
    let me = thread::current().id();
    reentrant.lock().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let seen = reentrant.unlock();
            println!("{seen:?}");
            let mine = matches!(&seen, Err(Error::NotOwner { path: at, owner })
                if *at == path && *owner == me);
            assert!(mine, "{seen:?}");
            assert!(!reentrant.is_held());
            assert_eq!(reentrant.hold_count(), 0);
        });
    });
    assert!(reentrant.is_held());
    reentrant.unlock().unwrap();
    lock.lock().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| lock.unlock().unwrap());
    });
    assert!(!lock.is_held());
    assert_eq!(children(&path), [""; 0]);
}

fn is_closed(what: &str, seen: zoolock::Result<()>) {
    assert!(matches!(seen, Err(Error::Closed)), "{what}: {seen:?}");
}

/// Every method that both lock types have.
macro_rules! every_method_is_closed {
    ($lock:expr) => {
        let (lock, short) = ($lock, Duration::from_millis(100));
        let soon = Instant::now() + short;
        is_closed("lock", lock.lock());
        is_closed("try_lock", lock.try_lock().map(drop));
        is_closed("try_lock_for", lock.try_lock_for(short).map(drop));
        is_closed("try_lock_until", lock.try_lock_until(soon).map(drop));
        is_closed("acquire", lock.acquire().map(drop));
        is_closed("try_acquire", lock.try_acquire().map(drop));
        is_closed("try_acquire_for", lock.try_acquire_for(short).map(drop));
        is_closed("try_acquire_until", lock.try_acquire_until(soon).map(drop));
        is_closed("unlock", lock.unlock());
        lock.cancel_waiters();
        assert!(!lock.is_held());
        assert!(lock.hold().is_none(), "{:?}", lock.hold());
    };
}

#[test]
fn use_after_close_is_closed() {
    let client = client();
    let path = fresh_path("closed");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let reentrant = DistributedReentrantLock::new(&client, format!("{path}/r")).unwrap();
    client.close().unwrap();
    every_method_is_closed!(&lock);
    every_method_is_closed!(&reentrant);
    assert_eq!(reentrant.hold_count(), 0);
    assert_eq!(client.state(), ClientState::Closed);
    println!("{client:?} {:?} {:?}", client.stats(), client.session_timeout());
    client.close().unwrap();
    client.clone().close().unwrap();
    // A path is still checked first.
    let seen = DistributedLock::new(&client, "nonsense").map(drop);
    assert!(matches!(seen, Err(Error::InvalidPath { .. })), "{seen:?}");
}

#[test]
fn a_hold_open_at_close_is_lost_once_and_then_closed() {
    let client = client();
    let path = fresh_path("closed-held");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let nest = DistributedReentrantLock::new(&client, format!("{path}/n")).unwrap();
    let guarded = DistributedLock::new(&client, format!("{path}/g")).unwrap();
    lock.lock().unwrap();
    nest.lock().unwrap();
    nest.lock().unwrap();
    let guard = guarded.acquire().unwrap();
    let hold = lock.hold().unwrap();
    client.close().unwrap();
    assert_eq!(hold.state(), HoldState::Lost(LossReason::ClientClosed));
    assert!(!hold.is_held() && !lock.is_held() && !nest.is_held());
    assert_eq!(hold.valid_for(), Duration::ZERO);
    let lost = |seen: zoolock::Result<()>| {
        let reason = LossReason::ClientClosed;
        let lost = matches!(&seen, Err(Error::Lost { reason: why, .. }) if *why == reason);
        assert!(lost, "{seen:?}");
    };
    lost(lock.unlock());
    lost(nest.unlock());
    lost(nest.unlock());
    lost(guard.release());
    every_method_is_closed!(&lock);
    every_method_is_closed!(&nest);
    every_method_is_closed!(&guarded);
}

#[test]
fn timeouts_of_every_size_are_taken() {
    let client = client();
    let lock = DistributedLock::new(&client, fresh_path("sizes")).unwrap();
    let past = Instant::now().checked_sub(Duration::from_secs(1));
    for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        // A nanosecond is over before an answer can come.
        let seen = lock.try_lock_for(timeout);
        println!("{timeout:?}: {seen:?}");
        match seen {
            Ok(true) => lock.unlock().unwrap(),
            Err(Error::Disconnected { .. }) if timeout == Duration::from_nanos(1) => {}
            seen => panic!("{timeout:?}: {seen:?}"),
        }
    }
    if let Some(past) = past {
        assert!(lock.try_lock_until(past).unwrap(), "free: as try_lock()");
        lock.unlock().unwrap();
    }
    let guard = lock.try_acquire_for(Duration::MAX).unwrap();
    drop(guard.expect("free"));
}
