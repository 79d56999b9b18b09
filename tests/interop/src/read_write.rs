//! The tests for every read-write lock of another implementation.

use zoolock_test_support::wait_until;

use crate::{Implementation, Kind, Peer, SOON, Stage, client};

const TURNS: usize = 20;

/// A reader and a writer of theirs and of ours take turns: a writer is alone.
///
/// # Panics
/// When it is not so.
pub fn excludes(theirs: &Implementation) {
    let stage = Stage::new("rw-excludes");
    let mut theirs: [Peer; 2] = theirs.start();
    let clients = [client(), client(), client()];
    let held = stage.read_write(&clients[0]).write_lock();
    held.lock().expect("locked");
    theirs[0].tell(&stage.run(TURNS, "read"));
    theirs[1].tell(&stage.run(TURNS, "write"));
    let reads = stage.read_write(&clients[1]).read_lock();
    let reads = stage.turns(TURNS, reads, Kind::Read, "ours-reads");
    let writes = stage.read_write(&clients[2]).write_lock();
    let writes = stage.turns(TURNS, writes, Kind::Write, "ours-writes");
    stage.await_nodes(5);
    held.unlock().expect("unlocked");
    theirs.iter_mut().for_each(Peer::answer);
    reads.result("our reads");
    writes.result("our writes");

    stage.witness.assert_sound(0);
    let visits = stage.witness.visits();
    let together = visits.iter().filter(|visit| visit.seen.len() > 1).count();
    println!("{} turns, {together} beside others", visits.len());
    assert_eq!(visits.len(), 4 * TURNS);
    assert_eq!(stage.witness.counted(), 2 * TURNS);
    wait_until("nothing is left", SOON, || stage.nodes().is_empty());
}

/// A reader of ours shares the lock with a reader of theirs, and the reverse.
///
/// # Panics
/// When it is not so.
pub fn readers_share(theirs: &Implementation) {
    let stage = Stage::new("rw-share");
    let [mut peer] = theirs.start();
    let client = client();
    let ours = stage.read_write(&client).read_lock();
    let read = format!("read {}", stage.path);

    peer.ask(&read);
    assert!(ours.try_lock().expect("an answer"), "theirs keeps ours out");
    peer.ask("unlock");
    wait_until("theirs is gone", SOON, || stage.nodes().len() == 1);
    peer.ask(&read);
    assert!(ours.is_held());
    stage.await_nodes(2);
    println!("together: {:?}", stage.nodes());
    ours.unlock().expect("unlocked");
    peer.ask("unlock");
}

/// A writer excludes readers and writers of the other side, and they exclude it, in both
/// directions. When one side releases the lock, the other side gets it.
///
/// # Panics
/// When it is not so.
pub fn writers_are_alone(theirs: &Implementation) {
    let stage = Stage::new("rw-alone");
    let [mut peer] = theirs.start();
    let client = client();
    let lock = stage.read_write(&client);
    let (reads, writes) = (lock.read_lock(), lock.write_lock());
    let refused = || {
        assert!(!writes.try_lock().expect("an answer"), "wrote beside theirs");
        assert_eq!(stage.nodes().len(), 1, "{:?}", stage.nodes());
    };

    peer.ask(&format!("write {}", stage.path));
    refused();
    assert!(!reads.try_lock().expect("an answer"), "read beside a write");
    let waiting = stage.turns(1, reads.clone(), Kind::Read, "ours-reads");
    stage.await_nodes(2);
    peer.ask("unlock");
    waiting.result("our read");
    wait_until("nothing is left", SOON, || stage.nodes().is_empty());

    peer.ask(&format!("read {}", stage.path));
    refused();
    let waiting = stage.turns(1, writes.clone(), Kind::Write, "ours-writes");
    stage.await_nodes(2);
    peer.ask("unlock");
    waiting.result("our write");
    assert_eq!(stage.witness.order(), ["ours-reads", "ours-writes"]);
    wait_until("nothing is left", SOON, || stage.nodes().is_empty());

    for theirs in ["read", "write"] {
        writes.lock().expect("locked");
        stage.has_to_wait(&mut peer, theirs);
        writes.unlock().expect("unlocked");
        peer.answer();
        peer.ask("unlock");
        wait_until("nothing is left", SOON, || stage.nodes().is_empty());
    }
    reads.lock().expect("locked");
    stage.has_to_wait(&mut peer, "write");
    reads.unlock().expect("unlocked");
    peer.answer();
    peer.ask("unlock");
}

