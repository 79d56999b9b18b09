//! When it is removed, by which kind of lock, and what that costs.

use std::io::ErrorKind;

use zoolock::{
    DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, Error, Kind, LockOptions,
};
use zoolock_test_support::{Probe, fresh_path, shared_probe};

use super::{cycle, is_gone, is_there, tidy, tidy_lock};
use crate::lock::core::{await_nodes, hold_of};
use crate::util::{Task, children, client, exists, lock_of, packets, quiet_server};

#[test]
fn the_release_that_leaves_it_empty_removes_it_and_nothing_above_it() {
    let client = client();
    let root = fresh_path("removed");
    let at = |name: &str| format!("{root}/a/b/{name}");
    let any = tidy_lock(&client, &at("any"));
    let own = DistributedReentrantLock::with(&client, at("own"), tidy()).unwrap();
    let rw = DistributedRwLock::with(&client, at("rw"), tidy()).unwrap();
    for round in 0..3 {
        cycle(&any);
        assert!(any.try_lock().unwrap());
        is_there(&at("any"));
        any.unlock().unwrap();
        is_gone(&at("any"));

        let (outer, inner) = (own.acquire().unwrap(), own.acquire().unwrap());
        inner.release().unwrap();
        is_there(&at("own"));
        outer.release().unwrap();
        is_gone(&at("own"));

        rw.read_lock().acquire().unwrap().release().unwrap();
        is_gone(&at("rw"));
        let write = rw.write_lock().acquire().unwrap();
        let read = rw.read_lock().acquire().unwrap();
        write.release().unwrap();
        is_there(&at("rw"));
        read.release().unwrap();
        is_gone(&at("rw"));
        println!("round {round}: {:?} is left", children(&format!("{root}/a/b")));
        is_there(&format!("{root}/a/b"));
    }
    assert_eq!(client.stats().seats_lost, 0);
}

#[test]
fn a_guard_that_is_dropped_removes_it_too() {
    let client = client();
    let path = fresh_path("dropped");
    drop(tidy_lock(&client, &path).acquire().unwrap());
    is_gone(&path);
}

#[test]
fn it_stays_without_the_option() {
    let client = client();
    let path = fresh_path("stays");
    cycle(&lock_of(&client, &path));
    is_there(&path);
    cycle(&DistributedLock::with(&client, &path, LockOptions::new()).unwrap());
    let off = tidy().remove_empty_directory(false);
    cycle(&DistributedLock::with(&client, &path, off).unwrap());
    is_there(&path);
}

#[test]
fn it_stays_while_others_wait_and_the_last_one_with_the_option_removes_it() {
    let clients = [client(), client()];
    for tidy_waiter in [true, false] {
        let path = fresh_path("waited-for");
        let holder = tidy_lock(&clients[0], &path);
        holder.lock().unwrap();
        let waiting = match tidy_waiter {
            true => tidy_lock(&clients[1], &path),
            false => lock_of(&clients[1], &path),
        };
        let locks = waiting.clone();
        let waiter = Task::spawn(move || locks.lock());
        await_nodes(&path, 2);
        holder.unlock().unwrap();
        waiter.result("the waiter").unwrap();
        assert_eq!(children(&path), [hold_of(&waiting).node()]);
        waiting.unlock().unwrap();
        println!("a waiter with the option {tidy_waiter}: {}", exists(&path));
        assert_eq!(exists(&path), !tidy_waiter);
    }
}

#[test]
fn an_operators_child_keeps_it_until_it_is_taken_away() {
    let client = client();
    let path = fresh_path("operator");
    let probe = shared_probe().unwrap();
    let lock = tidy_lock(&client, &path);
    lock.lock().unwrap();
    let notes = format!("{path}/notes");
    probe.create(&notes, b"", false, false).unwrap();
    lock.unlock().unwrap();
    assert_eq!(children(&path), ["notes"]);
    cycle(&lock);
    assert_eq!(children(&path), ["notes"]);
    probe.delete(&notes).unwrap();
    cycle(&lock);
    is_gone(&path);
}

