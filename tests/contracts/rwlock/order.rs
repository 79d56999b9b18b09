//! Who is let in beside whom, and who before whom.

use std::time::Duration;

use zoolock::{DistributedLock, DistributedReentrantLock, Error, Kind};

use super::{Stage, would_deadlock};
use common::basics::hold_of;
use common::{SOON, Task, children, place};

/// Time enough for the answers that a call needs.
const TIMEOUT: Duration = Duration::from_millis(500);

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
        assert!(!writer.try_lock_for(TIMEOUT).unwrap());
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

/// Scenario 12.
#[test]
fn a_reader_between_two_writers_ignores_the_later_one() {
    let stage = Stage::new("w1-r2-w3", 3);
    let first = stage.enters(stage.lock(0).write_lock());
    let reader = stage.queues(stage.lock(1).read_lock());
    let last = stage.queues(stage.lock(2).write_lock());
    first.leaves();
    reader.comes_in();
    let nodes = children(&stage.path);
    println!("the reader is in, and there are {nodes:?}");
    assert!(nodes.iter().any(|node| node.contains("__WRIT__")));
    assert!(!last.is_in());
    reader.leaves();
    last.comes_in();
    last.leaves();
    stage.is_empty();
}

#[test]
fn a_reader_waits_for_a_writer_that_was_queued_before_it() {
    let stage = Stage::new("r1-w2-r3", 3);
    let first = stage.enters(stage.lock(0).read_lock());
    let writer = stage.queues(stage.lock(1).write_lock());
    let last = stage.queues(stage.lock(2).read_lock());
    let newcomer = stage.lock(0).read_lock();
    assert!(!newcomer.try_lock().unwrap(), "past a writer that waits");
    assert!(!newcomer.try_lock_for(TIMEOUT).unwrap());
    first.leaves();
    writer.comes_in();
    assert!(!last.is_in(), "beside the writer");
    println!("the writer came in before the reader behind it");
    writer.leaves();
    last.comes_in();
    last.leaves();
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
fn places_are_given_in_the_order_of_arrival_to_both_sides() {
    let stage = Stage::new("places", 2);
    let first = stage.lock(0).write_lock();
    first.lock().unwrap();
    let waiters = [
        stage.queues(stage.lock(1).read_lock()),
        stage.queues(stage.lock(0).write_lock()),
        stage.queues(stage.lock(1).read_lock()),
    ];
    let mut nodes = children(&stage.path);
    nodes.sort_by_key(|node| place(node).to_owned());
    println!("{nodes:#?}");
    let kinds: Vec<_> = nodes.iter().map(|node| &node[40..48]).collect();
    assert_eq!(kinds, ["__WRIT__", "__READ__", "__WRIT__", "__READ__"]);
    assert!(nodes.iter().all(|node| node.len() == 58 && node.starts_with("_c_")));
    assert_eq!(nodes[0], hold_of(&first).node());
    first.unlock().unwrap();
    for waiter in waiters {
        waiter.comes_in();
        waiter.leaves();
    }
    stage.is_empty();
}

#[test]
fn a_distributed_lock_on_the_same_path_counts_as_a_writer() {
    let stage = Stage::new("mixed", 3);
    let exclusive =
        |client: usize| DistributedLock::new(&stage.clients[client], &stage.path).unwrap();
    let plain = exclusive(0);
    plain.lock().unwrap();
    let rw = stage.lock(1);
    assert!(!rw.read_lock().try_lock().unwrap());
    assert!(!rw.write_lock().try_lock().unwrap());
    let readers = [(); 2].map(|()| stage.queues(rw.read_lock()));
    let behind = stage.queues(exclusive(2));
    let last = stage.queues(rw.read_lock());
    plain.unlock().unwrap();
    for reader in &readers {
        reader.comes_in();
    }
    assert!(!behind.is_in() && !last.is_in());
    assert!(!exclusive(0).try_lock().unwrap(), "beside readers");
    let [one, other] = readers;
    one.leaves();
    assert!(!behind.is_in());
    other.leaves();
    behind.comes_in();
    assert!(!last.is_in(), "beside the plain lock");
    behind.leaves();
    last.comes_in();
    last.leaves();

    let writer = stage.enters(rw.write_lock());
    assert!(!exclusive(0).try_lock().unwrap(), "beside a writer");
    let behind = stage.queues(exclusive(0));
    writer.leaves();
    behind.comes_in();
    println!("plain, two reads, plain, read, write, plain: each alone");
    behind.leaves();
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
    // What any thread may unlock is never a deadlock.
    let plain = DistributedLock::new(&stage.clients[0], &stage.path).unwrap();
    plain.lock().unwrap();
    let waited = rw.read_lock().try_lock_for(TIMEOUT);
    assert!(matches!(waited, Ok(false)), "{waited:?}");
    let reader = rw.read_lock();
    let waiting = Task::spawn(move || reader.lock().and_then(|()| reader.unlock()));
    plain.unlock().unwrap();
    waiting.result("a reader behind a plain lock").unwrap();
    stage.is_empty();
}

#[test]
fn who_looks_from_outside_sees_who_holds_and_in_what_order_the_others_come() {
    let stage = Stage::new("contenders", 2);
    let lock = stage.lock(0);
    lock.write_lock().lock().unwrap();
    let waiters = [
        stage.queues(stage.lock(1).read_lock()),
        stage.queues(stage.lock(1).write_lock()),
        stage.queues(stage.lock(0).read_lock()),
    ];
    let see = || {
        let seen = stage.clients[1].contenders(&stage.path).unwrap();
        let seen = seen.iter().map(|one| (one.kind, one.holds));
        seen.collect::<Vec<_>>()
    };
    use Kind::{Read, Write};
    let behind = [(Read, false), (Write, false), (Read, false)];
    assert_eq!(see(), [&[(Write, true)][..], &behind].concat());
    lock.read_lock().lock().unwrap();
    let mut both = see();
    println!("{both:?}");
    // They have one place.
    both[..2].sort_by_key(|(kind, _)| *kind == Read);
    assert_eq!(both, [&[(Write, true), (Read, true)][..], &behind].concat());
    lock.write_lock().unlock().unwrap();
    waiters[0].comes_in();
    assert_eq!(see(), [(Read, true), (Read, true), (Write, false), (Read, false)]);
    lock.read_lock().unlock().unwrap();
    for waiter in waiters {
        waiter.comes_in();
        waiter.leaves();
    }
    assert_eq!(see(), []);
    assert_eq!(lock.read_lock().contenders().unwrap(), []);
    stage.is_empty();
}