/// A writer of ours waits between readers of theirs when its connection breaks, and none of them is
/// granted before its turn.
///
/// # Panics
/// When it is not so.
pub fn a_waiter_of_ours_is_cut(theirs: &Implementation) {
    let stage = Stage::new("rw-waiter-cut");
    let mut theirs: [Peer; 2] = theirs.start();
    let holder = client();
    let (proxy, shaky) = stage.client_to_cut();
    let held = stage.read_write(&holder).write_lock();
    held.lock().expect("locked");
    theirs[0].tell(&stage.run(1, "read"));
    stage.await_nodes(2);
    let ours = stage.read_write(&shaky).write_lock();
    let ours = stage.turns(1, ours, Kind::Write, "ours");
    stage.await_nodes(3);
    theirs[1].tell(&stage.run(1, "read"));
    stage.await_nodes(4);

    stage.cut_and_await_resume(&proxy, &shaky);
    assert_eq!(stage.witness.order(), [""; 0]);
    held.unlock().expect("unlocked");
    theirs.iter_mut().for_each(Peer::answer);
    ours.result("ours");
    stage.witness.assert_sound(0);
    let expected = [theirs[0].name(), "ours", theirs[1].name()];
    println!("{expected:?}");
    assert_eq!(stage.witness.order(), expected);
}

/// A read and a write of ours are held when their connection breaks, and a writer of theirs
/// continues to wait.
///
/// # Panics
/// When it is not so.
pub fn a_hold_of_ours_is_cut(theirs: &Implementation) {
    let [mut peer] = theirs.start();
    for kind in [Kind::Read, Kind::Write] {
        let stage = Stage::new("rw-hold-cut");
        let (proxy, shaky) = stage.client_to_cut();
        let lock = stage.read_write(&shaky);
        let guard = match kind {
            Kind::Read => lock.read_lock().acquire(),
            _ => lock.write_lock().acquire(),
        };
        let guard = guard.expect("locked");
        let inside = stage.witness.enter(kind, "ours", 1);
        peer.tell(&stage.run(1, "write"));
        stage.await_nodes(2);
        stage.await_watched(&guard.node());

        stage.cut_and_await_resume(&proxy, &shaky);
        assert!(guard.is_held() && !peer.has_answered(), "{guard:?}");
        drop(inside);
        guard.release().expect("released");
        peer.answer();
        stage.witness.assert_sound(0);
        assert_eq!(stage.witness.order(), ["ours", peer.name()]);
    }
}

/// A write of ours becomes a read. Their waiting reader then shares the lock, and their writer gets
/// it when both reads are over.
///
/// # Panics
/// When it is not so.
pub fn a_write_of_ours_becomes_a_read(theirs: &Implementation) {
    let stage = Stage::new("rw-downgrade");
    let [mut reader, mut writer] = theirs.start();
    let client = client();
    let lock = stage.read_write(&client);
    let writing = lock.write_lock().acquire().expect("locked");
    stage.has_to_wait(&mut reader, "read");
    let reading = lock.read_lock().acquire().expect("locked");
    println!("{:?}", stage.nodes());
    writer.tell(&format!("write {}", stage.path));
    stage.await_nodes(4);
    writing.release().expect("released");
    reader.answer();
    assert!(reading.is_held() && !writer.has_answered());
    reader.ask("unlock");
    stage.await_nodes(2);
    stage.await_watched(&reading.node());
    assert!(!writer.has_answered(), "wrote beside our read");
    reading.release().expect("released");
    writer.answer();
    writer.ask("unlock");
}
