//! Queues: of locks of any kind, and of single nodes, which have only a holder.

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, Hold, Kind, Result,
};
use zoolock_test_support::{fresh_path, shared_probe};

use super::{client_called, holding, identities, kinds, look};
use common::basics::{Exclusive, await_nodes};
use common::{Task, children, client};

/// Locks and unlocks on a thread of its own; returns when its node is there.
fn queued<L: Exclusive>(client: &Client, path: &str) -> Task<Result<()>> {
    let before = children(path).len();
    let lock = L::at(client, path);
    let task = Task::spawn(move || lock.lock().and_then(|()| lock.unlock()));
    await_nodes(path, before + 1);
    task
}

#[test]
fn a_nested_hold_and_local_waiters_are_one_contender() {
    let client = client();
    let path = fresh_path("nested");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    lock.lock().unwrap();
    let other = lock.clone();
    let waiter = Task::spawn(move || other.lock().and_then(|()| other.unlock()));
    let seen = look("two entries and a local waiter", lock.contenders());
    assert_eq!(holding(&seen), [true]);
    lock.unlock().unwrap();
    assert_eq!(lock.contenders().unwrap(), seen);
    lock.unlock().unwrap();
    waiter.result("the local waiter").unwrap();
}

#[test]
fn a_read_under_its_write_has_its_place_and_its_token_and_both_hold() {
    let (own, others) = (client_called("own"), client_called("others"));
    let path = fresh_path("rw");
    let lock = DistributedRwLock::new(&own, &path).unwrap();
    let write = lock.write_lock().acquire().unwrap();
    let waits = |read: bool| {
        let before = children(&path).len();
        let lock = DistributedRwLock::new(&others, &path).unwrap();
        let task = Task::spawn(move || match read {
            true => lock.read_lock().acquire()?.release(),
            false => lock.write_lock().acquire()?.release(),
        });
        await_nodes(&path, before + 1);
        task
    };
    let waiters = [waits(true), waits(false), waits(true)];
    let token = write.fencing_token().unwrap();
    let read = lock.read_lock().acquire().unwrap();

    let seen = look("write, read under it", lock.read_lock().contenders());
    assert_eq!(seen, lock.write_lock().contenders().unwrap());
    assert_eq!(seen, others.contenders(&path).unwrap());
    assert_eq!(holding(&seen), [true, true, false, false, false]);
    assert_eq!(seen[0].sequence, seen[1].sequence, "one place");
    let places: Vec<_> = seen.iter().map(|c| c.sequence.unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(read.fencing_token().unwrap(), token);
    for hold in [&*write, &*read] {
        let own = seen.iter().find(|c| c.node == hold.node()).unwrap();
        assert_eq!((own.token, own.holds), (token, true), "{own:?}");
        assert_eq!(own.identity.as_deref(), Some("own"));
    }
    let shown = |hold: &Hold| seen.iter().find(|c| c.node == hold.node()).unwrap().kind;
    assert_eq!((shown(&write), shown(&read)), (Kind::Write, Kind::Read));
    assert_eq!(kinds(&seen)[2..], [Kind::Read, Kind::Write, Kind::Read]);

    write.release().unwrap();
    let seen = look("after the write", others.contenders(&path));
    // The reader behind the write enters, and leaves, by itself.
    assert_eq!((seen[0].kind, seen[0].holds), (Kind::Read, true));
    let writer = seen.iter().find(|c| c.kind == Kind::Write).unwrap();
    assert!(!writer.holds && !seen.last().unwrap().holds, "behind the read");
    read.release().unwrap();
    for waiter in waiters {
        waiter.result("a waiter").unwrap();
    }
}

#[test]
fn a_read_under_a_write_whose_token_nobody_asked_for_is_shown_with_it_too() {
    let client = client();
    let lock = DistributedRwLock::new(&client, fresh_path("rw-token")).unwrap();
    let write = lock.write_lock().acquire().unwrap();
    let read = lock.read_lock().acquire().unwrap();
    let seen = look("write, read under it", lock.read_lock().contenders());
    let tokens: Vec<_> = seen.iter().map(|contender| contender.token).collect();
    let holds = [&write, &read].map(|hold| hold.fencing_token().unwrap());
    println!("shown {tokens:?}, held {holds:?}");
    assert_eq!(tokens, holds);
}

#[test]
fn readers_hold_together_and_a_plain_lock_beside_them_waits() {
    let clients = [client(), client()];
    let path = fresh_path("readers");
    let locks = clients.each_ref().map(|client| {
        let lock = DistributedRwLock::new(client, &path).unwrap();
        lock.read_lock()
    });
    let reads = locks.each_ref().map(|lock| lock.acquire().unwrap());
    let waiter = queued::<DistributedLock>(&clients[0], &path);
    let seen = look("two reads, one exclusive", clients[1].contenders(&path));
    assert_eq!(holding(&seen), [true, true, false]);
    assert_eq!(kinds(&seen), [Kind::Read, Kind::Read, Kind::Exclusive]);
    for (read, contender) in reads.iter().zip(&seen) {
        assert_eq!(read.fencing_token().unwrap(), contender.token);
    }
    for read in reads {
        read.release().unwrap();
    }
    waiter.result("the waiter").unwrap();
}

#[test]
fn a_single_node_of_somebody_else_says_what_its_data_say() {
    let client = client();
    let path = fresh_path("leader");
    let probe = shared_probe().unwrap();
    probe.create_all("/zoolock-test").unwrap();
    for (data, identity) in [
        (&b"worker-7"[..], Some("worker-7")),
        (b"worker 7", Some("worker 7")),
        (b"", Some("")),
        (b"\xff\xfe", None),
        (b"__REVOKE__", None),
    ] {
        probe.create(&path, data, true, false).unwrap();
        let seen = look("somebody's", client.contenders(&path));
        assert_eq!(identities(&seen), [identity], "{data:?}");
        assert_eq!((seen[0].holds, seen[0].kind), (true, Kind::Exclusive));
        assert_eq!(seen[0].session, probe.session_id());
        probe.delete(&path).unwrap();
    }
}
