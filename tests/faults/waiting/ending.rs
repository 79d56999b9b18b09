//! Waiting that others end: `cancel_waiters()` and `Client::close()`.

use std::time::Instant;

use zoolock::{DistributedReentrantLock, Error};

use super::*;

fn is_cancelled(seen: &zoolock::Result<()>) {
    assert!(matches!(seen, Err(error) if error.is_cancelled()), "{seen:?}");
}

#[test]
fn cancel_wakes_all_waiters_of_the_object_and_poisons_nothing() {
    let path = fresh_path("cancel");
    let (_first, ahead) = holder(&path);
    let second = client();
    let behind = lock_of(&second, &path);
    let other = lock_of(&second, &path);
    // One of them is in the queue, the others wait for it in this process.
    let tasks: Vec<_> = (0..3).map(|_| locking(&behind)).collect();
    let bystander = locking(&other);
    let before = wait_for_queue(&path, 3);
    wait_until("all are cancelled", SOON, || {
        // A thread may still be on its way to the call.
        behind.cancel_waiters();
        tasks.iter().all(Task::is_done)
    });
    for task in &tasks {
        is_cancelled(&task.result("a cancelled waiter"));
    }
    let after = wait_for_queue(&path, 2);
    println!("{before:?} became {after:?}");
    assert!(!bystander.is_done(), "another object is not affected");
    assert!(ahead.is_held(), "the holder is not affected");
    // Cancelling where nobody waits does nothing to later calls.
    behind.cancel_waiters();
    let later = locking(&behind);
    wait_for_queue(&path, 3);
    assert!(!later.is_done());
    ahead.cancel_waiters();
    assert!(ahead.is_held(), "the holder is not affected");
    ahead.unlock().unwrap();
    bystander.result("the bystander").unwrap();
    other.unlock().unwrap();
    later.result("a later call").unwrap();
    behind.unlock().unwrap();
    wait_for_queue(&path, 0);
}

#[test]
fn cancel_wakes_the_waiters_of_a_reentrant_lock_and_not_its_owner() {
    let path = fresh_path("cancel-reentrant");
    let client = client();
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    let guard = lock.acquire().unwrap();
    let waiting = {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    wait_until("the waiter is cancelled", SOON, || {
        lock.cancel_waiters();
        waiting.is_done()
    });
    is_cancelled(&waiting.result("the waiter"));
    assert!(guard.is_held());
    lock.lock().unwrap();
    assert_eq!(lock.hold_count(), 2);
    lock.unlock().unwrap();
    drop(guard);
    assert!(lock.try_lock().unwrap());
    lock.unlock().unwrap();
}

#[test]
fn cancel_wakes_a_waiter_without_a_connection() {
    let path = fresh_path("cancel-disconnected");
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let lock = lock_of(&client, &path);
    proxy.refuse(true);
    proxy.cut();
    wait_until("the connection is gone", SOON, || client.state() != ClientState::Connected);
    let waiting = locking(&lock);
    wait_until("the call waits", SOON, || common::in_use(&client.stats()) == 1);
    lock.cancel_waiters();
    is_cancelled(&waiting.result("the waiter"));
    proxy.restore();
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
}

#[test]
fn close_ends_every_wait() {
    let path = fresh_path("close");
    let (_first, ahead) = holder(&path);
    let proxy = shared_proxy();
    let connected = client();
    // Its close() takes a session timeout.
    let disconnected = client_of(&proxy.connect_string(), Duration::from_secs(3));
    proxy.refuse(true);
    proxy.cut();
    for (client, nodes) in [(connected, 2), (disconnected, 1)] {
        let lock = lock_of(&client, &path);
        // In the queue or without a connection; and behind that one in this process.
        let tasks: Vec<_> = (0..2).map(|_| locking(&lock)).collect();
        wait_until("one waits", SOON, || common::in_use(&client.stats()) == 1);
        wait_for_queue(&path, nodes);
        let begun = Instant::now();
        let closing = Task::spawn(move || client.close());
        for task in tasks {
            let seen = task.result("a waiter of a closed client");
            assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
        }
        let took = begun.elapsed();
        println!("woken within {took:?}");
        assert!(!closing.is_done() || nodes == 2, "only woken by the end of close()");
        println!("close(): {:?} after {:?}", closing.result("close()"), begun.elapsed());
        wait_for_queue(&path, 1);
    }
    ahead.unlock().unwrap();
}

#[test]
fn close_at_any_moment_of_a_call_is_closed() {
    const ROUNDS: u64 = 60;
    let path = fresh_path("close-any-moment");
    let (_first, ahead) = holder(&path);
    for round in 0..ROUNDS {
        let client = client();
        let locks = [lock_of(&client, &path), lock_of(&client, &path)];
        let before = client.stats().requests;
        let [waiting, trying] = locks;
        let tasks = [
            Task::spawn(move || waiting.lock()),
            Task::spawn(move || trying.try_lock_for(SOON).map(drop)),
        ];
        // Somewhere between the first request and the wait.
        wait_until("requests are sent", SOON, || client.stats().requests >= before + round % 6);
        client.close().unwrap();
        for task in tasks {
            let seen = task.result("a call of a closed client");
            assert!(matches!(seen, Err(Error::Closed)), "round {round}: {seen:?}");
        }
    }
    wait_for_queue(&path, 1);
    ahead.unlock().unwrap();
}
