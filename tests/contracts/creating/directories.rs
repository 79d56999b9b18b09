//! The directories above a node, and the chroot.

use std::sync::{Arc, Barrier};

use zoolock::{Client, DistributedReentrantLock, Error};
use zoolock_test_support::{connect_string, fresh_path, wait_until};

use common::{SESSION, SOON, Task, children, client, client_of, lock_of, stat};

#[test]
fn makes_the_directories_that_are_missing() {
    let client = client();
    let path = format!("{}/2/3/4/5/6/7/8/9/10", fresh_path("deep"));
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let seen = children(&path);
    println!("{path}: {seen:?}");
    assert_eq!(seen, [lock.hold().unwrap().node()]);
    assert_eq!(stat(&path).ephemeral_owner, 0, "directories are persistent");
    lock.unlock().unwrap();

    let path = format!("{}/2/3/4/5/6/7/8/9/10", fresh_path("deep-try"));
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    assert!(lock.try_lock().unwrap());
    assert_eq!(children(&path), [lock.hold().unwrap().node()]);
    lock.unlock().unwrap();
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn two_clients_may_make_the_same_directories_at_once() {
    const ROUNDS: usize = 20;
    let paths: Vec<String> =
        (0..ROUNDS).map(|_| format!("{}/a/b/c/d", fresh_path("at-once"))).collect();
    let start = Arc::new(Barrier::new(2));
    let work = |client: Client| {
        let (paths, start) = (paths.clone(), Arc::clone(&start));
        Task::spawn(move || -> Vec<(String, Error)> {
            let mut failures = Vec::new();
            for path in paths {
                let lock = lock_of(&client, &path);
                start.wait();
                let seen = lock.lock().and_then(|()| lock.unlock());
                failures.extend(seen.err().map(|error| (path, error)));
            }
            failures
        })
    };
    for task in [work(client()), work(client())] {
        let failures = task.result("all rounds");
        assert!(failures.is_empty(), "{failures:?}");
    }
}

#[test]
fn everything_is_below_the_chroot() {
    let chroot = fresh_path("chroot") + "/made/by/us";
    let hosts = format!("{}{chroot}", connect_string());
    let (first, second) = (client_of(&hosts, SESSION), client_of(&hosts, SESSION));
    let lock = lock_of(&first, "/a/lock");
    assert!(lock.try_lock().unwrap());
    let hold = lock.hold().unwrap();
    println!("{hold:?}");
    assert_eq!(hold.path(), "/a/lock");
    assert_eq!(children(&format!("{chroot}/a/lock")), [hold.node()]);
    println!("token {}", hold.fencing_token().unwrap());

    // Watches are below it, too.
    let next = lock_of(&second, "/a/lock");
    let waiting = {
        let next = next.clone();
        Task::spawn(move || next.lock())
    };
    wait_until("the second is queued", SOON, || children(&format!("{chroot}/a/lock")).len() == 2);
    lock.unlock().unwrap();
    waiting.result("the waiter below the chroot").unwrap();
    next.unlock().unwrap();
    let missing = lock_of(&first, "/zoolock-test");
    missing.lock().unwrap();
    assert_eq!(children(&chroot), ["a", "zoolock-test"]);
    missing.unlock().unwrap();
}
