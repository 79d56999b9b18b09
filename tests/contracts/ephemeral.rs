//! `EphemeralLock`, which has no queue: what is in its place, and who is woken by what.

use std::time::Duration;

use crate::every::client;
use common::single::*;
use common::{SESSION, SOON, Task, children, client_of, exists, shared_proxy};
use zoolock::{Client, DistributedLock, EphemeralLock, Error, Result};
use zoolock_test_support::{FaultProxy, Op, Probe, Server, fresh_path, shared_probe, wait_until};

#[track_caller]
fn is_invalid_path<T: std::fmt::Debug>(what: &str, seen: &Result<T>, path: &str) {
    let invalid = matches!(seen, Err(Error::InvalidPath { path: at, reason })
        if at == path && !reason.is_empty());
    assert!(invalid, "{what}: {seen:?}");
}

/// Every way to lock says that the path is no place for this lock.
#[track_caller]
fn refuses_every_call(lock: &EphemeralLock) {
    is_invalid_path("lock", &lock.lock(), lock.path());
    is_invalid_path("try_lock", &lock.try_lock(), lock.path());
    is_invalid_path("try_lock_for", &lock.try_lock_for(SOON), lock.path());
    assert!(!lock.is_held() && lock.hold().is_none());
}

#[test]
fn a_persistent_node_in_its_place_is_an_error_and_not_a_wait() {
    let client = client();
    let path = fresh_path("persistent");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    probe.set(&path, b"of somebody").unwrap();
    let lock = lock_of(&client, &path);
    refuses_every_call(&lock);
    assert_eq!(node_at(&path).unwrap().0, "of somebody");
    is_tidy(&client, SOON);
    probe.delete(&path).unwrap();
    assert!(lock.try_lock().unwrap(), "the object works again");
    lock.unlock().unwrap();
}

#[test]
fn what_becomes_of_its_place_while_a_waiter_makes_its_node_is_seen() {
    let probe = shared_probe().unwrap();
    for is_persistent in [true, false] {
        let above = fresh_path("meanwhile");
        let path = format!("{above}/lock");
        make_parents(&path);
        probe.create(&path, b"", true, false).unwrap();
        let (proxy, client, lock) = counted(&path);
        let waiting = locking(&lock);
        await_looks(&proxy, 1);
        let create = proxy.on(Op::Create).path_contains(&path).hold_request();
        probe.delete(&path).unwrap();
        assert!(create.wait(SOON), "{:#?}", proxy.log());
        match is_persistent {
            true => drop(probe.create(&path, b"", false, false).unwrap()),
            false => probe.delete(&above).unwrap(),
        }
        create.release();
        let seen = waiting.result("the waiter");
        println!("a persistent node: {is_persistent}; {seen:?}");
        match is_persistent {
            true => is_invalid_path("lock", &seen, &path),
            // What is above it is made again.
            false => lock.unlock().unwrap(),
        }
        is_tidy(&client, SOON);
    }
}

#[test]
fn the_path_of_another_lock_is_no_place_for_this_one_and_the_other_way_round() {
    let client = client();
    let path = fresh_path("shared");
    let (directory, single) =
        (DistributedLock::new(&client, &path).unwrap(), lock_of(&client, &path));
    // Held first, the single node stands where the other one's directory should be.
    single.lock().unwrap();
    for (what, seen) in [
        ("lock", directory.lock().map(|()| true)),
        ("try_lock", directory.try_lock()),
        ("try_lock_for", directory.try_lock_for(SOON)),
    ] {
        println!("{what} below a single node: {seen:?}");
        is_invalid_path(what, &seen, &path);
    }
    assert!(single.is_held());
    single.unlock().unwrap();
    // The other way round there is a directory from then on.
    directory.lock().unwrap();
    refuses_every_call(&single);
    directory.unlock().unwrap();
    refuses_every_call(&single);
    assert_eq!(children(&path), [""; 0]);
}

