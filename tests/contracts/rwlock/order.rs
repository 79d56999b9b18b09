//! Who is let in beside whom, and who before whom.

use zoolock::{DistributedLock, DistributedReentrantLock, Error, Lock};

use super::{Stage, would_deadlock};
use common::basics::await_nodes;
use common::{Arrivals, SOON, children};

#[test]
fn readers_of_one_object_and_of_many_clients_are_in_together_and_a_writer_alone() {
    let stage = Stage::new("share", 3);
    let own = stage.lock(0);
    let readers = [
        stage.enters(own.read_lock()),
        stage.enters(own.read_lock()),
        stage.enters(own.read_lock()),
        stage.enters(stage.lock(0).read_lock()),
        stage.enters(stage.lock(1).read_lock()),
        stage.enters(stage.lock(2).read_lock()),
    ];
    let nodes = children(&stage.path);
    println!("{} readers at once: {nodes:#?}", readers.len());
    assert_eq!(nodes.len(), readers.len(), "each has a place of its own");
    assert!(readers.iter().all(super::Visitor::is_in));
    for writer in [own.write_lock(), stage.lock(2).write_lock()] {
        assert!(!writer.try_lock().unwrap());
    }
    let writer = stage.queues(own.write_lock());
    let mut left = readers.len();
    for reader in readers {
        assert!(!writer.is_in(), "beside {left} readers");
        reader.leaves();
        left -= 1;
    }
    writer.comes_in();
    let tries = [
        own.read_lock().try_lock(),
        own.write_lock().try_lock(),
        stage.lock(0).read_lock().try_lock(),
        stage.lock(1).read_lock().try_lock(),
        stage.lock(1).write_lock().try_lock(),
    ];
    println!("beside a writer: {tries:?}");
    assert!(tries.iter().all(|t| matches!(t, Ok(false))), "{tries:?}");
    writer.leaves();
    stage.is_empty();
}

/// Readers that came one after the other are in together, and in no order; a plain lock on the path is
/// a writer, and a reader waits for none that came later.
#[test]
fn readers_between_two_writers_come_in_together_before_the_later_one() {
    let stage = Stage::new("order", 2);
    let holder = stage.lock(0).write_lock();
    holder.lock().unwrap();
    let mut arrivals = Arrivals::new();
    for (number, kind) in "RRWRLWRRR".chars().enumerate() {
        let client = number % 2;
        let lock: Box<dyn Lock> = match kind {
            'R' => stage.lock(client).read_lock().into(),
            'W' => stage.lock(client).write_lock().into(),
            _ => DistributedLock::new(&stage.clients[client], &stage.path).unwrap().into(),
        };
        arrivals.join(move |inside| {
            lock.lock().unwrap();
            inside();
            lock.unlock().unwrap();
        });
        await_nodes(&stage.path, number + 2);
    }
    assert!(arrivals.is_empty(), "in beside the holder");
    holder.unlock().unwrap();
    let mut order = arrivals.order();
    order[..2].sort_unstable();
    order[6..].sort_unstable();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    stage.is_empty();
}

#[test]
fn a_writer_that_gives_up_lets_in_the_readers_behind_it() {
    for nearer_writer_stays in [false, true] {
        let stage = Stage::new("writer-gives-up", 3);
        let first = stage.enters(stage.lock(0).read_lock());
        let staying = nearer_writer_stays.then(|| stage.queues(stage.lock(0).write_lock()));
        let impatient = stage.lock(1).write_lock();
        let writer = stage.queues(impatient.clone());
        let last = stage.queues(stage.lock(2).read_lock());
        let watches = stage.proxy.requests(zoolock_test_support::Op::GetData);
        impatient.cancel_waiters();
        let cancelled = writer.result();
        assert!(matches!(cancelled, Err(Error::Cancelled { .. })), "{cancelled:?}");
        match staying {
            // The reader goes on to the next writer ahead.
            Some(staying) => {
                stage.watches_after(watches);
                assert!(!last.is_in() && !staying.is_in());
                first.leaves();
                staying.comes_in();
                assert!(!last.is_in());
                staying.leaves();
                last.comes_in();
            }
            None => {
                last.comes_in();
                assert!(first.is_in(), "two readers together");
                first.leaves();
            }
        }
        println!("another writer ahead: {nearer_writer_stays}; the reader came in");
        last.leaves();
        stage.is_empty();
    }
}

#[test]
fn writers_are_not_starved_by_readers_that_keep_coming() {
    let stage = Stage::new("starved", 3);
    let mut reader = stage.enters(stage.lock(0).read_lock());
    // Before the writer, readers overlap for as long as they like.
    for round in 1..5 {
        let next = stage.enters(stage.lock(round % 2).read_lock());
        reader.leaves();
        reader = next;
    }
    let writer = stage.queues(stage.lock(2).write_lock());
    let newcomer = stage.lock(0).read_lock();
    assert!(!newcomer.try_lock().unwrap(), "past a writer that waits");
    let others: Vec<_> =
        (0..6).map(|round| stage.queues(stage.lock(round % 2).read_lock())).collect();
    assert!(!writer.is_in() && reader.is_in());
    reader.leaves();
    writer.comes_in();
    let in_before = others.iter().filter(|other| other.is_in()).count();
    println!("{in_before} of {} later readers were let in before it", others.len());
    assert_eq!(in_before, 0);
    writer.leaves();
    for other in &others {
        other.comes_in();
    }
    for other in others {
        other.leaves();
    }
    stage.is_empty();
}

#[test]
fn a_thread_that_holds_a_reentrant_lock_on_the_path_is_told_that_it_waits_for_itself() {
    let stage = Stage::new("mixed-own", 1);
    let own = DistributedReentrantLock::new(&stage.clients[0], &stage.path).unwrap();
    let rw = stage.lock(0);
    own.lock().unwrap();
    let results = [
        rw.read_lock().lock(),
        rw.write_lock().lock(),
        rw.read_lock().try_lock_for(SOON).map(drop),
    ];
    println!("under a reentrant lock: {results:?}");
    for result in &results {
        assert!(would_deadlock(result, &stage.path), "{result:?}");
    }
    assert!(!rw.read_lock().try_lock().unwrap());
    own.unlock().unwrap();
    rw.read_lock().lock().unwrap();
    let under_read = own.lock();
    println!("the reentrant lock under a read: {under_read:?}");
    assert!(would_deadlock(&under_read, &stage.path), "{under_read:?}");
    rw.read_lock().unlock().unwrap();
    stage.is_empty();
}
