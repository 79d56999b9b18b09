//! Waiting with a deadline, which covers everything that a call does.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zoolock::Error;

use super::*;
use common::in_time;

/// How late a call with a deadline may be.
const SLACK: Duration = Duration::from_secs(1);

/// Waits for 1 s for a lock and returns within 2 s.
fn within_its_time(what: &str, lock: &DistributedLock) -> zoolock::Result<bool> {
    let timeout = Duration::from_secs(1);
    in_time(what, timeout + SLACK, || lock.try_lock_for(timeout))
}

fn is_disconnected(what: &str, seen: &zoolock::Result<bool>) {
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{what}: {seen:?}");
}

#[test]
fn times_out_when_the_server_is_paused_stopped_or_gone() {
    let server = Server::start().unwrap();
    let session = Duration::from_secs(3);
    let client = client_of(&server.connect_string(), session);
    let lock = lock_of(&client, "/lock");
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();

    server.pause().unwrap();
    is_disconnected("paused", &within_its_time("paused", &lock));
    let what = "paused, try_lock";
    is_disconnected(what, &in_time(what, session / 3 + SLACK, || lock.try_lock()));
    server.resume().unwrap();
    assert!(lock.try_lock_for(SOON).unwrap(), "it comes back");
    lock.unlock().unwrap();

    // Seen ahead before, but nobody knows at the deadline.
    let other = lock_of(&client, "/lock");
    lock.lock().unwrap();
    let patience = Duration::from_secs(5);
    let what = "killed while waiting";
    let call = move || in_time(what, patience + SLACK, || other.try_lock_for(patience));
    let task = Task::spawn(call);
    wait_until("it is queued", SOON, || common::in_use(&client.stats()) == 2);
    server.kill().unwrap();
    is_disconnected(what, &task.result(what));
    is_disconnected("killed", &within_its_time("killed", &lock_of(&client, "/lock")));
    is_disconnected("killed, try_lock", &lock_of(&client, "/lock").try_lock());
    wait_until("the session is given up", SOON, || client.state() == ClientState::Lost);
    is_disconnected("gone", &within_its_time("gone", &lock_of(&client, "/lock")));
    // A deadline that the clock cannot hold, cancelled.
    let lock = lock_of(&client, "/lock");
    let cancelled = {
        let lock = lock.clone();
        Task::spawn(move || lock.try_lock_for(Duration::MAX))
    };
    wait_until("the call waits", SOON, || {
        lock.cancel_waiters();
        cancelled.is_done()
    });
    let seen = cancelled.result("cancelled without a server");
    assert!(matches!(seen, Err(Error::Cancelled { .. })), "{seen:?}");
}

#[test]
fn times_out_in_a_black_hole() {
    let path = fresh_path("black-hole");
    for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let lock = lock_of(&client, &path);
        proxy.black_hole(direction);
        let what = format!("{direction:?}");
        is_disconnected(&what, &within_its_time(&what, &lock));
        proxy.restore();
        assert!(lock.try_lock_for(SOON).unwrap(), "it comes back");
        lock.unlock().unwrap();
        wait_for_queue(&path, 0);
    }
}

#[test]
fn times_out_as_busy_behind_a_holder_and_cleans_up() {
    let path = fresh_path("busy");
    let (_first, ahead) = holder(&path);
    let second = client();
    let behind = lock_of(&second, &path);
    assert!(!within_its_time("held by another client", &behind).unwrap());
    wait_for_queue(&path, 1);
    assert!(!behind.try_lock().unwrap());
    assert!(!behind.try_lock_for(Duration::ZERO).unwrap());
    assert!(!behind.try_lock_until(Instant::now()).unwrap());
    assert_eq!(children(&path), [ahead.hold().unwrap().node()]);
    // On one object, in this process.
    assert!(!within_its_time("held by the object", &ahead).unwrap());
    assert!(!ahead.try_lock().unwrap());
    ahead.unlock().unwrap();
    assert!(behind.try_lock().unwrap());
    behind.unlock().unwrap();
}

#[test]
fn times_out_under_churn_of_predecessors() {
    let path = fresh_path("churn");
    let (_first, _ahead) = holder(&path);
    let probe = shared_probe().unwrap();
    let many: Vec<String> = (0..900)
        .map(|_| probe.create(&format!("{path}/lock-"), b"", true, true).unwrap())
        .collect();
    let second = client();
    let behind = lock_of(&second, &path);
    let over = Arc::new(AtomicBool::new(false));
    let churn = {
        let over = Arc::clone(&over);
        Task::spawn(move || {
            // The one just ahead goes, again and again.
            let goes = many.iter().rev().take_while(|node| {
                thread::sleep(Duration::from_millis(3));
                probe.delete(node).unwrap();
                !over.load(Ordering::SeqCst)
            });
            goes.count()
        })
    };
    let seen = within_its_time("churn", &behind);
    over.store(true, Ordering::SeqCst);
    let gone = churn.result("the churn");
    println!("{gone} predecessors went, {:?}", second.stats());
    assert!(!seen.unwrap());
    wait_until("its node is gone", SOON, || {
        let ours = children(&path).into_iter();
        ours.filter(|name| name.starts_with("_c_")).count() == 1
    });
}