#[test]
fn a_single_node_lock_ignores_it() {
    let client = client();
    let root = fresh_path("single");
    let path = format!("{root}/a/lock");
    let lock = EphemeralLock::with(&client, &path, tidy()).unwrap();
    for _ in 0..2 {
        lock.lock().unwrap();
        lock.unlock().unwrap();
        is_gone(&path);
        assert_eq!(children(&format!("{root}/a")), [""; 0]);
        is_there(&format!("{root}/a"));
    }
}

#[test]
fn a_semaphore_removes_all_that_it_made() {
    let clients = [client(), client()];
    let root = fresh_path("semaphore");
    let path = format!("{root}/a");
    let semaphores = clients
        .each_ref()
        .map(|client| DistributedSemaphore::with(client, &path, 3, tidy()).unwrap());
    for round in 0..2 {
        let first = semaphores[0].acquire(2).unwrap();
        let second = semaphores[1].try_acquire(1).unwrap().expect("one is free");
        first.release().unwrap();
        is_there(&format!("{path}/leases"));
        second.release().unwrap();
        println!("round {round}: {:?} is left of {root}", children(&root));
        is_gone(&path);
        is_there(&root);
        drop(semaphores[1].try_acquire(3).unwrap().expect("all are free"));
        is_gone(&path);
    }
    // Whoever waits for the turn keeps all of it.
    let all = semaphores[0].acquire(3).unwrap();
    let waiting = semaphores[1].clone();
    let waiter = Task::spawn(move || waiting.acquire(3)?.release());
    await_nodes(&format!("{path}/leases"), 6);
    all.release().unwrap();
    waiter.result("the waiter").unwrap();
    is_gone(&path);
    // And an operator its path.
    let permits = semaphores[0].acquire(1).unwrap();
    let notes = format!("{path}/notes");
    let probe = shared_probe().unwrap();
    probe.create(&notes, b"", false, false).unwrap();
    permits.release().unwrap();
    assert_eq!(children(&path), ["notes"]);
    let plain = DistributedSemaphore::new(&clients[0], &path, 3).unwrap();
    drop(plain.acquire(1).unwrap());
    assert_eq!(children(&path), ["leases", "locks", "notes"]);
}

#[test]
fn it_costs_two_requests_a_release() {
    let (server, client) = quiet_server();
    let probe = Probe::connect(server.address()).unwrap();
    let cost = |lock: &DistributedLock| packets(&server, || cycle(lock));
    let alone = tidy_lock(&client, "/alone");
    let own = tidy_lock(&client, "/own");
    own.lock().unwrap();
    probe.create("/own/keeps", b"", false, false).unwrap();
    own.unlock().unwrap();
    probe.create("/others", b"", false, false).unwrap();
    probe.create("/others/keeps", b"", false, false).unwrap();
    let others = tidy_lock(&client, "/others");
    let (alone, own, others) = (cost(&alone), cost(&own), cost(&others));
    println!("made and removed each time {alone}, own that stays {own}, others' {others}");
    // Refused create, directory, create, list, delete, ACL, directory.
    assert_eq!(alone, 7);
    // Create, list, delete, ACL, and the directory where the ACL is ours.
    assert_eq!(own, 5);
    assert!((4..=5).contains(&others), "{others}");
}

#[test]
fn contenders_of_a_removed_directory_are_none() {
    let client = client();
    let path = fresh_path("nobody");
    let lock = tidy_lock(&client, &path);
    lock.lock().unwrap();
    let seen = lock.contenders().unwrap();
    println!("{seen:?}");
    assert_eq!((seen.len(), seen[0].kind), (1, Kind::Exclusive));
    lock.unlock().unwrap();
    assert_eq!(lock.contenders().unwrap(), []);
    let gone = shared_probe().unwrap().children(&path);
    let kind = gone.map_err(|error| error.kind());
    assert_eq!(kind, Err(ErrorKind::NotFound));
    let revoked = client.revoke(&seen[0]);
    assert!(matches!(revoked, Err(Error::NotHeld { .. })), "{revoked:?}");
}
