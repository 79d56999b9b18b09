//! `DistributedRwLock`: readers share it, a writer has it alone, and all acquire it in order of arrival. Also covers
//! what a thread can do with one side while it, or another thread, holds the other side.

use std::time::Duration;

use zoolock::{DistributedReentrantLock, EphemeralLock, Error, Lock, MultiLock, Wait};

use common::*;

/// Starts a visitor that has to wait, and returns when it watches the node ahead. All clients of the lock use this
/// proxy, and only for the lock.
#[track_caller]
fn queues(proxy: &FaultProxy, lock: impl Into<Box<dyn Lock>>) -> Visitor {
    let lock = lock.into();
    let path = lock.path().to_owned();
    let seen = || (children(&path).len(), proxy.requests(Op::SetWatches));
    let before = seen();
    let visitor = Visitor::start(lock);
    wait_until("it watches the one ahead", SOON, || {
        let now = seen();
        now.0 > before.0 && now.1 > before.1
    });
    assert!(!visitor.is_in(), "let in: {:?}", children(&path));
    visitor
}

#[test]
fn guards_of_both_sides_exclude_as_their_handles_do() {
    let (ours, others, path) = (client(), client(), fresh_path("rw-guards"));
    let [lock, other] = [&ours, &others].map(|client| rw_of(client, &path));
    let short = Duration::from_millis(100);
    let reading = [lock.read().unwrap(), other.try_read().unwrap().expect("beside it")];
    assert!(lock.reader().is_held() && !lock.writer().is_held());
    drop(other.read_within(SOON).unwrap().expect("again"));
    let third = client();
    let third = rw_of(&third, &path);
    assert!(third.try_write().unwrap().is_none());
    assert!(third.write_within(short).unwrap().is_none());
    drop(reading);
    let writing = lock.write().unwrap();
    assert!(other.try_read().unwrap().is_none());
    assert!(other.read_within(short).unwrap().is_none());
    let reading = lock.read().unwrap();
    writing.release().unwrap();
    assert!(reading.is_held() && other.try_write().unwrap().is_none());
}

#[test]
fn read_lasts_as_long_as_a_handle_to_either_side() {
    let (client, path) = (client(), fresh_path("either-side"));
    let lock = rw_of(&client, &path);
    lock.reader().lock().unwrap();
    let write = lock.writer();
    drop(lock);
    assert_eq!(children(&path).len(), 1, "its other side has a handle");
    drop(write);
    await_nodes(&path, 0);
}

#[test]
fn read_behind_a_writer_that_waits_for_the_same_thread_is_an_error() {
    let ((proxy, client), path) = (behind_a_proxy(SOON), fresh_path("read-write-read"));
    let elsewhere = client_of(&proxy.connect_string(), SOON);
    let [lock, other] = [(); 2].map(|()| rw_of(&client, &path));
    let (own, second) = (lock.reader(), other.reader());
    for writes in [&elsewhere, &client] {
        own.lock().unwrap();
        second.lock().unwrap();
        second.unlock().unwrap();
        let writer = queues(&proxy, rw_of(writes, &path).writer());
        for wait in [Wait::within(SOON), Wait::FOREVER] {
            let waited = second.acquire_within(wait.clone());
            println!("{wait:?}: {waited:?}");
            assert!(would_deadlock(&waited, &path), "{waited:?}");
        }
        assert!(!second.try_lock().unwrap());
        // Another thread has to wait behind the writer even though its process holds the read lock.
        let beside = queues(&proxy, other.reader());
        assert!(own.try_lock().unwrap(), "entering again past the writer");
        own.unlock().unwrap();
        own.unlock().unwrap();
        for visitor in [writer, beside] {
            visitor.comes_in();
            visitor.leaves();
        }
        await_nodes(&path, 0);
        [&client, &elsewhere].into_iter().for_each(await_nothing_left);
    }
}