/// A client whose requests are counted, and its lock.
fn counted(path: &str) -> (FaultProxy, Client, EphemeralLock) {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(60));
    let lock = lock_of(&client, path);
    (proxy, client, lock)
}

/// Until the lock's node has been read this often, with a watch: the last thing before a sleep.
fn await_looks(proxy: &FaultProxy, looks: u64) {
    wait_until("it has looked and watches", SOON, || proxy.requests(Op::GetData) >= looks);
}

#[test]
fn a_waiter_is_woken_by_a_release_an_operator_and_the_end_of_a_session() {
    let path = fresh_path("woken");
    let (proxy, _client, lock) = counted(&path);
    let probe = shared_probe().unwrap();
    let mut looks = 0;
    for what in ["release", "deletion by an operator", "close", "expiry", "drop of the last handle"]
    {
        let holders = client();
        let holder = lock_of(&holders, &path);
        let dying = (what == "expiry")
            .then(|| Probe::connect_for(common::shared_address(), SHORT).unwrap());
        match &dying {
            Some(dying) => drop(dying.create(&path, b"somebody", true, false).unwrap()),
            None => holder.lock().unwrap(),
        }
        let waiting = locking(&lock);
        looks += 1;
        await_looks(&proxy, looks);
        assert!(!waiting.is_done(), "entered a held lock");
        match what {
            "release" => holder.unlock().unwrap(),
            "close" => holders.close().unwrap(),
            "expiry" => dying.expect("a probe").abandon(),
            "drop of the last handle" => drop(holder),
            _ => probe.delete(&path).unwrap(),
        }
        waiting.result(what).unwrap();
        println!("{what}: {:?}", lock.hold());
        assert_ne!(stat_of(&path).ephemeral_owner, 0);
        lock.unlock().unwrap();
        assert!(!exists(&path), "{what}");
    }
    // The watch that let it sleep woke it, and nothing else was asked.
    assert_eq!(proxy.requests(Op::GetData), looks);
    let creates = proxy.requests(Op::Create) - 2 * looks;
    assert!(creates <= 2, "{creates} more than one before and one after each wait");
}

#[test]
fn a_node_that_vanishes_between_create_and_look_wakes_and_leaks_no_watch() {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let first = client_of(&server.connect_string(), SESSION);
    let second = client_of(&proxy.connect_string(), SESSION);
    let (holder, lock) = (lock_of(&first, "/lock"), lock_of(&second, "/lock"));
    for answer_too in [false, true].repeat(5) {
        holder.lock().unwrap();
        let look = proxy.on(Op::GetData).path_contains("/lock");
        let held = match answer_too {
            false => look.hold_request(),
            true => look.hold_answer(),
        };
        let waiting = locking(&lock);
        assert!(held.wait(SOON), "{:#?}", proxy.log());
        holder.unlock().unwrap();
        held.release();
        waiting.result("the waiter").unwrap();
        lock.unlock().unwrap();
        let mut seen = String::new();
        wait_until("no watch is left", SOON, || {
            seen = server.four_letter("wchp").unwrap();
            seen.trim().is_empty()
        });
    }
    println!("{:?}", second.stats());
}

#[test]
fn a_change_of_the_nodes_data_lets_nobody_in_and_gives_nobody_more_time() {
    let path = fresh_path("data");
    let holder = lock_of(&client(), &path);
    holder.lock().unwrap();
    let (proxy, _client, lock) = counted(&path);
    let probe = shared_probe().unwrap();
    let waiting = Task::spawn(move || lock.try_lock_for(Duration::from_secs(5)));
    let mut looks = 0;
    wait_until("its time is over", SOON, || {
        if proxy.requests(Op::GetData) > looks {
            looks = proxy.requests(Op::GetData);
            probe.set(&path, b"__REVOKE__").unwrap();
        }
        waiting.is_done()
    });
    let seen = waiting.result("the waiter");
    println!("{seen:?} after {looks} looks");
    assert!(matches!(seen, Ok(false)) && looks > 1, "{seen:?} after {looks} looks");
    assert!(holder.is_held());
    holder.unlock().unwrap();
}
