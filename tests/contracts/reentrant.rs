//! `DistributedReentrantLock`.

use zoolock::{DistributedReentrantLock, Error, HoldState, Lock};
use zoolock_test_support::fresh_path;

use common::basics::{self, hold_of};
use common::{children, client};

#[test]
fn smoke() {
    basics::smoke::<DistributedReentrantLock>();
}

#[test]
fn excludes() {
    basics::excludes::<DistributedReentrantLock>();
}

#[test]
fn fifo() {
    basics::fifo::<DistributedReentrantLock>();
}

#[test]
fn times_out() {
    basics::times_out::<DistributedReentrantLock>();
}

#[test]
fn cleans_up() {
    basics::cleans_up::<DistributedReentrantLock>();
}

#[test]
fn survives_cut() {
    basics::survives_cut::<DistributedReentrantLock>();
}

#[test]
fn survives_cut_while_held() {
    basics::survives_cut_while_held::<DistributedReentrantLock>();
}

#[test]
fn the_node_goes_at_the_outermost_unlock_only() {
    let client = client();
    let path = fresh_path("nested");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    assert_eq!(lock.hold_count(), 0);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let (node, token) = (hold.node(), hold.fencing_token().unwrap());
    let enter: [fn(&DistributedReentrantLock) -> zoolock::Result<bool>; 4] = [
        |lock| lock.lock().map(|()| true),
        |lock| lock.try_lock(),
        |lock| lock.try_lock_for(std::time::Duration::ZERO),
        |lock| lock.try_lock_until(std::time::Instant::now()),
    ];
    for (depth, enter) in (2..).zip(enter) {
        assert!(enter(&lock).unwrap(), "depth {depth}");
        let again = hold_of(&lock);
        assert_eq!(lock.hold_count(), depth);
        assert_eq!(again.node(), node, "depth {depth}");
        assert_eq!(again.fencing_token().unwrap(), token, "depth {depth}");
        assert_eq!(children(&path), [node.as_str()], "depth {depth}");
    }
    for left in (0..5).rev() {
        assert!(lock.is_held(), "{left} left after this unlock");
        assert_eq!(children(&path), [node.as_str()], "{left} left");
        lock.unlock().unwrap();
        assert_eq!(lock.hold_count(), left);
    }
    println!("entered 5 times as {node} with token {token}");
    assert_eq!(children(&path), [""; 0]);
    assert!(!lock.is_held());
    let unlocked = lock.unlock();
    assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
}

#[test]
fn guards_nest_and_may_go_in_any_order() {
    let client = client();
    let path = fresh_path("guards");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    let outer = lock.acquire().unwrap();
    let middle = lock.try_acquire().unwrap().expect("the thread is in");
    let inner = lock.acquire().unwrap();
    assert_eq!(lock.hold_count(), 3);
    assert_eq!([outer.node(), middle.node()], [inner.node(), inner.node()]);
    drop(outer);
    assert_eq!((lock.hold_count(), children(&path).len()), (2, 1));
    assert_eq!(middle.state(), HoldState::Held);
    inner.release().unwrap();
    assert_eq!((lock.hold_count(), children(&path).len()), (1, 1));
    let hold = middle.hold();
    middle.release().unwrap();
    assert_eq!((lock.hold_count(), children(&path).len()), (0, 0));
    assert_eq!(hold.state(), HoldState::Released);
}

#[test]
fn a_hold_is_seen_by_its_thread_only() {
    let client = client();
    let path = fresh_path("seen");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    let _guard = lock.acquire().unwrap();
    let other = lock.clone();
    let seen = std::thread::spawn(move || {
        let seen = (other.is_held(), other.hold_count(), other.holds().len());
        (seen, other.try_lock())
    });
    let (seen, locked) = seen.join().unwrap();
    assert_eq!(seen, (false, 0, 0), "held, count, holds on another thread");
    assert!(matches!(locked, Ok(false)), "{locked:?}");
    assert!(lock.is_held());
}