#[test]
fn plain_lock_under_a_lock_of_the_same_thread_is_an_error() {
    let (client, path) = (client(), fresh_path("plain-under"));
    let plain = lock_of(&client, &path);
    let single = EphemeralLock::new(&client, format!("{path}/single")).unwrap();
    let several = MultiLock::new(vec![plain.clone().into()]).unwrap();
    let reentrant = DistributedReentrantLock::new(&client, &path).unwrap();
    let (read, write) = (rw_of(&client, &path).reader(), rw_of(&client, &path).writer());
    let held: [Box<dyn Lock>; 3] = [reentrant.into(), read.into(), write.into()];
    for held in held {
        held.lock().unwrap();
        for lock in [&plain as &dyn Lock, &several] {
            let waited = lock.lock_within(SOON.into());
            println!("{lock:?} under {held:?}: {waited:?}");
            assert!(would_deadlock(&waited, &path), "{waited:?}");
        }
        assert!(!plain.try_lock().unwrap());
        // The `EphemeralLock`'s node is in the directory of the other locks, but not in their queue.
        let taken = single.acquire().unwrap();
        assert!(is_waited_for(single.lock_within(Duration::from_millis(50))));
        taken.release().unwrap();
        held.unlock().unwrap();
    }
    // Any thread may release the plain lock, so waiting for it is not a deadlock.
    plain.lock().unwrap();
    let read = rw_of(&client, &path).reader();
    assert!(is_waited_for(read.lock_within(Duration::from_millis(50))));
    plain.unlock().unwrap();
    await_nodes(&path, 0);
    await_nothing_left(&client);
}

/// Returns whether the lock was busy until the deadline. On a busy machine, the call may be unable to tell in time.
fn is_waited_for(tried: zoolock::Result<bool>) -> bool {
    println!("{tried:?}");
    matches!(tried, Ok(false) | Err(Error::Disconnected { .. }))
}

/// Both readers and writers wait. A release wakes all readers ahead of the next writer together, but a writer alone.
#[test]
fn release_wakes_only_admitted_waiters() {
    const READERS: usize = 12;
    const CLIENTS: usize = 3;
    let (proxy, path) = (shared_proxy(), fresh_path("wakes"));
    let clients = [(); CLIENTS].map(|()| client_of(&proxy.connect_string(), SOON));
    let lock = |client: usize| rw_of(&clients[client], &path);
    let first = Visitor::start(lock(0).writer());
    first.comes_in();
    let second = queues(&proxy, lock(1).writer());
    let mut readers: Vec<_> =
        (0..READERS).map(|number| queues(&proxy, lock(number % CLIENTS).reader())).collect();
    let last = queues(&proxy, lock(2).writer());
    assert_eq!(children(&path).len(), READERS + 3, "each has a node of its own");
    let seen = || (proxy.events(), proxy.requests(Op::GetChildren));
    let mut before = seen();
    let mut costs = |what: &str, [events, lists]: [usize; 2]| {
        let now = seen();
        assert_eq!((now.0 - before.0, now.1 - before.1), (events as u64, lists as u64), "{what}");
        before = now;
    };
    first.leaves();
    second.comes_in();
    // The previous holder sends a list as well, to find out whether the directory that it had created is still in use.
    costs("to the next writer", [1, 2]);
    second.leaves();
    readers.iter().for_each(Visitor::comes_in);
    // For each node, a server sends one event to each client that watches it.
    costs("to all readers", [CLIENTS, READERS]);
    assert!(!last.is_in(), "beside readers");
    // The last writer watches only the nearest reader, so other readers do not wake it when they leave.
    let nearest = readers.pop().unwrap();
    readers.into_iter().for_each(Visitor::leaves);
    assert!(!last.is_in());
    nearest.leaves();
    last.comes_in();
    // The events of each reader's own node, which the reader had watched.
    costs("to the last writer", [READERS, 1]);
    last.leaves();
    await_nodes(&path, 0);
    clients.iter().for_each(await_nothing_left);
}

/// `every` tests the same with several objects of a thread.
#[test]
fn write_under_the_same_threads_read_is_an_error() {
    let (client, path) = (client(), fresh_path("read-write"));
    let lock = rw_of(&client, &path);
    let (read, write) = (lock.reader(), lock.writer());
    let is_told = |when: &str| {
        for wait in [Wait::FOREVER, Wait::within(SOON)] {
            let waited = [
                write.lock_within(wait.clone()),
                write.acquire_within(wait.clone()).map(|it| it.is_some()),
            ];
            println!("{when}: {waited:?}");
            assert!(waited.iter().all(|seen| would_deadlock(seen, &path)), "{when}: {waited:?}");
        }
        assert!(!write.try_lock().unwrap() && !write.lock_within(Duration::ZERO).unwrap());
        assert_eq!((write.hold_count(), write.is_held()), (0, false), "{when}");
    };
    for downgraded in [false, true] {
        if downgraded {
            write.lock().unwrap();
        }
        read.lock().unwrap();
        if downgraded {
            assert!(write.try_lock().unwrap(), "a re-entry");
            write.unlock().unwrap();
            write.unlock().unwrap();
        }
        is_told("alone");
        assert_eq!(await_nodes(&path, 1), [hold_of(&read).node()], "nothing is left");
        // The error is also returned while another thread has left the in-process queue and waits in ZooKeeper.
        let writer = Visitor::start(lock.writer());
        await_nodes(&path, 2);
        is_told("behind another thread");
        assert!(read.try_lock().unwrap(), "entering again past writers");
        read.unlock().unwrap();
        assert!(!writer.is_in());
        read.unlock().unwrap();
        writer.comes_in();
        writer.leaves();
        await_nodes(&path, 0);
    }
    assert_eq!(in_use(&client.stats()), 0);
}

#[test]
fn downgraded_read_has_an_ephemeral_node_and_the_writes_token() {
    let (client, path) = (client(), fresh_path("downgrade-node"));
    let lock = rw_of(&client, &path);
    let (read, write) = (lock.reader(), lock.writer());
    let mut last = 0;
    for asked in ["before the read", "under both", "after the write"] {
        write.lock().unwrap();
        let wrote = hold_of(&write).node();
        let of_write = stat(&format!("{path}/{wrote}"));
        let token = of_write.czxid as u64;
        assert!(asked != "before the read" || hold_of(&write).fencing_token() == token);
        read.lock().unwrap();
        let reads = hold_of(&read).node();
        println!("{wrote}\n{reads}, asked {asked}");
        assert_eq!(place(&wrote), place(&reads));
        assert!(wrote[40..].starts_with("__WRIT__") && reads[40..].starts_with("__READ__"));
        assert_eq!((wrote.len(), reads.len()), (58, 58));
        assert_ne!(wrote[..39], reads[..39], "a new id for every create");
        let owner = stat(&format!("{path}/{reads}")).ephemeral_owner;
        assert!(owner != 0 && owner == of_write.ephemeral_owner, "{owner:x}");
        if asked == "under both" {
            let tokens = [hold_of(&read), hold_of(&write)].map(|hold| hold.fencing_token());
            assert!(tokens == [token; 2]);
        }
        write.unlock().unwrap();
        assert_eq!((hold_of(&read).node(), hold_of(&read).fencing_token()), (reads, token));
        assert!(token > last);
        last = token;
        read.unlock().unwrap();
    }
    read.lock().unwrap();
    assert!(hold_of(&read).fencing_token() > last, "one of its own");
    read.unlock().unwrap();
}

#[test]
fn downgrade_costs_a_node_and_a_list_and_nesting_costs_nothing() {
    let ((proxy, client), path) = (behind_a_proxy(SOON), fresh_path("cost"));
    let lock = rw_of(&client, &path);
    let (read, write) = (lock.reader(), lock.writer());
    let costs = |what: &str, [list, delete, transaction]: [u64; 3], step: &dyn Fn()| {
        assert_eq!(cost(&proxy, step), [0, delete, list, 0, transaction], "{what}");
    };
    read.lock().unwrap();
    costs("a write that is tried under a read", [1, 0, 0], &|| {
        assert!(!write.try_lock().unwrap());
    });
    read.unlock().unwrap();
    write.lock().unwrap();
    // A transaction creates the node of the read.
    costs("a read under a write", [1, 0, 1], &|| read.lock().unwrap());
    read.unlock().unwrap();
    costs("and one more", [1, 0, 1], &|| read.lock().unwrap());
    costs("entering both again, and the token of both", [0; 3], &|| {
        write.lock().unwrap();
        read.lock().unwrap();
        assert!(write.try_lock().unwrap());
        (0..2).for_each(|_| write.unlock().unwrap());
        read.unlock().unwrap();
        assert_eq!(hold_of(&read).fencing_token(), hold_of(&write).fencing_token());
    });
    costs("unlocking both", [0, 2, 0], &|| {
        write.unlock().unwrap();
        read.unlock().unwrap();
    });
    assert_eq!(children(&path), [""; 0]);
    await_nothing_left(&client);
}
